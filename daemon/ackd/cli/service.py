"""`ackd service`: install ackd as a service of systemd for a team, look at it, restart it, take it away.

client/service has the use cases; here they are told.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.cli.command_line import Group, argument, at_least, for_place
from ackd.cli.errors import NO, NO_DAEMON, TRY_AGAIN, Ended, Failure, WrongUsage, failure_of
from ackd.cli.output import print_json, say
from ackd.cli.waiting import waiting
from ackd.core.errors import AckdError, BadConfig, RootHeld

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.client.service import Service, ServiceStatus, Step

service = Group("""Run ackd as a service of systemd: install it for a team, look at it, restart it, take it away.""")


def _which(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says which team's service is meant, and whose systemd runs it."""
    user = argument("--user", action="store_true", help="As a service of your own (the default).")
    system = argument("--system", action="store_true", help="As a service of the machine, under an account of its own.")
    workspace = argument(
        "--workspace", metavar="DIR", help="The directory that holds ackd.toml (default: this team's)."
    )
    return user(system(workspace(for_place(function))))


_dry_run = argument("--dry-run", action="store_true", help="Say what would be done, and do nothing.")


@service.command
@argument("--account", metavar="NAME", help="With --system: who runs the daemon (default: the owner of the workspace).")
@argument("--no-start", action="store_true", help="Do not start it now.")
@argument("--force", action="store_true", help="Replace a unit that was edited; it is kept with .bak behind its name.")
@_dry_run
@_which
def install(
    root: str | None,
    config: str | None,
    as_json: bool,
    user: bool,
    system: bool,
    workspace: str | None,
    account: str | None,
    no_start: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Write a unit for this team and this ackd, enable it and start it; write completions and manual pages.

    Each workspace has a unit of its own, ackd@PATH.service, which knows this ackd and your PATH as they are now. What
    is as it should be is left alone. Run it again after ackd or a program of the agents has moved.

    Exit codes: 0 it runs (or was there already), 1 the unit was edited and --force is missing, or systemd could not
    start it, 65 the workspace or the account will not do, 69 no systemd, 73 no permission, 75 a daemon that is no
    service runs for this team.
    """
    from ackd.client import service as services

    if account is not None and not system:
        raise WrongUsage("--account is for --system: a service of your own runs as you")
    scope = _scope(user=user, system=system) or services.USER
    site = _site(root, config, workspace)
    told = _Told(as_json=as_json, dry_run=dry_run)
    manager = services.Manager(scope)
    with told:
        wanted = services.plan(site, manager, config=config, root=root, account=account)
        told.unit = wanted.service.unit
        with waiting(f"for {told.unit} to be ready"):
            services.install(wanted, told.tell, force=force, start=not no_start, dry_run=dry_run)


@service.command
@argument(
    "--force", action="store_true", help="Also remove a unit that was edited; it is kept with .bak behind its name."
)
@_dry_run
@_which
def uninstall(
    root: str | None,
    config: str | None,
    as_json: bool,
    user: bool,
    system: bool,
    workspace: str | None,
    force: bool,
    dry_run: bool,
) -> None:
    """Stop the service of this team, and remove what `ackd service install` wrote. Mail, logs and config stay.

    Completions and manual pages go with the last service. Exit codes: 0 there is none any more, 1 the unit was edited
    and --force is missing, 69 no systemd, 73 no permission.
    """
    from ackd.client import service as services

    scope = _scope(user=user, system=system)
    told = _Told(as_json=as_json, dry_run=dry_run)
    with told:
        found = _service(root, config, workspace, scope, missing_too=True)
        told.unit = found.unit
        with waiting(f"for {told.unit} to end"):
            services.uninstall(found, told.tell, force=force, dry_run=dry_run)


@service.command
@_which
def status(
    root: str | None, config: str | None, as_json: bool, user: bool, system: bool, workspace: str | None
) -> None:
    """Show how the service of this team stands, as systemd sees it; `ackd status` shows its agents and mail.

    Exit codes: 0 it runs, 66 there is none, 69 it does not run.
    """
    from ackd.client import service as services

    found = services.status(_service(root, config, workspace, _scope(user=user, system=system)))
    if as_json:
        print_json({**found._asdict(), "runs": found.runs})
    else:
        for line in _status_lines(found):
            say(line)
    if not found.runs:
        raise Ended(NO_DAEMON)


def _status_lines(found: ServiceStatus) -> list[str]:
    pid = f", pid {found.pid}" if found.pid else ""
    since = f", since {found.since}" if found.since else ""
    result = f" ({found.result})" if found.result not in ("", "success") else ""
    lines = [f"{found.unit}: {found.state} ({found.sub_state}){result}{pid}{since}"]
    lines += [found.says] if found.says else []
    enabled = "it starts by itself" if found.enabled else "it does not start by itself (not enabled)"
    restarts = f", restarted {found.restarts} times" if found.restarts else ""
    lines.append(f"{found.path}, of the {'system' if found.scope == 'system' else 'user'}; {enabled}{restarts}")
    if not found.lingers:
        lines.append("it ends with your last session: `loginctl enable-linger` lets it stay")
    if not found.runs:
        lines.append("`ackd service logs` shows why, `ackd service restart` starts it")
    return lines


@service.command
@argument(
    "-n", "--lines", type=at_least(0, int), default=50, metavar="N", help="So many lines.  [default: %(default)s]"
)
@argument("-f", "--follow", action="store_true", help="Go on with what comes.")
@_which
def logs(
    root: str | None,
    config: str | None,
    as_json: bool,
    user: bool,
    system: bool,
    workspace: str | None,
    lines: int,
    follow: bool,
) -> None:
    """Show what the service has printed, from systemd's journal. `ackd tail` shows the session log, with everything."""
    found = _service(root, config, workspace, _scope(user=user, system=system))
    words = [
        f"--lines={lines}",
        "--no-pager",
        *(["--follow"] if follow else []),
        *(["--output=json"] if as_json else []),
    ]
    command = found.manager.log_command(found.unit, *words)
    try:
        ended = subprocess.run(command, env=found.manager.environment, check=False)
    except FileNotFoundError:
        raise Failure(NO_DAEMON, "journalctl is not installed") from None
    except KeyboardInterrupt:
        return
    if ended.returncode:
        raise Ended(NO)


@service.command
@_which
def restart(
    root: str | None, config: str | None, as_json: bool, user: bool, system: bool, workspace: str | None
) -> None:
    """Restart the service, or start it, and wait until it is ready. It lets running deliveries finish first."""
    from ackd.client import service as services

    found = _service(root, config, workspace, _scope(user=user, system=system))
    with waiting(f"for {found.unit} to be ready"):
        services.restart(found)
    now = services.status(found)
    if as_json:
        print_json({**now._asdict(), "runs": now.runs})
    else:
        say(f"{now.unit} has been restarted and is ready, pid {now.pid}")


# --- which team, whose systemd ----------------------------------------------------------------------------------------
def _scope(*, user: bool, system: bool) -> str | None:
    if user and system:
        raise WrongUsage("--user and --system exclude each other")
    return "system" if system else "user" if user else None


def _site(root: str | None, config: str | None, workspace: str | None) -> Any:
    from ackd.config.site import CONFIG_NAME, find_site

    if workspace is None:
        return find_site(root, config)
    if config is not None:
        raise WrongUsage("--workspace and --config exclude each other: both say where ackd.toml is")
    return find_site(root, Path(workspace) / CONFIG_NAME)


def _service(
    root: str | None, config: str | None, workspace: str | None, scope: str | None, *, missing_too: bool = False
) -> Service:
    """The service of a team, which may have a broken config, or be gone."""
    from ackd.client import service as services
    from ackd.client.errors import NotInstalled

    place = Path(os.path.abspath(workspace)) if workspace is not None else _base(root, config)  # noqa: PTH100
    try:
        return services.found_service(place, scope)
    except NotInstalled:
        if not missing_too:
            raise
        return services.service_of(place, services.Manager(scope or services.USER))


def _base(root: str | None, config: str | None) -> Path:
    from ackd.config.site import find_root, find_site

    try:
        return find_site(root, config).base
    except BadConfig:
        return find_root(root, config).base


class _Told:
    """The steps of installing, each printed as it is done; as JSON all of them at the end, with the error if any."""

    def __init__(self, *, as_json: bool, dry_run: bool) -> None:
        self.unit = ""
        self._as_json = as_json
        self._dry_run = dry_run
        self._steps: list[Step] = []

    def tell(self, step: Step) -> None:
        self._steps.append(step)
        if self._as_json:
            return
        done = {"wrote": "would write", "ran": "would run", "removed": "would remove"} if self._dry_run else {}
        what = done.get(step.what, step.what)
        say(f"{what} {step.subject}" + (f": {step.why}" if step.why else ""))

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        results = {"unit": self.unit, "dry_run": self._dry_run, "steps": [step._asdict() for step in self._steps]}
        if isinstance(error, AckdError):
            failure = _failure(error, self.unit)
            raise failure.with_results(**results) if self._as_json and self._steps else failure from None
        if error is None and self._as_json:
            print_json(results)


def _failure(error: AckdError, unit: str) -> Failure:
    """The failure, with what to do about it, where it is about services."""
    if isinstance(error, RootHeld):
        return Failure(TRY_AGAIN, f"{error}, which is no service: `ackd stop` ends it, then install again")
    failure = failure_of(error)
    if failure.exit_code == NO and "systemctl" in str(error) and unit:
        return Failure(NO, f"{failure.message}\n  → `ackd service logs` shows what {unit} said")
    return failure
