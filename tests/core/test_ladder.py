from __future__ import annotations

import pytest

from ackd.core.ladder import ClimbDecision, EndDecision, Ladder, LadderDecision, WaitDecision, decide_rung


def silence_of(
    key: int = 1,
    *,
    ladder: Ladder | None = None,
    told_at: float = 0,
    last_life: float | None = None,
    now: float = 60,
    at_work: bool = False,
) -> LadderDecision:
    return decide_rung(ladder, key, 3, told_at, last_life, now, 60, at_work=at_work)


def test_it_is_no_silence_before_the_time_is_up() -> None:
    assert silence_of(now=59.9) == WaitDecision(60)


def test_the_first_silence_starts_at_the_first_rung() -> None:
    assert silence_of(now=60) == ClimbDecision(Ladder(1, 1))


@pytest.mark.parametrize("rung", [1, 2])
def test_each_silence_climbs_one_rung(rung: int) -> None:
    assert silence_of(ladder=Ladder(1, rung)) == ClimbDecision(Ladder(1, rung + 1))


def test_after_the_last_rung_comes_the_end() -> None:
    assert silence_of(ladder=Ladder(1, 3)) == EndDecision(3)


def test_a_sign_of_life_since_the_telling_makes_it_no_silence() -> None:
    assert silence_of(last_life=30) == WaitDecision(90)


def test_a_sign_of_life_from_before_the_telling_proves_nothing() -> None:
    assert silence_of(told_at=0, last_life=-5) == ClimbDecision(Ladder(1, 1))


def test_another_message_waits_while_the_ladder_is_taken() -> None:
    assert silence_of(key=2, ladder=Ladder(1, 2), now=70) == WaitDecision(130)


def test_an_agent_at_work_on_another_message_is_nudged_once_and_not_interrupted() -> None:
    assert silence_of(at_work=True) == ClimbDecision(Ladder(1, 1))
    assert silence_of(ladder=Ladder(1, 1), at_work=True) == WaitDecision(120)
    assert silence_of(ladder=Ladder(1, 3), at_work=True) == WaitDecision(120)


def test_an_agent_without_rungs_ends_at_once() -> None:
    assert decide_rung(None, 1, 0, 0, None, 60, 60) == EndDecision(0)
