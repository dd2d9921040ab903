"""The times of a message: wall time in a header, monotonic from the moment it is met."""

from __future__ import annotations

from ackd.core import due_times
from ackd.core.events import Now
from tests.core.engine_world import make_message

SENT = 1_800_000_000.0


def due(now: Now, *, written_at: float = SENT) -> due_times.DueTimes:
    message = make_message("m1", expires_at=SENT + 100, deadline_at=SENT + 1000)
    found = due_times.due_times(message, written_at, now)
    assert found is not None
    return found


def test_a_message_without_times_has_none() -> None:
    assert due_times.due_times(make_message("m1"), SENT, Now(5, SENT)) is None


def test_wall_time_becomes_monotonic_when_the_message_is_met() -> None:
    found = due(Now(50, SENT + 10))
    assert (found.expires, found.deadline, found.nearly_due) == (140, 1040, 840)


def test_what_is_past_is_due_at_once() -> None:
    found = due(Now(50, SENT + 5000))
    assert found.expires is not None
    assert found.expires < 50


def test_a_clock_that_was_set_back_makes_no_time_longer_than_its_sender_meant() -> None:
    found = due(Now(50, SENT - 86_400))
    assert (found.expires, found.deadline) == (150, 1050)


def test_a_file_that_is_newer_than_its_times_is_believed() -> None:
    found = due(Now(50, SENT + 2000), written_at=SENT + 1500)
    assert (found.expires, found.deadline, found.nearly_due) == (50 - 1900, 50 - 1000, 50 - 1000)
