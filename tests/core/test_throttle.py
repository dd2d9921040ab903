from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.throttle import Hold, Pace, ProgressDisplay, Show, Throttle


def test_the_first_is_shown_at_once() -> None:
    assert Throttle().decide(0.0) == Show()


def test_a_second_within_two_seconds_is_held_until_they_are_over() -> None:
    throttle = Throttle()
    throttle.decide(100.0)
    assert throttle.decide(101.5) == Hold(102.0)
    assert not throttle.due(101.9)
    assert throttle.due(102.0)
    assert not throttle.due(102.0), "what was shown is not shown again"


def test_what_was_held_and_then_shown_counts() -> None:
    throttle = Throttle()
    throttle.decide(0.0)
    throttle.decide(1.0)
    assert throttle.due(2.0)
    assert throttle.decide(3.0) == Hold(4.0)


def test_a_burst_is_held_until_its_first_leaves_the_window() -> None:
    throttle = Throttle(Pace(interval_s=1, burst=3, window_s=10))
    assert [throttle.decide(now) for now in (0.0, 1.0, 2.0)] == [Show(), Show(), Show()]
    assert throttle.decide(3.0) == Hold(10.0)
    assert throttle.decide(10.0) == Show()
    assert throttle.decide(10.5) == Hold(11.0)


def test_final_is_shown_though_the_pace_forbids_it_and_replaces_what_was_held() -> None:
    throttle = Throttle()
    throttle.decide(0.0)
    throttle.decide(0.5)
    assert throttle.decide(0.6, final=True) == Show()
    assert not throttle.due(50.0), "older news after the final word would read as if it went on"


def test_final_leaves_the_pace_alone() -> None:
    throttle = Throttle()
    throttle.decide(0.0, final=True)
    assert throttle.decide(0.1) == Show()


def test_agents_do_not_slow_each_other_down() -> None:
    display: ProgressDisplay[str] = ProgressDisplay()
    assert display.offer("a", "a1", 0.0) == "a1"
    assert display.offer("b", "b1", 0.1) == "b1"
    assert display.offer("a", "a2", 0.2) is None
    assert display.offer("b", "b2", 0.3) is None
    assert display.offer("a", "a3", 0.4) is None
    assert display.due(1.9) == []
    assert display.due(2.0) == ["a3"], "the newest wins"
    assert display.due(2.1) == ["b2"]
    assert display.due(60.0) == []


def test_a_shown_newer_item_is_not_followed_by_the_older_one_that_was_held() -> None:
    display: ProgressDisplay[str] = ProgressDisplay()
    display.offer("a", "1", 0.0)
    display.offer("a", "2", 1.0)
    assert display.offer("a", "3", 5.0) == "3"
    assert display.due(60.0) == []


# Whole milliseconds, so that no assertion is about rounding.
PACES = st.builds(Pace, st.integers(1, 3000), st.integers(1, 6), st.integers(1, 12_000)) | st.just(
    Pace(2000, 5, 10_000)
)
STEPS = st.lists(
    st.tuples(st.integers(0, 4000), st.sampled_from(["news", "news", "news", "final", "look"])), max_size=80
)


@given(PACES, STEPS)
def test_the_limits_hold_over_any_sequence(pace: Pace, steps: list[tuple[int, str]]) -> None:
    display: ProgressDisplay[tuple[int, str]] = ProgressDisplay(pace)
    now, shown, offered = 0, [], []
    for number, (gap, what) in enumerate(steps):
        now += gap
        if what == "look":
            shown += [(now, item) for item in display.due(now)]
            continue
        offered.append((number, what))
        item = display.offer("a", (number, what), now, final=what == "final")
        if item is not None:
            shown.append((now, item))
        if what == "final":
            assert item == (number, what), "final is always shown, at once"
    end = now + int(pace.interval_s + pace.window_s)
    shown += [(end, item) for item in display.due(end)]

    paced = [at for at, (_, what) in shown if what == "news"]
    assert all(later - earlier >= pace.interval_s for earlier, later in pairwise(paced))
    assert all(sum(start <= at < start + pace.window_s for at in paced) <= pace.burst for start in paced)
    assert [item for _, item in shown] == sorted({item for _, item in shown}), "in order, none twice"
    assert not offered or shown[-1][1] == offered[-1], "the newest is shown in the end"


@pytest.mark.parametrize("count", [6, 50])
def test_the_seeds_pace_shows_at_most_five_in_ten_seconds(count: int) -> None:
    throttle = Throttle()
    shown = [
        now for now in (i * 9.99 / count for i in range(count)) if throttle.decide(now) == Show() or throttle.due(now)
    ]
    assert 1 < len(shown) <= 5
