"""Make many files durable with few flushes.

Callers that come together share a batch, whose files are flushed side by side in threads and then each of their
directories once. syncfs is never called: it would wait for the agents' builds too. A failed fsync fails everyone of its
batch and is never tried again, because the kernel may have dropped the dirty pages and would report success the second
time. If not one thread can be started, flushing fails with OSError (EAGAIN); with at least one, the work is done more
slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar, TypeVarTuple

from ackd.system.threads import refused_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Errors of a path that is gone, or is no longer the file that it was: nothing of ours is left there to be flushed.
_VANISHED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
#: How many files are held open for ``flush_later``. Beyond that, while a disk is slow, they are remembered by name.
_MAX_OPEN: Final = 256
#: How long ``flush_later`` gathers files. Nobody waits for them, and each flush of ours is one more commit of the file
#: system's journal, behind which the senders' own flushes wait.
LATER_S: Final = 0.02
#: A file that its writer has flushed, as `ackd send` does, takes some microseconds to flush again. If one takes longer,
#: it was not flushed, and perhaps neither were those after it: they are then flushed side by side, and share the
#: journal's commits.
_QUICK_S: Final = 0.000_5


def sync_path(path: str) -> None:
    """Call fsync for a file or a directory. A path that has vanished needs none; FIFOs and devices have none."""
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in _VANISHED:
            return
        raise
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            os.fsync(fd)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(fd)


def sync_open(fd: int) -> None:
    """Flush an open file (its content, not its times) or directory, and close it."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            os.fdatasync(fd)
        elif stat.S_ISDIR(mode):
            os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(slots=True, eq=False)
class _Batch:
    """Callers that will be answered together. ``opened``: files for which nobody waits, only a callback for errors."""

    paths: dict[str, None] = field(default_factory=dict)
    opened: list[int] = field(default_factory=list)
    callers: list[asyncio.Future[None]] = field(default_factory=list)
    complain: dict[Callable[[OSError], None], None] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None


class GroupFlusher:
    """``ports.Flusher``. A batch starts when it holds ``max_batch`` paths, is ``max_wait_s`` old, or none is running.

    So a single message does not wait, and many messages gather while the batch before them is being flushed. Files for
    which nobody waits form batches of their own, ``later_s`` after the first of them came, one at a time.
    """

    def __init__(
        self,
        max_batch: int = 64,
        max_wait_s: float = 0.002,
        threads: int = 16,
        sync: Callable[[str], None] = sync_path,
        later_s: float = LATER_S,
    ) -> None:
        self._max_batch = max_batch
        self._max_wait_s = max_wait_s
        self._threads = threads
        self._sync = sync
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ackd-flush")
        self._has_thread = False
        self._open: _Batch | None = None
        self._later_s = later_s
        self._later: _Batch | None = None
        self._flushing_later: asyncio.Task[None] | None = None
        self._held = 0
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    async def flush(self, paths: Sequence[str]) -> None:
        """Return when the files and their directories are durable; raise the first OSError of the batch.

        A path that ends in a slash is a directory, flushed after the files. A dot-name is flushed without its
        directory: it is temporary, and whoever renames it decides whether the new name must be durable.
        """
        if self._closed:
            raise RuntimeError("flush() after aclose()")
        if not paths:
            return
        caller = asyncio.get_running_loop().create_future()
        batch = self._batch()
        batch.paths.update(dict.fromkeys(paths))
        batch.callers.append(caller)
        self._start_if_full(batch)
        await caller

    def flush_later(self, path: str, failed: Callable[[OSError], None]) -> None:
        """Flush a file later, without anybody waiting. It is opened at once, so that it is flushed wherever it is moved
        meanwhile."""
        batch = self._later_batch()
        try:
            if self._held < _MAX_OPEN:
                batch.opened.append(os.open(path, _FLAGS))
                self._held += 1
            else:
                batch.paths[path] = None
        except OSError as error:
            if error.errno not in _VANISHED:
                failed(error)
        batch.paths[f"{path.rpartition('/')[0]}/"] = None
        batch.complain[failed] = None

    async def aclose(self) -> None:
        """Finish what was asked for, then end the threads."""
        self._closed = True
        self._start()
        self._start_later()
        while self._running:
            await asyncio.wait(self._running)
            self._start_later()  # this batch may have waited for the one before it
        self._pool.shutdown()

    def _batch(self) -> _Batch:
        """The batch that gathers. Even if none is running, it stays open for this turn of the loop, so that callers who
        come together are flushed together."""
        if self._open is None:
            self._open = _Batch()
            wait_s = self._max_wait_s if self._running else 0
            self._open.timer = asyncio.get_running_loop().call_later(wait_s, self._start)
        return self._open

    def _later_batch(self) -> _Batch:
        if self._later is None:
            self._later = _Batch()
            self._later.timer = asyncio.get_running_loop().call_later(self._later_s, self._start_later)
        return self._later

    def _start_later(self) -> None:
        """Start the next batch of ``flush_later`` once the one before it has ended: one at a time."""
        if self._later is None or self._flushing_later is not None:
            return
        batch, self._later = self._later, None
        self._flushing_later = self._begin(batch)
        self._flushing_later.add_done_callback(self._later_ended)

    def _later_ended(self, _task: asyncio.Task[None]) -> None:
        self._flushing_later = None
        if self._later is not None and self._later.timer is not None:
            due = self._later.timer.when()
            if due <= asyncio.get_running_loop().time():
                self._start_later()

    def _start_if_full(self, batch: _Batch) -> None:
        if len(batch.paths) + len(batch.opened) >= self._max_batch:
            self._start()

    def _start(self) -> None:
        batch, self._open = self._open, None
        if batch is not None:
            self._begin(batch)

    def _begin(self, batch: _Batch) -> asyncio.Task[None]:
        if batch.timer is not None:
            batch.timer.cancel()
        task = asyncio.get_running_loop().create_task(self._carry_out(batch), name="flush-batch")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not self._running:
            self._start()

    async def _carry_out(self, batch: _Batch) -> None:
        error: Exception | None = None
        try:
            files = [path for path in batch.paths if not path.endswith("/")]
            todo: list[str | int] = [*files, *batch.opened]
            directories = list(_directories(batch.paths))
            if batch.callers and len(todo) > 1:
                await self._sync_side_by_side(todo, directories)
            else:
                await self._sync_one_by_one(todo, directories)
        except asyncio.CancelledError:  # the loop ends: callers must neither wait for ever nor believe that it worked
            for caller in batch.callers:
                caller.cancel()
            raise
        except Exception as caught:  # noqa: BLE001 - a bug too belongs to who waits: raised here, nobody would see it
            error = caught
        self._held -= len(batch.opened)
        for caller in batch.callers:
            _answer(caller, error)
        if isinstance(error, OSError):
            for complain in batch.complain:
                complain(error)

    async def _sync_one_by_one(self, files: list[str | int], directories: list[str]) -> None:
        """Flush one file after the other in one thread while that is quick: handing each to a thread would cost more
        than the flush."""
        left = await self._hand_over(self._sync_while_quick, files, directories)
        if left:
            await self._sync_side_by_side(left, directories)

    def _sync_while_quick(self, files: Sequence[str | int], directories: list[str]) -> Sequence[str | int]:
        """Flush files as long as each is quick; return those that are left, with the directories. Empty: all is
        done."""
        for number, one in enumerate(files, start=1):
            began_at = time.monotonic()
            try:
                self._sync_each([one])
            except OSError:
                with contextlib.suppress(OSError):
                    self._sync_each(files[number:])
                raise
            if number < len(files) and time.monotonic() - began_at > _QUICK_S:
                return files[number:]
        self._sync_each(directories)
        return []

    async def _sync_side_by_side(self, files: Sequence[str | int], directories: list[str]) -> None:
        await self._sync_all(files)
        await self._sync_all(directories)

    async def _sync_all(self, todo: Sequence[str | int]) -> None:
        """Flush side by side; all are waited for, even if one has failed."""
        shares = [todo[start :: self._threads] for start in range(min(self._threads, len(todo)))]
        done = await asyncio.gather(
            *(self._hand_over(self._sync_each, share) for share in shares), return_exceptions=True
        )
        for result in done:
            if isinstance(result, BaseException):
                raise result

    def _hand_over(
        self, work: Callable[[Sequence[str | int], *_Args], _T], share: Sequence[str | int], *args: *_Args
    ) -> asyncio.Future[_T]:
        """Give work to a thread of the pool. The pool queues it before it starts a thread: refused another thread, it
        still has the work, and a busy thread comes to it. Only if there is no thread at all is the work taken back, and
        the files that it would have closed are closed here."""
        outcome: Future[_T] = Future()
        loop = asyncio.get_running_loop()
        try:
            done = loop.run_in_executor(self._pool, _carry, outcome, work, share, *args)
        except RuntimeError as error:
            refused = refused_thread(error)
            if self._has_thread:
                return asyncio.wrap_future(outcome)
            outcome.cancel()
            _close(share)
            done = loop.create_future()
            done.set_exception(refused)
            return done
        self._has_thread = True
        return done

    def _sync_each(self, share: Sequence[str | int]) -> None:
        """Flush everything, even after one has failed: an open file must be closed."""
        error: OSError | None = None
        for one in share:
            try:
                sync_open(one) if isinstance(one, int) else self._sync(one)
            except OSError as caught:
                error = error or caught
        if error is not None:
            raise error


class DeviceFlusher:
    """``ports.Flusher``: a group of its own for each file system, so that one that hangs (a dead network mount) takes
    neither the threads of the others nor a place in their batches."""

    def __init__(self, make: Callable[[], GroupFlusher] = GroupFlusher) -> None:
        self._make = make
        self._groups: dict[int, GroupFlusher] = {}
        self._devices: dict[str, int] = {}

    async def flush(self, paths: Sequence[str]) -> None:
        """Do as ``GroupFlusher.flush`` does."""
        shares: dict[int, list[str]] = {}
        for path in paths:
            shares.setdefault(self._device(path), []).append(path)
        if len(shares) == 1:  # nearly always the case
            await self._group(next(iter(shares))).flush(paths)
            return
        done = await asyncio.gather(
            *(self._group(device).flush(share) for device, share in shares.items()), return_exceptions=True
        )
        for result in done:
            if isinstance(result, BaseException):
                raise result

    def flush_later(self, path: str, failed: Callable[[OSError], None]) -> None:
        self._group(self._device(path)).flush_later(path, failed)

    async def aclose(self) -> None:
        for group in self._groups.values():
            await group.aclose()

    def _group(self, device: int) -> GroupFlusher:
        if device not in self._groups:
            self._groups[device] = self._make()
        return self._groups[device]

    def _device(self, path: str) -> int:
        """Return the device of a path's directory; remembered, because there are few. A path that is gone may go with
        any group."""
        directory = path.rpartition("/")[0] or "/"
        if directory not in self._devices:
            try:
                self._devices[directory] = os.stat(directory).st_dev  # noqa: PTH116 - a text, as all paths here
            except OSError:
                return 0
        return self._devices[directory]


class NoFlusher:
    """A flusher for ``durability = "process"``: the page cache survives us, and a power cut is accepted."""

    async def flush(self, paths: Sequence[str]) -> None:
        pass

    def flush_later(self, path: str, failed: Callable[[OSError], None]) -> None:
        pass

    async def aclose(self) -> None:
        pass


def _carry(outcome: Future[_T], work: Callable[[*_Args], _T], *args: *_Args) -> _T:
    """Do the work, unless it was taken back. The result is also set in ``outcome``, for whoever waits for that."""
    if outcome.set_running_or_notify_cancel():
        try:
            outcome.set_result(work(*args))
        except Exception as error:  # noqa: BLE001 - as an executor hands it on
            outcome.set_exception(error)
    return outcome.result()


def _close(share: Sequence[str | int]) -> None:
    for one in share:
        if isinstance(one, int):
            os.close(one)


def _answer(caller: asyncio.Future[None], error: Exception | None) -> None:
    if caller.done():  # the caller was cancelled while it waited
        return
    if error is None:
        caller.set_result(None)
    elif isinstance(error, OSError):  # a copy for each caller: a traceback belongs to one task
        caller.set_exception(OSError(error.errno, error.strerror, error.filename))
    else:
        caller.set_exception(error)


def _directories(paths: Iterable[str]) -> set[str]:
    split = (path.rpartition("/") for path in paths)
    return {directory or "/" for directory, _, name in split if not name.startswith(".")}
