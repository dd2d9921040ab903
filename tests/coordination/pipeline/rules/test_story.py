"""The life of a story, cell by cell, against a grid that is written down apart from the code."""

from __future__ import annotations

import pytest

from ackd.coordination.pipeline.rules.story import (
    ENDS,
    STAGE_STATES,
    TABLE,
    TURNS,
    StoryAct,
    StoryHappening,
    StoryState,
    can,
    stage_of,
    step,
)
from ackd.core.errors import ImpossibleEvent

S, H, A = StoryState, StoryHappening, StoryAct

IN_STAGE: dict[StoryHappening, tuple[StoryState | str, StoryAct]] = {
    H.AGAIN: ("same", A.SPAWN),
    H.EXHAUSTED: (S.PAUSED, A.ESCALATE),
    H.UNSTARTABLE: (S.PAUSED, A.ESCALATE),
    H.GARBLED: ("same", A.ASK),
    H.UNCLEAR: (S.PAUSED, A.ESCALATE),
    H.HELD: (S.PAUSED, A.STAND_DOWN),
    H.DROPPED: (S.CANCELLED, A.STAND_DOWN),
}
PASSED = {S.STAGE_0: S.STAGE_1, S.STAGE_1: S.STAGE_2, S.STAGE_2: S.STAGE_3, S.STAGE_3: S.DONE}
ELSEWHERE = {
    (S.WAITING, H.TURN_0): (S.STAGE_0, A.SPAWN),
    (S.WAITING, H.TURN_1): (S.STAGE_1, A.SPAWN),
    (S.WAITING, H.TURN_2): (S.STAGE_2, A.SPAWN),
    (S.WAITING, H.TURN_3): (S.STAGE_3, A.SPAWN),
    (S.WAITING, H.ORPHANED): (S.PAUSED, A.ESCALATE),
    (S.WAITING, H.HELD): (S.PAUSED, A.NOTHING),
    (S.WAITING, H.DROPPED): (S.CANCELLED, A.NOTHING),
    (S.STAGE_3, H.RETURNED): (S.STAGE_2, A.SPAWN),
    (S.PAUSED, H.HELD): (S.PAUSED, A.NOTHING),
    (S.PAUSED, H.RESUMED): (S.WAITING, A.NOTHING),
    (S.PAUSED, H.DROPPED): (S.CANCELLED, A.NOTHING),
    (S.CANCELLED, H.DROPPED): (S.CANCELLED, A.NOTHING),
}


def expected(state: StoryState, happening: StoryHappening) -> tuple[StoryState, StoryAct] | None:
    if (state, happening) in ELSEWHERE:
        return ELSEWHERE[state, happening]
    if state not in STAGE_STATES:
        return None
    if happening is H.PASSED:
        return PASSED[state], A.FINISH if state is S.STAGE_3 else A.SPAWN
    if happening not in IN_STAGE:
        return None
    after, act = IN_STAGE[happening]
    return (state if isinstance(after, str) else after), act


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("happening", H)
def test_each_cell_is_what_the_design_says(state: StoryState, happening: StoryHappening) -> None:
    wanted = expected(state, happening)
    assert can(state, happening) == (wanted is not None)
    if wanted is not None:
        assert step(state, happening) == wanted
        return
    with pytest.raises(ImpossibleEvent):
        step(state, happening)


def test_every_pause_that_no_person_asked_for_is_escalated() -> None:
    for row in TABLE.values():
        for happening, (after, act) in row.items():
            if after is S.PAUSED:
                assert (act is A.ESCALATE) == (happening is not H.HELD)


def test_nothing_leaves_an_end() -> None:
    assert all(after in ENDS for end in ENDS for after, _ in TABLE[end].values())


def test_stages_are_numbered() -> None:
    assert [stage_of(state) for state in STAGE_STATES] == [0, 1, 2, 3]
    assert stage_of(S.PAUSED) is None
    assert len(TURNS) == 4
