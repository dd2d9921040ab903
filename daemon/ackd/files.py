"""Locks and atomic writes for files that several processes share. Public Python.

    @with_file_lock("queue/reports/completion-summary.yaml", timeout=10)
    def add(line): ...                     # sync and async functions; also `with` and `async with`

    atomic_write("queue/reports/completion-summary.yaml", text)
    atomic_write_with_lock("queue/reports/completion-summary.yaml", text, timeout=5)
    mine = atomic_claim("queue/tasks/task-001.yaml", "queue/processing")      # None: another was first

The lock is a flock on ``.<name>.lock`` beside the file (storage/file_lock). It ends with its holder, however that ends.
Threads and tasks exclude each other as processes do. So the lock is not re-entrant: a holder that asks for it again
waits for itself until the timeout. Fails with ``FileLockTimeout``, which is a TimeoutError, and with OSError.
"""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from ackd.core.errors import Busy
from ackd.storage import atomic_file, file_lock
from ackd.storage.atomic_file import make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ackd.storage.file_lock import HeldLock

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

Function = TypeVar("Function", bound="Callable[..., Any]")


class FileLockTimeout(Busy, TimeoutError):  # noqa: N818 - the tree names the condition
    """The lock could not be had in time. ``holder``: the pid of its holder, as far as the kernel tells; our own pid if
    this process waits for itself."""

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
    """The lock that ``with_file_lock`` makes. Any number of threads and tasks may use it: each holding is its own."""

    def __init__(self, path: str | os.PathLike[str], timeout: float | None) -> None:
        self._path = path
        self._timeout_s = timeout
        self._holdings: list[HeldLock] = []  # at most one, except in a process that was forked while the lock was held

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

    def _acquire(self) -> HeldLock:
        lock_path = self._lock_path()
        return file_lock.acquire(lock_path, self._timeout_s) or self._time_is_over(lock_path)

    async def _acquire_async(self) -> HeldLock:
        """Wait while the loop runs on. If the wait is cancelled, nothing is held and nothing left open."""
        lock_path = self._lock_path()
        return await file_lock.acquire_async(lock_path, self._timeout_s) or self._time_is_over(lock_path)

    def _lock_path(self) -> Path:
        """Look the path up at each call: a relative one is relative to where the process then is."""
        target = Path(os.path.realpath(self._path))
        make_private(target.parent)
        return target.parent / f".{target.name}.lock"

    def _time_is_over(self, lock_path: Path) -> NoReturn:
        try:
            holder = file_lock.holder_of(lock_path.lstat())
        except OSError:
            holder = None
        raise FileLockTimeout(os.fspath(self._path), self._timeout_s or 0, holder)


def with_file_lock(path: str | os.PathLike[str], timeout: float | None = DEFAULT_TIMEOUT_S) -> FileLock:
    """Keep out everybody else who asks for the lock of this file. ``timeout`` in seconds; None waits without limit.

    A relative path is resolved at each call, against the current directory at that time. Links are followed, so that
    two names of one file share a lock. A missing directory is made.
    """
    return FileLock(path, timeout)


def atomic_write(path: str | os.PathLike[str], data: str | bytes, *, durable: bool = True) -> bool:
    """Write the file's whole new content: a reader sees all of the old or all of the new. Always returns True, because
    failures raise.

    Text is written as UTF-8. An existing file keeps its mode and owner, a new one is 0600; a missing directory is made.
    ``durable``: the file is flushed to the disk when this returns. Fails with OSError, and then nothing has changed.
    """
    content = data.encode() if isinstance(data, str) else data
    target = Path(os.path.realpath(path))
    make_private(target.parent)
    atomic_file.overwrite(target, content, durable=durable)
    return True


def atomic_write_with_lock(
    path: str | os.PathLike[str], content: str | bytes, timeout: float = 5.0, *, durable: bool = True
) -> bool:
    """Do as ``atomic_write`` does, under the file's lock. Returns False, and writes nothing, if the lock could not be
    had within ``timeout`` seconds. A refusal of the disk raises OSError."""
    try:
        with with_file_lock(path, timeout):
            return atomic_write(path, content, durable=durable)
    except FileLockTimeout:
        return False


def atomic_claim(path: str | os.PathLike[str], processing_dir: str | os.PathLike[str]) -> str | None:
    """Move a file into a directory, so that only one of any number of processes gets it. Return its new path, or None
    if there is nothing to claim any more. A missing directory is made.

    A file of the same name in the directory is not overwritten: the claimed one gets a number after its name. Both
    paths must be on one file system, or OSError is raised.
    """
    make_private(Path(processing_dir))
    return atomic_file.claim(os.fspath(path), os.fspath(processing_dir))
