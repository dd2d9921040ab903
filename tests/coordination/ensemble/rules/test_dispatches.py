from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.coordination.ensemble.rules import dispatches
from ackd.coordination.ensemble.rules.dispatches import KEEP_OPEN_S, KEEP_S, Dispatch, End, OpenWork

ONE = Dispatch("m1", "worker-1", ("T-1", "worker-1-T-1"), "queue/tasks/worker-1-T-1.yaml", 1000, since=10.0, wall=10.0)
TWO = replace(ONE, message_id="m2", agent="worker-2", names=("T-2",), file="queue/tasks/worker-2.yaml", given_ns=2000)
AGAIN = replace(ONE, message_id="m3", agent="worker-2", file="queue/tasks/worker-2-T-1.yaml", given_ns=3000)


def test_an_ack_means_the_task_of_that_name_the_newest_of_several() -> None:
    assert dispatches.called([ONE, TWO], "T-1") is ONE
    assert dispatches.called([ONE, TWO, AGAIN], "T-1") is AGAIN
    assert dispatches.called([ONE, TWO], "T-3") is None


def test_the_surer_name_counts_more_than_the_later_dispatch() -> None:
    by_file_only = replace(TWO, names=("T-9", "T-1"))
    assert dispatches.called([ONE, by_file_only], "T-1") is ONE


@pytest.mark.parametrize(
    ("names", "sender", "at_ns", "review", "meant"),
    [
        (("T-1",), None, 9000, False, AGAIN),  # the newest
        (("T-1",), "worker-1", 9000, False, ONE),  # the sender's
        (("T-1",), "worker_1", 9000, False, ONE),
        (("T-1",), "worker-3", 9000, False, None),
        (("T-1",), None, 2500, False, ONE),  # older than the other
        (("T-1",), None, 1000, False, None),  # a report from before
        (("x", "T-2"), None, 9000, False, TWO),
        (("T-1",), None, 9000, True, None),  # nobody was asked for a review
        ((), None, 9000, False, None),
    ],
)
def test_a_report_is_about_a_task_that_is_older(
    names: tuple[str, ...], sender: str | None, at_ns: int, review: bool, meant: Dispatch | None
) -> None:
    assert dispatches.reported([ONE, TWO, AGAIN], names, sender, at_ns, review=review) is meant


def test_of_two_the_one_that_owes_its_report_is_meant() -> None:
    assert dispatches.reported([ONE, replace(AGAIN, reported=True)], ["T-1"], None, 9000, review=False) is ONE


def test_a_review_is_the_report_of_who_was_asked_for_it() -> None:
    asked = replace(TWO, names=("T-1",), file="queue/tasks/worker-2-review-T-1.yaml")
    assert dispatches.reported([ONE, asked], ["T-1"], None, 9000, review=True) is asked


def test_a_report_is_overdue_once_and_polled_for_until_it_is_there() -> None:
    assert dispatches.late([ONE], 189.9, 180) == []
    assert dispatches.late([ONE], 190.0, 180) == [ONE]
    overdue = dispatches.changed([ONE], "m1", overdue=True)
    assert dispatches.late(overdue, 500, 180) == []
    assert dispatches.is_polled(overdue)
    assert not dispatches.is_polled(dispatches.changed(overdue, "m1", reported=True))


@pytest.mark.parametrize(("end", "owes"), [(End.NOT_YET, True), (End.COMPLETED, True), (End.GIVEN_UP, False)])
def test_whose_message_was_given_up_owes_no_report(end: End, owes: bool) -> None:
    """A completed message still owes its report: a command may end well and report nothing."""
    assert replace(ONE, end=end).owes_report is owes


def test_the_next_clock_is_the_nearest() -> None:
    work = OpenWork("m1", 1000, since=0.0, wall=0.0)
    later = replace(TWO, since=50.0)
    assert dispatches.next_in([later, ONE], work, 100.0, 180, 1800) == 90.0
    assert dispatches.next_in([replace(ONE, reported=True)], work, 100.0, 180, 1800) == 1700.0
    assert dispatches.next_in([ONE], None, 5000.0, 180, 1800) == 0.0
    assert dispatches.next_in([], replace(work, told=True), 0.0, 180, 1800) is None


def test_the_summary_is_late_once() -> None:
    work = OpenWork("m1", 1000, since=0.0, wall=0.0)
    assert not dispatches.summary_is_late(work, 1799.0, 1800)
    assert dispatches.summary_is_late(work, 1800.0, 1800)
    assert not dispatches.summary_is_late(replace(work, told=True), 9999.0, 1800)
    assert not dispatches.summary_is_late(None, 9999.0, 1800)


def test_another_version_of_a_task_takes_its_place() -> None:
    newer = replace(ONE, message_id="m9")
    assert dispatches.added([ONE, TWO], newer) == (TWO, newer)


def test_what_is_settled_is_forgotten_in_time() -> None:
    settled = replace(TWO, reported=True)
    assert dispatches.kept([ONE, settled], 10.0 + KEEP_S + 1) == (ONE,)
    assert dispatches.kept([ONE, settled], 10.0 + KEEP_OPEN_S + 1) == ()
