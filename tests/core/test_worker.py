"""The nine states of a worker: every pair against the seed's table, and the legal way between them."""

from __future__ import annotations

import pytest

from ackd.core.worker import TABLE, WorkerState, way

S = WorkerState

#: state: where it may go next (worker-protocol, "Worker State Machine")
NEXT = """
idle: assigned
assigned: executing
executing: verifying blocked waiting failed
verifying: self_review failed
self_review: complete executing
blocked: executing
waiting: idle
complete: idle
failed: idle
"""


def legal() -> set[tuple[S, S]]:
    rows = (line.partition(":") for line in NEXT.strip().splitlines())
    return {(S(state), S(word)) for state, _, words in rows for word in words.split()}


@pytest.mark.parametrize(("before", "after"), [(a, b) for a in S for b in S], ids=str)
def test_every_pair(before: S, after: S) -> None:
    assert (after in TABLE[before]) is ((before, after) in legal())


def test_complete_walks_the_legal_path() -> None:
    assert way(S.EXECUTING, S.COMPLETE) == (S.VERIFYING, S.SELF_REVIEW, S.COMPLETE)
    assert way(S.BLOCKED, S.COMPLETE) == (S.EXECUTING, S.VERIFYING, S.SELF_REVIEW, S.COMPLETE)
    assert way(S.IDLE, S.EXECUTING) == (S.ASSIGNED, S.EXECUTING)


def test_who_is_there_need_not_walk() -> None:
    assert way(S.VERIFYING, S.VERIFYING) == ()


@pytest.mark.parametrize("end", [S.WAITING, S.COMPLETE, S.FAILED])
def test_no_way_leads_through_the_end_of_a_task(end: S) -> None:
    """A worker that has completed cannot be executing the same task again."""
    assert way(end, S.EXECUTING) is None
    assert way(end, S.IDLE) == (S.IDLE,)


@pytest.mark.parametrize(("before", "after"), [(a, b) for a in S for b in S], ids=str)
def test_every_step_of_a_way_is_legal(before: S, after: S) -> None:
    steps = way(before, after)
    if steps:
        assert all(pair in legal() for pair in zip((before, *steps), steps, strict=False))
