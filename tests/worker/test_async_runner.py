"""``async`` work on Pythons without ``asyncio.Runner``: the same behaviour, seen from a real worker."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from ackd.endpoints.process.wire import Completed, Failed
from tests.worker.children import HANGS_ASYNC, child

if TYPE_CHECKING:
    from pathlib import Path

OLDER = "import ackd.worker.async_runner as a\na.make_runner = a.OlderRunner\nrun(work, heartbeat_s=60)"


def test_work_is_awaited_on_a_loop_that_outlives_the_task(tmp_path: Path) -> None:
    script = """
import asyncio
loops, later = set(), []
async def endless():
    try:
        await asyncio.Event().wait()
    finally:
        note("closed")
async def work(task):
    loops.add(id(asyncio.get_running_loop()))
    await asyncio.get_running_loop().run_in_executor(None, note, f"loops-{len(loops)}")
    later.append(asyncio.ensure_future(endless()))
    await asyncio.sleep(0)
"""
    with child(tmp_path, script, run=OLDER) as worker:
        for task_id in ("task_1", "task_2"):
            worker.assign(task_id)
            worker.hear(Completed, task_id=task_id)
        worker.shut_down()
        worker.hear_out()
        assert (worker.ended(), worker.stderr()) == (0, "")
        assert worker.done() == ["loops-1", "loops-1", "closed", "closed"]


def test_an_interrupt_cancels_the_work_and_the_next_task_is_done(tmp_path: Path) -> None:
    script = HANGS_ASYNC.replace('note("begun")', 'note("begun")\n        if task.task_id == "task_2": return')
    with child(tmp_path, script, run=OLDER) as worker:
        worker.assign()
        worker.until_noted("begun")
        worker.process.send_signal(signal.SIGINT)
        assert worker.hear(Failed).error == "interrupted"
        worker.assign("task_2")
        worker.hear(Completed, task_id="task_2")
        assert worker.done() == ["begun", "left", "begun", "left"]
