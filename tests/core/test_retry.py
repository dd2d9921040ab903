from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.policy import AgentPolicy
from ackd.core.retry import Again, GiveUp, decide_retry


class TopOfRange(random.Random):
    """A generator that draws the end of the range it is asked for, so that a test can see the range."""

    def uniform(self, a: float, b: float) -> float:
        assert a == 0
        return b


@pytest.mark.parametrize(("failures", "ceiling_s"), [(1, 5), (2, 10), (3, 20)])
def test_the_ceiling_doubles_with_each_retry(failures: int, ceiling_s: float) -> None:
    assert decide_retry(failures, AgentPolicy(), TopOfRange()) == Again(ceiling_s)


def test_retry_limit_three_is_three_retries_and_the_fourth_failure_gives_up() -> None:
    decisions = [decide_retry(n, AgentPolicy(retry_limit=3), TopOfRange()) for n in (1, 2, 3, 4, 5)]
    assert [isinstance(one, Again) for one in decisions] == [True, True, True, False, False]
    assert decisions[3] == GiveUp()


def test_no_retries_at_all_is_a_policy_too() -> None:
    assert decide_retry(1, AgentPolicy(retry_limit=0), TopOfRange()) == GiveUp()


def test_the_cap_holds_and_a_huge_retry_limit_does_not_overflow() -> None:
    policy = AgentPolicy(retry_limit=10**6)
    assert decide_retry(7, policy, TopOfRange()) == Again(300)
    assert decide_retry(10**6, policy, TopOfRange()) == Again(300)


@given(failures=st.integers(1, 3), seed=st.integers())
def test_the_delay_lies_in_its_range_and_comes_from_the_generator_alone(failures: int, seed: int) -> None:
    decision = decide_retry(failures, AgentPolicy(), random.Random(seed))
    assert isinstance(decision, Again)
    assert 0 <= decision.delay_s <= 5 * 2 ** (failures - 1)
    assert decision == decide_retry(failures, AgentPolicy(), random.Random(seed))


def test_the_delay_is_spread_over_the_whole_range() -> None:
    rng = random.Random(1)
    drawn = [d.delay_s for _ in range(500) if isinstance(d := decide_retry(3, AgentPolicy(), rng), Again)]
    assert min(drawn) < 1
    assert max(drawn) > 19
