"""The decision when a process that died is started again."""

from __future__ import annotations

import random

import pytest

from ackd.core.restarts import RestartAfter, RestartDecision, RestartPolicy, StaysDown, decide_restart


class Highest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


class Lowest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return min(a, b)


P = RestartPolicy()


@pytest.mark.parametrize(
    ("deaths", "policy", "decision"),
    [
        ([0.0], P, RestartAfter(1)),
        ([0, 1], P, RestartAfter(2)),
        ([0, 1, 3], P, RestartAfter(4)),
        ([0, 1, 3, 7], P, RestartAfter(8)),
        ([0, 1, 3, 7, 15], P, RestartAfter(16)),
        ([0, 1, 3, 7, 15, 31], P, StaysDown(5, 60)),
        ([0, 1, 3, 7, 15, 75], P, RestartAfter(1)),  # it lived for a minute: a new row
        ([0, 1, 3, 7, 15, 74.9], P, RestartAfter(30)),  # nearly
        ([0, 0, 0, 0, 0, 59.9], P, StaysDown(5, 60)),
        ([0, 0, 0, 0, 0, 60], P, RestartAfter(1)),  # the first five are out of the window
        ([0, 50, 100, 150, 200, 250, 300], P, RestartAfter(30)),  # never five a minute: the cap, for ever
        ([0.0], RestartPolicy(limit=0), StaysDown(0, 60)),
        ([0, 1], RestartPolicy(limit=1), StaysDown(1, 60)),
        ([0.0], RestartPolicy(base_s=0), RestartAfter(0)),
        ([float(n) for n in range(2000)], RestartPolicy(limit=10_000), RestartAfter(30)),
    ],
)
def test_the_wait_doubles_and_ends(deaths: list[float], policy: RestartPolicy, decision: RestartDecision) -> None:
    assert decide_restart(deaths, deaths[-1], policy, Highest()) == decision


def test_chance_takes_at_most_half_of_the_wait() -> None:
    assert decide_restart([0.0], 0, P, Lowest()) == RestartAfter(0.5)
    waits = {decide_restart([0.0], 0, P, random.Random(seed)) for seed in range(50)}
    assert len(waits) == 50
    assert all(isinstance(one, RestartAfter) and 0.5 <= one.delay_s <= 1 for one in waits)


def test_a_child_that_crashes_at_once_is_given_up_within_the_minute_at_the_defaults() -> None:
    deaths: list[float] = [0.0]
    while isinstance(decision := decide_restart(deaths, deaths[-1], P, Highest()), RestartAfter):
        deaths.append(deaths[-1] + decision.delay_s)
    assert decision == StaysDown(5, 60)
    assert deaths[-1] == 31
