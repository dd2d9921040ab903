"""Steps and checkpoints of a task, and the moments when it may be handed over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.worker import Cancelled, HandOver, Task

if TYPE_CHECKING:
    from pathlib import Path


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def say(self, kind: str, payload: dict[str, object], **fields: object) -> None:
        self.heard.append((kind, {**fields, "payload": payload}))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [said for what, said in self.heard if what == kind]


def a_task(checkpoint: object = None, **payload: object) -> tuple[Task, Listener]:
    line = {
        "task_id": "t1",
        "spec_path": "/team/t.mime",
        "worktree_path": "/team",
        "timeout_seconds": 60,
        "payload": {"message_id": "1.2@x", "attempt": 1, "generation": 1, **payload},
    }
    if checkpoint is not None:
        line["payload"]["checkpoint"] = checkpoint  # type: ignore[index]
    listener = Listener()
    return Task(line, listener), listener


# --- steps ------------------------------------------------------------------------------------------------------------
def test_the_steps_that_are_done_are_not_given_again() -> None:
    task, _ = a_task({"current_step": 2})
    assert list(task.steps("abcd")) == ["c", "d"]
    assert task.step == 4


def test_steps_of_several_loops_are_counted_together() -> None:
    task, _ = a_task({"current_step": 3})
    assert list(task.steps("ab")) == []
    assert list(task.steps(["c", "d"])) == ["d"]


def test_a_step_that_is_left_is_not_done() -> None:
    task, _ = a_task()
    for step in task.steps("abc"):
        if step == "b":
            break
    assert task.step == 1


def test_a_step_may_be_anything_and_is_called_by_its_text() -> None:
    task, listener = a_task()
    assert list(task.steps([1, (2, 3)])) == [1, (2, 3)]
    assert [said["description"] for said in listener.of("progress")] == ["1", "(2, 3)", "2 of 2 steps done"]


def test_steps_within_a_step_are_refused() -> None:
    task, _ = a_task()
    for _ in task.steps("a"):
        with pytest.raises(ValueError, match="within a step"):
            list(task.steps("b"))


def test_no_total_is_below_what_is_done() -> None:
    task, listener = a_task({"current_step": 5})
    assert list(task.steps("ab")) == []
    assert [(said["step"], said["total_steps"]) for said in listener.of("progress")] == [(5, 5)]


# --- handing over ---------------------------------------------------------------------------------------------------
def test_a_context_below_the_threshold_changes_nothing() -> None:
    task, listener = a_task(context_threshold=0.5)
    for _ in task.steps("abc"):
        task.context(0.49)
    assert listener.of("context_threshold") == []
    assert {said["context_usage"] for said in listener.of("heartbeat")} == {0.49}


@pytest.mark.parametrize("usage", [-0.1, 1.1, 70, math.nan, math.inf])
def test_a_usage_that_is_no_share_is_refused(usage: float) -> None:
    task, listener = a_task()
    with pytest.raises(ValueError, match="no share"):
        task.context(usage)
    assert listener.heard == []


def test_after_the_last_step_there_is_nothing_to_hand_over() -> None:
    task, listener = a_task()
    for step in task.steps("ab"):
        if step == "b":
            task.context(0.9)
    assert listener.of("context_threshold") == []


def test_work_that_counts_for_itself_is_handed_over_where_it_reports() -> None:
    task, listener = a_task()
    task.progress("begins", total_steps=9)
    task.context(0.8)
    task.progress("nothing is done yet, so nothing is handed over")
    task.checkpoint["page"] = 7
    with pytest.raises(HandOver):
        task.progress("seven pages read", step=7)
    (said,) = listener.of("context_threshold")
    assert (said["payload"]["current_step"], said["payload"]["data"]) == (7, {"page": 7})
    with pytest.raises(HandOver):
        task.progress("goes on all the same")
    assert len(listener.of("context_threshold")) == 1


def test_progress_within_a_step_never_stops_it() -> None:
    task, _ = a_task()
    done = []
    with pytest.raises(HandOver):
        for step in task.steps("abc"):
            task.context(0.9)
            task.progress("half of it")
            done.append(step)
    assert done == ["a"]


def test_who_is_asked_to_stop_does_so_even_if_nothing_is_done() -> None:
    task, listener = a_task({"current_step": 1, "data": {"k": 1}})
    task.ask_to_stop()
    with pytest.raises(HandOver):
        list(task.steps("abc"))
    (said,) = listener.of("context_threshold")
    assert (said["payload"]["current_step"], said["payload"]["data"]) == (1, {"k": 1})


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_whatever_the_context_does_every_step_runs_once_and_in_order(usages: list[float]) -> None:
    done: list[int] = []
    checkpoint: object = None
    for _ in range(len(usages) + 1):
        task, listener = a_task(checkpoint)
        try:
            for step in task.steps(range(len(usages))):
                done.append(step)
                task.checkpoint["sum"] = task.checkpoint.get("sum", 0) + step
                task.context(usages[step])
            break
        except HandOver:
            checkpoint = listener.of("context_threshold")[0]["payload"]
    assert done == list(range(len(usages)))
    assert task.checkpoint["sum"] == sum(done)


# --- checkpoints on the way -----------------------------------------------------------------------------------------
def test_progress_brings_the_checkpoint_when_it_changed_and_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ackd.worker.task.time.monotonic", lambda: now)
    task, listener = a_task()
    for step in task.steps("abcd"):
        now += {"a": 0.0, "b": 0.1, "c": 2.0, "d": 2.0}[step]
    brought = [said["payload"].get("checkpoint", {}).get("current_step") for said in listener.of("progress")]
    assert brought == [None, 1, None, 3, 4]


def positions(listener: Listener) -> list[int]:
    found = [said["payload"].get("checkpoint") for said in listener.of("progress")]
    return [checkpoint["current_step"] for checkpoint in found if checkpoint is not None]


def test_a_position_that_was_held_back_is_sent_when_its_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ackd.worker.task.time.monotonic", lambda: now)
    task, listener = a_task()
    for step in task.steps("abc"):
        if step == "c":  # which takes long
            task.checkpoint["half"] = "done"
            task.catch_up()
            assert positions(listener) == [1], "too soon"
            now += 1.0
            task.catch_up()
            task.catch_up()
            assert positions(listener) == [1, 2]
            assert listener.of("progress")[-1]["payload"]["checkpoint"]["data"] == {}, "that of the steps that are done"
            assert listener.of("progress")[-1]["step"] == 2


def test_who_is_asked_to_stop_says_at_once_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.worker.task.time.monotonic", lambda: 100.0)
    task, listener = a_task()
    with pytest.raises(HandOver):
        for step in task.steps("abcd"):
            if step == "c":
                task.ask_to_stop()
                assert positions(listener) == [1, 2]
    assert [said["payload"]["current_step"] for said in listener.of("context_threshold")] == [3]


def test_who_is_asked_to_stop_in_the_last_step_says_that_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.worker.task.time.monotonic", lambda: 100.0)
    task, listener = a_task()
    for step in task.steps("ab"):
        if step == "b":
            task.ask_to_stop()
    assert positions(listener) == [1, 2]


def test_nothing_is_caught_up_with_after_the_last_line() -> None:
    task, listener = a_task()
    for step in task.steps("abc"):
        if step == "c":
            task.drop_held_back()
            task.catch_up(at_once=True)
    assert 2 not in positions(listener)


def test_a_failure_brings_where_to_go_on_if_anything_is_done() -> None:
    task, _ = a_task()
    assert task.checkpoint_for_a_retry() is None
    task.checkpoint["k"] = math.nan
    assert task.checkpoint_for_a_retry() is None
    task.checkpoint["k"] = 1
    assert task.checkpoint_for_a_retry() == task.where_it_stands()


@pytest.mark.parametrize("nonsense", ["text", 7, [], {"data": 1, "current_step": True, "files_created": [1, "a"]}])
def test_what_makes_no_sense_in_a_checkpoint_counts_as_absent(nonsense: object) -> None:
    task, _ = a_task(nonsense)
    assert (task.step, task.checkpoint) == (0, {})
    assert task.files_created in ([], ["a"])


@pytest.mark.parametrize("step", [-1, -7])
def test_a_count_is_no_less_than_nothing(step: int) -> None:
    with pytest.raises(ValueError, match="steps"):
        a_task()[0].progress("x", step=step)


# --- the message ------------------------------------------------------------------------------------------------------
def test_the_body_is_the_message_without_its_header_or_all_of_another_file(tmp_path: Path) -> None:
    task, _ = a_task()
    task.spec_path = tmp_path / "m.mime"
    task.spec_path.write_text("From: a\nTo: b\n\ncontent: x\n\ny: z\n")
    assert task.body == "content: x\n\ny: z\n"
    task.spec_path = tmp_path / "spec.md"
    task.spec_path.write_text("# Spec\n\ntext\n")
    assert task.body == "# Spec\n\ntext\n"


def test_an_assign_of_few_words_is_a_task_too() -> None:
    bare = {"task_id": "t", "spec_path": "/s", "worktree_path": "/w", "timeout_seconds": 1}
    task = Task(bare, Listener())
    assert (task.key, task.attempt, task.echo()) == ("t", None, {})


def test_a_cancelled_task_stops_before_its_next_step() -> None:
    task, _ = a_task()
    done = []
    with pytest.raises(Cancelled):
        for step in task.steps("ab"):
            done.append(step)
            task.cancel()
    assert (done, task.is_cancelled) == (["a"], True)


def test_work_that_counts_its_own_steps_stops_at_its_next_progress() -> None:
    task, _ = a_task()
    task.cancel()
    with pytest.raises(Cancelled):
        task.progress("half way")
