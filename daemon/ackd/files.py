"""Files that several processes write: one holder at a time, and never half a file to be read. Public Python.

    @with_file_lock("queue/reports/completion-summary.yaml", timeout=10)
    def add(line): ...                     # sync and async functions; also `with` and `async with`

    atomic_write("queue/reports/completion-summary.yaml", text)
    atomic_write_with_lock("queue/reports/completion-summary.yaml", text, timeout=5)
    mine = atomic_claim("queue/tasks/task-001.yaml", "queue/processing")      # None: another was first

Owns the lock: a flock on ``.<name>.lock`` beside the file, which is made once and never unlinked, because whoever waits
on an unlinked file shares its lock with nobody. It ends with its holder, however that ends. Threads and tasks exclude
each other as processes do; so it is not re-entrant, and who asks for what it holds itself waits for itself until its
time is over.

Refuses to know what is in a file. Fails with ``FileLockTimeout``, which is a TimeoutError, and with OSError.
"""

from __future__ import annotations

import fcntl
import functools
import inspect
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from ackd.adapters import atomic_file
from ackd.core.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

__all__ = [
    "FileLock",
    "FileLockTimeout",
    "atomic_claim",
    "atomic_write",
    "atomic_write_with_lock",
    "make_private",
    "with_file_lock",
]

DEFAULT_TIMEOUT_S: Final = 30.0
#: Between two tries: short at first, for most holders are through in a moment.
_FIRST_PAUSE_S: Final = 0.001
_LONGEST_PAUSE_S: Final = 0.02
_LOCK_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

Function = TypeVar("Function", bound="Callable[..., Any]")


class FileLockTimeout(Busy, TimeoutError):  # noqa: N818 - the tree names the condition
    """``holder``: its pid, as far as the kernel says; our own where this very process waits for itself."""

    def __init__(self, path: str, timeout_s: float, holder: int | None) -> None:
        super().__init__(path, timeout_s, holder)
        self.path = path
        self.timeout_s = timeout_s
        self.holder = holder

    def __str__(self) -> str:
        who = "this very process" if self.holder == os.getpid() else f"process {self.holder}"
        held = f": {who} holds it" if self.holder is not None else ""
        return f"the lock of {self.path} could not be had within {self.timeout_s:g} s{held}"


class FileLock:
    """What ``with_file_lock`` makes. One may be used by any number of threads and tasks: each holding is its own."""

    def __init__(self, path: str | os.PathLike[str], timeout: float | None) -> None:
        self._path = path
        self._timeout_s = timeout
        self._holdings: list[_Holding] = []  # the lock excludes: more than one only in a process forked while it held

    def __call__(self, function: Function) -> Function:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator would be left waiting with the lock in its hand: lock inside of it")
        guarded = self._around_async if inspect.iscoroutinefunction(function) else self._around
        return guarded(function)  # type: ignore[return-value] # the same signature, which functools.wraps cannot say

    def __enter__(self) -> Self:
        self._holdings.append(self._acquire())
        return self

    def __exit__(self, *_: object) -> None:
        self._holdings.pop().release()

    async def __aenter__(self) -> Self:
        self._holdings.append(await self._acquire_async())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._holdings.pop().release()

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with self._acquire():
                return function(*args, **kwargs)

        return guarded

    def _around_async(
        self, function: Callable[..., Coroutine[Any, Any, Any]]
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        @functools.wraps(function)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            with await self._acquire_async():
                return await function(*args, **kwargs)

        return guarded

    def _acquire(self) -> _Holding:
        attempt = _Attempt(self._path, self._timeout_s)
        for pause_s in attempt.pauses():
            time.sleep(pause_s)
        return attempt.holding()

    async def _acquire_async(self) -> _Holding:
        """The loop runs on meanwhile; cancelled, nothing is held and nothing left open."""
        import anyio  # noqa: PLC0415 - costs 70 ms, and only those who are async have it loaded already

        attempt = _Attempt(self._path, self._timeout_s)
        for pause_s in attempt.pauses():
            await anyio.sleep(pause_s)
        return attempt.holding()


def with_file_lock(path: str | os.PathLike[str], timeout: float | None = DEFAULT_TIMEOUT_S) -> FileLock:
    """Nobody else who asks for the lock of this file runs meanwhile. ``timeout`` in seconds; None: as long as it takes.

    A relative path is looked up at each call, where the process then is. Links are followed: two names of one file
    have one lock. The directory is made if there is none.
    """
    return FileLock(path, timeout)


def atomic_write(path: str | os.PathLike[str], data: str | bytes, *, durable: bool = True) -> bool:
    """The file's whole new content: whoever reads sees all of the old or all of the new. True: what fails raises.

    Text is written as UTF-8. A file that is there keeps its mode and owner, a new one is 0600; the directory is made if
    there is none. ``durable``: flushed to the disk when this returns. Fails with OSError, and then all is as it was.
    """
    content = data.encode() if isinstance(data, str) else data
    target = Path(os.path.realpath(path))
    make_private(target.parent)
    atomic_file.overwrite(target, content, durable=durable)
    return True


def atomic_write_with_lock(
    path: str | os.PathLike[str], content: str | bytes, timeout: float = 5.0, *, durable: bool = True
) -> bool:
    """``atomic_write`` while nobody else who asks for the file's lock writes. False: the lock could not be had within
    ``timeout`` seconds, and nothing was written. What the disk refuses raises OSError."""
    try:
        with with_file_lock(path, timeout):
            return atomic_write(path, content, durable=durable)
    except FileLockTimeout:
        return False


def atomic_claim(path: str | os.PathLike[str], processing_dir: str | os.PathLike[str]) -> str | None:
    """Move a file into a directory, made if there is none, so that of any number of processes one has it: where it is
    now, or None if there is nothing to be had any more.

    What bears its name there already is not overwritten: the file gets a number behind its name. Both on one file
    system, else OSError.
    """
    make_private(Path(processing_dir))
    return atomic_file.claim(os.fspath(path), os.fspath(processing_dir))


class _Attempt:
    """From the first try to the last. Nothing is open between two of them: the file may be replaced meanwhile."""

    def __init__(self, path: str | os.PathLike[str], timeout_s: float | None) -> None:
        target = Path(os.path.realpath(path))
        make_private(target.parent)
        self._shown = os.fspath(path)
        self._lock_path = target.parent / f".{target.name}.lock"
        self._timeout_s = timeout_s
        self._holding: _Holding | None = None

    def pauses(self) -> Iterator[float]:
        """How long to wait before the next try, until it is held; ``FileLockTimeout`` when the time is over."""
        give_up_at = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        while not self._tried():
            left_s = _LONGEST_PAUSE_S if give_up_at is None else give_up_at - time.monotonic()
            if left_s <= 0:
                raise FileLockTimeout(self._shown, self._timeout_s or 0, _holder(self._lock_path))
            yield min(pause_s, left_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def holding(self) -> _Holding:
        assert self._holding is not None
        return self._holding

    def _tried(self) -> bool:
        fd = os.open(self._lock_path, _LOCK_FILE, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(fd, self._lock_path):  # else someone has removed it: others will lock the new one
                self._holding = _Holding(fd)
        except BlockingIOError:
            pass
        finally:
            if self._holding is None:
                os.close(fd)
        return self._holding is not None


class _Holding:
    """The held lock. A process forked meanwhile has the descriptor as well, so it is unlocked, not only closed; and
    by the holder only."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pid = os.getpid()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        try:
            if self._pid == os.getpid():
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            os.close(self._fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def _holder(path: Path) -> int | None:
    """As the kernel lists it: ``1: FLOCK  ADVISORY  WRITE 4711 08:01:1234567 0 EOF``."""
    try:
        inode, listed = path.lstat().st_ino, Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return None
    rows = (row.split() for row in listed.splitlines())
    pids = (int(row[4]) for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}"))
    return next((pid for pid in pids if pid > 0), None)


def make_private(directory: Path) -> None:
    """The directory, if there is none, and those above it: 0700."""
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
