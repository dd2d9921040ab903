"""A worker that is kept alive. Put the steps of your work in place of the sleeping."""

import sys
import time

from ackd.worker import Task, run


def work(task: Task) -> None:
    for _ in task.steps(["compile", "test", "package"]):
        time.sleep(0.1)
    task.verified(passed=True, output=f"built with {' '.join(sys.argv[1:])}")


if __name__ == "__main__":
    run(work)
