"""Rounds of a subject, which are told of, and chains of answers, which are held."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.loops import HELD_AT_TIMES, MOST_HOPS, WITHIN_S, Chains, Loop, Loops

PAIR = ("leader", "worker")
CIRCLES = [PAIR, ("a", "b", "c"), ("a", "b", "c", "d", "e")]


def hops(circle: tuple[str, ...], rounds: int) -> list[tuple[str, str]]:
    return list(itertools.pairwise([*itertools.islice(itertools.cycle(circle), rounds * len(circle) + 1)]))


def told(loops: Loops, way: list[tuple[str, str]], about: str = "task-1") -> list[Loop]:
    return [loop for hop in way if (loop := loops.saw(about, *hop)) is not None]


# --- subjects -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("circle", CIRCLES)
def test_a_round_is_once_around_the_circle_and_the_one_beyond_the_limit_is_told(circle: tuple[str, ...]) -> None:
    assert told(Loops(5), hops(circle, 5)) == []
    assert told(Loops(5), hops(circle, 6)) == [Loop(circle, 6)]


def test_a_loop_that_goes_on_is_said_again_at_the_same_distance() -> None:
    assert told(Loops(5), hops(PAIR, 20)) == [Loop(PAIR, 6)] * 3


def test_ten_messages_in_one_direction_are_no_loop() -> None:
    assert told(Loops(1), [PAIR] * 10) == []


def test_a_leader_that_gives_each_worker_one_task_makes_no_loop() -> None:
    way = [hop for n in range(60) for hop in (("leader", f"w{n}"), (f"w{n}", "leader"))]
    assert told(Loops(5), way) == []
    together = [("leader", f"w{n}") for n in range(60)] + [(f"w{n}", "leader") for n in range(60)]
    assert told(Loops(5), together) == []


def test_others_who_speak_in_between_hide_no_loop() -> None:
    way = [hop for there_or_back in hops(PAIR, 6) for hop in (there_or_back, ("x", "y"))]
    assert told(Loops(5), way) == [Loop(PAIR, 6)]


def test_each_subject_and_each_circle_is_counted_by_itself() -> None:
    loops = Loops(2)
    assert told(loops, hops(PAIR, 2), "one") + told(loops, hops(PAIR, 2), "other") == []
    assert told(loops, hops(("leader", "other"), 2), "one") == []
    assert told(loops, hops(PAIR, 1), "one") == [Loop(PAIR, 3)]


def test_talking_to_oneself_is_no_loop() -> None:
    loops = Loops(0)
    assert told(loops, [("a", "a")] * 5) == []
    assert len(loops) == 0


def test_memory_is_bounded_and_the_longest_silent_is_forgotten_first() -> None:
    loops = Loops(1, remember=3)
    for about in ("old", "kept", "old", "x", "y"):
        loops.saw(about, *PAIR)
    assert len(loops) == 3
    assert told(loops, [PAIR[::-1], *hops(PAIR, 1)], "old") == [Loop(PAIR, 2)]
    assert told(loops, [PAIR[::-1], *hops(PAIR, 1)], "kept") == []


def test_a_subject_of_a_megabyte_or_with_a_thousand_agents_is_kept_small() -> None:
    loops = Loops(5)
    loops.saw("x" * 1_000_000, "a", "b")
    told(loops, [(f"a{n}", f"a{n + 1}") for n in range(1000)])
    assert all(len(key) == 16 and len(subject.open) <= MOST_HOPS for key, subject in loops._seen.items())


@given(st.lists(st.booleans()), st.integers(1, 6))
def test_between_two_no_more_rounds_are_counted_than_messages_came_back(forth: list[bool], limit: int) -> None:
    heard = told(Loops(limit), [PAIR if way else PAIR[::-1] for way in forth])
    pairs = min(sum(forth), len(forth) - sum(forth))
    assert len(heard) <= pairs // (limit + 1)
    alternating = told(Loops(limit), hops(PAIR, len(forth)))
    assert len(alternating) == len(forth) // (limit + 1)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"))), st.integers(1, 3))
def test_whatever_is_sent_a_loop_is_a_circle_of_hops_that_were_made(way: list[tuple[str, str]], limit: int) -> None:
    for loop in told(Loops(limit), way):
        assert loop.rounds == limit + 1
        for hop in zip(loop.members, (*loop.members[1:], loop.members[0]), strict=True):
            assert way.count(hop) >= loop.rounds


# --- chains -------------------------------------------------------------------------------------------------------------
def chained(chains: Chains, way: list[tuple[str, str]], *, every_s: float = 1.0, begin: int = 0) -> list[int]:
    """Send messages that each answer the one before; return the numbers of those that are held."""
    return [
        number
        for number, hop in enumerate(way, begin)
        if number and chains.saw(f"m{number}", f"m{number - 1}", *hop, number * every_s) is not None
    ]


@pytest.mark.parametrize("circle", CIRCLES)
def test_ten_times_the_limit_within_an_hour_hold_the_chain(circle: tuple[str, ...]) -> None:
    limit, size = 2, len(circle)
    rounds = limit * HELD_AT_TIMES
    way = hops(circle, rounds + 1)[: rounds * size + 1]  # the first is no answer
    assert chained(Chains(limit), way[:-1]) == []
    assert chained(Chains(limit), way) == [rounds * size]


def test_a_chain_that_was_let_go_is_held_again_after_as_many_rounds_more() -> None:
    assert chained(Chains(1), hops(PAIR, 30)) == [20, 40]


def test_a_slow_chain_is_never_held() -> None:
    rounds, slow_s = 100, WITHIN_S / (2 * HELD_AT_TIMES - 3)
    assert chained(Chains(1), hops(PAIR, rounds), every_s=slow_s) == []
    assert chained(Chains(1), hops(PAIR, rounds), every_s=WITHIN_S / (2 * HELD_AT_TIMES)) != []


def test_what_does_not_answer_the_one_before_is_no_chain() -> None:
    """A leader has 60 tasks and their answers: each answer answers its own task."""
    chains = Chains(1)
    for number in range(60):
        assert chains.saw(f"answer-{number}", f"task-{number}", "worker", "leader", float(number)) is None


def test_a_message_that_is_answered_twice_makes_two_chains_of_one_past() -> None:
    chains, way = Chains(1), hops(PAIR, 12)
    assert chained(chains, way[:19]) == []
    assert chains.saw("m19", "m18", *way[19], 19.0) is None
    assert chains.saw("other", "m18", *way[19], 19.5) is None
    assert chains.saw("m20", "m19", *way[20], 20.0) is not None
    assert chains.saw("more", "other", *way[20], 20.5) is not None


def test_chains_that_nobody_goes_on_with_are_forgotten() -> None:
    chains = Chains(1, remember=5)
    for number in range(100):
        chains.saw(f"a{number}", f"q{number}", "worker", "leader", 0.0)
    assert len(chains) == 5
