"""systemd, as its commands see it: the system's, or the user's own.

Fails with ``NoServiceManager`` where there is none, with what to do about it, and with ``ManagerRefused`` when a
command of it fails.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client.errors import ManagerRefused, NoServiceManager

if TYPE_CHECKING:
    from collections.abc import Mapping

TEMPLATE: Final = "ackd@.service"
USER: Final = "user"
SYSTEM: Final = "system"

_BOOTED: Final = Path("/run/systemd/system")
_LINGER: Final = Path("/var/lib/systemd/linger")
_SYSTEM_UNITS: Final = Path("/etc/systemd/system")
_SYSTEM_DATA: Final = Path("/usr/local/share")


class Service(NamedTuple):
    """The service of a workspace, whether or not it is installed."""

    manager: Manager
    unit: str
    path: Path


class Manager:
    def __init__(self, scope: str, environ: Mapping[str, str] = os.environ) -> None:
        self.scope = scope
        self._environ = dict(environ)
        if scope == USER:
            # Not set after su or sudo, though the user's systemd may well run.
            self._environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")

    # --- places -------------------------------------------------------------------------------------------------------
    @property
    def unit_directory(self) -> Path:
        return _SYSTEM_UNITS if self.scope == SYSTEM else self._home("XDG_CONFIG_HOME", ".config") / "systemd" / "user"

    @property
    def data_directory(self) -> Path:
        """Where shells and man look for what belongs to all of the machine's programs, or to this user's."""
        return _SYSTEM_DATA if self.scope == SYSTEM else self._home("XDG_DATA_HOME", ".local/share")

    def _home(self, variable: str, usual: str) -> Path:
        said = self._environ.get(variable, "")
        return Path(said) if said.startswith("/") else Path.home() / usual

    # --- is it there? -------------------------------------------------------------------------------------------------
    def require(self) -> None:
        """Raise NoServiceManager unless this systemd runs and can be spoken with."""
        if not _BOOTED.is_dir():
            raise NoServiceManager(
                "systemd does not run on this machine: let whatever starts your programs run `ackd run --quiet`"
            )
        if self.scope == SYSTEM:
            return
        name = _user_name()
        if not Path(self._environ["XDG_RUNTIME_DIR"], "systemd", "private").exists():
            raise NoServiceManager(
                f"no systemd of {name}'s own runs: `loginctl enable-linger {name}`, as root, starts one that stays; "
                "or log in, and not by su; or `ackd service install --system`, as root"
            )

    def lingers(self) -> bool:
        """Tell whether the services go on when their user logs out; those of the system do."""
        return self.scope == SYSTEM or Path(_LINGER, _user_name()).exists()

    # --- commands -----------------------------------------------------------------------------------------------------
    def command(self, *words: str) -> list[str]:
        return ["systemctl", *(["--user"] if self.scope == USER else []), *words]

    def log_command(self, unit: str, *words: str) -> list[str]:
        return ["journalctl", *(["--user"] if self.scope == USER else []), f"--unit={unit}", *words]

    @property
    def environment(self) -> dict[str, str]:
        return self._environ

    def run(self, *words: str) -> str:
        """Run a command of systemctl. Raises ManagerRefused with what it said."""
        return self._call(self.command(*words))

    def unit_name(self, template: str, path: Path) -> str:
        """The name of the instance that serves a directory."""
        return self._call(["systemd-escape", "--path", f"--template={template}", str(path)]).strip()

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        said = self.run("show", unit, f"--property={','.join(properties)}")
        return dict(line.partition("=")[::2] for line in said.splitlines())

    def _call(self, command: list[str]) -> str:
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, errors="replace", env=self._environ, check=False
            )
        except FileNotFoundError:
            raise NoServiceManager(f"{command[0]} is not installed: without systemd there are no services") from None
        if ended.returncode != 0:
            raise ManagerRefused(shlex.join(command), ended.stderr.strip() or f"exit {ended.returncode}")
        return ended.stdout


def service_of(workspace: Path, manager: Manager) -> Service:
    unit = manager.unit_name(TEMPLATE, workspace)
    return Service(manager, unit, manager.unit_directory / unit)


def _user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
