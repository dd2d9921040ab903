"""How an agent stands by the log, and what was done for a message, from lines that do not name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackd.client.agent_lines import attempt_counts, attempt_words, last_agent_state, lines_around
from ackd.client.message_history import history_of
from ackd.storage.log_index import LogSearch
from ackd.storage.session_log import SessionLog, find_message_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ID = "1763.42.ab12@ignite.local"
T0 = 1_794_794_802.0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SessionLog]:
    opened = SessionLog.open(tmp_path, started_at=T0)
    yield opened
    opened.close()


def put(log: SessionLog, at: float, type_: str, *, agent: str = "builder", of: str | None = ID, **data: Any) -> None:
    log.record(type_, {"agent": agent, **({"message_id": of} if of else {}), **data}, T0 + at)
    log.flush()


def around(log: SessionLog) -> list[str]:
    logs = log.path.parent
    return [line.type for line in lines_around(LogSearch(logs), history_of(find_message_lines(logs, ID), ID))]


def test_what_happened_to_its_agent_from_the_telling_to_the_end_belongs_to_it(log: SessionLog) -> None:
    put(log, 0, "child_started", of=None, pid=1)
    put(log, 1, "message_queued")
    put(log, 2, "agent_state", of=None, state="available")
    put(log, 3, "message_claimed")
    put(log, 4, "child_ended", of=None, pid=1)
    put(log, 5, "child_restart", of=None, in_s=1)
    put(log, 5, "child_restart", of=None, agent="other", in_s=1)
    put(log, 6, "child_ended", of="9.9.other@x", pid=7)
    put(log, 7, "message_queued", of=None)
    put(log, 8, "message_completed", by="done")
    put(log, 9, "worker_release")
    put(log, 10, "child_ended", of=None, pid=2)
    assert around(log) == ["child_ended", "child_restart"]


def test_one_that_is_not_over_has_what_happens_now_and_one_that_nobody_was_told_of_nothing(log: SessionLog) -> None:
    put(log, 1, "message_queued")
    put(log, 2, "agent_state", of=None, state="down")
    assert around(log) == []
    put(log, 3, "message_told")
    put(log, 4, "agent_state", of=None, state="parked")
    assert around(log) == ["agent_state"]


def test_a_message_that_was_dug_up_goes_on(log: SessionLog) -> None:
    for at, type_ in enumerate(("message_told", "message_dead", "message_requeued", "message_told")):
        put(log, at, type_)
    put(log, 9, "pane_gone", of=None, why="killed")
    assert around(log) == ["pane_gone"]


def test_it_is_looked_for_in_all_sessions(log: SessionLog) -> None:
    put(log, 1, "message_told")
    put(log, 2, "child_ended", of=None, pid=1)
    second = SessionLog.open(log.path.parent, started_at=T0 + 60)
    second.record("child_started", {"agent": "builder", "pid": 2}, T0 + 60)
    second.close()
    assert around(log) == ["child_ended", "child_started"]


def counted(log: SessionLog) -> dict[str, int]:
    logs = log.path.parent
    known = history_of(find_message_lines(logs, ID), ID)
    return attempt_counts((*known.events, *lines_around(LogSearch(logs), known)), "builder")


def test_what_was_done_is_counted_and_said(log: SessionLog) -> None:
    put(log, 0, "message_told")
    assert (counted(log), attempt_words(counted(log))) == ({}, "")
    put(log, 1, "nudge", rung=1)
    put(log, 2, "nudge", rung=2)
    put(log, 3, "nudge", rung="odd")
    put(log, 4, "probe", text="?")
    put(log, 5, "child_restart", of=None, in_s=0)
    put(log, 6, "checkpoint")
    put(log, 7, "context_threshold", usage=0.7)
    put(log, 8, "pane_stuck", of=None, why="prompt")
    put(log, 9, "pane_stuck", of=None, why="prompt")
    assert counted(log) == {
        "nudges": 3,
        "highest_rung": 2,
        "status_checks": 1,
        "restarts": 1,
        "checkpoints": 1,
        "full_contexts": 1,
        "prompts": 2,
    }
    assert attempt_words(counted(log)) == (
        "woken 3 times (up to rung 2), checked on once, restarted once, 1 full context, 1 checkpoint, "
        "waited for a person 2 times"
    )


# --- how an agent stands ----------------------------------------------------------------------------------------------
def session(logs: Path, at: float, *states: tuple[str, str]) -> None:
    log = SessionLog.open(logs, started_at=at)
    for agent, state in states:
        log.record("agent_state", {"agent": agent, "state": state}, at)
    log.close()


def test_the_last_word_of_the_newest_session_counts_in_any_spelling(tmp_path: Path) -> None:
    session(tmp_path, 1e9, ("worker_1", "parked"), ("leader", "down"))
    session(tmp_path, 2e9, ("worker-1", "parked"), ("worker-1", "available"))
    found = last_agent_state(LogSearch(tmp_path), "worker_1")
    assert found is not None
    assert found.data["state"] == "available"
    assert last_agent_state(LogSearch(tmp_path), "leader") is None  # only an older session knew


def test_without_logs_nothing_is_known(tmp_path: Path) -> None:
    assert last_agent_state(LogSearch(tmp_path / "absent"), "leader") is None
