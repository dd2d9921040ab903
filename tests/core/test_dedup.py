from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from ackd.core.dedup import CompletedMessages, Fresh, Repeated, SameIdOtherContent

DAY = 86400.0
T0 = 1_800_000_000.0


def completed_one(at: float = T0) -> CompletedMessages:
    completed = CompletedMessages(DAY)
    completed.remember("m1@host", "leader", "d1", at)
    return completed


def test_what_was_never_completed_is_fresh() -> None:
    assert CompletedMessages(DAY).verdict("m1@host", "leader", "d1", T0) == Fresh()


def test_the_same_message_to_the_same_agent_is_repeated() -> None:
    assert completed_one().verdict("m1@host", "leader", "d1", T0 + 5) == Repeated()


def test_the_same_message_to_another_agent_is_fresh() -> None:
    assert completed_one().verdict("m1@host", "coordinator", "d1", T0 + 5) == Fresh()


def test_a_copied_id_with_other_content_is_told_apart() -> None:
    assert completed_one().verdict("m1@host", "leader", "d2", T0 + 5) == SameIdOtherContent()


def test_both_contents_under_one_id_are_remembered() -> None:
    completed = completed_one()
    completed.remember("m1@host", "leader", "d2", T0 + 1)
    assert completed.verdict("m1@host", "leader", "d1", T0 + 5) == Repeated()
    assert completed.verdict("m1@host", "leader", "d2", T0 + 5) == Repeated()
    assert completed.verdict("m1@host", "leader", "d3", T0 + 5) == SameIdOtherContent()


def test_a_lone_surrogate_in_an_id_is_an_id_like_any_other() -> None:
    completed = CompletedMessages(DAY)
    completed.remember("\ud800", "leader", "d", T0)
    assert completed.verdict("\ud800", "leader", "d", T0) == Repeated()


def test_it_is_remembered_for_the_window_and_forgotten_a_slice_after() -> None:
    assert completed_one().verdict("m1@host", "leader", "d1", T0 + DAY) == Repeated()
    assert completed_one().verdict("m1@host", "leader", "d1", T0 + DAY + DAY / 24 + 1) == Fresh()


def test_a_clock_set_back_does_not_make_it_forget() -> None:
    completed = completed_one()
    assert completed.verdict("m1@host", "leader", "d1", T0 - 365 * DAY) == Repeated()
    assert completed.verdict("m1@host", "leader", "d1", T0 - 364 * DAY) == Repeated()


def test_nor_does_a_clock_set_back_and_right_again() -> None:
    completed = completed_one()
    assert completed.verdict("m1@host", "leader", "d1", T0 - DAY / 2) == Repeated()
    assert completed.verdict("m1@host", "leader", "d1", T0 + DAY - 1) == Repeated()


def test_a_clock_set_back_does_not_make_it_remember_for_ever() -> None:
    completed = completed_one()
    completed.verdict("m1@host", "leader", "d1", T0 - 365 * DAY)
    assert completed.verdict("m1@host", "leader", "d1", T0 - 365 * DAY + 2.1 * DAY) == Fresh()


def test_what_completes_after_the_clock_was_set_back_is_remembered_for_the_window_too() -> None:
    completed = completed_one()
    back = T0 - 30 * DAY
    completed.verdict("x", "leader", "d", back)
    completed.remember("m2@host", "leader", "d", back + 60)
    assert completed.verdict("m2@host", "leader", "d", back + 60 + DAY - 1) == Repeated()
    assert completed.verdict("m2@host", "leader", "d", back + 60 + 2.2 * DAY) == Fresh()


def test_a_record_from_the_future_drives_nothing_else_out() -> None:
    completed = completed_one()
    completed.remember("m2@host", "leader", "d", T0 + 1000 * DAY)
    assert completed.verdict("m1@host", "leader", "d1", T0 + 1) == Repeated()
    assert completed.verdict("m2@host", "leader", "d", T0 + 3.1 * DAY) == Fresh()


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 5 * DAY)), max_size=40), st.floats(0, 5 * DAY))
def test_with_a_clock_that_only_grows_it_agrees_with_a_plain_list(
    entries: list[tuple[int, float]], later: float
) -> None:
    completed = CompletedMessages(DAY)
    ordered = sorted(entries, key=lambda entry: entry[1])
    for number, at in ordered:
        completed.remember(f"m{number}", "a", "d", at)
    now = max([at for _, at in ordered], default=0.0) + later
    for number in range(10):
        ages = [now - at for n, at in ordered if n == number]
        verdict = completed.verdict(f"m{number}", "a", "d", now)
        if any(age <= DAY for age in ages):
            assert verdict == Repeated()
        if all(age > DAY * 25 / 24 for age in ages):
            assert verdict == Fresh()


def test_memory_is_bounded_by_the_window() -> None:
    completed = CompletedMessages(DAY)
    for step in range(10_000):
        at = T0 + step * DAY / 1000
        completed.verdict(f"m{step}", "a", "d", at)
        completed.remember(f"m{step}", "a", "d", at)
    assert 1000 <= len(completed) <= 1100
    assert len(completed._slices) <= 27


def test_an_entry_costs_little_memory() -> None:
    completed = CompletedMessages(DAY)
    for step in range(20_000):
        completed.remember(f"message-{step}@host", "a", "d" * 64, T0)
    (only,) = completed._slices
    containers = sys.getsizeof(only.ids) + sys.getsizeof(only.contents)
    numbers = sum(map(sys.getsizeof, only.ids)) + sum(map(sys.getsizeof, only.contents))
    assert (containers + numbers) / 20_000 < 300
