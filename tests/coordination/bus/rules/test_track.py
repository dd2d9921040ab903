"""The state of a track's workers: every cell of the table, waits and their ends."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.bus.rules import track as bus_track
from ackd.coordination.bus.rules.track import DOING, TrackView, Woken, WorkerNews, word_of
from ackd.coordination.bus.rules.words import BusLine, BusType, WorkerDoing, WorkerStatus, WorkerWait

#: The line → the worker's new state, one column for each state before: unknown, running, blocked, complete, failed.
#: Written down apart from the code; ``.`` stands for "as before".
GRID = """
progress          R R R R R
complete          C C C C C
failed            F F F F F
lock              . R R R R
unlock            . R B C F
blocked           B B B B B
board             . . . . .
notice            . . . . .
freed             . . R . .
status_running    R R R R R
status_complete   C C C C C
status_failed     F F F F F
status_blocked    B B B B B
"""
COLUMNS = (None, WorkerDoing.RUNNING, WorkerDoing.BLOCKED, WorkerDoing.COMPLETE, WorkerDoing.FAILED)
LETTERS = {"R": WorkerDoing.RUNNING, "B": WorkerDoing.BLOCKED, "C": WorkerDoing.COMPLETE, "F": WorkerDoing.FAILED}


@pytest.mark.parametrize("row", GRID.strip().splitlines(), ids=lambda row: row.split()[0])
def test_every_cell_of_the_table(row: str) -> None:
    name, *cells = row.split()
    found = [DOING[WorkerNews[name.upper()]][before] for before in COLUMNS]
    assert found == [before if cell == "." else LETTERS[cell] for before, cell in zip(COLUMNS, cells, strict=True)]


def test_the_grid_and_the_table_have_the_same_rows_and_every_type_is_a_word() -> None:
    assert (
        {row.split()[0].upper() for row in GRID.strip().splitlines()}
        == {word.name for word in WorkerNews}
        == {word.name for word in DOING}
    )
    assert {word_of(type_) for type_ in BusType} <= set(WorkerNews)


class TrackUnderTest:
    """A view of a track, and the lines that it reads: each a second after the one before."""

    def __init__(self) -> None:
        self.view = TrackView()
        self.clock = itertools.count(1000)

    def says(self, source: str, type_: str, **payload: Any) -> tuple[Woken, ...]:
        at = next(self.clock)
        if "waiting_for" in payload and isinstance(payload["waiting_for"], str):
            payload["waiting_for"] = [payload["waiting_for"]]
        line = BusLine(at, at + 1, f"m{at}", BusType(type_), source, float(at), payload)
        return self.view.take(line).woken

    def status(self, worker: str, doing: str, task: str | None = None, at: float | None = None) -> bool:
        heartbeat = float(next(self.clock)) if at is None else at
        return self.view.hear_status(WorkerStatus(worker, WorkerDoing(doing), task, heartbeat), heartbeat)

    def doing(self, worker: str) -> str:
        return self.view.workers[worker].doing.value

    def waits(self) -> list[tuple[str, str]]:
        return [(wait.waiter, wait.holder) for wait in self.view.blocked()]


@pytest.fixture
def track() -> TrackUnderTest:
    return TrackUnderTest()


# --- waits ----------------------------------------------------------------------------------------------------------------
def blocked(track: TrackUnderTest, waiting_for: str = "1.2") -> None:
    track.says("b", "PROGRESS", task_id="1.2")
    track.says("a", "BLOCKED", task_id="1.1", waiting_for=waiting_for)


def test_a_task_that_is_waited_for_stands_for_who_holds_it(track: TrackUnderTest) -> None:
    blocked(track)
    assert track.view.blocked() == [WorkerWait("a", "b", "1.2", 1001.0)]
    assert track.waits() == [("a", "b")]


def test_a_worker_may_be_waited_for_by_its_own_name(track: TrackUnderTest) -> None:
    blocked(track, "b")
    assert track.waits() == [("a", "b")]


def test_what_is_waited_for_may_speak_later(track: TrackUnderTest) -> None:
    track.says("a", "BLOCKED", task_id="1.1", waiting_for="1.2")
    assert track.waits() == []
    track.says("b", "PROGRESS", task_id="1.2")
    assert track.waits() == [("a", "b")]


@pytest.mark.parametrize(
    "word",
    [
        ("PROGRESS", {"task_id": "1.1"}),
        ("TASK_COMPLETE", {"task_id": "1.1"}),
        ("TASK_FAILED", {"task_id": "1.1"}),
        ("FILE_LOCK", {"filepath": "a.py"}),
    ],
)
def test_a_word_of_the_blocked_worker_ends_its_wait(track: TrackUnderTest, word: tuple[str, dict[str, Any]]) -> None:
    """A BLOCKED that is over makes no wait ([message-bus] phantom deadlocks)."""
    blocked(track)
    track.says("a", word[0], **word[1])
    assert track.waits() == []
    assert track.view.workers["a"].waits == ()


def test_a_newer_status_ends_it_and_an_older_one_does_not(track: TrackUnderTest) -> None:
    blocked(track)
    assert not track.status("a", "RUNNING", "1.1", at=900.0)
    assert track.waits() == [("a", "b")]
    assert track.status("a", "RUNNING", "1.1")
    assert track.waits() == []
    assert not track.status("a", "RUNNING", "1.1", at=track.view.workers["a"].heard)


@pytest.mark.parametrize(
    ("end", "ended"), [("TASK_COMPLETE", WorkerDoing.COMPLETE), ("TASK_FAILED", WorkerDoing.FAILED)]
)
@pytest.mark.parametrize("waiting_for", ["1.2", "b"])
def test_the_end_of_what_it_waited_for_ends_it_and_wakes_it(
    track: TrackUnderTest, end: str, ended: WorkerDoing, waiting_for: str
) -> None:
    blocked(track, waiting_for)
    assert track.says("b", end, task_id="1.2") == (Woken("a", waiting_for, ended),)
    assert track.doing("a") == "RUNNING"
    assert track.waits() == []


def test_who_waits_for_several_waits_for_all_of_them(track: TrackUnderTest) -> None:
    track.says("b", "PROGRESS", task_id="1.2")
    track.says("c", "PROGRESS", task_id="1.3")
    track.says("a", "BLOCKED", waiting_for=["1.2", "c"])
    assert track.waits() == [("a", "b"), ("a", "c")]
    track.says("b", "TASK_COMPLETE", task_id="1.2")
    assert track.waits() == [("a", "c")]
    assert track.doing("a") == "BLOCKED"
    track.says("c", "TASK_COMPLETE", task_id="1.3")
    assert track.doing("a") == "RUNNING"


def test_who_waits_for_what_has_ended_already_is_told_at_once(track: TrackUnderTest) -> None:
    track.says("b", "TASK_COMPLETE", task_id="1.2")
    assert track.says("a", "BLOCKED", task_id="1.1", waiting_for="1.2") == (Woken("a", "1.2", WorkerDoing.COMPLETE),)
    assert track.says("a", "BLOCKED", task_id="1.1", waiting_for="b") == (Woken("a", "b", WorkerDoing.COMPLETE),)
    assert track.doing("a") == "RUNNING"
    track.says("a", "BLOCKED", task_id="1.1", waiting_for=["1.2", "b"])  # one notice, for all that it waits for
    assert track.says("a", "BLOCKED", task_id="1.1", waiting_for=["1.2", "b"]) == (
        Woken("a", "1.2", WorkerDoing.COMPLETE),
    )


def test_a_released_file_ends_the_wait_for_it(track: TrackUnderTest) -> None:
    blocked(track, "src/a.py")
    assert track.says("b", "FILE_UNLOCK", filepath="src/a.py") == (Woken("a", "src/a.py", None),)
    track.says("a", "BLOCKED", waiting_for="b", resource="src/a.py")
    assert track.says("b", "FILE_UNLOCK", filepath="other") == ()
    assert track.says("b", "FILE_UNLOCK", filepath="src/a.py") == (Woken("a", "src/a.py", None),)
    track.says("a", "BLOCKED", waiting_for="1.2", resource="src/a.py")
    assert track.says("b", "FILE_UNLOCK", filepath="src/a.py") == ()  # the task is not complete
    track.says("a", "BLOCKED", resource="src/b.py")
    assert track.says("c", "FILE_UNLOCK", filepath="src/b.py") == (Woken("a", "src/b.py", None),)


def test_what_ackd_says_of_a_lease_is_no_word_of_its_holder(track: TrackUnderTest) -> None:
    """ackd posts the end of a lease, or a lease given in absence, in the holder's name, and the holder may be dead."""
    track.says("a", "TASK_COMPLETE", task_id="1")
    before = track.view.workers["a"]
    track.says("a", "FILE_LOCK", filepath="f", token=1, said_by="ackd")
    track.says("a", "FILE_UNLOCK", filepath="f", token=1, said_by="ackd")
    track.says("nobody", "FILE_UNLOCK", filepath="f", token=2, said_by="ackd")
    assert track.view.workers == {"a": before}
    track.says("a", "FILE_LOCK", filepath="f", token=3)
    assert track.doing("a") == "RUNNING"
    track.says(
        "a", "BLOCKED", task_id="1", waiting_for="b", said_by="ackd"
    )  # no line about a lease, so it counts as the worker's own
    assert track.doing("a") == "BLOCKED"


def test_who_is_given_the_file_that_it_waited_for_waits_no_longer(track: TrackUnderTest) -> None:
    track.says("b", "PROGRESS", task_id="1")
    track.says("a", "BLOCKED", waiting_for="1", resource="f")
    track.says("a", "FILE_LOCK", filepath="other", token=1, said_by="ackd")
    assert [wait.waiter for wait in track.view.blocked()] == ["a"]
    track.says("a", "FILE_LOCK", filepath="f", token=2, said_by="ackd")
    assert track.view.blocked() == []
    assert track.view.workers["a"].doing is WorkerDoing.RUNNING


def test_who_waits_for_no_task_and_no_worker_may_wait_for_a_file(track: TrackUnderTest) -> None:
    track.says("b", "PROGRESS", task_id="1.2")
    track.says("a", "BLOCKED", resource="f")
    track.says("c", "BLOCKED", waiting_for="1.2", resource="f")
    track.says("d", "BLOCKED", waiting_for="gone", resource="f")
    assert [(wait.waiter, wait.name) for wait in track.view.blocked_by_files()] == [
        ("a", "f"),
        ("d", "gone"),
        ("d", "f"),
    ]


def test_who_waits_for_itself_is_no_circle(track: TrackUnderTest) -> None:
    track.says("a", "PROGRESS", task_id="1.1")
    track.says("a", "BLOCKED", task_id="1.1", waiting_for=["1.1", "a"])
    assert track.waits() == []


def test_a_status_of_blocked_says_no_more_than_it_says(track: TrackUnderTest) -> None:
    track.status("a", "BLOCKED", "1.1")
    assert track.doing("a") == "BLOCKED"
    assert track.waits() == []
    track.view.hear_status(WorkerStatus("a", WorkerDoing.BLOCKED, "1.1", None, None, ("b",)), 5000.0)
    track.says("b", "PROGRESS", task_id="1.2")
    assert track.waits() == [("a", "b")]


# --- unblocks -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["1.1", "a"])
def test_unblocks_may_name_a_task_or_a_worker(track: TrackUnderTest, name: str) -> None:
    track.says("a", "BLOCKED", task_id="1.1", waiting_for="something else")
    assert track.says("b", "TASK_COMPLETE", task_id="1.2", unblocks=[name]) == (Woken("a", name, WorkerDoing.COMPLETE),)
    assert track.doing("a") == "RUNNING"


def test_who_is_freed_twice_by_one_line_is_woken_once(track: TrackUnderTest) -> None:
    blocked(track)
    assert track.says("b", "TASK_COMPLETE", task_id="1.2", unblocks=["1.1", "a"]) == (
        Woken("a", "1.2", WorkerDoing.COMPLETE),
    )


def test_a_name_that_nobody_has_spoken_under_is_woken_by_it(track: TrackUnderTest) -> None:
    assert track.says("b", "TASK_COMPLETE", task_id="1.2", unblocks=["1.9"]) == (
        Woken("1.9", "1.9", WorkerDoing.COMPLETE),
    )


# --- tasks and workers ----------------------------------------------------------------------------------------------------
def test_a_task_belongs_to_who_spoke_of_it_last_and_can_begin_again(track: TrackUnderTest) -> None:
    track.says("a", "PROGRESS", task_id="1.1")
    track.says("a", "TASK_FAILED", task_id="1.1")
    assert track.view.finished()
    track.says("b", "PROGRESS", task_id="1.1")
    assert (track.view.tasks["1.1"].holder, track.view.tasks["1.1"].ended) == ("b", None)
    assert not track.view.finished()


def test_a_status_opens_a_task_and_ends_its_own_and_reopens_none(track: TrackUnderTest) -> None:
    track.status("a", "RUNNING", "1.1")
    assert not track.view.finished()
    track.status("a", "COMPLETE", "1.1")
    assert track.view.finished()
    track.status("a", "RUNNING", "1.1")
    assert track.view.finished()


def test_a_director_is_no_worker(track: TrackUnderTest) -> None:
    track.says("CA", "BOARD_VOTE", director="CA", final_verdict="APPROVE")
    assert track.view.workers == {}


def test_only_who_should_be_at_work_is_quiet(track: TrackUnderTest) -> None:
    track.says("a", "PROGRESS", task_id="1.1")
    track.says("b", "TASK_COMPLETE", task_id="1.2")
    track.says("c", "BLOCKED", task_id="1.3", waiting_for="1.1")
    assert [worker.name for worker in track.view.quiet(9999.0)] == ["a", "c"]
    assert track.view.quiet(1000.0) == []


def test_names_beyond_all_bounds_push_the_oldest_out(track: TrackUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_track, "MAX_NAMES", 3)
    for number in range(5):
        track.says(f"w{number}", "PROGRESS", task_id=f"t{number}")
    assert list(track.view.workers) == ["w2", "w3", "w4"]
    assert list(track.view.tasks) == ["t2", "t3", "t4"]


# --- properties -----------------------------------------------------------------------------------------------------------
names = st.sampled_from(["a", "b", "c", "1", "2", "x.py"])
words = st.tuples(names, st.sampled_from([type_.value for type_ in BusType]), names, st.lists(names, max_size=2))


@given(st.lists(words, max_size=40))
def test_whatever_is_said_waits_are_those_of_blocked_workers_for_workers_at_work(
    said: list[tuple[str, str, str, list[str]]],
) -> None:
    track = TrackUnderTest()
    for source, type_, task, others in said:
        woken = track.says(source, type_, task_id=task, waiting_for=others, unblocks=others, filepath=task)
        assert len({one.worker for one in woken}) == len(woken)
    for wait in track.view.blocked():
        assert wait.waiter != wait.holder
        assert track.view.workers[wait.waiter].doing is WorkerDoing.BLOCKED
        assert track.view.workers[wait.holder].at_work
    for worker in track.view.workers.values():
        assert not worker.waits or worker.doing is WorkerDoing.BLOCKED
        assert worker.since <= worker.heard
