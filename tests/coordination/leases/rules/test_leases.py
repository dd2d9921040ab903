"""The rules of leases: a test for each sentence, then random sequences beside a naive model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ackd.coordination.leases.rules import leases
from ackd.coordination.leases.rules.words import (
    BY_HAND,
    BY_LINE,
    EMPTY,
    Ask,
    Broken,
    Change,
    Denied,
    Earlier,
    Granted,
    Lease,
    LeaseTable,
    LeaseWoken,
    LeftLine,
    Queued,
    Released,
    Waiter,
    Why,
)

if TYPE_CHECKING:
    from ackd.coordination.leases.rules.words import Happening

P = "src/a.py"
T0 = 1_000_000.0


def ask(agent: str, *, shared: bool = False, wait: float | None = None, ticket: str = "", ttl_s: float = 100.0) -> Ask:
    return Ask(agent, shared, ttl_s, None if wait is None else T0 + wait, ticket)


def after(*asks: Ask, now: float = T0) -> LeaseTable:
    table = EMPTY
    for one in asks:
        table = leases.acquire(table, P, one, now).table
    return table


def kinds(change: Change) -> list[type[Happening]]:
    return [type(one) for one in change.happened]


def holders(table: LeaseTable) -> list[str]:
    return [lease.agent for lease in table.held.get(P, ())]


def line(table: LeaseTable) -> list[str]:
    return [waiter.agent for waiter in table.waiting.get(P, ())]


# --- granting -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("held", "waiting", "asked", "gets"),
    [
        ("", "", "w", True),
        ("", "", "r", True),
        ("w", "", "w", False),
        ("w", "", "r", False),
        ("r", "", "w", False),
        ("r", "", "r", True),
        ("rr", "", "r", True),
        ("r", "w", "r", False),  # a reader does not starve the writer who waits
        ("r", "w", "w", False),
        ("w", "r", "r", False),
        ("w", "w", "w", False),
    ],
)
def test_one_writes_or_several_read_and_nobody_overtakes(held: str, waiting: str, asked: str, gets: bool) -> None:
    table = after(*(ask(f"h{n}", shared=kind == "r") for n, kind in enumerate(held)))
    for number, kind in enumerate(waiting):
        table = leases.acquire(table, P, ask(f"q{number}", shared=kind == "r", wait=50, ticket=f"t{number}"), T0).table
    change = leases.acquire(table, P, ask("new", shared=asked == "r"), T0)
    assert ("new" in holders(change.table)) == gets
    if not gets:
        assert kinds(change) == [Denied]
        assert change.table is table


def test_a_denial_says_who_and_until_when() -> None:
    (denied,) = leases.acquire(after(ask("a")), P, ask("b"), T0 + 1).happened
    assert denied == Denied(P, (Lease("a", False, 1, T0, T0 + 100, 100.0),), ())


def test_who_holds_it_may_ask_again_for_longer_with_the_same_token() -> None:
    change = leases.acquire(after(ask("a")), P, ask("a", ttl_s=500), T0 + 10)
    assert change.happened == (Granted(P, Lease("a", False, 1, T0, T0 + 510, 500), again=True),)
    shorter = leases.acquire(change.table, P, ask("a", ttl_s=1), T0 + 11)
    assert shorter.table.held[P][0].expires_at == T0 + 510
    assert kinds(leases.acquire(after(ask("a")), P, ask("a", shared=True), T0)) == [Granted]


def test_a_reader_becomes_the_writer_when_it_is_alone_and_before_those_who_wait() -> None:
    table = after(ask("a", shared=True), ask("b", shared=True), ask("c", wait=50, ticket="c"))
    assert kinds(leases.acquire(table, P, ask("a"), T0)) == [Denied]
    table = leases.acquire(table, P, ask("a", wait=50, ticket="a"), T0).table
    change = leases.release(table, "b", T0, P)
    assert LeaseWoken(P, table.waiting[P][1]) in change.happened  # a, though c came first
    change = leases.acquire(change.table, P, ask("a", wait=50, ticket="a"), T0)
    assert [(one.agent, one.shared, one.token) for one in change.table.held[P]] == [("a", False, 3)]
    assert line(change.table) == ["c"]


# --- time ---------------------------------------------------------------------------------------------------------------
def test_a_lease_that_is_over_is_anybodys() -> None:
    table = after(ask("a", ttl_s=10))
    assert kinds(leases.acquire(table, P, ask("b"), T0 + 9.9)) == [Denied]
    change = leases.acquire(table, P, ask("b"), T0 + 10)
    assert [type(one) for one in change.happened] == [Released, Granted]
    assert change.table.held[P][0].token == 2


def test_a_lease_that_is_over_is_not_renewed() -> None:
    change = leases.renew(after(ask("a", ttl_s=10)), "a", T0 + 11)
    assert change.happened == (Released(P, Lease("a", False, 1, T0, T0 + 10, 10), Why.EXPIRED),)


def test_renewing_keeps_each_for_as_long_as_it_was_asked_for() -> None:
    table = after(ask("a", ttl_s=10))
    assert leases.renew(table, "a", T0 + 5).table.held[P][0].expires_at == T0 + 15
    assert leases.renew(table, "a", T0 + 5, since=T0 + 2).table.held[P][0].expires_at == T0 + 12
    assert leases.renew(table, "a", T0 + 5, ttl_s=60).table.held[P][0].expires_at == T0 + 65
    assert leases.renew(table, "a", T0 + 5, since=T0 - 20).table is table
    assert leases.renew(table, "b", T0 + 5).table is table


def test_renewing_a_readers_lease_leaves_its_wish_to_write_in_line() -> None:
    table = after(ask("a", shared=True), ask("b", shared=True), ask("a", wait=50))
    assert line(leases.renew(table, "a", T0 + 5).table) == ["a"]


def test_waiters_give_up_when_their_time_is_over() -> None:
    table = after(ask("a"), ask("b", wait=20, ticket="b"), ask("c", wait=60, ticket="c"))
    change = leases.expire(table, T0 + 20)
    assert line(change.table) == ["c"]
    assert [(type(one), one.why) for one in change.happened if isinstance(one, LeftLine)] == [(LeftLine, Why.EXPIRED)]


def test_the_first_end_is_known() -> None:
    assert leases.next_end(EMPTY) is None
    assert leases.next_end(after(ask("a", ttl_s=30), ask("b", wait=20))) == T0 + 20


# --- the line -----------------------------------------------------------------------------------------------------------
def test_whoever_came_first_is_woken_and_nobody_gets_it_before() -> None:
    table = after(ask("a"), ask("b", wait=50, ticket="b"), ask("c", wait=50, ticket="c"))
    change = leases.release(table, "a", T0, P)
    assert [one.waiter.agent for one in change.happened if isinstance(one, LeaseWoken)] == ["b"]
    assert kinds(leases.acquire(change.table, P, ask("d"), T0))[0] is Denied
    assert Queued in kinds(leases.acquire(change.table, P, ask("c", wait=50, ticket="c"), T0))
    taken = leases.acquire(change.table, P, ask("b", wait=50, ticket="b"), T0)
    assert (holders(taken.table), line(taken.table)) == (["b"], ["c"])


def test_all_readers_at_the_head_of_the_line_are_woken_together() -> None:
    readers = [ask(name, shared=True, wait=50, ticket=name) for name in "bc"]
    table = after(ask("a"), *readers, ask("d", wait=50, ticket="d"), ask("e", shared=True, wait=50, ticket="e"))
    change = leases.release(table, "a", T0, P)
    assert [one.waiter.agent for one in change.happened if isinstance(one, LeaseWoken)] == ["b", "c"]


def test_who_waits_without_a_process_is_given_it_in_its_absence() -> None:
    table = after(ask("a"), ask("b", wait=50), ask("c", wait=50))
    change = leases.release(table, "a", T0, P)
    assert (holders(change.table), line(change.table)) == (["b"], ["c"])
    (granted,) = [one for one in change.happened if isinstance(one, Granted)]
    assert (granted.lease.by, granted.waited) == (BY_LINE, table.waiting[P][0])


def test_asking_again_keeps_the_place_in_line() -> None:
    table = after(ask("a"), ask("b", wait=50), ask("c", wait=50))
    again = leases.acquire(table, P, ask("b", wait=70), T0 + 1)
    assert again.table is table
    assert again.happened == (Queued(P, table.waiting[P][0], ("a",)),)


def test_a_process_that_died_waits_and_holds_no_more() -> None:
    bound = Ask("a", ticket="ta", bound=True)
    table = after(bound, ask("b", wait=50, ticket="tb"), ask("c", wait=50, ticket="tc"))
    change = leases.acquire(table, P, ask("c", wait=50, ticket="tc"), T0, dead=frozenset({"ta", "tb"}))
    assert (holders(change.table), line(change.table)) == (["c"], [])
    assert [one.why for one in change.happened if isinstance(one, Released | LeftLine)] == [Why.DIED, Why.DIED]


def test_what_an_agent_asks_for_apart_does_not_end_with_its_process() -> None:
    table = after(Ask("a", ticket="t", bound=True), ask("a"))
    assert leases.expire(table, T0, dead=frozenset({"t"})).table is table


def test_leaving_the_line_lets_the_next_one_go_on() -> None:
    table = after(ask("a", shared=True), ask("b", wait=50, ticket="tb"), ask("c", shared=True, wait=50, ticket="tc"))
    change = leases.leave(table, P, "tb", T0)
    assert [one.waiter.agent for one in change.happened if isinstance(one, LeaseWoken)] == ["c"]


# --- letting go ---------------------------------------------------------------------------------------------------------
def test_only_what_is_ones_own_is_released() -> None:
    table = after(ask("a"))
    assert leases.release(table, "b", T0, P).table is table
    assert leases.release(table, "a", T0, "other").table is table
    assert leases.release(table, "a", T0, P, token=2).table is table
    assert leases.release(table, "a", T0, P, had=Earlier(T0 - 1)).table is table
    assert leases.release(table, "a", T0, P, token=1).table.held == {}


def test_what_somebody_had_is_known_by_the_clock_or_for_certain() -> None:
    table = after(ask("a"), ask("b", wait=50))
    assert leases.release(table, "a", T0, had=Earlier(T0 - 1, tokens=frozenset({7}))).table is table
    assert leases.release(table, "b", T0, had=Earlier(T0 - 1, places=frozenset({("other", "b")}))).table is table
    assert leases.release(table, "b", T0, had=Earlier(T0 - 1, places=frozenset({(P, "b")}))).table.waiting == {}
    assert holders(leases.release(table, "a", T0, had=Earlier(T0 - 1, tokens=frozenset({1}))).table) == ["b"]


def test_all_of_an_agent_is_released_at_once_with_its_places_in_line() -> None:
    table = after(ask("a"), ask("b", wait=50))
    table = leases.acquire(table, "other", ask("a"), T0).table
    table = leases.acquire(table, "other", ask("b", wait=50, ticket="t"), T0).table
    change = leases.release(table, "a", T0, why=Why.ENDED)
    assert {one.path: one.why for one in change.happened if isinstance(one, Released)} == dict.fromkeys(
        [P, "other"], Why.ENDED
    )
    assert line(leases.release(after(ask("a"), ask("b", wait=50)), "b", T0).table) == []


# --- by hand ------------------------------------------------------------------------------------------------------------
def test_what_came_by_hand_gets_a_token_of_its_own() -> None:
    table = LeaseTable({P: (Lease("a", False, 0, T0, T0 + 5),), "q": (Lease("b", False, 9, T0, T0 + 5),)}, {}, 9)
    change = leases.adopt(table, T0)
    assert (change.table.held[P][0].token, change.table.held[P][0].by, change.table.token) == (10, BY_HAND, 10)
    assert leases.adopt(change.table, T0).table is change.table


@pytest.mark.parametrize(
    ("by", "now", "kind"),
    [(BY_HAND, T0 + 1, Broken), ("", T0 + 1, Released), (BY_HAND, T0 + 100, Released)],
)
def test_a_hand_that_takes_a_living_lease_breaks_it(by: str, now: float, kind: type) -> None:
    old, new = Lease("a", False, 1, T0, T0 + 50), Lease("b", False, 2, now, now + 50, by=by)
    gone, came = leases.differences({P: (old,)}, {P: (new,)}, now)
    assert (type(gone), came) == (kind, Granted(P, new))


def test_what_did_not_change_is_no_news() -> None:
    held = {P: (Lease("a", False, 1, T0, T0 + 50),)}
    longer = {P: (Lease("a", False, 1, T0, T0 + 90),)}
    assert list(leases.differences(held, longer, T0)) == []
    assert [type(one) for one in leases.differences(held, {}, T0 + 60)] == [Released]


# --- at random ----------------------------------------------------------------------------------------------------------
AGENTS = ("a", "b", "c", "d")
PATHS = ("p", "q")


class Leasing(RuleBasedStateMachine):
    """Random requests, with the properties that must hold after each of them.

    The model is no second set of rules. It only knows who has a lease according to the answers, and the order in which
    others were told to wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table, self.now = EMPTY, T0
        self.given = 0  # the highest token
        self.owners: dict[tuple[str, str], Lease] = {}
        self.tickets: dict[str, tuple[str, Ask]] = {}
        self.dead: set[str] = set()
        self.number = 0

    def _apply(self, change: Change) -> Change:
        before, self.table = self.table, change.table
        left = {(one.path, one.waiter) for one in change.happened if isinstance(one, LeftLine)}
        for one in change.happened:
            match one:
                case Granted(path, lease, again):
                    if not again:
                        assert lease.token > self.given, "a token that does not grow"
                        self.given = lease.token
                        self._was_in_turn(before, path, lease, left)
                    self.owners[path, lease.agent] = lease
                case Released(path, lease, why):
                    assert self.owners.pop((path, lease.agent)).token == lease.token
                    assert (why is Why.EXPIRED) <= (lease.expires_at <= self.now)
                case LeftLine(_, waiter, why):
                    assert (why is Why.DIED) <= (waiter.ticket in self.dead)
                    self.tickets.pop(waiter.ticket, None)
        return change

    def _was_in_turn(self, before: LeaseTable, path: str, lease: Lease, left: set[tuple[str, Waiter]]) -> None:
        """Assert that this lease overtook no living waiter that it excludes. Only holders that ask for more may."""
        if (path, lease.agent) in self.owners:  # a holder that asks for more goes first, even if it became one just now
            return
        line = [one for one in before.waiting.get(path, ()) if (path, one) not in left]
        mine = next(
            (n for n, one in enumerate(line) if (one.agent, one.shared) == (lease.agent, lease.shared)), len(line)
        )
        for one in line[:mine]:
            hindered = not (one.shared and lease.shared) and one.agent != lease.agent
            holds = any(has.agent == one.agent for has in before.held.get(path, ()))
            if hindered and one.until > self.now and one.ticket not in self.dead and not holds:
                # The waiter may have got its own lease in the same step, before this one.
                assert (path, one.agent) in self.owners, f"{lease.agent} overtook {one.agent}"

    @rule(agent=st.sampled_from(AGENTS), path=st.sampled_from(PATHS), shared=st.booleans(), ttl_s=st.integers(1, 30))
    def ask(self, agent: str, path: str, shared: bool, ttl_s: int) -> None:
        self._apply(leases.acquire(self.table, path, Ask(agent, shared, ttl_s), self.now, frozenset(self.dead)))

    @rule(
        agent=st.sampled_from(AGENTS),
        path=st.sampled_from(PATHS),
        shared=st.booleans(),
        wait=st.integers(1, 60),
        process=st.booleans(),
        bound=st.booleans(),
    )
    def stand_in_line(self, agent: str, path: str, shared: bool, wait: int, process: bool, bound: bool) -> None:
        self.number += 1
        ticket = f"t{self.number}" if process else ""
        ask = Ask(agent, shared, 10, self.now + wait, ticket, bound and process)
        change = self._apply(leases.acquire(self.table, path, ask, self.now, frozenset(self.dead)))
        if process and any(isinstance(one, Queued) for one in change.happened):
            self.tickets[ticket] = (path, ask)

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def a_waiting_process_asks_again(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.tickets)))
        path, ask = self.tickets[ticket]
        if ticket in self.dead:
            return
        change = self._apply(leases.acquire(self.table, path, ask, self.now, frozenset(self.dead)))
        if any(isinstance(one, Granted) and one.lease.agent == ask.agent for one in change.happened):
            self.tickets.pop(ticket, None)

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def a_process_dies(self, data: st.DataObject) -> None:
        self.dead.add(data.draw(st.sampled_from(sorted(self.tickets))))

    @rule(agent=st.sampled_from(AGENTS), path=st.sampled_from((*PATHS, None)))
    def let_go(self, agent: str, path: str | None) -> None:
        self._apply(leases.release(self.table, agent, self.now, path, dead=frozenset(self.dead)))

    @rule(agent=st.sampled_from(AGENTS), path=st.sampled_from((*PATHS, None)))
    def renew(self, agent: str, path: str | None) -> None:
        self._apply(leases.renew(self.table, agent, self.now, path, dead=frozenset(self.dead)))

    @rule(seconds=st.integers(1, 20))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def expire(self) -> None:
        self._apply(leases.expire(self.table, self.now, frozenset(self.dead)))
        for path, held in self.table.held.items():
            assert all(lease.expires_at > self.now for lease in held), path

    @invariant()
    def one_writes_or_several_read(self) -> None:
        for held in self.table.held.values():
            assert held
            assert len({lease.agent for lease in held}) == len(held)
            assert len(held) == 1 or all(lease.shared for lease in held)

    @invariant()
    def who_was_given_it_has_it(self) -> None:
        has = {(path, lease.agent): lease.token for path, held in self.table.held.items() for lease in held}
        assert has == {key: lease.token for key, lease in self.owners.items()}

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        """After expired leases are cleared, the first waiter for each free path is woken."""
        change = leases.expire(self.table, self.now, frozenset(self.dead))
        woken = {(one.path, one.waiter) for one in change.happened if isinstance(one, LeaseWoken)}
        for path, line in change.table.waiting.items():
            if path not in change.table.held:
                assert (path, line[0]) in woken

    def teardown(self) -> None:
        """Assert that nobody starves: if all holders let go, everyone in line gets a turn."""
        for _ in range(200):
            if not self.table.waiting:
                return
            for agent in {lease.agent for held in self.table.held.values() for lease in held}:
                self._apply(leases.release(self.table, agent, self.now, dead=frozenset(self.dead)))
            change = self._apply(leases.expire(self.table, self.now, frozenset(self.dead)))
            for one in change.happened:
                if isinstance(one, LeaseWoken):
                    again = Ask(one.waiter.agent, one.waiter.shared, 10, one.waiter.until, one.waiter.ticket)
                    self._apply(leases.acquire(self.table, one.path, again, self.now, frozenset(self.dead)))
        assert not self.table.waiting, self.table


TestLeasing = Leasing.TestCase
EXAMPLES = int(os.environ.get("ACKD_HYPOTHESIS_EXAMPLES", "60"))
TestLeasing.settings = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
