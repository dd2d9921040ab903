"""Making an assignment from a message, and finding the work that a worker's line is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackd.endpoints.process.assignments import Assignments, Work, work_of
from ackd.endpoints.process.wire import Words
from tests.endpoints.process.process_agent import message, tell

FILE, CWD = Path("/root/queue/worker/processed/x.mime"), Path("/project/./tree")


@pytest.mark.parametrize(
    ("body", "spec", "tree", "timeout_s"),
    [
        ({}, str(FILE), "/project/tree", 600),
        ({"spec_path": "/a/spec.md"}, "/a/spec.md", "/project/tree", 600),
        ({"spec_path": "docs/../spec.md"}, "/project/tree/spec.md", "/project/tree", 600),
        ({"worktree_path": "sub"}, str(FILE), "/project/tree/sub", 600),
        ({"timeout_seconds": 90}, str(FILE), "/project/tree", 90),
        ({"timeout_seconds": 0.5}, str(FILE), "/project/tree", 0.5),
        ({"timeout_seconds": 10**12}, str(FILE), "/project/tree", 30 * 86400),
        *(
            ({"timeout_seconds": bad}, str(FILE), "/project/tree", 600)
            for bad in (0, -1, True, "60", float("nan"), None)
        ),
        *(({"spec_path": bad}, str(FILE), "/project/tree", 600) for bad in ("", "a\0b", "x" * 5000, 7, None, ["a"])),
    ],
)
def test_the_body_counts_where_it_says_something_sane(
    body: dict[str, object], spec: str, tree: str, timeout_s: float
) -> None:
    work = work_of(tell(), "T-1", body, FILE, CWD, 600)
    assert (work.spec_path, work.worktree_path, work.timeout_s) == (spec, tree, timeout_s)


# --- work in hand -----------------------------------------------------------------------------------------------------
def work(key: int, task_id: str, attempt: int = 1) -> Work:
    return Work(key, message(key), tell(key).place, attempt, task_id, "/spec", "/tree", 600)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (Words(task_id="T-1"), 1),
        (Words(task_id="T-2", attempt=3, message_id="m2@ignite.local", generation=4), 2),
        (Words(), None),  # about either
        (Words(message_id="m2@ignite.local"), 2),
        (Words(task_id="T-9"), None),
        (Words(task_id="T-1", attempt=2), None),
        (Words(task_id="T-1", message_id="m2@ignite.local"), None),
        (Words(task_id="T-1", generation=3), None),
    ],
)
def test_a_word_is_about_what_it_names(words: Words, key: int | None) -> None:
    hand = Assignments()
    hand.take(work(1, "T-1"))
    hand.take(work(2, "T-2", attempt=3))
    meant = hand.about(words, generation=4)
    assert (meant.key if meant is not None else None) == key


def test_a_word_without_a_name_is_about_the_only_work_there_is() -> None:
    hand = Assignments()
    hand.take(work(1, "T-1"))
    meant = hand.about(Words(), generation=1)
    assert meant is not None
    assert meant.key == 1


def test_two_of_one_task_get_two_names_and_one_told_again_keeps_its() -> None:
    hand = Assignments()
    assert hand.task_id_for(1, message(1)) == "T-1"
    hand.take(work(1, "T-1"))
    assert hand.task_id_for(1, message(1)) == "T-1"
    assert hand.task_id_for(2, message(2)) == "m2@ignite.local"
    assert hand.task_id_for(3, message(3, task_id=None)) == "m3@ignite.local"


async def test_a_clock_that_was_halted_goes_on_with_what_was_left() -> None:
    one = work(1, "T-1")
    one.run_clock(lambda _: None)
    first = one._clock
    one.run_clock(lambda _: None)
    assert one._clock is first
    one.halt_clock()
    assert 599 < one._left_s <= 600
    one.halt_clock()
    assert first is not None
    assert first.cancelled()
