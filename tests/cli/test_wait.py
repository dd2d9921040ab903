"""`ackd wait` and `ackd send --wait-all`: what they print, and how they end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.cli.wait import STAYS
from ackd.client import Client
from ackd.client.standing import Hindrances
from ackd.storage import root_lock
from ackd.storage.session_log import SessionLog
from tests.cli.conftest import team

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Team

__all__ = ["team"]


@pytest.fixture
def log(team: Team) -> Iterator[SessionLog]:
    (team.root / "queue/leader").mkdir(parents=True)
    opened = SessionLog.open(team.root / "logs", started_at=time.time())
    yield opened
    opened.close()


@pytest.fixture
def served(team: Team) -> Iterator[None]:
    (team.root / "run").mkdir(parents=True, exist_ok=True)
    lock = root_lock.hold(team.root / "run")
    yield
    lock.release()


def put(log: SessionLog, type_: str, message_id: str, **data: Any) -> None:
    log.record(type_, {"message_id": message_id, "agent": "leader", **data}, time.time())
    log.flush()


def ended(log: SessionLog, message_id: str, *, well: bool = True) -> None:
    put(log, "message_queued", message_id, **{"from": "user", "message_type": "message", "file": "queue/leader/a"})
    if well:
        put(log, "message_completed", message_id, by="exit 0")
    else:
        put(log, "message_dead", message_id, reason="refused: \x1b[31mno")


def test_all_that_were_completed_make_0(team: Team, log: SessionLog) -> None:
    ended(log, "1.2.aaaa@x")
    ended(log, "1.2.bbbb@x")
    result = team.ackd("wait", "1.2.aaaa@x", "1.2.bbbb@x")
    assert (result.exit_code, result.stdout) == (0, "completed: leader 1.2.aaaa\ncompleted: leader 1.2.bbbb\n")


def test_one_that_is_dead_makes_1_and_says_why(team: Team, log: SessionLog) -> None:
    ended(log, "1.2.aaaa@x", well=False)
    result = team.ackd("wait", "1.2.aaaa@x")
    assert result.exit_code == 1
    assert result.stdout.startswith("dead: leader 1.2.aaaa: refused:")
    assert "\x1b" not in result.stdout
    assert team.ackd("wait", "1.2.aaaa@x", "--any").exit_code == 1


def test_any_takes_the_first_that_was_completed(team: Team, log: SessionLog) -> None:
    ended(log, "1.2.aaaa@x", well=False)
    ended(log, "1.2.bbbb@x")
    assert team.ackd("wait", "1.2.aaaa@x", "1.2.bbbb@x", "--any").exit_code == 0


@pytest.mark.usefixtures("served")
def test_when_the_time_is_over_it_makes_75_and_says_what_is_open(team: Team, log: SessionLog) -> None:
    put(log, "message_queued", "1.2.aaaa@x", **{"from": "user", "message_type": "message", "file": "a"})
    result = team.ackd("wait", "1.2.aaaa@x", "--tree", "--timeout", "0.1")
    assert result.exit_code == 75
    assert result.stderr == "not over within 0.1 s: leader has not taken it yet (1.2.aaaa)\n"


def test_programs_get_one_document(team: Team, log: SessionLog) -> None:
    ended(log, "1.2.aaaa@x")
    ended(log, "1.2.bbbb@x", well=False)
    result = team.ackd("wait", "1.2.aaaa@x", "1.2.bbbb@x", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "outcome": "failed",
        "messages": [
            {"message_id": "1.2.aaaa@x", "agent": "leader", "state": "completed"},
            {"message_id": "1.2.bbbb@x", "agent": "leader", "state": "dead", "reason": "refused: \x1b[31mno"},
        ],
    }


def test_ctrl_c_makes_130_and_says_that_nothing_was_withdrawn(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "wait", interrupted)
    result = team.ackd("wait", "1.2.aaaa@x")
    assert (result.exit_code, result.stderr) == (130, f"ackd: {STAYS}\n")


def test_ctrl_c_while_send_waits_says_that_the_message_stays(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    from ackd.client import thread_waiting

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(thread_waiting.ThreadWaiter, "wait", interrupted)
    result = team.ackd("send", "leader", "--body", "x", "--wait-all")
    assert result.exit_code == 130
    assert "stays queued; `ackd explain " in result.stderr
    assert len(team.files("queue/leader")) == 1


@pytest.mark.parametrize(
    "words",
    [("wait",), ("wait", "a", "--all", "--any"), ("send", "leader", "--body", "x", "--wait-all", "--wait", "acked")],
)
def test_what_contradicts_itself_is_wrong_usage(team: Team, words: tuple[str, ...]) -> None:
    assert team.ackd(*words).exit_code == 2
    assert not (team.root / "queue/leader").exists()


def test_a_part_of_what_somebody_else_has_is_refused(team: Team) -> None:
    goal = team.send("leader", "--body", "the goal")
    result = team.ackd("send", "leader", "--body", "x", "--from", "worker_1", "--part-of", goal)
    assert result.exit_code == 1
    assert "is not worker_1's mail: leader has it" in result.stderr


@pytest.mark.parametrize(
    ("option", "word"), [("--notify-when-done", b"yes"), ("--no-notify-when-done", b"no"), ("", None)]
)
def test_a_part_may_ask_for_the_notice(team: Team, option: str, word: bytes | None) -> None:
    goal = team.send("leader", "--body", "the goal")
    words = ("worker_1", "--body", "x", "--from", "leader", "--part-of", goal)
    team.send(*words, *filter(None, [option]))
    (part,) = team.files("queue/worker_1")
    said = [line for line in part.read_bytes().splitlines() if line.startswith(b"X-ACKD-Notify-When-Done")]
    assert said == ([b"X-ACKD-Notify-When-Done: " + word] if word else [])


# --- what hinders -------------------------------------------------------------------------------------------------------
WAITS = [("send", "leader", "--body", "x", "--wait", "told"), ("send", "leader", "--body", "x", "--wait-all")]


@pytest.mark.parametrize("words", [*WAITS, ("wait", "1.2.aaaa@x"), ("wait", "1.2.aaaa@x", "--tree")])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.usefixtures("served")
def test_both_waits_say_what_hinders_while_they_wait_and_at_the_end(
    team: Team, log: SessionLog, words: tuple[str, ...], when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page: dict[str, Any] = {"daemon": {}, "agents": {}, "totals": {}, "escalations": []}
    if when == "before":
        page["agents"] = {"leader": {"state": "paused", "reason": "by hand"}}
    (team.root / "run/status.json").write_text(json.dumps(page))
    put(log, "message_queued", "1.2.aaaa@x", **{"from": "user", "message_type": "message", "file": "a"})
    look = Hindrances.look
    parked: dict[str, object] = {"agent": "leader", "state": "parked", "reason": "no program"}

    def look_and_then_be_parked(self: Hindrances, histories: Any) -> None:
        look(self, list(histories))
        log.record("agent_state", parked, time.time())
        log.flush()

    monkeypatch.setattr(Hindrances, "look", look_and_then_be_parked)
    result = team.ackd(*words, "--timeout", "0.3")
    assert result.exit_code == 75
    said = result.stderr.splitlines()
    assert said[:-1] == [
        *["ackd: leader is paused: by hand"] * (when == "before"),
        "ackd: leader is parked: no program",
    ]
    assert "leader has not taken it yet" in said[-1]
    assert said[-1].endswith("; leader is parked: no program")


def test_an_agent_that_was_paused_is_named_although_no_daemon_runs(team: Team, log: SessionLog) -> None:
    put(log, "message_queued", "1.2.aaaa@x", **{"from": "user", "message_type": "message", "file": "a"})
    assert team.ackd("agent", "pause", "leader").exit_code == 0
    result = team.ackd("wait", "1.2.aaaa@x")
    assert result.exit_code == 69
    assert result.stderr.startswith("ackd: leader is paused")
    assert "no daemon is running" in result.stderr
