from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from ackd.files import FileLockTimeout, atomic_claim, atomic_write, atomic_write_with_lock, with_file_lock
from tests import file_writers
from tests.file_writers import content, count_of
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

HOLDER = """
import sys, time
from ackd.files import with_file_lock
with with_file_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process, with the lock in its hand."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=60)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def all_ended(processes: list[subprocess.Popen[bytes]]) -> bool:
    """Waits for the first that runs, for a moment: the writers need the processor."""
    for process in processes:
        try:
            process.wait(0.002)
        except subprocess.TimeoutExpired:
            return False
    return True


# --- the lock
@pytest.mark.slow
@pytest.mark.parametrize(("writers", "times", "durable"), [(8, 1000, "quick"), (8, 25, "durable")])
def test_8_processes_write_one_file_and_never_two_hold_it_nor_does_a_reader_see_half(
    tmp_path: Path, writers: int, times: int, durable: str
) -> None:
    """[Ensemble lock.py] The lock file is unlinked after use, even by who never held it: two holders."""
    path = tmp_path / "summary.yaml"
    path.write_text(content(0))
    command = [sys.executable, file_writers.__file__, str(path), str(times), durable]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    processes = [subprocess.Popen(command, env=environment) for _ in range(writers)]
    seen = [0]
    while not all_ended(processes):
        seen.append(count_of(path.read_text()))
    assert [process.returncode for process in processes] == [0] * writers
    assert seen == sorted(seen)
    assert len(set(seen)) > 10
    assert count_of(path.read_text()) == writers * times
    assert names(tmp_path) == [".summary.yaml.lock", "summary.yaml"]


def test_who_waits_in_vain_hears_who_holds_it(tmp_path: Path) -> None:
    other = holder(tmp_path / "f")
    with (
        pytest.raises(FileLockTimeout, match=f"process {other.pid} holds it") as caught,
        with_file_lock(tmp_path / "f", timeout=0.05),
    ):
        pass
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.path, caught.value.timeout_s, caught.value.holder) == (str(tmp_path / "f"), 0.05, other.pid)
    end(other)
    with with_file_lock(tmp_path / "f", timeout=0):
        pass


def test_a_lock_ends_with_its_holder_however_that_ends(tmp_path: Path) -> None:
    other = holder(tmp_path / "f")
    other.send_signal(signal.SIGKILL)
    with with_file_lock(tmp_path / "f", timeout=20):
        end(other)


def test_the_lock_file_stays_the_same_file(tmp_path: Path) -> None:
    with with_file_lock(tmp_path / "f"):
        first = (tmp_path / ".f.lock").stat()
    with with_file_lock(tmp_path / "f"):
        second = (tmp_path / ".f.lock").stat()
    assert first.st_ino == second.st_ino
    assert first.st_mode & 0o777 == 0o600
    assert not (tmp_path / "f").exists()


def test_a_lock_file_that_someone_removed_is_not_taken_for_the_lock(tmp_path: Path) -> None:
    """Who opened it before, and got the lock of a file that nobody else will open, tries again."""
    path = tmp_path / "f"
    with with_file_lock(path):
        (tmp_path / ".f.lock").unlink()
        with with_file_lock(path, timeout=1):
            assert (tmp_path / ".f.lock").exists()


def test_a_link_and_what_it_points_to_have_one_lock(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with (
        with_file_lock(tmp_path / "real" / "f"),
        pytest.raises(FileLockTimeout, match="this very process"),
        with_file_lock(tmp_path / "link" / "f", timeout=0.01),
    ):
        pass


def test_a_relative_path_is_looked_up_at_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @with_file_lock("queue/reports/f")
    def locked() -> None:
        assert Path("queue/reports/.f.lock").exists()

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        locked()
    assert (tmp_path / "two" / "queue").stat().st_mode & 0o777 == 0o700


def test_a_decorated_function_keeps_its_name_its_result_and_its_exception(tmp_path: Path) -> None:
    @with_file_lock(tmp_path / "f")
    def divide(a: int, *, by: int) -> float:
        """What it does."""
        return a / by

    assert divide(6, by=3) == 2
    assert (divide.__name__, divide.__doc__) == ("divide", "What it does.")
    for _ in range(2):  # an exception gives the lock back
        with pytest.raises(ZeroDivisionError):
            divide(1, by=0)


def test_generators_are_refused(tmp_path: Path) -> None:
    def lines() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for function in (lines, later):
        with pytest.raises(TypeError, match="lock inside"):
            with_file_lock(tmp_path / "f")(function)


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    inside, most = [0], [0]

    @with_file_lock(tmp_path / "f")
    def change() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        os.sched_yield()
        inside[0] -= 1

    threads = [threading.Thread(target=lambda: [change() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1]


def test_a_process_forked_by_the_holder_neither_keeps_the_lock_nor_gives_it_back(tmp_path: Path) -> None:
    path, (to_read, to_write) = tmp_path / "f", os.pipe()
    code = (
        "import os, sys; from ackd.files import with_file_lock\n"
        "lock, (left, leaves) = with_file_lock(sys.argv[1]).__enter__(), os.pipe()\n"
        "if os.fork() == 0:\n    lock.__exit__(); os.write(leaves, b'.'); os.read(int(sys.argv[2]), 1); os._exit(0)\n"
        "os.read(left, 1)\n"
        "try:\n    with_file_lock(sys.argv[1], timeout=0).__enter__(); print('two holders')\n"
        "except TimeoutError: print('held still')\n"
        "lock.__exit__(); print('released')\n"
        "with with_file_lock(sys.argv[1], timeout=0): print('to be had', flush=True)\n"
    )
    run = [sys.executable, "-W", "ignore", "-c", code, str(path), str(to_read)]
    process = subprocess.Popen(run, pass_fds=[to_read], stdout=-1, text=True)
    os.close(to_read)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(3)]
    os.close(to_write)
    end(process)
    assert said == ["held still\n", "released\n", "to be had\n"]


# --- async
async def test_the_loop_runs_on_while_an_async_function_waits(tmp_path: Path) -> None:
    other, ticks = await asyncio.to_thread(holder, tmp_path / "f"), 0

    @with_file_lock(tmp_path / "f", timeout=20)
    async def locked() -> str:
        await anyio.lowlevel.checkpoint()
        return "held"

    task = asyncio.create_task(locked())
    while ticks < 20:
        await anyio.sleep(0.001)
        ticks += 1
    assert not task.done()
    assert other.stdin is not None
    other.stdin.close()
    assert await task == "held"
    await asyncio.to_thread(other.wait, 60)
    assert other.stdout is not None
    other.stdout.close()


async def test_tasks_exclude_each_other_and_a_cancelled_one_leaves_nothing_held(tmp_path: Path) -> None:
    lock = with_file_lock(tmp_path / "f", timeout=None)
    async with lock:
        waiting = asyncio.create_task(lock.__aenter__())
        await until(lambda: not waiting.done())
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(FileLockTimeout):
            async with with_file_lock(tmp_path / "f", timeout=0.01):
                pass
    descriptors = names(Path("/proc/self/fd"))
    async with with_file_lock(tmp_path / "f", timeout=0):
        pass
    assert len(names(Path("/proc/self/fd"))) == len(descriptors)


# --- writing
def test_text_and_bytes_are_written_whole_and_private(tmp_path: Path) -> None:
    atomic_write(tmp_path / "new" / "f", "完了\n")
    assert (tmp_path / "new" / "f").read_bytes() == "完了\n".encode()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "f").stat().st_mode & 0o777 == 0o600
    atomic_write(tmp_path / "new" / "f", b"\xff", durable=False)
    assert (tmp_path / "new" / "f").read_bytes() == b"\xff"
    assert names(tmp_path / "new") == ["f"]


def test_a_file_that_is_there_keeps_its_mode_and_a_link_its_place(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    (tmp_path / "f").chmod(0o640)
    (tmp_path / "link").symlink_to("f")
    atomic_write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert ((tmp_path / "f").read_text(), (tmp_path / "f").stat().st_mode & 0o777) == ("new", 0o640)


def test_what_is_no_file_is_not_replaced_and_nothing_is_left_behind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    for name in ("fifo", "directory"):
        with pytest.raises(OSError, match="Not a regular file"):
            atomic_write(tmp_path / name, "x")
    with pytest.raises(UnicodeEncodeError):
        atomic_write(tmp_path / "f", "\ud800")
    assert names(tmp_path) == ["directory", "fifo"]


def test_a_disk_that_refuses_leaves_all_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    code = (
        "import resource, signal, sys; from ackd.files import atomic_write\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: atomic_write(sys.argv[1], 'x' * 5000)\nexcept OSError as error: print(error.strerror)\n"
    )
    said = subprocess.run([sys.executable, "-c", code, str(tmp_path / "f")], capture_output=True, text=True, check=True)
    assert said.stdout == "File too large\n"
    assert (names(tmp_path), (tmp_path / "f").read_text()) == (["f"], "old")


# --- claimed and written under the lock -------------------------------------------------------------------------------
def test_of_many_who_claim_a_file_one_has_it_and_nothing_is_overwritten(tmp_path: Path) -> None:
    task, mine = tmp_path / "task-001.yaml", tmp_path / "processing"
    task.write_text("first")
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda _: atomic_claim(task, mine), range(8)))
    assert [one for one in claimed if one is not None] == [str(mine / "task-001.yaml")]
    task.write_text("second")  # the next of that name, while the first is still worked on
    assert atomic_claim(str(task), str(mine)) == str(mine / "task-001.yaml.1")
    assert (mine / "task-001.yaml").read_text() == "first"
    assert atomic_claim(task, mine) is None


def test_a_write_under_the_lock_says_whether_it_could_be_made(tmp_path: Path) -> None:
    report = tmp_path / "reports" / "completion-summary.yaml"
    assert atomic_write_with_lock(report, "a: 1\n") is True
    with with_file_lock(report):
        assert atomic_write_with_lock(str(report), "a: 2\n", timeout=0.05) is False
    assert report.read_text() == "a: 1\n"
    assert atomic_write_with_lock(report, b"a: 3\n", 1.0) is True
    assert (report.read_text(), atomic_write(report, "a: 4\n")) == ("a: 3\n", True)
