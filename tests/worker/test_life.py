"""The life of a worker as a real child: the work, its lines, and its end."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from ackd.core.worker import WorkerState
from ackd.endpoints.process.wire import Blocked, Completed, ContextThreshold, Failed, Heartbeat, Progressed, checkpoint
from tests.worker.children import HANGS, HANGS_ASYNC, child

if TYPE_CHECKING:
    from pathlib import Path

STEPS = """
def work(task):
    for step in task.steps(["a", "b", "c", "d"]):
        note(step)
        task.checkpoint["last"] = step
        task.files_created.append(f"{step}.py")
        if step == "b":
            until()
"""


# --- working ----------------------------------------------------------------------------------------------------------
def test_it_says_that_it_is_up_before_anything_is_asked(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): pass") as worker:
        first = worker.hear(Heartbeat)
        assert (first.worker_id, first.task_id, first.state) == ("ignitian_1", None, WorkerState.IDLE)
        assert (first.context_usage, first.naive_time) == (0.0, False)


def test_a_plain_function_is_called_for_each_task(tmp_path: Path) -> None:
    script = """
def work(task):
    assert str(task.worktree_path) == os.getcwd()
    note("/".join([task.task_id, task.sender, task.message_type, task.body.split()[-1]]))
    task.files_created.append("a.py")
    task.files_modified.append(task.spec_path)
    return "whatever"
"""
    with child(tmp_path, script) as worker:
        for task_id in ("task_1", "task_2"):
            worker.assign(task_id)
            taken = worker.hear(Heartbeat, task_id=task_id)
            assert (taken.message_id, taken.attempt, taken.generation) == (f"{task_id}@ignite.local", 1, 1)
            done = worker.hear(Completed, task_id=task_id)
            assert (done.verification_passed, done.attempt, done.generation) == (True, 1, 1)
            assert (done.files_created, done.files_modified) == (("a.py",), (str(tmp_path / "task.mime"),))
        assert worker.done() == ["task_1/user/task_assignment/hello", "task_2/user/task_assignment/hello"]


def test_an_async_function_is_awaited_and_its_loop_outlives_the_task(tmp_path: Path) -> None:
    script = """
import asyncio
loops = set()
async def work(task):
    loops.add(id(asyncio.get_running_loop()))
    for step in task.steps(["a", "b"]):
        await asyncio.sleep(0)
    task.checkpoint["loops"] = len(loops)
    task.progress("counted")
"""
    with child(tmp_path, script) as worker:
        for task_id in ("task_1", "task_2"):
            worker.assign(task_id)
            worker.hear(Completed, task_id=task_id)
        worker.shut_down()
        kept = [one.checkpoint for one in worker.hear_out() if isinstance(one, Progressed) and one.checkpoint]
        assert worker.ended() == 0
        assert all(json.loads(one.json)["data"].get("loops", 1) == 1 for one in kept)
        assert worker.stderr() == ""


def test_steps_and_progress_are_reported(tmp_path: Path) -> None:
    script = """
def work(task):
    for step in task.steps(["read", "write"]):
        if step == "write":
            task.progress("half of it")
    task.verifying()
    task.verified(passed=False, output="1 failed")
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        done = worker.hear(Completed)
        reports = [(one.step, one.total_steps, one.description) for one in worker.said if isinstance(one, Progressed)]
        assert reports[:4] == [(0, 2, "read"), (1, 2, "write"), (1, 2, "half of it"), (2, 2, "2 of 2 steps done")]
        states = [one.state for one in worker.said if isinstance(one, Heartbeat | Progressed)]
        assert WorkerState.VERIFYING in states
        assert (done.verification_passed, done.verification_output) == (False, "1 failed")


def test_an_exception_is_a_failure_that_can_be_tried_again_and_the_next_task_is_done(tmp_path: Path) -> None:
    script = """
def work(task):
    for step in task.steps(["a", "b"]):
        if step == "b" and task.attempt == 1:
            raise OSError("no such branch")
        note(step)
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        failed = worker.hear(Failed)
        assert (failed.error, failed.recoverable) == ("OSError: no such branch", True)
        assert failed.checkpoint is not None
        assert failed.checkpoint.step == 1
        assert "Traceback" in worker.stderr()
        worker.assign(attempt=2, checkpoint=failed.checkpoint)
        worker.hear(Completed, attempt=2)
        assert worker.done() == ["a", "b"]


def test_what_was_not_verified_is_begun_anew_by_the_next_try(tmp_path: Path) -> None:
    script = """
def work(task):
    for step in task.steps("ab"):
        note(step)
    task.verified(passed=task.attempt == 2)
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        assert not worker.hear(Completed).verification_passed
        kept = [one.checkpoint for one in worker.said if isinstance(one, Progressed) and one.checkpoint]
        worker.assign(attempt=2, checkpoint=kept[-1])
        assert worker.hear(Completed).verification_passed
        assert worker.done() == [*"abab"]


def test_a_refusal_is_for_good(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): raise Refuse('not my repository')") as worker:
        worker.assign()
        failed = worker.hear(Failed)
        assert (failed.error, failed.recoverable, failed.checkpoint) == ("not my repository", False, None)
        assert worker.stderr() == ""


def test_who_is_blocked_says_by_whom_and_goes_on_when_it_can(tmp_path: Path) -> None:
    script = """
def work(task):
    task.blocked("waits for the schema", by="task_0")
    task.beat()
    task.progress("goes on", step=1, total_steps=2)
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        said = worker.hear(Blocked)
        assert (said.task_id, said.reason, said.blocker) == ("task_1", "waits for the schema", "task_0")
        assert worker.hear(Heartbeat, state=WorkerState.BLOCKED).task_id == "task_1"
        assert worker.hear(Progressed).state is WorkerState.EXECUTING
        worker.hear(Completed)


# --- what the work does to its own process ----------------------------------------------------------------------------
def test_a_checkpoint_that_cannot_be_written_down_fails_the_task_by_name(tmp_path: Path) -> None:
    script = """
def work(task):
    for step in task.steps(["a", "b"]):
        task.checkpoint["bad"] = {"a set"}
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        failed = worker.hear(Failed)
        assert failed.error.startswith("TypeError: ")
        assert failed.checkpoint is None
        worker.check()
        worker.hear(Heartbeat, task_id=None)


def test_who_ends_itself_in_the_middle_of_work_says_so_first(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): sys.exit(3)") as worker:
        worker.assign()
        assert worker.hear(Failed).error == "its worker ended itself: exit 3"
        assert worker.ended() == 3


# --- signs of life ----------------------------------------------------------------------------------------------------
def test_a_status_check_is_answered_in_the_middle_of_work(tmp_path: Path) -> None:
    with child(tmp_path, HANGS) as worker:
        worker.assign()
        worker.hear(Heartbeat, state=WorkerState.EXECUTING)
        worker.check()
        assert worker.hear(Heartbeat).task_id == "task_1"


def test_hearts_beat_by_themselves(tmp_path: Path) -> None:
    with child(tmp_path, HANGS, run="run(work, heartbeat_s=0.02, idle_heartbeat_s=0.02)") as worker:
        for _ in range(3):
            worker.hear(Heartbeat, state=WorkerState.IDLE)
        worker.assign()
        for _ in range(3):
            worker.hear(Heartbeat, state=WorkerState.EXECUTING, task_id="task_1")
        assert all(isinstance(one, Heartbeat) for one in worker.said)


def test_nobody_answers_for_a_step_that_takes_too_long(tmp_path: Path) -> None:
    script = """
def work(task):
    for step in task.steps(["quick", "hangs"]):
        until("go" if step == "quick" else "never")
"""
    with child(tmp_path, script, run="run(work, heartbeat_s=0.02, patience_s=0.5)") as worker:
        worker.assign()
        worker.hear(Heartbeat, current_step="quick")
        worker.go()
        worker.hear(Heartbeat, current_step="hangs")
        worker.hear_a_silence(1.0)
        worker.check()
        worker.hear_a_silence(1.0)
        worker.process.send_signal(signal.SIGINT)
        worker.hear(Failed)
        worker.check()
        worker.hear(Heartbeat, task_id=None)


def test_a_line_that_cannot_be_understood_is_noted_and_the_next_is_heard(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): pass") as worker:
        for line in (
            b"{\n",
            b"[]\n",
            b"7\n",
            b"\n",
            b'{"type":"assign"}\n',
            b'{"type":"sing"}\n',
            b'{"no":1}\n',
            b"\xff\n",
        ):
            worker.tell(line)
        worker.tell(b'{"type":"error","payload":{"code":"not_json"}}\n{"type":"ack","payload":{"of":"complete"}}\n')
        worker.assign()
        worker.hear(Completed)
        assert worker.stderr().count("ackd.worker: ") == 9


# --- told again -------------------------------------------------------------------------------------------------------
def test_an_assign_that_is_repeated_is_answered_and_not_begun_twice(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): note('begun'); until()") as worker:
        worker.assign()
        worker.hear(Heartbeat, state=WorkerState.EXECUTING)
        worker.assign(attempt=2)
        worker.hear(Heartbeat, attempt=2)
        worker.go()
        worker.hear(Completed, attempt=2)
        worker.shut_down()
        assert not any(isinstance(one, Completed) for one in worker.hear_out()[worker._heard :])
        assert worker.done() == ["begun"]


def test_asked_again_about_what_has_ended_it_says_its_last_word_again(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): note('begun'); task.files_created.append('a')") as worker:
        for _ in range(3):
            worker.assign()
            assert worker.hear(Completed).files_created == ("a",)
        assert worker.done() == ["begun"]
        worker.assign(attempt=2)
        worker.hear(Completed, attempt=2)
        assert worker.done() == ["begun", "begun"]


def test_a_second_task_waits_for_the_first_and_is_vouched_for(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): until(task.task_id)") as worker:
        worker.assign("task_1")
        worker.assign("task_2")
        worker.hear(Heartbeat, task_id="task_2", state=None)
        worker.go("task_2")
        worker.go("task_1")
        worker.hear(Completed, task_id="task_2")
        assert [one.task_id for one in worker.said if isinstance(one, Completed)] == ["task_1", "task_2"]


# --- handing over -----------------------------------------------------------------------------------------------------
def test_a_full_context_hands_over_and_no_step_runs_twice_or_is_skipped(tmp_path: Path) -> None:
    script = """
def work(task):
    for number, step in enumerate(task.steps("abcdefgh")):
        note(step)
        task.checkpoint["seen"] = task.checkpoint.get("seen", "") + step
        task.context([0.3, 0.6, 0.9][number])  # the third is too much
        if step == "h":
            task.verified(passed=True, output=task.checkpoint["seen"])
"""
    given, end = None, None
    for generations in range(1, 10):
        with child(tmp_path, script) as worker:
            worker.assign(attempt=generations, checkpoint=given)
            while not isinstance(said := worker.hear_any(), ContextThreshold | Completed):
                pass
            if isinstance(said, Completed):
                end = (generations, said.verification_output, worker.done())
                break
            assert (said.context_usage, said.attempt, said.task_id) == (0.9, generations, "task_1")
            given = said.checkpoint
            worker.check()
            assert worker.hear(Heartbeat).state in (WorkerState.WAITING, WorkerState.IDLE)
            worker.shut_down()
            assert worker.ended() == 0
            assert not any(isinstance(one, Completed) for one in worker.hear_out())
    assert end == (3, "abcdefgh", [*"abcdefgh"])


def test_a_checkpoint_that_is_asked_for_comes_before_the_next_step(tmp_path: Path) -> None:
    with child(tmp_path, STEPS) as worker:
        worker.assign()
        worker.hear(Progressed, description="b")
        worker.ask_checkpoint("task_of_someone_else")
        worker.ask_checkpoint("task_1")
        worker.check()
        assert worker.hear(Heartbeat, state=WorkerState.WAITING).current_step == "b"
        worker.go()
        said = worker.hear(ContextThreshold)
        assert said.checkpoint is not None
        assert said.checkpoint.step == 2
        handed = json.loads(said.checkpoint.json)
        assert (handed["data"], handed["files_created"]) == ({"last": "b"}, ["a.py", "b.py"])
        worker.assign()  # once more: it is not its business any longer
        assert worker.hear(ContextThreshold).checkpoint == said.checkpoint
        worker.assign(attempt=2, checkpoint=said.checkpoint)
        assert worker.hear(Completed).files_created == ("a.py", "b.py", "c.py", "d.py")
        assert worker.done() == ["a", "b", "c", "d"]


def test_every_generation_does_a_step_so_that_hand_overs_end(tmp_path: Path) -> None:
    script = """
def work(task):
    task.context(0.99)
    for step in task.steps("ab"):
        note(step)
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        said = worker.hear(ContextThreshold)
        worker.assign(attempt=2, checkpoint=said.checkpoint)
        worker.hear(Completed)
        assert worker.done() == ["a", "b"]


def test_work_that_goes_on_after_a_hand_over_is_not_heard(tmp_path: Path) -> None:
    script = """
def work(task):
    task.context(0.8)
    try:
        for step in task.steps("abc"):
            note(step)
    except HandOver:
        note("kept")
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.hear(ContextThreshold)
        worker.shut_down()
        assert not any(isinstance(one, Completed | Failed) for one in worker.hear_out())
        assert worker.done() == ["a", "kept"]


def test_after_a_crash_the_steps_that_were_done_are_not_done_again(tmp_path: Path) -> None:
    script = """
def work(task):
    for step in task.steps("abcd"):
        note(step)
        if step == "c" and task.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
"""
    with child(tmp_path, "import ackd.worker.task as t; t.KEEP_EVERY_S = 0.0" + script) as worker:
        worker.assign()
        kept = [one.checkpoint for one in worker.hear_out() if isinstance(one, Progressed) and one.checkpoint]
    with child(tmp_path, script) as worker:
        worker.assign(attempt=2, checkpoint=kept[-1])
        worker.hear(Completed)
        assert worker.done() == [*"abccd"]


def test_a_checkpoint_of_someone_else_is_given_as_it_is(tmp_path: Path) -> None:
    script = """
def work(task):
    note(task.given["checkpoint_path"])
    for step in task.steps("ab"):
        note(step)
"""
    with child(tmp_path, script) as worker:
        foreign = {"checkpoint_path": "/x", "current_step": "two", "data": [1], "files_created": "no"}
        worker.assign(checkpoint=checkpoint(foreign))
        worker.hear(Completed)
        assert worker.done() == ["/x", "a", "b"]


# --- the end ----------------------------------------------------------------------------------------------------------
def test_a_shutdown_ends_who_has_nothing_to_do(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): pass") as worker:
        worker.hear(Heartbeat)
        worker.shut_down()
        assert (worker.ended(), worker.stderr()) == (0, "")


def test_a_shutdown_in_the_middle_of_work_hands_over_before_the_next_step(tmp_path: Path) -> None:
    with child(tmp_path, STEPS) as worker:
        worker.assign()
        worker.hear(Progressed, description="b")
        worker.shut_down()
        worker.check()
        worker.hear(Heartbeat)  # the answer: what was said before it has been heard
        worker.go()
        said = worker.hear(ContextThreshold)
        assert said.checkpoint is not None
        assert said.checkpoint.step == 2
        assert worker.ended() == 0
        assert worker.done() == ["a", "b"]


def test_asked_for_its_last_checkpoint_it_says_what_is_done_and_hands_over_before_the_next_step(tmp_path: Path) -> None:
    script = """
def work(task):
    for step in task.steps("abcd"):
        note(step)
        if step == "c":
            until()
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.until_noted("c")
        worker.ask_last_checkpoint()
        while (kept := worker.hear(Progressed).checkpoint) is None or (kept.step or 0) < 2:
            pass  # sent by the thread that reads, while the step runs
        worker.go()
        said = worker.hear(ContextThreshold)
        assert said.checkpoint is not None
        assert said.checkpoint.step == 3
        worker.shut_down()
        assert worker.ended() == 0
        assert worker.done() == ["a", "b", "c"]


def test_quick_steps_before_a_long_one_are_said_while_it_runs(tmp_path: Path) -> None:
    script = """
def work(task):
    for step in task.steps("abc"):
        note(step)
        if step == "c":
            until()
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.until_noted("c")
        while (kept := worker.hear(Progressed).checkpoint) is None or (kept.step or 0) < 2:
            pass
        worker.go()
        worker.hear(Completed)


def test_a_shutdown_lets_work_without_steps_finish(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): until()") as worker:
        worker.assign()
        worker.hear(Heartbeat, state=WorkerState.EXECUTING)
        worker.shut_down()
        worker.go()
        worker.hear(Completed)
        assert worker.ended() == 0


def test_when_ackd_has_gone_it_goes(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): pass") as worker:
        worker.hear(Heartbeat)
        worker.leave()
        assert (worker.ended(), worker.stderr()) == (0, "")


@pytest.mark.parametrize("script", [HANGS, HANGS_ASYNC], ids=["plain", "async"])
def test_when_ackd_has_gone_work_is_left_and_cleans_up(tmp_path: Path, script: str) -> None:
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.until_noted("begun")
        worker.leave()
        assert worker.ended() == 0
        assert worker.done() == ["begun", "left"]
        assert worker.stderr() == ""


def test_work_that_will_not_be_left_is_ended_all_the_same(tmp_path: Path) -> None:
    script = """
import ackd.worker.life
ackd.worker.life._GRACE_S = 0.1
def work(task):
    note("begun")
    while True:
        try:
            until("never")
        except BaseException:
            pass
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.until_noted("begun")
        worker.leave()
        assert worker.ended() == 0
