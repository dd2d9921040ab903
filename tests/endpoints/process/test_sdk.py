"""Workers that are made with ``ackd.worker``, behind the real endpoint: both ends of the protocol together."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import anyio

from ackd.core.effects import NudgeAgent, RenewAgent
from ackd.core.events import AgentStarted, CheckpointCame, Outcome, RunEnded, Seen, WorkBlocked
from tests.endpoints.process.process_agent import ProcessAgent, message, tell
from tests.waiting import until

if TYPE_CHECKING:
    from ackd.endpoints.process.child import Child

HEAD = """
import os, time
import ackd.worker.task
from ackd.worker import Task, run
ackd.worker.task.KEEP_EVERY_S = 0.0
def note(word):
    with open("notes", "a") as notes:
        notes.write(f"{word}\\n")
def until(name):
    for _ in range(3000):
        if os.path.exists(name):
            return
        time.sleep(0.01)
"""


def made_with_the_sdk(process_agent: ProcessAgent, work: str) -> Child:
    return process_agent.child(sys.executable, "-c", f"{HEAD}{work}\nrun(work)\n")


def notes(process_agent: ProcessAgent) -> list[str]:
    path = process_agent.work / "notes"
    return path.read_text().split() if path.exists() else []


def late_words(process_agent: ProcessAgent) -> list[dict[str, object]]:
    return [data for kind, data in process_agent.facts if kind in ("late_word", "bad_line")]


async def test_tasks_are_taken_and_completed_and_no_line_is_late_or_bad(process_agent: ProcessAgent) -> None:
    script = """
def work(task):
    print("this is for the log")
    for step in task.steps("ab"):
        note(step)
"""
    async with process_agent.worker(child=made_with_the_sdk(process_agent, script)) as work:
        for key in (1, 2):
            await work.tell(key, 1, f"T-{key}")
            assert (await work.outcome(key)).outcome is Outcome.DONE
        assert len(process_agent.all(Seen)) == 2
    assert notes(process_agent) == [*"abab"]
    assert late_words(process_agent) == []


async def test_fresh_workers_go_on_and_no_step_runs_twice_or_is_skipped(process_agent: ProcessAgent) -> None:
    script = """
def work(task):
    for number, step in enumerate(task.steps("abcdef")):
        note(step)
        task.context(0.4 * (number + 1))  # the second is too much
"""
    async with process_agent.worker(child=made_with_the_sdk(process_agent, script)) as work:
        await work.tell(attempt=1)
        for generation in (1, 2):
            await process_agent.comes(CheckpointCame, generation)
            await work.endpoint.renew(RenewAgent("worker", "80% of its context used"))
            await work.tell(attempt=generation + 1)
        await until(lambda: any(ended.outcome is Outcome.DONE for ended in process_agent.all(RunEnded)))
    assert notes(process_agent) == [*"abcdef"]


async def test_an_interrupt_gives_the_work_back_and_the_retry_goes_on(process_agent: ProcessAgent) -> None:
    script = """
def work(task):
    for step in task.steps("ab"):
        note(step)
        if step == "b" and task.attempt == 1:
            until("never")
"""
    async with process_agent.worker(child=made_with_the_sdk(process_agent, script)) as work:
        await work.tell()
        await until(lambda: "b" in notes(process_agent))
        await work.endpoint.nudge(NudgeAgent("worker", 1, message(), tell().place, 2, attempt=1))
        assert await work.outcome() == RunEnded(1, Outcome.FAILED, "interrupted", 1)
        await work.tell(attempt=2)
        assert (await work.outcome(2)).outcome is Outcome.DONE
        assert len(process_agent.all(AgentStarted)) == 1
    assert notes(process_agent) == [*"abb"]


async def test_a_stop_in_the_middle_of_work_keeps_where_it_stands(process_agent: ProcessAgent) -> None:
    script = """
def work(task):
    for step in task.steps("abc"):
        note(step)
        if step == "b":
            until("go")
"""
    async with process_agent.worker(child=made_with_the_sdk(process_agent, script)) as work:
        await work.tell()
        await until(lambda: "b" in notes(process_agent))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work.endpoint.stop, 30)
            await until(lambda: work.endpoint._stopping)
            (process_agent.work / "go").touch()
        assert (await work.outcome()).outcome is Outcome.STOPPED
    (file,) = process_agent.checkpoints.iterdir()
    assert json.loads(file.read_bytes())["checkpoint"]["current_step"] == 2
    assert notes(process_agent) == [*"ab"]


async def test_after_a_crash_the_steps_that_were_done_are_not_done_again(process_agent: ProcessAgent) -> None:
    script = """
def work(task):
    for step in task.steps("abc"):
        note(step)
        if step == "c" and task.attempt == 1:
            until("kept")
            os._exit(9)
"""
    async with process_agent.worker(child=made_with_the_sdk(process_agent, script)) as work:
        await work.tell()
        await until(
            lambda: (
                process_agent.checkpoints.exists()
                and any('"current_step":2' in f.read_text() for f in process_agent.checkpoints.glob("*.json"))
            )
        )
        (process_agent.work / "kept").touch()
        assert (await work.outcome()).outcome is Outcome.FAILED
        await process_agent.comes(AgentStarted, 2)
        await work.tell(attempt=2)
        assert (await work.outcome(2)).outcome is Outcome.DONE
        assert process_agent.all(CheckpointCame) == []
    assert notes(process_agent) == [*"abcc"]


async def test_a_checkpoint_of_any_number_hurts_nobody(process_agent: ProcessAgent) -> None:
    script = """
def work(task):
    task.checkpoint["hash"] = task.checkpoint.get("hash", 2**127 + 1)
    for step in task.steps("ab"):
        task.context(0.9)
    note(task.checkpoint["hash"] == 2**127 + 1)
"""
    async with process_agent.worker(child=made_with_the_sdk(process_agent, script)) as work:
        await work.tell()
        await process_agent.comes(CheckpointCame)
        await work.endpoint.renew(RenewAgent("worker", "90% of its context used"))
        await work.tell(attempt=2)
        await until(lambda: any(ended.outcome is Outcome.DONE for ended in process_agent.all(RunEnded)))
    assert notes(process_agent) == ["True"]


async def test_who_is_blocked_is_heard(process_agent: ProcessAgent) -> None:
    script = """
def work(task):
    task.blocked("no schema", by="leader")
    until("go")
"""
    async with process_agent.worker(child=made_with_the_sdk(process_agent, script)) as work:
        await work.tell()
        assert (await process_agent.comes(WorkBlocked)).blocker == "leader"
        (process_agent.work / "go").touch()
        assert (await work.outcome()).outcome is Outcome.DONE


async def test_a_python_without_ackd_finds_the_sdk_too(process_agent: ProcessAgent) -> None:
    """As when ackd is a tool of its own: -S leaves out all packages that are installed beside this Python."""
    script = f"{HEAD}\ndef work(task): note(ackd.__path__[0].rpartition('/ackd/')[2])\nrun(work)\n"
    async with process_agent.worker(child=process_agent.child(sys.executable, "-S", "-c", script)) as work:
        await work.tell(1, 1, "T-1")
        assert (await work.outcome(1)).outcome is Outcome.DONE
    assert notes(process_agent) == ["worker/on_pythonpath/ackd"]
