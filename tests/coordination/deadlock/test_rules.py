from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.bus.rules.words import WorkerWait
from ackd.coordination.deadlock.rules import MOST, Cycle, find_cycles, lasts

if TYPE_CHECKING:
    from random import Random

NAMES = [f"w{number}" for number in range(7)]
GRAPHS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(0, 50)), max_size=24)


def waits(*pairs: str, since: float = 0.0) -> list[WorkerWait]:
    """Make waits from words: ``a>b`` is "a waits for b". Each begins a second after the one before."""
    ends = [pair.split(">") for pair in pairs]
    return [WorkerWait(waiter, holder, f"{holder}.py", since + n) for n, (waiter, holder) in enumerate(ends)]


def members(*pairs: str) -> list[tuple[str, ...]]:
    return [cycle.members for cycle in find_cycles(waits(*pairs))]


def canonical(nodes: list[str]) -> tuple[str, ...]:
    at = nodes.index(min(nodes))
    return (*nodes[at:], *nodes[:at])


# --- against a reference
@given(GRAPHS)
def test_every_cycle_is_found_once_as_networkx_finds_them(edges: list[tuple[str, str, int]]) -> None:
    graph = nx.DiGraph([(waiter, holder) for waiter, holder, _ in edges])
    expected = sorted(canonical(nodes) for nodes in nx.simple_cycles(graph))
    found = find_cycles(
        [WorkerWait(waiter, holder, "x", since) for waiter, holder, since in edges], most=len(expected) + 1
    )
    assert [cycle.members for cycle in found] == expected


@given(GRAPHS, st.randoms(use_true_random=False))
def test_a_cycle_is_one_value_in_whatever_order_the_waits_come(edges: list[tuple[str, str, int]], rng: Random) -> None:
    given_so = [WorkerWait(waiter, holder, "x", since) for waiter, holder, since in edges]
    other = list(given_so)
    rng.shuffle(other)
    assert find_cycles(given_so, most=10_000) == find_cycles(other, most=10_000)


@given(GRAPHS)
def test_what_is_said_of_a_cycle_is_true_of_its_waits(edges: list[tuple[str, str, int]]) -> None:
    given_so = [WorkerWait(waiter, holder, "x", since) for waiter, holder, since in edges]
    for cycle in find_cycles(given_so):
        assert all(wait in given_so for wait in cycle.waits)
        assert [wait.holder for wait in cycle.waits] == [*cycle.members[1:], cycle.members[0]]
        assert cycle.closed_at == max(wait.since for wait in cycle.waits) == cycle.youngest.since
        assert lasts(cycle.members, given_so)
        for gone in cycle.waits:
            rest = [wait for wait in given_so if (wait.waiter, wait.holder) != (gone.waiter, gone.holder)]
            assert not lasts(cycle.members, rest)


# --- by hand
def test_two_who_wait_for_each_other_are_a_cycle_and_a_chain_is_none() -> None:
    assert members("a>b", "b>c", "c>d") == []
    assert members("b>a", "a>b") == [("a", "b")]
    assert members("c>a", "a>b", "b>c") == [("a", "b", "c")]
    assert members() == []


def test_who_waits_for_itself_waits_for_ever() -> None:
    assert members("a>a", "a>b") == [("a",)]


def test_the_other_way_round_is_another_cycle() -> None:
    assert members("a>b", "b>c", "c>a", "a>c", "c>b", "b>a") == [
        ("a", "b"), ("a", "b", "c"), ("a", "c"), ("a", "c", "b"), ("b", "c"),
    ]  # fmt: skip


def test_a_lease_that_several_share_is_waited_for_from_each_of_them() -> None:
    """a waits for b and c, who share a file; only c waits for a."""
    assert members("a>b", "a>c", "c>a", "b>d") == [("a", "c")]


def test_a_released_lease_breaks_the_cycle_and_a_historic_wait_is_none() -> None:
    circle = waits("a>b", "b>a")
    assert find_cycles(circle)
    assert lasts(("a", "b"), circle)
    for gone in circle:
        left = [wait for wait in circle if wait != gone]
        assert find_cycles(left) == []
        assert not lasts(("a", "b"), left)


def test_the_youngest_is_whose_wait_began_last() -> None:
    (cycle,) = find_cycles(waits("b>c", "c>a", "a>b", since=100.0))
    assert (cycle.youngest.waiter, cycle.closed_at) == ("a", 102.0)
    (tied,) = find_cycles([WorkerWait("a", "b", "x", 5.0), WorkerWait("b", "a", "y", 5.0)])
    assert tied.youngest.waiter == "b"


def test_of_several_waits_for_one_holder_the_oldest_stands_for_them() -> None:
    """A second file wanted from the same holder neither makes a new circle nor changes who waited last."""
    circle = [WorkerWait("a", "b", "x", 1.0), WorkerWait("b", "a", "y", 2.0), WorkerWait("a", "b", "z", 9.0)]
    assert find_cycles(circle) == [Cycle((circle[0], circle[1]))]


def test_a_circle_longer_than_a_call_stack_is_found() -> None:
    names = [f"w{number:05}" for number in range(5000)]
    ring = [WorkerWait(a, b, "x", 0.0) for a, b in itertools.pairwise([*names, names[0]])]
    (cycle,) = find_cycles(ring)
    assert cycle.members == tuple(names)


def test_a_bus_full_of_made_up_names_costs_no_more_than_the_most() -> None:
    names = [f"w{number:02}" for number in range(40)]
    everyone = [WorkerWait(a, b, "x", 0.0) for a in names for b in names if a != b]
    found = find_cycles(everyone)
    assert len(found) == MOST
    assert found == find_cycles(reversed(everyone)), "and always the same ones"
