"""The states of a worker and the ways between them (worker-protocol, "Worker State Machine").

A worker names its state in what it says; one that is further on is walked to by the legal way, if there is one. Only a
supervisor may say FAILED from anywhere: a crash asks nobody.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ackd.core.words import Word


class WorkerState(Word):
    IDLE = "idle"
    ASSIGNED = "assigned"
    EXECUTING = "executing"
    VERIFYING = "verifying"
    SELF_REVIEW = "self_review"
    COMPLETE = "complete"
    FAILED = "failed"
    BLOCKED = "blocked"
    WAITING = "waiting"  # its context is full: a fresh worker takes over


S = WorkerState

TABLE: Final[dict[WorkerState, tuple[WorkerState, ...]]] = {
    S.IDLE: (S.ASSIGNED,),
    S.ASSIGNED: (S.EXECUTING,),
    S.EXECUTING: (S.VERIFYING, S.BLOCKED, S.WAITING, S.FAILED),
    S.VERIFYING: (S.SELF_REVIEW, S.FAILED),
    S.SELF_REVIEW: (S.COMPLETE, S.EXECUTING),  # EXECUTING: a revision is needed
    S.BLOCKED: (S.EXECUTING,),
    S.WAITING: (S.IDLE,),
    S.COMPLETE: (S.IDLE,),
    S.FAILED: (S.IDLE,),
}

#: No way leads on through these states: the task has ended there.
_ENDS: Final = frozenset({S.WAITING, S.COMPLETE, S.FAILED, S.IDLE})


def way(start: WorkerState, end: WorkerState) -> tuple[WorkerState, ...] | None:
    """Return the shortest legal way, without its start; () if it is there; None if its task would have to end first."""
    if start is end:
        return ()
    ways: deque[tuple[WorkerState, ...]] = deque([(start,)])
    seen = {start}
    while ways:
        so_far = ways.popleft()
        for next_state in TABLE[so_far[-1]]:
            if next_state is end:
                return (*so_far[1:], end)
            if next_state not in seen and next_state not in _ENDS:
                seen.add(next_state)
                ways.append((*so_far, next_state))
    return None
