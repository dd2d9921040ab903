"""Whose command it is: said, in the environment, or by the mark on the pane it is typed in."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ackd.adapters.tmux.panes import AGENT_OPTION
from ackd.frontends.cli import whose
from ackd.site import find_site
from tests.adapters.tmux.private_server import private_server

if TYPE_CHECKING:
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other


def marked(socket: Path | None, mark: str) -> None:
    tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
    subprocess.run([*tmux, "new-session", "-d", "-s", "team", "sleep", "1000"], check=True)
    subprocess.run([*tmux, "set-option", "-p", "-t", "%0", AGENT_OPTION, mark], check=True)


def inside(monkeypatch: pytest.MonkeyPatch, socket: Path | None) -> None:
    monkeypatch.setenv("TMUX", f"{socket},4242,0")
    monkeypatch.setenv("TMUX_PANE", "%0")


def test_the_mark_is_the_adapters() -> None:
    assert whose.MARK == AGENT_OPTION


def test_an_agent_in_a_pane_that_was_found_need_not_say_who_it_is(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = team.send("worker_1", "--body", "hello")
    with private_server() as tmux:
        marked(tmux.socket_path, f"{team.root}:worker_1")
        inside(monkeypatch, tmux.socket_path)
        done = team.ackd("ack", message_id)
        assert done.exit_code == 0, done.output
        assert [receipt["agent"] for receipt in team.receipts()] == ["worker_1"]
        sent = team.send("leader", "--body", "on it")
        assert "From: worker_1" in team.ackd("read", sent).stdout
        monkeypatch.setenv("ACKD_AGENT", "leader")
        assert whose.agent_here(find_site(None, None)) == "leader"


@pytest.mark.parametrize("mark", ["/another/team/.ackd:worker_1", "worker_1", ""])
def test_another_teams_pane_is_nobody_of_ours(team: Team, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    with private_server() as tmux:
        marked(tmux.socket_path, mark)
        inside(monkeypatch, tmux.socket_path)
        assert whose.agent_here(find_site(None, None)) is None


def test_a_server_that_is_gone_is_nobody(team: Team, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inside(monkeypatch, tmp_path / "no-server")
    assert whose.agent_here(find_site(None, None)) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert whose.agent_here(find_site(None, None)) is None
    assert "whose mail?" in team.ackd("ack", "x").output
