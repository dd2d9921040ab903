"""One machine for all tests of this folder, with ackd installed in it from the wheel, and two people.

Whoever adds tests about systemd (reload, the journal's fields) adds a file here with ``pytestmark = ON_ONE_MACHINE`` and
takes the fixture ``machine``. All of them run in one worker, because a second machine would cost its boot and its
installation again. Each test has workspaces and units of its own, and leaves the machine as it found it.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.system_manager.machine import MACHINE_PATIENCE_S, Machine, booted, missing

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY: Final = Path(__file__).parents[2]
ACKD: Final = "/opt/ackd/bin/ackd"
#: A person whose services stay without a session, one who has none at all, and the account of a system unit.
PERSON, VISITOR, ACCOUNT = "person", "visitor", "team"


#: ``pytestmark`` of each file here: a second worker would boot a second machine.
ON_ONE_MACHINE: Final = pytest.mark.xdist_group("system manager")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("xdist_group") is None:
            raise pytest.UsageError(f"{item.path} lacks pytestmark = ON_ONE_MACHINE")


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if why := missing():
        pytest.skip(why)
    place = tmp_path_factory.mktemp("machine")
    from_outside = place / "from-outside"
    from_outside.mkdir(mode=0o755)
    _build_wheel(from_outside)
    _copy_libraries(from_outside / "libraries")
    with booted(place, from_outside, Path(sys.base_prefix).resolve() / "bin") as found:
        _install(found)
        for user in (PERSON, VISITOR, ACCOUNT):
            found.run("useradd", "--create-home", "--shell", "/bin/sh", user)
        found.run("loginctl", "enable-linger", PERSON)
        found.until(lambda: _has_manager(found, PERSON), f"a systemd of {PERSON}'s own")
        yield found


def _has_manager(machine: Machine, user: str) -> bool:
    said = machine.run("systemctl", "--user", "is-active", "default.target", user=user, check=False)
    return said.stdout.strip() == "active"


# --- the installation -------------------------------------------------------------------------------------------------
def _build_wheel(place: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(place), "-t", "wheel"]
    ended = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=MACHINE_PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _copy_libraries(place: Path) -> None:
    """Copy what ackd needs to run, and pip: the machine has no network to fetch it from."""
    place.mkdir()
    wanted, known = ["pip", "ackd"], set[str]()
    while wanted:
        name = wanted.pop()
        if name in known:
            continue
        known.add(name)
        found = importlib.metadata.distribution(name)
        needs = (one for one in found.requires or () if "extra ==" not in one)
        wanted += [re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0] for one in needs if _is_needed(one)]
        tops = {one.parts[0] for one in found.files or () if one.parts[0] not in ("..", "__pycache__")}
        for top in tops if name != "ackd" else ():
            source, target = Path(str(found.locate_file(top))), place / top
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)


def _is_needed(requirement: str) -> bool:
    from packaging.requirements import Requirement

    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate({"extra": ""})


def _install(machine: Machine) -> None:
    """Install the wheel into an environment of its own, as people do."""
    python = Path(sys.base_prefix).resolve() / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    machine.run(str(python), "-m", "venv", "--without-pip", "/opt/ackd")
    pip = ["/opt/ackd/bin/python", "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", "install"]
    (wheel,) = machine.path("/from-outside").glob("*.whl")
    machine.run(
        *pip,
        "--no-index",
        "--no-deps",
        "--root-user-action=ignore",
        f"/from-outside/{wheel.name}",
        env={"PYTHONPATH": "/from-outside/libraries"},
    )
    packages = f"/opt/ackd/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    machine.write(f"{packages}/libraries.pth", "/from-outside/libraries\n")


# --- a team in there --------------------------------------------------------------------------------------------------
#: Waits short enough for tests.
QUICK: Final = """
[watch]
settle_s = 0.1
reconcile_interval_s = 1

[daemon]
drain_timeout_s = 60
stop_timeout_s = 2
"""


class Team:
    """A workspace of a user's in the machine, with or without a service. ``scope``: whose systemd serves it."""

    def __init__(self, machine: Machine, place: str, agents: str, *, user: str, scope: str = "user") -> None:
        self.machine, self.place, self.user = machine, place, user
        self.scope = scope
        machine.run("install", "-d", "-o", user, "-g", user, "-m", "0700", place)
        self.write("ackd.toml", QUICK + agents)

    @property
    def unit(self) -> str:
        return self.machine.run("systemd-escape", "--path", "--template=ackd@.service", self.place).stdout.strip()

    def write(self, name: str, text: str, *, mode: int = 0o644) -> None:
        self.machine.write(f"{self.place}/{name}", text, user=self.user, mode=mode)

    def read(self, name: str) -> str:
        try:
            return self.machine.path(f"{self.place}/{name}").read_text()
        except FileNotFoundError:
            return ""

    def ackd(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.machine.run(ACKD, *words, user=self.user, cwd=self.place, check=check)

    def service(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command of `ackd service`, by whoever may give it."""
        if self.scope == "user":
            return self.ackd("service", *words, check=check)
        where = ("--system", "--workspace", self.place)
        return self.machine.run(ACKD, "service", *words, *where, check=check)

    def systemctl(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        mode, user = (["--user"], self.user) if self.scope == "user" else ([], "root")
        return self.machine.run("systemctl", *mode, *words, user=user, check=check)

    def shown(self, *properties: str) -> dict[str, str]:
        return self.machine.unit(self.unit, *properties, user=self.user if self.scope == "user" else "")

    @property
    def pid(self) -> int:
        """The daemon's pid, as seen in there."""
        return int(self.shown("MainPID")["MainPID"])

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ackd("status", "--json").stdout)
        return found

    def send(self, agent: str, *words: str) -> str:
        return self.ackd("send", agent, "--body", "hello", "--json", *words).stdout

    def lines(self, type_: str) -> list[dict[str, Any]]:
        """The lines of that type in the session logs, oldest first."""
        logs = self.machine.path(f"{self.place}/.ackd/logs")
        found = [line for log in sorted(logs.glob("session-*.ndjson")) for line in log.read_text().splitlines()]
        return [json.loads(line) for line in found if f'"{type_}"' in line]

    def until(self, true: Any, what: str) -> None:
        self.machine.until(true, what)

    def gone(self) -> None:
        """End what is left of it, for a test that failed as well as for one that passed."""
        self.systemctl("stop", self.unit, check=False)
        self.systemctl("disable", self.unit, check=False)
        directory = (
            "/etc/systemd/system" if self.scope == "system" else f"{self.machine.home(self.user)}/.config/systemd/user"
        )
        self.machine.run("sh", "-c", f"rm -rf {directory}/'{self.unit}'* ; rm -rf '{self.place}'")
        self.systemctl("daemon-reload", check=False)
        self.systemctl("reset-failed", check=False)
