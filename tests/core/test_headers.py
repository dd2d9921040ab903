from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from ackd.core import headers
from ackd.core.message import FRESH, Folder, Idled, Place, Status
from ackd.core.state import Delivery
from tests.core.engine_world import START_WALL, make_message


def a_delivery() -> Delivery:
    return Delivery(1, make_message("m1"), Place("worker", Folder.PROCESSED, "x.mime"), "worker", "worker", 0)


def test_seconds_are_written_as_date_does() -> None:
    text = headers.local_seconds(START_WALL + 0.7)
    assert datetime.fromisoformat(text).timestamp() == START_WALL
    assert text[-6] in "+-"


def test_a_retry_keeps_its_time_to_the_millisecond() -> None:
    text = headers.precise(START_WALL + 0.1239)
    assert datetime.fromisoformat(text).timestamp() == pytest.approx(START_WALL + 0.123)


def test_what_is_in_hand_for_the_first_time_has_no_retry_count() -> None:
    names = [name.removeprefix("X-IGNITE-") for name, _ in headers.in_hand(Status.DELIVERED, START_WALL)]
    assert names == ["Status", "Processed-At", "Next-Retry-After", "Seen", "Idle"]


@pytest.mark.parametrize(
    ("idled", "text"),
    [
        (FRESH, None),
        (Idled(reminders=1, idle_s=61.4), "reminders=1 seconds=61"),
        (Idled(2, told=True, idle_s=1800, beside=True), "reminders=2 told=yes seconds=1800 beside=yes"),
        (Idled(stalled=True, beside=True), "beside=yes stalled=yes"),
    ],
)
def test_what_is_kept_of_idleness_is_read_as_it_was_written(idled: Idled, text: str | None) -> None:
    assert headers.idle(idled) == (("X-IGNITE-Idle", text),)
    assert headers.idle_of(text or "") == replace(idled, idle_s=float(int(idled.idle_s)))


@pytest.mark.parametrize("text", ["", "=", "reminders", "reminders=-1 told=maybe", "seconds=9999999999", "x=y=z", "٣"])
def test_what_makes_no_sense_in_it_counts_as_absent(text: str) -> None:
    assert headers.idle_of(text) == FRESH


def test_a_count_that_the_disk_may_have_refused_is_written_with_the_next_status() -> None:
    assert dict(headers.in_hand(Status.DELIVERED, START_WALL, retries=2))["X-IGNITE-Retry-Count"] == "2"


def test_that_it_was_seen_is_said_while_it_is_not_acked() -> None:
    assert dict(headers.in_hand(Status.DELIVERED, START_WALL, seen=True))["X-IGNITE-Seen"] == "yes"
    assert dict(headers.in_hand(Status.ACKED, START_WALL, seen=True))["X-IGNITE-Seen"] is None


def test_a_tombstone_says_why_when_how_often_and_for_whom() -> None:
    delivery = a_delivery()
    delivery.reason, delivery.retries = "exit\nstatus 1", 3
    written = dict(headers.tombstone(delivery, START_WALL))
    assert written["X-IGNITE-Error-Reason"] == "exit status 1"
    assert (written["X-IGNITE-Retry-Count"], written["X-IGNITE-Recipient"]) == ("3", "worker")
    assert written["X-IGNITE-Status"] is None


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\r\nX-Evil: 1", "a  X-Evil: 1"), ("\udc80", "unknown"), ("", "unknown"), ("x" * 900, "x" * 500)],
)
def test_a_newline_in_a_header_value_adds_no_header(text: str, line: str) -> None:
    assert headers.one_line(text) == line
