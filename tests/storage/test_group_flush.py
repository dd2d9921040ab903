from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from ackd.storage.group_flush import DeviceFlusher, GroupFlusher, NoFlusher, sync_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.ports import Flusher

NEVER_S = 3600.0


class Syncs:
    """Records what was really synced, in order, and may refuse."""

    def __init__(self, refuse: Callable[[str], bool] = lambda _: False) -> None:
        self.done: list[str] = []
        self.threads: set[str] = set()
        self._refuse = refuse
        self._mutex = threading.Lock()

    def __call__(self, path: str) -> None:
        if self._refuse(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        sync_path(path)
        with self._mutex:
            self.done.append(path)
            self.threads.add(threading.current_thread().name)


def files(directory: Path, count: int, prefix: str = "m") -> list[str]:
    paths = [directory / f"{prefix}{n}.mime" for n in range(count)]
    for path in paths:
        path.write_bytes(b"x")
    return [str(path) for path in paths]


def as_port(flusher: GroupFlusher | NoFlusher) -> Flusher:
    return flusher


async def test_64_callers_share_one_flush_of_their_directory(tmp_path: Path) -> None:
    syncs, paths = Syncs(), files(tmp_path, 64)
    flusher = GroupFlusher(max_wait_s=NEVER_S, sync=syncs)
    await asyncio.gather(*(flusher.flush([path]) for path in paths))
    await flusher.aclose()
    assert sorted(syncs.done[:64]) == sorted(paths)
    assert syncs.done[64:] == [str(tmp_path)]


async def test_files_are_flushed_side_by_side(tmp_path: Path) -> None:
    together = threading.Barrier(8, timeout=60)

    def meet(path: str) -> None:
        if path.endswith(".mime"):
            together.wait()

    flusher = GroupFlusher(max_batch=8, threads=8, sync=meet)
    await flusher.flush(files(tmp_path, 8))
    await flusher.aclose()


async def test_nobody_returns_before_file_and_directory_are_synced(tmp_path: Path) -> None:
    syncs = Syncs()
    flusher = GroupFlusher(max_batch=7, sync=syncs)

    async def one(path: str) -> None:
        await flusher.flush([path])
        at_return = list(syncs.done)
        assert path in at_return
        assert str(tmp_path) in at_return[at_return.index(path) :]

    await asyncio.gather(*map(one, files(tmp_path, 50)))
    await flusher.aclose()


async def test_a_lonely_caller_waits_for_nobody(tmp_path: Path) -> None:
    flusher = GroupFlusher(max_batch=1000, max_wait_s=NEVER_S)
    async with asyncio.timeout(30):
        for path in files(tmp_path, 3):
            await flusher.flush([path])
    await flusher.aclose()


@pytest.mark.parametrize(("max_wait_s", "released_first"), [(NEVER_S, True), (0.001, False)])
async def test_a_crowd_gathers_while_a_batch_is_flushed(
    tmp_path: Path, max_wait_s: float, released_first: bool
) -> None:
    (slow, *crowd), syncs = files(tmp_path, 4), Syncs()
    begun, held = threading.Event(), threading.Event()

    def sync(path: str) -> None:
        if path == slow:
            begun.set()
            held.wait(60)
        syncs(path)

    flusher = GroupFlusher(max_wait_s=max_wait_s, sync=sync)
    first = asyncio.create_task(flusher.flush([slow]))
    assert await asyncio.to_thread(begun.wait, 60)
    others = [asyncio.create_task(flusher.flush([path])) for path in crowd]
    await asyncio.sleep(0)
    assert syncs.done == []
    if released_first:  # the end of the first batch starts the second
        held.set()
        await first
    async with asyncio.timeout(30):
        await asyncio.gather(*others)
    held.set()
    await first
    await flusher.aclose()
    assert syncs.done.count(str(tmp_path)) == 2


async def test_each_directory_is_flushed_once(tmp_path: Path) -> None:
    syncs = Syncs()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    paths = files(tmp_path / "a", 3) + files(tmp_path / "b", 3)
    flusher = GroupFlusher(sync=syncs)
    await flusher.flush(paths)
    await flusher.aclose()
    assert sorted(syncs.done[6:]) == [str(tmp_path / "a"), str(tmp_path / "b")]


async def test_a_temporary_name_needs_no_directory_and_a_directory_no_parent(tmp_path: Path) -> None:
    syncs = Syncs()
    (tmp_path / ".tmp").write_bytes(b"x")
    flusher = GroupFlusher(max_wait_s=0, sync=syncs)
    await flusher.flush([f"{tmp_path}/.tmp"])
    assert syncs.done == [f"{tmp_path}/.tmp"]
    await flusher.flush([f"{tmp_path}/"])
    assert syncs.done[1:] == [str(tmp_path)]
    await flusher.aclose()


async def test_what_vanished_is_fine(tmp_path: Path) -> None:
    flusher = GroupFlusher(max_wait_s=0)
    await flusher.flush([str(tmp_path / "gone.mime"), str(tmp_path / "no" / "directory.mime")])
    await flusher.aclose()


async def test_a_fifo_or_link_in_a_files_place_neither_hangs_nor_fails_the_batch(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.mime")
    (tmp_path / "link.mime").symlink_to("/dev/zero")
    flusher = GroupFlusher(max_wait_s=0)
    async with asyncio.timeout(30):
        await flusher.flush([str(tmp_path / "fifo.mime"), str(tmp_path / "link.mime")])
    await flusher.aclose()


async def test_an_error_reaches_exactly_its_batch_and_is_not_retried(tmp_path: Path) -> None:
    refused: list[str] = []

    def refuse(path: str) -> bool:
        if path.endswith("bad1.mime"):
            refused.append(path)
            return True
        return False

    syncs = Syncs(refuse)
    flusher = GroupFlusher(max_batch=4, max_wait_s=NEVER_S, sync=syncs)
    batches = [files(tmp_path, 4, prefix) for prefix in ("good", "bad", "fine")]
    results = await asyncio.gather(*(flusher.flush([p]) for batch in batches for p in batch), return_exceptions=True)
    await flusher.aclose()
    assert [type(result) for result in results] == [type(None)] * 4 + [OSError] * 4 + [type(None)] * 4
    assert {(e.errno, e.filename) for e in results if isinstance(e, OSError)} == {(errno.EIO, batches[1][1])}
    assert len({id(e) for e in results if isinstance(e, OSError)}) == 4
    assert refused == [batches[1][1]]


async def test_a_directory_that_cannot_be_flushed_fails_its_files(tmp_path: Path) -> None:
    flusher = GroupFlusher(max_wait_s=0, sync=Syncs(lambda path: path == str(tmp_path)))
    with pytest.raises(OSError, match="Input/output error"):
        await flusher.flush(files(tmp_path, 2))
    await flusher.aclose()


async def test_a_cancelled_caller_disturbs_nobody(tmp_path: Path) -> None:
    syncs, (first, second) = Syncs(), files(tmp_path, 2)
    flusher = GroupFlusher(max_batch=2, max_wait_s=NEVER_S, sync=syncs)
    impatient = asyncio.create_task(flusher.flush([first]))
    await asyncio.sleep(0)
    impatient.cancel()
    await flusher.flush([second])
    await flusher.aclose()
    assert impatient.cancelled()
    assert set(syncs.done) == {first, second, str(tmp_path)}


async def test_closing_finishes_what_was_asked_for_and_takes_no_more(tmp_path: Path) -> None:
    syncs, (path,) = Syncs(), files(tmp_path, 1)
    flusher = GroupFlusher(max_wait_s=NEVER_S, sync=syncs)
    asked = asyncio.create_task(flusher.flush([path]))
    await asyncio.sleep(0)
    await flusher.aclose()
    await asked
    assert path in syncs.done
    with pytest.raises(RuntimeError):
        await flusher.flush([path])


async def test_a_bug_in_the_flushing_leaves_nobody_waiting(tmp_path: Path) -> None:
    def broken(path: str) -> None:
        raise ZeroDivisionError

    flusher = GroupFlusher(max_wait_s=0, sync=broken)
    async with asyncio.timeout(30):
        with pytest.raises(ZeroDivisionError):
            await flusher.flush(files(tmp_path, 1))
    await flusher.aclose()


def _refuse_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.mark.parametrize("count", [1, 3])
async def test_without_room_for_a_thread_who_waits_hears_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    syncs, paths = Syncs(), files(tmp_path, count)
    flusher = GroupFlusher(sync=syncs)
    with monkeypatch.context() as without:
        _refuse_threads(without)
        for _ in range(2):
            with pytest.raises(OSError, match="no thread") as refused:
                await flusher.flush(paths)
            assert refused.value.errno == errno.EAGAIN
    await flusher.flush(paths)  # and with room again, all goes on
    await flusher.aclose()
    assert sorted(syncs.done) == sorted([*paths, str(tmp_path)])  # what was refused is not done afterwards


async def test_without_room_for_a_thread_who_does_not_wait_hears_of_it_and_no_file_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[OSError] = []
    flusher, complain = GroupFlusher(), heard.append
    open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with monkeypatch.context() as without:
        _refuse_threads(without)
        for path in files(tmp_path, 3):
            flusher.flush_later(path, complain)
        await flusher.aclose()
    assert [error.errno for error in heard] == [errno.EAGAIN]
    assert len(os.listdir("/proc/self/fd")) == open_before  # noqa: PTH208


async def test_a_thread_that_there_is_does_the_work_of_those_that_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, paths = Syncs(), files(tmp_path, 40)
    flusher = GroupFlusher(sync=syncs)
    await flusher.flush(paths[:1])
    with monkeypatch.context() as without:
        _refuse_threads(without)
        async with asyncio.timeout(30):
            for start in range(0, 40, 8):
                await flusher.flush(paths[start : start + 8])
        assert set(paths) <= set(syncs.done)
        assert len(syncs.threads) == 1
    await flusher.aclose()


async def test_a_batch_that_is_cancelled_cancels_who_waits_for_it(tmp_path: Path) -> None:
    held = threading.Event()

    def hang(path: str) -> None:
        held.wait(60)

    flusher = GroupFlusher(max_batch=1, sync=hang)
    waiting = asyncio.create_task(flusher.flush(files(tmp_path, 1)))
    await asyncio.sleep(0)
    (batch,) = flusher._running
    await asyncio.sleep(0)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    held.set()
    await flusher.aclose()


async def test_flushing_happens_off_the_loops_thread(tmp_path: Path) -> None:
    syncs = Syncs()
    flusher = GroupFlusher(max_wait_s=0, sync=syncs)
    await flusher.flush(files(tmp_path, 3))
    await flusher.aclose()
    assert threading.current_thread().name not in syncs.threads


async def test_nothing_to_flush_returns_at_once() -> None:
    flusher = GroupFlusher(max_wait_s=NEVER_S)
    await flusher.flush([])
    await flusher.aclose()


async def test_without_durability_nothing_is_touched() -> None:
    flusher = NoFlusher()
    await as_port(flusher).flush(["/nonexistent/x"])
    await flusher.aclose()
    await as_port(GroupFlusher()).flush([])


# --- in the background --------------------------------------------------------------------------------------------------
async def test_a_file_that_moved_meanwhile_is_flushed_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "processed").mkdir()
    path = tmp_path / "processed" / "m.mime"
    path.write_bytes(b"x")
    inode, synced = path.stat().st_ino, []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_ino))
    directories = Syncs()
    flusher = GroupFlusher(sync=directories)
    flusher.flush_later(str(path), _nobody_complains)
    path.rename(tmp_path / "archived.mime")
    await flusher.aclose()
    assert synced == [inode]
    assert directories.done == [str(tmp_path / "processed")]


async def test_a_directory_is_flushed_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, fsync, synced = tmp_path / "new", os.fsync, set()
    made.mkdir()

    def watched(fd: int) -> None:
        synced.add(os.fstat(fd).st_ino)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    flusher = GroupFlusher()
    flusher.flush_later(str(made), _nobody_complains)
    await flusher.aclose()
    assert synced == {os.stat(made).st_ino, os.stat(tmp_path).st_ino}  # noqa: PTH116


async def test_no_more_files_are_held_open_than_a_process_can_spare(tmp_path: Path) -> None:
    syncs, paths = Syncs(), files(tmp_path, 300)
    flusher = GroupFlusher(max_batch=10_000, sync=syncs)
    open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for path in paths:
        flusher.flush_later(path, _nobody_complains)
    assert len(os.listdir("/proc/self/fd")) - open_before == 256  # noqa: PTH208
    await flusher.aclose()
    assert len(os.listdir("/proc/self/fd")) <= open_before  # noqa: PTH208
    assert set(paths[256:]) <= set(syncs.done)


async def test_who_asked_for_it_hears_once_of_a_batch_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", broken)
    heard: list[OSError] = []
    flusher, complain = GroupFlusher(), heard.append
    for path in files(tmp_path, 3):
        flusher.flush_later(path, complain)
    flusher.flush_later(str(tmp_path / "gone.mime"), complain)  # no reason to complain
    await flusher.aclose()
    assert [error.errno for error in heard] == [errno.EIO]


async def test_what_its_writer_has_flushed_is_flushed_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda _fd: threads.append(threading.current_thread().name))
    monkeypatch.setattr("ackd.storage.group_flush._QUICK_S", NEVER_S)
    flusher = GroupFlusher()
    for path in files(tmp_path, 5):
        flusher.flush_later(path, _nobody_complains)
    await flusher.aclose()
    assert (len(threads), len(set(threads))) == (5, 1)


async def test_what_its_writer_has_not_flushed_is_flushed_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, others = [], threading.Barrier(4)

    def sync(fd: int) -> None:
        begun.append(fd)
        if len(begun) > 1:
            others.wait(20)  # for each other

    monkeypatch.setattr(os, "fdatasync", sync)
    monkeypatch.setattr("ackd.storage.group_flush._QUICK_S", 0)
    flusher = GroupFlusher()
    for path in files(tmp_path, 5):
        flusher.flush_later(path, _nobody_complains)
    await flusher.aclose()
    assert (len(begun), others.broken) == (5, False)


async def test_what_nobody_waits_for_goes_one_batch_at_a_time_and_holds_up_nobody_who_waits(tmp_path: Path) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def sync(path: str) -> None:
        if path == str(tmp_path / "later"):
            done.append(path)
            begun.set()
            assert go_on.wait(20)

    (tmp_path / "later").mkdir()
    first, *others = files(tmp_path / "later", 3)
    flusher = GroupFlusher(sync=sync, later_s=0)
    flusher.flush_later(first, _nobody_complains)
    assert await asyncio.to_thread(begun.wait, 20)
    for path in others:
        flusher.flush_later(path, _nobody_complains)
    await flusher.flush(files(tmp_path, 1))  # long enough for those to be due
    assert len(done) == 1
    go_on.set()
    await flusher.aclose()
    assert len(done) == 2


def _nobody_complains(error: OSError) -> None:
    raise AssertionError(error)


# --- one group for each file system -----------------------------------------------------------------------------------
async def test_a_file_system_that_hangs_keeps_no_other_waiting(tmp_path: Path) -> None:
    """/dev/shm and the test's own directory are two file systems; all threads of one of them hang."""
    gate, synced = threading.Event(), []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        stuck = [Path(other) / str(number) for number in range(40)]
        here = tmp_path / "here"
        for path in (*stuck, here):
            path.touch()

        def sync(path: str) -> None:
            if path.startswith(other):
                gate.wait(60)
            synced.append(path)

        flusher = DeviceFlusher(lambda: GroupFlusher(sync=sync))
        hanging = asyncio.create_task(flusher.flush([str(path) for path in stuck]))
        both = asyncio.create_task(flusher.flush([str(here), str(stuck[0])]))
        async with asyncio.timeout(10):
            await flusher.flush([str(here)])
        assert not hanging.done()
        assert not both.done()
        gate.set()
        await asyncio.gather(hanging, both)
        await flusher.aclose()
    assert str(here) in synced


async def test_a_failure_on_one_file_system_is_heard_by_who_asked_for_two(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:

        def sync(path: str) -> None:
            if path.startswith(other):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

        flusher = DeviceFlusher(lambda: GroupFlusher(sync=sync))
        with pytest.raises(OSError, match="Input/output"):
            await flusher.flush([f"{tmp_path}/x", f"{other}/x"])
        await flusher.aclose()
