"""New lines, across restarts, deletions and truncations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ackd.adapters.session_log import Follower, SessionLog, follow
from tests.adapters.session_log.bench import AT, STEM, fact, fill, put

if TYPE_CHECKING:
    from pathlib import Path


def test_following_starts_at_the_end_and_goes_over_a_restart_into_the_next_file(logs: Path) -> None:
    first = SessionLog.open(logs, started_at=AT)
    fill(first, 2)
    first.flush()
    follower = Follower(logs)
    assert list(follower.poll()) == []
    fill(first, 1)
    first.close()
    second = SessionLog.open(logs, started_at=AT + 5)
    fill(second, 2)
    second.flush()
    assert [(line.session_id, line.seq) for line in follower.poll()] == [
        (STEM, 3),
        (second.session_id, 1),
        (second.session_id, 2),
    ]
    assert list(follower.poll()) == []


def test_following_begins_before_there_is_any_log(logs: Path) -> None:
    follower = Follower(logs)
    assert not follower.found_any
    assert list(follower.poll()) == []
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 1)
    log.flush()
    assert [line.seq for line in follower.poll()] == [1]
    assert follower.found_any


def test_a_log_that_was_deleted_or_truncated_is_followed_on(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    fill(log, 3)
    log.flush()
    follower = Follower(logs)
    log.path.unlink()
    fill(log, 1)
    log.flush()
    assert [line.seq for line in follower.poll()] == [4]
    os.truncate(log.path, 0)
    assert list(follower.poll()) == []
    fill(log, 1)
    log.flush()
    assert [line.seq for line in follower.poll()] == [5]


def test_follow_yields_none_and_waits_when_there_is_nothing_new(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    waits: list[float] = []

    def write_while_waiting(seconds: float) -> None:
        waits.append(seconds)
        fill(log, 1)
        log.flush()

    stream = follow(Follower(logs), poll_s=0.2, sleep=write_while_waiting)
    assert next(stream) is None
    assert (line := next(stream)) is not None
    assert line.seq == 1
    assert next(stream) is None
    assert waits == [0.2]


def test_following_does_not_look_at_old_sessions(logs: Path) -> None:
    for hour in range(10):
        put(logs, f"session-20261116-{hour:02d}0000.ndjson", fact(hour))
    follower = Follower(logs)
    put(logs, "session-20261116-000000.ndjson", fact(90))
    put(logs, "session-20261116-090000.ndjson", fact(91))
    assert [line.seq for line in follower.poll()] == [91]
