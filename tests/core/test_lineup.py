from __future__ import annotations

import random
import sys

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ackd.core.lineup import Lineup
from ackd.core.message import Priority

CRITICAL, HIGH, NORMAL, LOW = Priority.CRITICAL, Priority.HIGH, Priority.NORMAL, Priority.LOW


def drained(lineup: Lineup) -> list[int]:
    order = []
    while (key := lineup.pop()) is not None:
        order.append(key)
    return order


def test_an_empty_lineup_has_no_next() -> None:
    lineup = Lineup(300)
    assert (lineup.peek(), lineup.pop(), len(lineup)) == (None, None, 0)


def test_at_the_same_moment_priority_decides() -> None:
    lineup = Lineup(300)
    for key, priority in enumerate([LOW, NORMAL, CRITICAL, HIGH]):
        lineup.add(key, priority, 100.0, "same")
    assert drained(lineup) == [2, 3, 1, 0]


def test_low_becomes_as_urgent_as_high_in_time() -> None:
    lineup = Lineup(300)
    lineup.add(1, LOW, 0.0, "a")
    lineup.add(2, HIGH, 599.0, "b")
    lineup.add(3, HIGH, 601.0, "c")
    assert drained(lineup) == [2, 1, 3]


def test_critical_never_waits_however_old_the_others_are() -> None:
    lineup = Lineup(300)
    lineup.add(1, HIGH, 0.0, "a")
    lineup.add(2, CRITICAL, 1e9, "b")
    lineup.add(3, CRITICAL, 1e9 - 1, "c")
    assert drained(lineup) == [3, 2, 1]


def test_the_name_settles_a_tie() -> None:
    lineup = Lineup(300)
    lineup.add(1, NORMAL, 5.0, "task_0000000000000002.mime")
    lineup.add(2, NORMAL, 5.0, "task_0000000000000001.mime")
    assert drained(lineup) == [2, 1]


def test_time_goes_before_the_type_in_the_name() -> None:
    lineup = Lineup(300)
    lineup.add(1, NORMAL, 20.0, "architecture_request_0000000000000002.mime")
    lineup.add(2, NORMAL, 10.0, "user_goal_0000000000000001.mime")
    assert drained(lineup) == [2, 1]


def test_adding_a_key_again_moves_it() -> None:
    lineup = Lineup(300)
    lineup.add(1, NORMAL, 10.0, "a")
    lineup.add(2, NORMAL, 20.0, "b")
    lineup.add(1, NORMAL, 30.0, "a")
    assert len(lineup) == 2
    assert drained(lineup) == [2, 1]


def test_discarding_a_stranger_is_nothing() -> None:
    lineup = Lineup(300)
    lineup.add(1, NORMAL, 10.0, "a")
    lineup.discard(7)
    assert list(lineup.keys()) == [1]
    assert 1 in lineup
    assert 7 not in lineup


@given(
    st.lists(st.tuples(st.sampled_from(list(Priority)), st.integers(0, 2000), st.text(max_size=3)), max_size=30),
    st.sampled_from([0, 1, 300]),
)
def test_the_order_is_the_written_rule(items: list[tuple[Priority, int, str]], aging_s: float) -> None:
    lineup = Lineup(aging_s)
    for key, (priority, at, name) in enumerate(items):
        lineup.add(key, priority, at, name)

    def rule_of_the_design(key: int) -> tuple[bool, float, str, int]:
        priority, at, name = items[key]
        level = {CRITICAL: 0, HIGH: 0, NORMAL: 1, LOW: 2}[priority]
        return (priority is not CRITICAL, at + level * aging_s, name, key)

    assert drained(lineup) == sorted(range(len(items)), key=rule_of_the_design)


class AgainstASortedList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lineup = Lineup(300)
        self.model: dict[int, tuple[float, str]] = {}

    @rule(key=st.integers(0, 20), at=st.integers(0, 50), name=st.sampled_from("abc"))
    def add(self, key: int, at: int, name: str) -> None:
        self.lineup.add(key, HIGH, at, name)
        self.model[key] = (at, name)

    @rule(key=st.integers(0, 20))
    def discard(self, key: int) -> None:
        self.lineup.discard(key)
        self.model.pop(key, None)

    @rule()
    def pop(self) -> None:
        popped = self.lineup.pop()
        assert popped == self.first()
        self.model.pop(popped if popped is not None else -1, None)

    def first(self) -> int | None:
        return min(self.model, key=lambda key: (*self.model[key], key), default=None)

    @invariant()
    def agrees(self) -> None:
        assert self.lineup.peek() == self.first()
        assert set(self.lineup.keys()) == set(self.model)
        assert len(self.lineup) == len(self.model)


TestAgainstASortedList = AgainstASortedList.TestCase


def test_a_hundred_thousand_are_cheap_and_the_dead_do_not_pile_up() -> None:
    lineup, rng = Lineup(300), random.Random(3)
    for key in range(100_000):
        lineup.add(key, NORMAL, rng.random(), "x")
    assert sys.getsizeof(lineup._heap) + sys.getsizeof(lineup.waiting) + 100_000 * 88 < 20_000_000
    for key in range(99_990):
        lineup.discard(key)
    assert len(lineup) == 10
    assert len(lineup._heap) < 200
