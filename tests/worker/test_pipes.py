"""The pipes belong to ackd: nothing that the work prints gets into them, and no line is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.worker import WorkerState
from ackd.endpoints.process.wire import Completed, Heartbeat
from tests.worker.children import child

if TYPE_CHECKING:
    from pathlib import Path


def test_whatever_is_printed_is_no_word_to_ackd(tmp_path: Path) -> None:
    script = """
print("printed before")
def work(task):
    print("printed", flush=True)
    os.write(1, b"written to descriptor 1\\n")
    subprocess.run(["sh", "-c", "echo said by a child; cat"], check=True)
    try:
        input()
    except EOFError:
        print("nothing to read")
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.hear(Completed)
        for text in ("printed before", "printed", "written to descriptor 1", "said by a child", "nothing to read"):
            assert text in worker.stderr().splitlines()


def test_lines_of_many_threads_stay_whole(tmp_path: Path) -> None:
    script = """
def work(task):
    def talk():
        for _ in range(300):
            task.beat()
    threads = [threading.Thread(target=talk) for _ in range(8)]
    task.current_step = "x" * 3000
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.hear(Completed)
        assert sum(isinstance(one, Heartbeat) and one.current_step == "x" * 3000 for one in worker.said) >= 2400


def test_a_file_name_that_is_no_utf8_does_not_cost_the_completion(tmp_path: Path) -> None:
    with child(tmp_path, "def work(task): task.files_created.append(os.fsdecode(b'a\\xff'))") as worker:
        worker.assign()
        assert worker.hear(Completed).files_created == ("a?",)


def test_a_broken_pipe_ends_it_quietly(tmp_path: Path) -> None:
    script = """
def work(task):
    until()
    for step in task.steps(range(1_000_000)):
        pass
"""
    with child(tmp_path, script) as worker:
        worker.assign()
        worker.hear(Heartbeat, state=WorkerState.EXECUTING)
        assert worker.process.stdout is not None
        worker.process.stdout.close()
        worker.go()
        assert (worker.ended(), worker.stderr()) == (0, "")
