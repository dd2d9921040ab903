"""A worker in fifteen lines: a function that is called for each task, in a process that ackd keeps alive.

    from ackd.worker import Task, run

    def work(task: Task) -> None:
        for step in task.steps(["read", "write", "test"]):
            ...                          # whatever the step is; print() goes to the worker's log

    run(work)

and in ``ackd.toml``: an agent with ``endpoint = "process"`` and ``command = ["python3", "worker.py"]``. ``work`` may be
``async``. Returning completes the task; ``Refuse`` refuses it for good; any other exception is a failure, and the task
is tried again. Heartbeats, answers to status checks, progress and checkpoints go by themselves: whoever goes on with
the task, after a failure, a restart or a hand-over, is not given the steps that are done; after a crash, the steps of
its last second may come again.

Standard library only, quick to import, and for Python 3.9 and newer, because a worker may run on another Python than
ackd does. pipes: the lines · task: what a function is given · interrupts: signals · async_runner: ``async`` functions ·
life: from the first line to the last · on_pythonpath: for a Python that has no ackd.
"""

from ackd.worker.life import run
from ackd.worker.task import Cancelled, HandOver, Refuse, Task

__all__ = ["Cancelled", "HandOver", "Refuse", "Task", "run"]
