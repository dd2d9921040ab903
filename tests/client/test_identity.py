"""Whose command it is: said, in the environment, or by the mark on the pane it is typed in."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ackd.client import identity as whose
from ackd.client.errors import CannotWrite
from ackd.client.writing import creating
from ackd.config.site import find_site
from ackd.endpoints.tmux.client.panes import AGENT_OPTION
from tests import sandbox
from tests.endpoints.tmux.client.private_server import private_server

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


# --- one rule for every word about a message --------------------------------------------------------------------------
WORDS = [
    ["ack"],
    ["done"],
    ["refuse", "--reason", "no"],
    ["defer", "--reason", "later"],
    ["checkpoint"],
    ["reply", "--body", "x"],
]


def about(words: list[str], message_id: str) -> list[str]:
    return [words[0], message_id, *(["half"] if words[0] == "checkpoint" else []), *words[1:]]


def spoken_by(team: Team) -> list[str]:
    """Whose receipts lie there, and who sent what was answered."""
    written = (path.read_text() for path in team.files("queue/user"))
    senders = [line.removeprefix("From: ") for text in written for line in text.splitlines() if line[:6] == "From: "]
    return [receipt["agent"] for receipt in team.receipts()] + senders


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_who_can_be_told_by_nothing_speaks_as_the_one_recipient(team: Team, words: list[str]) -> None:
    message_id = team.send("worker_1", "--body", "hello")
    done = team.ackd(*about(words, message_id))
    assert done.exit_code == 0, done.output
    assert spoken_by(team) == ["worker_1"]


def test_a_person_ends_an_escalation_of_his_own_without_saying_who_he_is(team: Team) -> None:
    message_id = team.send("user", "--from", "worker_1", "--body", "help")
    assert team.ackd("done", message_id).exit_code == 0
    assert [receipt["agent"] for receipt in team.receipts()] == ["user"]


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
@pytest.mark.parametrize("said", ["--agent", "ACKD_AGENT"])
def test_whoever_does_not_hold_it_is_refused_with_who_does(team: Team, words: list[str], said: str) -> None:
    message_id = team.send("worker_1", "--body", "hello")
    named = ["--agent", "leader"] if said == "--agent" else []
    refused = team.ackd(*about(words, message_id), *named, env={} if named else {"ACKD_AGENT": "leader"})
    assert refused.exit_code == 1
    assert f"{message_id} is not leader's mail: worker_1 has it" in refused.stderr
    assert ("ACKD_AGENT says who speaks here" in refused.stderr) == (not named)
    assert spoken_by(team) == []


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_what_went_to_several_needs_a_name_though_one_has_it_still(team: Team, words: list[str]) -> None:
    message_id = team.send("worker_1", "leader", "--body", "hello")
    for _ in range(2):
        asked = team.ackd(*about(words, message_id))
        assert asked.exit_code == 2
        assert "went to" in asked.stderr
        assert "--agent NAME" in asked.stderr
        assert spoken_by(team) == []
        for path in team.files("queue/leader"):  # the second time its other recipient is through with it
            path.unlink()
    assert team.ackd(*about(words, message_id), "--agent", "worker-1").exit_code == 0
    assert spoken_by(team) == ["worker_1"]


def test_a_path_says_whose_it_is(team: Team) -> None:
    team.send("worker_1", "leader", "--body", "hello")
    (path,) = team.files("queue/leader")
    assert team.ackd("ack", str(path)).exit_code == 0
    assert spoken_by(team) == ["leader"]


def test_two_messages_of_two_agents_are_each_ones_own(team: Team) -> None:
    ids = [team.send("worker_1", "--body", "1"), team.send("leader", "--body", "2")]
    assert team.ackd("ack", *ids).exit_code == 0
    assert sorted(spoken_by(team)) == ["leader", "worker_1"]


def test_reading_and_listing_do_not_guess(team: Team) -> None:
    message_id = team.send("worker_1", "--body", "hello")
    assert team.ackd("read", message_id).exit_code == 0
    assert team.receipts() == []
    asked = team.ackd("inbox")
    assert (asked.exit_code, "whose mail?" in asked.stderr) == (2, True)
    for words, env in ((["--agent", "worker-1"], {}), ([], {"ACKD_AGENT": "worker_1"}), (["worker_1"], {})):
        assert team.json("inbox", *words, env=env)["agent"] == "worker_1"
    assert team.ackd("inbox", "leader", "--agent", "user").exit_code == 2


def test_a_reply_is_from_one(team: Team) -> None:
    message_id = team.send("worker_1", "--body", "hello")
    assert team.ackd("reply", message_id, "--body", "x", "--from", "worker_1", "--agent", "leader").exit_code == 2


# --- sandboxes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["landlock", "readonly"])
@pytest.mark.parametrize("words", [["done"], ["reply", "--body", "x"], ["checkpoint"]], ids=lambda words: words[0])
def test_a_write_that_a_sandbox_refuses_is_called_that(team: Team, kind: str, words: list[str]) -> None:
    message_id = team.send("worker_1", "--body", "hello")
    team.root.joinpath("receipts").mkdir(exist_ok=True)
    team.root.joinpath("queue/user/processed").mkdir(parents=True)
    sandboxed = [sys.executable, "-m", "tests.sandbox", kind, str(team.root), sys.executable, "-m", "ackd"]
    refused = subprocess.run(
        [*sandboxed, *about(words, message_id), "--root", str(team.root)],
        capture_output=True, text=True, check=False, timeout=60, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if refused.returncode == sandbox.UNABLE:
        pytest.skip(f"this machine has no {kind} for us")
    assert refused.returncode == 73, refused.stderr
    assert "a sandbox keeps this command from writing" in refused.stderr
    assert str(team.root) in refused.stderr
    assert "mount" not in refused.stderr
    assert "nothing was accepted" in refused.stderr
    assert spoken_by(team) == []


def test_a_directory_that_its_mode_closes_is_no_sandbox(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.client.writing._is_locked_in", lambda: True)
    monkeypatch.setattr("os.access", lambda *_, **__: False)

    def refuse() -> None:
        with creating(team.home):
            raise PermissionError(errno.EACCES, "Permission denied", f"{team.home}/x")

    with pytest.raises(CannotWrite, match="cannot write"):
        refuse()
