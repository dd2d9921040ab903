from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ackd.core.timers import ENGINE, Timer, TimerKind, Timers

K = TimerKind


def test_nothing_started_nothing_due() -> None:
    timers = Timers()
    assert (timers.next(), timers.due(1e9), len(timers)) == (None, [], 0)


def test_due_ones_come_earliest_first_and_once() -> None:
    timers = Timers()
    for owner, at in [(3, 3.0), (1, 1.0), (9, 9.0), (2, 2.0)]:
        timers.start(K.ACK, owner, at)
    assert timers.due(3.0) == [(K.ACK, 1), (K.ACK, 2), (K.ACK, 3)]
    assert timers.due(3.0) == []
    assert timers.next() == 9.0


def test_at_one_moment_the_first_started_comes_first_whatever_its_owner() -> None:
    timers = Timers()
    started: list[Timer] = [(K.ACK, 17), (K.SUMMARY, ENGINE), (K.ACK, 3), (K.PARK, "worker")]
    for kind, owner in started:
        timers.start(kind, owner, 5.0)
    assert timers.due(5.0) == started


def test_starting_again_replaces_in_both_directions() -> None:
    timers = Timers()
    timers.start(K.ACK, 1, 1.0)
    timers.start(K.ACK, 1, 5.0)
    assert (timers.due(4.0), timers.next(), timers.at(K.ACK, 1)) == ([], 5.0, 5.0)
    timers.start(K.ACK, 1, 2.0)
    assert timers.due(2.0) == [(K.ACK, 1)]
    assert (timers.due(10.0), timers.at(K.ACK, 1)) == ([], None)


def test_cancelling_takes_it_away_and_what_does_not_run_is_no_error() -> None:
    timers = Timers()
    timers.start(K.ACK, 1, 1.0)
    timers.cancel(K.ACK, 1)
    timers.cancel(K.ACK, 2)
    assert (timers.next(), timers.due(9.0), (K.ACK, 1) in timers) == (None, [], False)


def test_all_timers_of_one_owner_are_cancelled_together() -> None:
    timers = Timers()
    for kind, owner in [(K.ACK, 1), (K.STATUS, 1), (K.ACK, 2)]:
        timers.start(kind, owner, 1.0)
    timers.cancel_all(1)
    timers.cancel_all(3)
    assert timers.due(9.0) == [(K.ACK, 2)]


def test_a_timer_started_ten_thousand_times_is_kept_once() -> None:
    timers = Timers()
    timers.start(K.STATUS, 1, 0.5)
    for n in range(10_000):
        timers.start(K.ACK, 1, 1.0 + n)
    assert len(timers._heap) < 200
    assert timers.due(20_000.0) == [(K.STATUS, 1), (K.ACK, 1)]


class AgainstADict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.model: dict[Timer, float] = {}

    @rule(kind=st.sampled_from([K.ACK, K.STATUS, K.TASK]), owner=st.integers(0, 10), at=st.integers(0, 100))
    def start(self, kind: TimerKind, owner: int, at: int) -> None:
        self.timers.start(kind, owner, at)
        self.model[kind, owner] = at

    @rule(kind=st.sampled_from([K.ACK, K.STATUS, K.TASK]), owner=st.integers(0, 10))
    def cancel(self, kind: TimerKind, owner: int) -> None:
        self.timers.cancel(kind, owner)
        self.model.pop((kind, owner), None)

    @rule(owner=st.integers(0, 10))
    def cancel_all(self, owner: int) -> None:
        self.timers.cancel_all(owner)
        self.model = {timer: at for timer, at in self.model.items() if timer[1] != owner}

    @rule(now=st.integers(0, 100))
    def fall_due(self, now: int) -> None:
        due = self.timers.due(now)
        assert [self.model[timer] for timer in due] == sorted(at for at in self.model.values() if at <= now)
        for timer in due:
            del self.model[timer]

    @invariant()
    def agrees(self) -> None:
        assert self.timers.next() == min(self.model.values(), default=None)
        assert len(self.timers) == len(self.model)


TestAgainstADict = AgainstADict.TestCase
