from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ackd.core.loops import Loops


def bounce(loops: Loops, times: int, about: str = "task-1") -> list[int | None]:
    """One opening message, then ``times`` changes of direction."""
    ends = [("leader", "worker"), ("worker", "leader")]
    return [loops.saw(about, *ends[n % 2]) for n in range(times + 1)]


def test_five_bounces_are_allowed_and_the_sixth_is_a_loop() -> None:
    assert bounce(Loops(5), 5) == [None] * 6
    assert bounce(Loops(5), 6) == [None] * 6 + [6]


def test_a_loop_that_goes_on_is_said_again_at_the_same_distance() -> None:
    assert [number for number, count in enumerate(bounce(Loops(5), 20)) if count is not None] == [6, 12, 18]


def test_ten_messages_in_one_direction_are_no_loop() -> None:
    loops = Loops(1)
    assert [loops.saw("task-1", "leader", "worker") for _ in range(10)] == [None] * 10


def test_several_messages_in_a_row_count_as_one_bounce() -> None:
    loops = Loops(1)
    heard = [loops.saw("t", *ends) for ends in [("a", "b"), ("a", "b"), ("b", "a"), ("b", "a"), ("a", "b")]]
    assert heard == [None, None, None, None, 2]


def test_each_subject_and_each_pair_is_counted_by_itself() -> None:
    loops = Loops(2)
    for n in range(2):
        assert bounce(loops, 2, f"task-{n}") == [None] * 3
    assert loops.saw("task-0", "leader", "other") is None
    assert loops.saw("task-0", "other", "leader") is None
    assert loops.saw("task-0", "worker", "leader") == 3


def test_talking_to_oneself_is_no_loop() -> None:
    loops = Loops(0)
    assert [loops.saw("t", "a", "a") for _ in range(5)] == [None] * 5
    assert len(loops) == 0


def test_memory_is_bounded_and_the_longest_silent_is_forgotten_first() -> None:
    loops = Loops(1, remember=3)
    loops.saw("old", "a", "b")
    loops.saw("kept", "a", "b")
    loops.saw("old", "b", "a")
    loops.saw("x", "a", "b")
    loops.saw("y", "a", "b")
    assert len(loops) == 3
    assert loops.saw("old", "a", "b") == 2
    assert loops.saw("kept", "b", "a") is None
    assert loops.saw("kept", "a", "b") is None


def test_a_subject_of_a_megabyte_is_not_kept() -> None:
    loops = Loops(5)
    loops.saw("x" * 1_000_000, "a", "b")
    ((subject, _, _),) = loops._seen
    assert len(subject) == 16


@given(st.lists(st.booleans()), st.integers(0, 6))
def test_it_agrees_with_counting_the_changes_of_direction(forth: list[bool], limit: int) -> None:
    loops = Loops(limit)
    heard = [loops.saw("t", "a", "b") if way else loops.saw("t", "b", "a") for way in forth]
    changes = sum(one != other for one, other in itertools.pairwise(forth))
    assert [count for count in heard if count is not None] == [limit + 1] * (changes // (limit + 1))
