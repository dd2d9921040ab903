"""What ``ackd run`` shows, and what ``ackd status`` tells of a team at work."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import Team, running
from tests.strays import UNTIL_GO
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = """
[agents.worker]
endpoint = "exec"
command = ["true"]
[agents.broken]
endpoint = "exec"
command = ["false"]
retry_limit = 0
"""


class Terminal:
    """A daemon whose output is a terminal."""

    def __init__(self, team: Team, *words: str, **env: str) -> None:
        self.team = team
        self._fd, theirs = pty.openpty()
        environment = {key: value for key, value in team.environment.items() if key not in {"NO_COLOR", "COLUMNS"}}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ackd", "run", *words],
            cwd=team.place,
            env=environment | {"TERM": "xterm-256color", **env},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
        )
        os.close(theirs)
        os.set_blocking(self._fd, False)
        self.shown = ""

    def read(self) -> str:
        with contextlib.suppress(BlockingIOError, OSError):
            while data := os.read(self._fd, 65536):
                self.shown += data.decode()
        return self.shown

    def shows(self, *words: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not all(word in self.read() for word in words):
            assert time.monotonic() < deadline, self.shown
            assert self.process.poll() is None, self.shown
            time.sleep(0.02)
        return self.shown

    def hang_up(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr is not None
        self.process.stderr.read()
        code = self.process.wait(PATIENCE_S)
        self.process.stderr.close()
        if self._fd >= 0:
            self.read()
            os.close(self._fd)
        return code


def test_on_a_terminal_facts_are_coloured_lines(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    terminal = Terminal(team)
    try:
        terminal.shows("daemon")
        one, dead = team.post("worker"), team.post("broken")
        team.fact("message_completed", message=one)
        team.fact("message_dead", message=dead)
        shown = terminal.shows("completed", "✗ dead")
    finally:
        code = terminal.end()
    assert code == 0
    assert "\x1b[32m" in shown
    assert "\x1b[1;31m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    assert re.search(r"^\d\d:\d\d:\d\d ✓ completed +abcdef +worker by ", plain, re.MULTILINE)
    assert "{" not in plain
    assert plain.rstrip().splitlines()[-1].startswith(time.strftime("%H:"))
    assert max(map(len, plain.splitlines())) <= 80  # a line is a line


SLOW = """
[agents.coder]
endpoint = "exec"
command = ["sleep", "1000"]
"""
WHOLE = "stopping: coder may finish its message, for at most 20 s; Ctrl-C again stops at once"


def test_ctrl_c_says_at_once_who_may_finish_and_that_another_stops_at_once(tmp_path: Path) -> None:
    team = Team(tmp_path, SLOW, quick="")
    terminal = Terminal(team, "--quiet")
    try:
        terminal.shows("daemon")
        pid = team.fact("child_started", message=team.post("coder"))["pid"]
        terminal.process.send_signal(signal.SIGINT)
        terminal.shows(WHOLE)  # though it is wider than the terminal
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE_S) == 128 + signal.SIGINT
    finally:
        terminal.process.kill()
        terminal.end()
        os.kill(pid, signal.SIGKILL)
    assert not team.facts("session_end")  # it did not wait


def test_who_sits_at_the_terminal_is_told_although_the_lines_go_elsewhere(tmp_path: Path) -> None:
    team = Team(tmp_path, SLOW, quick="")
    ours, theirs = os.openpty()
    with (tmp_path / "run.log").open("wb") as log:
        command = [sys.executable, "-m", "ackd", "run", "--quiet"]
        daemon = subprocess.Popen(command, cwd=tmp_path, env=team.environment, stdout=log, stderr=theirs)
    os.close(theirs)
    try:
        pid = team.fact("child_started", message=team.post("coder"))["pid"]
        daemon.send_signal(signal.SIGTERM)
        assert WHOLE in os.read(ours, 65536).decode()
    finally:
        daemon.kill()
        daemon.wait()
        os.close(ours)
        os.kill(pid, signal.SIGKILL)
    said = [json.loads(line) for line in (tmp_path / "run.log").read_text().splitlines()]
    assert [line["data"] for line in said if line["event"] == "session_stopping"] == [
        {"agents": ["coder"], "seconds": 20}
    ]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_asks_for_no_colour_gets_none(tmp_path: Path, env: dict[str, str]) -> None:
    team = Team(tmp_path, AGENTS)
    terminal = Terminal(team, **env)
    try:
        terminal.shows("daemon")
        team.fact("message_completed", message=team.post("worker"))
        shown = terminal.shows("completed")
    finally:
        assert terminal.end() == 0
    assert "\x1b" not in shown
    assert "worker" in shown


def test_a_terminal_that_stands_still_or_goes_away_holds_nobody_up(tmp_path: Path) -> None:
    """Nobody reads the pty: its buffer is full after some lines. Then it is closed."""
    team = Team(tmp_path, AGENTS.replace("[agents.broken]", "max_in_flight = 50\n[agents.broken]"))
    terminal = Terminal(team)
    try:
        ids = {team.post("worker") for _ in range(60)}
        team.until(lambda: {fact["message_id"] for fact in team.facts("message_completed")} == ids)
        terminal.read()
        team.fact("message_completed", message=team.post("worker"))
        terminal.shows("lines were not shown")
        terminal.hang_up()
        team.fact("message_completed", message=team.post("worker"))
    finally:
        assert terminal.end() == 0
    assert len(team.facts("message_completed")) == 62


def test_elsewhere_each_fact_is_a_json_object_and_quiet_leaves_the_routine_out(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    with running(team):
        team.fact("message_completed", message=team.post("worker"))
        team.stop()
        shown = [json.loads(line) for line in team.output().splitlines()]
        assert [line["event"] for line in shown] == [line["type"] for line in team.lines()]
        assert [line["data"] for line in shown] == [line["data"] for line in team.lines()]
        assert {"timestamp", "event", "level", "data"} == shown[0].keys()

        (tmp_path / "daemon.out").unlink()
        team.start("--quiet")
        team.fact("message_dead", message=team.post("broken", sender="nobody"))
        team.fact("message_completed", message=team.post("worker"))
        team.stop()
    quiet = [json.loads(line) for line in team.output().splitlines()]
    assert [line["event"] for line in quiet] == ["session_start", "escalation", "message_dead", "session_end"]
    assert [line["level"] for line in quiet] == ["info", "warning", "warning", "info"]


def test_the_form_can_be_asked_for(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    team.start("--format", "lines")
    team.stop()
    assert "{" not in team.output()
    terminal = Terminal(team, "--format", "json")
    try:
        shown = terminal.shows("session_start")
    finally:
        terminal.end()
    assert json.loads(shown.splitlines()[0])["event"] == "session_start"


def test_a_pipe_whose_reader_left_does_not_end_the_daemon(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    ours, theirs = os.pipe()
    daemon = subprocess.Popen([sys.executable, "-m", "ackd", "run"], cwd=tmp_path, env=team.environment, stdout=theirs)
    os.close(theirs)
    os.close(ours)
    try:
        team.until(lambda: team.facts("session_start"))
        team.fact("message_completed", message=team.post("worker"))
    finally:
        daemon.terminate()
        assert daemon.wait(PATIENCE_S) == 0


# --- status -----------------------------------------------------------------------------------------------------------
def test_status_has_the_names_that_are_fixed_and_counts_that_are_right(tmp_path: Path) -> None:
    agents = AGENTS.replace('["true"]', '["./work"]') + "[agents.slow]\n"
    team = Team(tmp_path, agents, delivery="backoff_base_s = 1_000_000\nbackoff_cap_s = 1_000_000")
    team.script("work", f'grep -q again "$ACKD_BODY" && exit 1; {UNTIL_GO}')

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(team.ackd("status", "--json").stdout)
        return found

    with running(team):
        again = team.post("worker", body="content: again\n")
        team.fact("message_retry", message=again)
        ids = [team.post("worker") for _ in range(3)]
        team.fact("child_started", message=ids[0])
        team.post("slow")
        team.fact("message_told", agent="slow")
        team.until(lambda: team.status()["agents"]["worker"]["queued"] == 2)
        team.until(lambda: team.status()["agents"]["slow"]["in_flight"] == 1)
        found = status()
        assert found["daemon"]["running"] is True
        assert found["daemon"]["pid"] == team.pid
        assert found["daemon"]["session_id"] == team.lines()[0]["session_id"]
        worker = found["agents"]["worker"]
        assert worker == {"endpoint": "exec", "state": "busy", "queued": 2, "in_flight": 2, "retrying": 1}
        assert found["agents"]["slow"] | {"retrying": 0} == {
            "endpoint": "inbox", "state": "available", "queued": 0, "in_flight": 1, "retrying": 0, "unread": 1,
        }  # fmt: skip
        wanted = {"queued": 2, "in_flight": 3, "completed": 0, "dead": 0, "corrupt": 0}
        assert {key: found["totals"][key] for key in wanted} == wanted
        assert found["escalations"] == []
        (tmp_path / "go").touch()
        for one in ids:
            team.fact("message_completed", message=one)
        assert status()["totals"]["completed"] == 3  # at once: the log has said so
        assert oct((team.root / "run/status.json").stat().st_mode & 0o777) == "0o600"
        team.stop()
        offline = status()
        assert offline["daemon"]["running"] is False
        assert offline["agents"]["worker"]["state"] == "unknown"
        assert offline["totals"]["in_flight"] == 2
