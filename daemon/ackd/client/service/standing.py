"""How the service of a team stands, in systemd's words, and restarting it. Fails with ``NotInstalled`` where there is
none, and as ``manager`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ackd.client.errors import NotInstalled
from ackd.client.service.systemctl import SYSTEM, USER, Manager, Service, service_of

if TYPE_CHECKING:
    from pathlib import Path


class ServiceStatus(NamedTuple):
    """``state`` and ``sub_state``: systemd's ActiveState and SubState; ``says``: the daemon's own line."""

    unit: str
    scope: str
    path: str
    state: str
    sub_state: str
    enabled: bool
    pid: int | None
    says: str
    restarts: int
    since: str
    result: str
    lingers: bool

    @property
    def runs(self) -> bool:
        return self.state in ("active", "reloading")


def found_service(workspace: Path, scope: str | None = None) -> Service:
    """Find the workspace's service: the user's own, else the system's, unless ``scope`` says which."""
    for each in (USER, SYSTEM) if scope is None else (scope,):
        service = service_of(workspace, Manager(each))
        if service.path.exists():
            return service
    raise NotInstalled(str(workspace))


def status(service: Service) -> ServiceStatus:
    service.manager.require()
    said = service.manager.show(
        service.unit,
        "ActiveState",
        "SubState",
        "UnitFileState",
        "MainPID",
        "StatusText",
        "NRestarts",
        "StateChangeTimestamp",
        "Result",
    )
    pid = said.get("MainPID", "0")
    restarts = said.get("NRestarts", "")
    return ServiceStatus(
        unit=service.unit,
        scope=service.manager.scope,
        path=str(service.path),
        state=said.get("ActiveState", "unknown"),
        sub_state=said.get("SubState", ""),
        enabled=said.get("UnitFileState") == "enabled",
        pid=int(pid) if pid.isdecimal() and pid != "0" else None,
        says=said.get("StatusText", ""),
        restarts=int(restarts) if restarts.isdecimal() else 0,
        since=said.get("StateChangeTimestamp", ""),
        result=said.get("Result", ""),
        lingers=service.manager.lingers(),
    )


def restart(service: Service) -> None:
    """Restart it, and return when it is ready: it first lets running deliveries finish."""
    service.manager.require()
    service.manager.run("restart", service.unit)
