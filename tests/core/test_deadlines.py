from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ackd.core.deadlines import Deadlines


def test_nothing_armed_nothing_due() -> None:
    deadlines: Deadlines[str] = Deadlines()
    assert (deadlines.next(), deadlines.due(1e9), len(deadlines)) == (None, [], 0)


def test_due_ones_come_earliest_first_and_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, at in [("c", 3.0), ("a", 1.0), ("later", 9.0), ("b", 2.0)]:
        deadlines.arm(key, at)
    assert deadlines.due(3.0) == ["a", "b", "c"]
    assert deadlines.due(3.0) == []
    assert deadlines.next() == 9.0


def test_at_one_moment_the_first_armed_comes_first() -> None:
    deadlines: Deadlines[tuple[str, int | None]] = Deadlines()
    keys: list[tuple[str, int | None]] = [("ack", 17), ("ack", None), ("busy", 3)]
    for key in keys:
        deadlines.arm(key, 5.0)
    assert deadlines.due(5.0) == keys


def test_arming_again_replaces_in_both_directions() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.arm("a", 1.0)
    deadlines.arm("a", 5.0)
    assert (deadlines.due(4.0), deadlines.next()) == ([], 5.0)
    deadlines.arm("a", 2.0)
    assert deadlines.due(2.0) == ["a"]
    assert deadlines.due(10.0) == []


def test_disarming_takes_it_away_and_a_stranger_is_nothing() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.arm("a", 1.0)
    deadlines.disarm("a")
    deadlines.disarm("b")
    assert (deadlines.next(), deadlines.due(9.0), "a" in deadlines) == (None, [], False)


def test_a_key_armed_ten_thousand_times_is_kept_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.arm("other", 0.5)
    for n in range(10_000):
        deadlines.arm("a", 1.0 + n)
    assert len(deadlines._heap) < 200
    assert deadlines.due(20_000.0) == ["other", "a"]


class AgainstADict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.deadlines: Deadlines[int] = Deadlines()
        self.model: dict[int, float] = {}

    @rule(key=st.integers(0, 30), at=st.integers(0, 100))
    def arm(self, key: int, at: int) -> None:
        self.deadlines.arm(key, at)
        self.model[key] = at

    @rule(key=st.integers(0, 30))
    def disarm(self, key: int) -> None:
        self.deadlines.disarm(key)
        self.model.pop(key, None)

    @rule(now=st.integers(0, 100))
    def fall_due(self, now: int) -> None:
        due = self.deadlines.due(now)
        assert [self.model[key] for key in due] == sorted(at for at in self.model.values() if at <= now)
        for key in due:
            del self.model[key]

    @invariant()
    def agrees(self) -> None:
        assert self.deadlines.next() == min(self.model.values(), default=None)
        assert len(self.deadlines) == len(self.model)


TestAgainstADict = AgainstADict.TestCase
