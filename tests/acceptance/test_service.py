"""As a service: what systemd is told and when, and that the units are ones it takes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team
from tests.system_manager.exposure import MOST_EXPOSED, exposure
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

UNITS = Path(__file__).parents[2] / "systemd"


class Manager:
    """The receiving end of NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.heard: list[str] = []

    def hear(self, within_s: float = PATIENCE_S) -> str | None:
        self._socket.settimeout(within_s)
        try:
            self.heard.append(self._socket.recv(4096).decode())
        except TimeoutError:
            return None
        return self.heard[-1]

    def hear_until(self, word: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if word in (said := self.hear() or ""):
                return said
        raise AssertionError(f"no {word} in {self.heard}")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made
    made.close()


def test_ready_when_it_watches_alive_while_it_turns_stopping_when_it_stops(tmp_path: Path, manager: Manager) -> None:
    team = Team(tmp_path / "team", '[agents.worker]\nendpoint = "exec"\ncommand = ["./work"]\n')
    team.script("work", "env >env.txt")
    team.start(ready=False, env={"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "300000"})
    try:
        said = manager.hear_until("READY=1")
        assert len(manager.heard) == 1  # nothing before
        assert "STATUS=1 agent, 0 queued, 0 dead; watching by inotify" in said.splitlines()
        assert team.status_pid() == team.pid
        message = team.post("worker")  # watching means: noticed without another start
        for _ in range(3):
            assert manager.hear_until("WATCHDOG=1") == "WATCHDOG=1"

        os.kill(team.pid, signal.SIGSTOP)
        while manager.hear(0.05) is not None:  # what was on its way
            pass
        assert manager.hear(0.6) is None
        os.kill(team.pid, signal.SIGCONT)
        manager.hear_until("WATCHDOG=1")

        team.fact("message_completed", message=message)
        assert team.stop() == 0
        manager.hear_until("STOPPING=1")
        assert manager.hear(0.05) in (None, "WATCHDOG=1")
    finally:
        if team.process is not None:
            team.process.kill()
            team.process.wait()
    environment = (team.place / "env.txt").read_text()
    assert "NOTIFY_SOCKET" not in environment  # an agent is not the service
    assert "WATCHDOG_USEC" not in environment


def test_an_idle_watcher_is_alive_to_a_watchdog_that_asks_more_often_than_it_looks(
    tmp_path: Path, manager: Manager
) -> None:
    """Polling every half minute is slow by choice, not stuck."""
    team = Team(tmp_path / "team", quick='[watch]\nmode = "polling"\npoll_interval_s = 30\n')
    team.start(ready=False, env={"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "150000"})
    try:
        assert "watching by polling" in manager.hear_until("READY=1")
        for _ in range(4):
            assert manager.hear(0.5) == "WATCHDOG=1"
    finally:
        team.stop()


def test_a_watchdog_that_means_another_process_is_not_fed(tmp_path: Path, manager: Manager) -> None:
    team = Team(tmp_path / "team")
    other = {"WATCHDOG_USEC": "60000", "WATCHDOG_PID": "1"}
    team.start(ready=False, env={"NOTIFY_SOCKET": str(manager.path), **other})
    try:
        manager.hear_until("READY=1")
        assert manager.hear(0.3) is None
    finally:
        team.stop()


@pytest.mark.parametrize(
    "unit", sorted(path for path in UNITS.rglob("*.service")), ids=lambda path: str(path.relative_to(UNITS))
)
def test_systemd_takes_the_units(tmp_path: Path, unit: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / "ackd.service"
    copy.write_text(unit.read_text())
    mode = ["--user"] if "user" in unit.parts or "user" in unit.name else ["--system"]
    verified = subprocess.run(
        ["systemd-analyze", *mode, "--man=no", "verify", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
    )
    complaints = [line for line in verified.stderr.splitlines() if "ackd.service" in line]
    assert complaints == []
    assert verified.returncode == 0, verified.stderr


def test_the_system_unit_is_exposed_no_more_than_its_agents_need(tmp_path: Path) -> None:
    """That agents work under it is shown in tests/system_manager."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / "ackd.service"
    copy.write_text((UNITS / "ackd-system.service").read_text())
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(copy)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert exposure(said) <= MOST_EXPOSED
