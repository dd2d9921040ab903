"""The real daemon, and agents that live in panes of a real tmux server."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import QUICK, Team, running
from tests.endpoints.tmux.client.private_server import private_server
from tests.endpoints.tmux.fake_pane import FAKE, PROFILE, FakePane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.endpoints.tmux.client import Tmux

BODY = "goal: $(touch /tmp/pwned); rm -rf / && echo SECRET-BODY"
FAKE_PROFILE = "\n".join(
    line.replace("[[", "[[profiles.fake.", 1)
    if line.startswith("[[")
    else line.replace("[", "[profiles.fake.", 1)
    if line.startswith("[")
    else line
    for line in PROFILE.splitlines()
)


@pytest.fixture
def server() -> Iterator[Tmux]:
    with private_server() as tmux:
        yield tmux


class TerminalTeam:
    """A team with one agent in a pane."""

    def __init__(self, server: Tmux, place: Path, *, keys: str = 'title = "worker"', delivery: str = "") -> None:
        agent = f'[agents.worker]\nendpoint = "tmux"\nprofile = "fake"\n{keys}\n'
        tmux = f'[tmux]\nsocket = "{server.socket_path}"\n'
        self.team = Team(place, f"{tmux}\n{agent}\n{FAKE_PROFILE}\n", delivery=delivery, quick=QUICK)
        self.pane = FakePane(server, place / "pane")
        self.pane.place.mkdir()

    def open(self, *options: str) -> None:
        words = shlex.join(["env", f"TEAM_PLACE={self.team.place}", sys.executable, str(FAKE), *options])
        self.pane.open(words)
        self.team.until((self.pane.place / "up").exists)

    def sends(self, *words: str) -> str:
        return self.team.send("worker", *words, body=BODY)

    def submitted(self, count: int = 1) -> list[str]:
        found: list[str] = self.team.until(lambda: len(now := self.pane.submitted()) >= count and now, 60)
        return found

    def escalations(self) -> list[dict[str, Any]]:
        return self.team.facts("escalation")


def test_a_message_goes_to_a_pane_is_acked_and_done_and_its_content_never_shows(server: Tmux, tmp_path: Path) -> None:
    terminal = TerminalTeam(server, tmp_path / "team")
    terminal.open()
    with running(terminal.team) as team:
        message = terminal.sends("--from", "leader")
        (line,) = terminal.submitted()
        assert line.startswith(f"ackd: message {message} from leader of type message waits: read /")
        path = Path(line.partition(": read ")[2].partition(" then ")[0])
        assert "SECRET-BODY" in path.read_text()
        team.fact("message_told", message=message)  # whoever acks at once was told by that, and needs no other proof
        assert team.ackd("ack", message, "--agent", "worker").returncode == 0
        assert team.ackd("done", message, "--agent", "worker").returncode == 0
        team.fact("message_completed", message=message)
    assert b"SECRET" not in terminal.pane.given()
    assert len(terminal.pane.submitted()) == 1
    told = team.facts("message_told", message=message)
    assert len(told) == 1


def test_a_prompt_parks_the_agent_tells_one_person_once_until_it_goes_on_and_its_mail_waits(
    server: Tmux, tmp_path: Path
) -> None:
    terminal = TerminalTeam(server, tmp_path / "team")
    terminal.open("--state", "prompt")
    with running(terminal.team) as team:
        first, second = terminal.sends(), terminal.sends()
        team.until(terminal.escalations)
        team.until(lambda: "a permission prompt waits for a person" in json.dumps(team.status()))
        assert terminal.pane.given() == b""
        terminal.pane.control("ready")
        terminal.submitted()
        for message in (first, second):
            team.fact("message_told", message=message)  # no line is on its way when the next prompt comes
            team.ackd("done", message, "--agent", "worker")
        team.fact("message_completed", message=second)
        assert len(terminal.escalations()) == 1
        closed = team.fact("escalation_closed")
        assert (closed["cause"], closed["how"]) == ("stuck", "over")
        terminal.pane.control("prompt")  # the next one is news, though nobody has answered the first escalation
        terminal.sends()
        team.until(lambda: len({fact["escalation_id"] for fact in terminal.escalations()}) == 2)
    assert terminal.pane.answered() == []


def test_a_busy_agent_is_waited_for_and_nobody_is_told(server: Tmux, tmp_path: Path) -> None:
    terminal = TerminalTeam(server, tmp_path / "team")
    terminal.open("--state", "busy")
    with running(terminal.team) as team:
        message = terminal.sends()
        team.until(lambda: team.status()["agents"]["worker"]["state"] != "available")
        assert terminal.pane.given() == b""
        terminal.pane.control("ready")
        assert message in terminal.submitted()[0]
    assert terminal.escalations() == []


def test_silence_climbs_the_ladder_each_rung_once_and_ends_in_one_escalation(server: Tmux, tmp_path: Path) -> None:
    terminal = TerminalTeam(server, tmp_path / "team", delivery="ack_timeout_s = 2\n")
    terminal.open()
    with running(terminal.team) as team:
        message, waiting = terminal.sends(), terminal.sends()
        team.until(lambda: team.facts("message_dead", message=message), 90)
        assert len(terminal.pane.submitted()) == 4  # told, and three rungs
        assert "your context was cleared" in terminal.pane.submitted()[3]
        assert [fact["why"] for fact in team.facts("keys_sent")] == ["tell", "nudge 1", "nudge 2", "nudge 3"]
        assert len(terminal.escalations()) == 1
        assert team.facts("message_dead", message=waiting) == []


def test_a_pane_that_ackd_starts_outlives_a_killed_daemon_and_is_not_started_twice(
    server: Tmux, tmp_path: Path
) -> None:
    start = shlex.join([sys.executable, str(FAKE)])
    terminal = TerminalTeam(server, tmp_path / "team", keys=f'start = "{start}"\ncwd = "pane"')
    with running(terminal.team) as team:
        pid = int(team.written(terminal.pane.place / "up"))
        first = terminal.sends()
        terminal.submitted()
        team.ackd("done", first, "--agent", "worker")
        team.fact("message_completed", message=first)
        team.kill()
        team.start()
        second = terminal.sends()
        assert second in terminal.submitted(2)[1]
        os.kill(pid, 0)
        assert int((terminal.pane.place / "up").read_text()) == pid


def test_a_pane_that_ackd_started_is_started_again_when_its_program_ends(server: Tmux, tmp_path: Path) -> None:
    start = shlex.join([sys.executable, str(FAKE)])
    terminal = TerminalTeam(server, tmp_path / "team", keys=f'start = "{start}"\ncwd = "pane"\nrestart = "always"')
    with running(terminal.team) as team:
        pid = team.written(terminal.pane.place / "up")
        terminal.pane.control("quit")
        team.until(lambda: not Path(f"/proc/{pid}").exists())
        (terminal.pane.place / "control").unlink()
        team.until(lambda: team.written(terminal.pane.place / "up") != pid, 60)
        message = terminal.sends()
        assert message in terminal.submitted()[-1]
