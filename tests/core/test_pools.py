"""The two rules of a pool, every cell: who is given a message, and what goes back."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.availability import AgentState
from ackd.core.message import Priority
from ackd.core.pools import (
    NO_LABELS,
    SERVING,
    Candidate,
    Kept,
    PoolLineup,
    Setback,
    Wish,
    after_setback,
    choose,
    is_served,
    may_take,
)

FREE = Candidate("w1", AgentState.AVAILABLE)
GPU = frozenset({"gpu"})
BIG_GPU = frozenset({"gpu", "big"})
ANY = Wish()


@pytest.mark.parametrize("state", list(AgentState))
@pytest.mark.parametrize("has_room", [True, False])
@pytest.mark.parametrize("own_mail_waits", [True, False])
@pytest.mark.parametrize(("needs", "labels"), [*product([NO_LABELS, GPU, BIG_GPU], [NO_LABELS, GPU, BIG_GPU])])
def test_who_may_be_given_a_message(
    state: AgentState, has_room: bool, own_mail_waits: bool, needs: frozenset[str], labels: frozenset[str]
) -> None:
    member = Candidate("w1", state, labels, has_room=has_room, own_mail_waits=own_mail_waits)
    can = {(NO_LABELS, NO_LABELS), (NO_LABELS, GPU), (NO_LABELS, BIG_GPU), (GPU, GPU), (GPU, BIG_GPU)}
    can.add((BIG_GPU, BIG_GPU))
    free = state is AgentState.AVAILABLE and has_room and not own_mail_waits
    assert may_take(member, Wish(needs)) is (free and (needs, labels) in can)
    assert choose([member], Wish(needs)) == ("w1" if may_take(member, Wish(needs)) else None)
    assert is_served([member], needs) is (state in (AgentState.AVAILABLE, AgentState.BUSY) and (needs, labels) in can)


#: Pairs of members, the better one first, and why.
BETTER = [
    (Wish(had_by=("w2",)), replace(FREE, in_hand=3), replace(FREE, name="w2"), "it has not had the message"),
    (Wish(prefers=GPU), replace(FREE, labels=GPU, in_hand=3), replace(FREE, name="w2"), "it has the label"),
    (Wish(prefers=BIG_GPU), replace(FREE, labels=BIG_GPU), replace(FREE, name="w0", labels=GPU), "it has more labels"),
    (ANY, replace(FREE, in_hand=1, free_since=9), replace(FREE, name="w2", in_hand=2, free_since=1), "less in hand"),
    (ANY, replace(FREE, free_since=1), replace(FREE, name="w0", free_since=2), "it has waited longer"),
    (ANY, FREE, replace(FREE, name="w2"), "all else is equal: by name"),
    (ANY, replace(FREE, in_hand=5), replace(FREE, name="w2", state=AgentState.PARKED), "the other is parked"),
]


@pytest.mark.parametrize(("wish", "better", "other", "_why"), BETTER)
def test_which_of_two_is_given_it(wish: Wish, better: Candidate, other: Candidate, _why: str) -> None:
    assert choose([better, other], wish) == choose([other, better], wish) == better.name


def test_one_that_gave_it_back_is_given_it_again_if_nobody_else_may_take_it() -> None:
    busy = replace(FREE, name="w2", state=AgentState.BUSY)
    assert choose([FREE, busy], Wish(had_by=("w1",))) == "w1"


def test_nobody_may_take_what_no_member_is_free_for() -> None:
    assert choose([], ANY) is None
    assert choose([replace(FREE, has_room=False)], ANY) is None


LABELS = st.frozensets(st.sampled_from(["gpu", "big", "eu"]))
MEMBERS = st.lists(
    st.builds(
        Candidate,
        name=st.sampled_from(["a", "b", "c", "d"]),
        state=st.sampled_from(AgentState),
        labels=LABELS,
        has_room=st.booleans(),
        own_mail_waits=st.booleans(),
        in_hand=st.integers(0, 3),
        free_since=st.sampled_from([0.0, 1.0, 2.0]),
    ),
    unique_by=lambda member: member.name,
    max_size=4,
)
WISHES = st.builds(Wish, LABELS, LABELS, st.lists(st.sampled_from(["a", "b"])).map(tuple))


@given(MEMBERS, WISHES)
def test_the_choice_depends_on_no_order_and_takes_somebody_whenever_somebody_may(
    members: list[Candidate], wish: Wish
) -> None:
    chosen = {choose(one, wish) for one in permutations(members)}
    assert len(chosen) == 1
    assert (chosen != {None}) is any(may_take(member, wish) for member in members)


#: setback, resumes, serves, ackd stops → kept
HAND_BACKS = """
failed   no   yes  no   goes back
failed   no   no   no   goes back
failed   yes  yes  no   goes back
failed   yes  no   no   goes back
died     no   yes  no   goes back
died     no   no   no   goes back
died     yes  yes  no   stays
died     yes  no   no   stays
away     no   yes  no   goes back
away     no   no   no   goes back
away     yes  yes  no   goes back
away     yes  no   no   goes back
stopped  no   yes  no   stays
stopped  no   no   no   goes back
stopped  yes  yes  no   stays
stopped  yes  no   no   goes back
"""


def rows() -> list[tuple[Setback, bool, bool, bool, Kept]]:
    found = []
    for line in HAND_BACKS.strip().splitlines():
        setback, resumes, serves, stops, kept = line.split(maxsplit=4)
        found.append((Setback(setback), resumes == "yes", serves == "yes", stops == "yes", Kept(kept)))
    every = product(Setback, (True, False), (True, False))
    return found + [(one, resumes, serves, True, Kept.STAYS) for one, resumes, serves in every]


@pytest.mark.parametrize(("setback", "resumes", "serves", "stops", "kept"), rows())
def test_what_goes_back(setback: Setback, resumes: bool, serves: bool, stops: bool, kept: Kept) -> None:
    assert after_setback(setback, resumes=resumes, serves=serves, ackd_stops=stops) is kept


def test_the_table_of_hand_backs_has_every_row() -> None:
    assert len({row[:4] for row in rows()}) == len(Setback) * 8


def test_those_who_are_busy_serve() -> None:
    assert {AgentState.AVAILABLE, AgentState.BUSY} == SERVING


# --- the line ---------------------------------------------------------------------------------------------------------
def lined_up(*entries: tuple[int, frozenset[str], Priority]) -> PoolLineup:
    line = PoolLineup(300)
    for key, needs, priority in entries:
        line.add_for(needs, key, priority, float(key), f"{key}.mime")
    return line


def test_the_most_urgent_of_each_set_of_needs_is_looked_at_in_the_order_of_urgency() -> None:
    line = lined_up(
        (1, GPU, Priority.NORMAL), (2, NO_LABELS, Priority.CRITICAL), (3, NO_LABELS, Priority.CRITICAL),
        (4, BIG_GPU, Priority.HIGH),
    )  # fmt: skip
    assert list(line.heads()) == [2, 4, 1]
    assert dict(line.needs()) == {GPU: 1, NO_LABELS: 2, BIG_GPU: 1}
    assert line.has_needs


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6), LABELS, st.sampled_from(Priority)), max_size=40))
def test_the_line_by_needs_has_what_the_whole_line_has(
    steps: list[tuple[bool, int, frozenset[str], Priority]],
) -> None:
    line, there = PoolLineup(300), dict[int, tuple[frozenset[str], Priority]]()
    for added, key, needs, priority in steps:
        if added:
            line.add_for(needs, key, priority, float(key), f"{key}.mime")
            there[key] = needs, priority
        else:
            line.discard(key)
            there.pop(key, None)
    assert set(line.keys()) == set(there)
    assert sum(number for _, number in line.needs()) == len(there)
    order = line.in_order()
    firsts = [next(key for key in order if there[key][0] == needs) for needs in {one for one, _ in there.values()}]
    assert list(line.heads()) == sorted(firsts, key=order.index)
