"""Idle agents with a message in hand: every cell of the table, and when each step is due."""

from __future__ import annotations

from typing import Final

import pytest

from ackd.core.idleness import (
    TABLE,
    BusyDecision,
    HungDecision,
    IdleAct,
    IdleStage,
    Idling,
    NothingDue,
    StepDecision,
    allowed_s,
    counts,
    decide_hung,
    decide_idle,
    stage_of,
    step,
)
from ackd.core.message import FRESH, Idled

S, D, A = IdleStage, Idling, IdleAct
#: Every cell that does anything; all others stay, and nothing is done.
CELLS: Final = {
    (S.WORKING, D.IDLE): (S.WORKING, A.REMIND),
    (S.WORKING, D.TYPED): (S.REMINDED, A.NOTHING),
    (S.WORKING, D.UNTYPED): (S.TOLD, A.TELL),
    (S.REMINDED, D.IDLE): (S.REMINDED, A.REMIND),
    (S.REMINDED, D.TYPED): (S.REMINDED_TWICE, A.NOTHING),
    (S.REMINDED, D.UNTYPED): (S.TOLD, A.TELL),
    (S.REMINDED_TWICE, D.IDLE): (S.TOLD, A.TELL),
    (S.TOLD, D.USED_UP): (S.UNFINISHED, A.BURY),
}


@pytest.mark.parametrize("stage", IdleStage)
@pytest.mark.parametrize("happened", Idling)
def test_every_cell(stage: IdleStage, happened: Idling) -> None:
    assert step(stage, happened) == CELLS.get((stage, happened), (stage, A.NOTHING))


def test_no_cell_is_missing() -> None:
    assert all(set(row) == set(Idling) for row in TABLE.values())
    assert set(TABLE) == set(IdleStage)


def test_nothing_is_given_up_before_someone_was_told() -> None:
    for stage, row in TABLE.items():
        for after, act in row.values():
            assert (act is A.BURY) == (after is S.UNFINISHED and stage is S.TOLD)


@pytest.mark.parametrize(
    ("idled", "stage"),
    [
        (FRESH, S.WORKING),
        (Idled(reminders=1), S.REMINDED),
        (Idled(reminders=2), S.REMINDED_TWICE),
        (Idled(reminders=7), S.REMINDED_TWICE),  # as a header may say that a hand wrote
        (Idled(reminders=0, told=True), S.TOLD),
        (Idled(reminders=2, told=True), S.TOLD),
    ],
)
def test_the_stage_follows_from_what_is_kept(idled: Idled, stage: IdleStage) -> None:
    assert stage_of(idled) is stage


@pytest.mark.parametrize(
    ("idled", "idle_since", "stepped_at", "now", "then"),
    [
        (FRESH, 100, 0, 159, NothingDue(160)),
        (FRESH, 100, 0, 160, StepDecision(D.IDLE)),
        (Idled(1), 100, 160, 219, NothingDue(220)),  # since the first reminder
        (Idled(1), 100, 160, 220, StepDecision(D.IDLE)),
        (Idled(1), 200, 160, 259, NothingDue(260)),  # it went busy in between: idle time began anew
        (Idled(2), 100, 220, 280, StepDecision(D.IDLE)),
        (Idled(2, told=True), 100, 220, 280, NothingDue(280 + 1500)),
    ],
)
def test_when_the_next_step_is_due(
    idled: Idled, idle_since: float, stepped_at: float, now: float, then: NothingDue | StepDecision
) -> None:
    found = decide_idle(idled, idle_since=idle_since, stepped_at=stepped_at, now=now, ack_timeout_s=60, left_s=1500)
    assert found == then


@pytest.mark.parametrize(
    ("idled", "now", "left_s", "then"),
    [
        (Idled(2, told=True), 280, 0, StepDecision(D.USED_UP)),
        (Idled(2, told=True), 280, 1, NothingDue(281)),
        (Idled(2, told=True), 150, -9, NothingDue(160)),  # never in the first moment of idle time
        (Idled(2), 280, -9, StepDecision(D.IDLE)),  # never before someone was told
    ],
)
def test_when_it_is_given_up(idled: Idled, now: float, left_s: float, then: NothingDue | StepDecision) -> None:
    assert decide_idle(idled, idle_since=100, stepped_at=0, now=now, ack_timeout_s=60, left_s=left_s) == then


def test_who_acknowledged_it_has_twice_the_time() -> None:
    assert (allowed_s(1800, acked=False), allowed_s(1800, acked=True)) == (1800, 3600)


def test_a_spell_that_a_sign_of_life_cuts_short_was_no_idleness() -> None:
    assert [counts(s, 60, by_life=True) for s in (20, 59, 60)] == [False, False, True]
    assert counts(20, 60, by_life=False)


@pytest.mark.parametrize(
    ("now", "hung_after_s", "told", "then"),
    [
        (899, 1800, False, NothingDue(900)),
        (900, 1800, False, BusyDecision(1800)),
        (1200, 1800, True, NothingDue(1800)),  # twenty minutes of nothing but a spinner: no key
        (1800, 1800, True, HungDecision()),
        (1800, 1800, False, HungDecision()),
        (60, 60, False, HungDecision()),  # the pace of the Ensemble seed
        (59, 60, False, NothingDue(60)),
        (900, 0, False, BusyDecision(None)),
        (10_000, 0, True, None),  # 0: never
        (10, 0, False, NothingDue(900)),
    ],
)
def test_when_busy_is_told_of_and_when_it_is_hung(now: float, hung_after_s: float, told: bool, then: object) -> None:
    found = decide_hung(quiet_since=0, now=now, busy_timeout_s=900, hung_after_s=hung_after_s, told=told)
    assert found == then
