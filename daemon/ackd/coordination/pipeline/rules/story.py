"""The life of one story, as a table: four stages, and where it may leave them (pipeline-lead; DESIGN 5, Stories).

Whether another try is allowed is decided before the table is asked (``decisions``), so that "budget used up" is an
event of its own and the table needs no counters. Fails with ``ImpossibleEvent``; ``can`` asks first.
"""

from __future__ import annotations

from typing import Final

from ackd.core.errors import ImpossibleEvent
from ackd.core.words import Word


class StoryState(Word):
    WAITING = "waiting"  # for its turn, or for the stories it comes after
    STAGE_0 = "stage_0"
    STAGE_1 = "stage_1"
    STAGE_2 = "stage_2"
    STAGE_3 = "stage_3"
    PAUSED = "paused"  # a person is wanted, or has paused it
    DONE = "done"
    CANCELLED = "cancelled"


class StoryHappening(Word):
    TURN_0 = "its turn, at stage 0"
    TURN_1 = "its turn, at stage 1"
    TURN_2 = "its turn, at stage 2"
    TURN_3 = "its turn, at stage 3"
    PASSED = "stage passed"
    AGAIN = "another try"
    RETURNED = "sent back"
    EXHAUSTED = "budget used up"
    UNSTARTABLE = "worker cannot be started"
    GARBLED = "not understood"
    UNCLEAR = "still not understood"
    ORPHANED = "what it comes after was cancelled"
    HELD = "paused by hand"
    RESUMED = "resumed by hand"
    DROPPED = "cancelled by hand"


class StoryAct(Word):
    NOTHING = "nothing"
    SPAWN = "spawn"  # a fresh worker for the stage
    ASK = "status check"
    ESCALATE = "escalate"
    STAND_DOWN = "stand down"  # let the worker leave, if there is one
    FINISH = "finish"


S, H, A = StoryState, StoryHappening, StoryAct
_Row = dict[StoryHappening, tuple[StoryState, StoryAct]]

#: The state of each stage, by its number.
STAGE_STATES: Final = (S.STAGE_0, S.STAGE_1, S.STAGE_2, S.STAGE_3)
TURNS: Final = (H.TURN_0, H.TURN_1, H.TURN_2, H.TURN_3)
#: States of stories that are over.
ENDS: Final = frozenset({S.DONE, S.CANCELLED})


def _in_stage(stage: StoryState, after: StoryState) -> _Row:
    return {
        H.PASSED: (after, A.FINISH if after is S.DONE else A.SPAWN),
        H.AGAIN: (stage, A.SPAWN),
        H.EXHAUSTED: (S.PAUSED, A.ESCALATE),
        H.UNSTARTABLE: (S.PAUSED, A.ESCALATE),
        H.GARBLED: (stage, A.ASK),
        H.UNCLEAR: (S.PAUSED, A.ESCALATE),
        H.HELD: (S.PAUSED, A.STAND_DOWN),
        H.DROPPED: (S.CANCELLED, A.STAND_DOWN),
    }


TABLE: Final[dict[StoryState, _Row]] = {
    S.WAITING: {
        **{turn: (stage, A.SPAWN) for turn, stage in zip(TURNS, STAGE_STATES, strict=True)},
        H.ORPHANED: (S.PAUSED, A.ESCALATE),
        H.HELD: (S.PAUSED, A.NOTHING),
        H.DROPPED: (S.CANCELLED, A.NOTHING),
    },
    S.STAGE_0: _in_stage(S.STAGE_0, S.STAGE_1),
    S.STAGE_1: _in_stage(S.STAGE_1, S.STAGE_2),
    S.STAGE_2: _in_stage(S.STAGE_2, S.STAGE_3),
    S.STAGE_3: {**_in_stage(S.STAGE_3, S.DONE), H.RETURNED: (S.STAGE_2, A.SPAWN)},
    S.PAUSED: {
        H.HELD: (S.PAUSED, A.NOTHING),
        H.RESUMED: (S.WAITING, A.NOTHING),
        H.DROPPED: (S.CANCELLED, A.NOTHING),
    },
    S.DONE: {},
    S.CANCELLED: {H.DROPPED: (S.CANCELLED, A.NOTHING)},
}


def step(state: StoryState, happening: StoryHappening) -> tuple[StoryState, StoryAct]:
    try:
        return TABLE[state][happening]
    except KeyError:
        raise ImpossibleEvent("story", state.value, happening.value) from None


def can(state: StoryState, happening: StoryHappening) -> bool:
    return happening in TABLE[state]


def stage_of(state: StoryState) -> int | None:
    """Return the number of the stage that is being worked on; None if none is."""
    return STAGE_STATES.index(state) if state in STAGE_STATES else None
