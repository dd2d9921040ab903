"""flock(2): the one way in which a process keeps others from changing a file, and how to find out who does.

A lock belongs to a file of its own (``.lock``, ``locks.json.lock``, ``.<name>.lock``) that is made once, 0600, and
never unlinked by us, because whoever waits for an unlinked file shares its lock with nobody. If somebody else unlinks
it, the file that bears the name now is the one that counts: both ``acquire`` and ``LockFile`` look at the name again
once they have the lock. A lock ends with its holder, however that ends. A process that was forked meanwhile has the
descriptor too, so a lock is given back by unlocking and not only by closing, and by the process that took it.
Descriptors are closed in every program that is started. Interrupted calls are made again by Python.

``acquire`` is for locks that are held now and then: it opens the file for each holding and polls until its time is
over. ``LockFile`` is for a lock that is taken all the time: it keeps its descriptor and waits in the kernel. The lock
of a root is ``root_lock``'s. Quick to import. Fails with OSError; a lock that could not be had is None, and the caller
says in its own words what is held.
"""

# ruff: noqa: PTH116, PTH123
from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Pauses between two tries: short at first, because most holders are through in a moment.
_FIRST_PAUSE_S: Final = 0.001
_LONGEST_PAUSE_S: Final = 0.01
_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


# --- one descriptor ---------------------------------------------------------------------------------------------------
def take(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file without waiting; False if another holds it. ``shared``: only to ask whether it is locked."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for(fd: int) -> None:
    """Lock an open file, as long as that takes."""
    fcntl.flock(fd, fcntl.LOCK_EX)


def is_at(fd: int, path: str | os.PathLike[str], *, follow_symlinks: bool = False) -> bool:
    """Say whether the path still leads to the open file, so that others will lock the same one."""
    try:
        there = os.stat(path, follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def holder_of(info: os.stat_result) -> int | None:
    """Return the pid of whoever holds the lock of a file, as far as ``/proc/locks`` tells; else None.

    A row reads ``1: FLOCK  ADVISORY  WRITE 4711 08:01:1234567 0 EOF``. Some file systems (btrfs) show another device
    there than stat does: then the inode has to do.
    """
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return None
    held = {row[5]: int(row[4]) for row in reversed(rows) if row[1:2] == ["FLOCK"] and row[4].isdigit()}
    exact = held.get(f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}")
    alike = next((pid for name, pid in held.items() if name.endswith(f":{info.st_ino}")), None)
    return exact or alike or None


# --- a lock file ------------------------------------------------------------------------------------------------------
class HeldLock:
    """A lock that is held, until ``release`` or the end of the ``with`` block."""

    __slots__ = ("_fd", "_pid")

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


def acquire(path: str | os.PathLike[str], timeout_s: float | None) -> HeldLock | None:
    """Hold the lock file at ``path``, which is made if it is missing; None if it could not be had in time.

    A ``timeout_s`` of None waits as long as it takes.
    """
    attempt = _Attempt(path, timeout_s)
    for pause_s in attempt.pauses():
        time.sleep(pause_s)
    return attempt.held


async def acquire_async(path: str | os.PathLike[str], timeout_s: float | None) -> HeldLock | None:
    """Do as ``acquire`` does while the event loop runs on; cancelled, it holds nothing and leaves nothing open."""
    import anyio  # noqa: PLC0415 - costs 70 ms, and only those who are async have it loaded already

    attempt = _Attempt(path, timeout_s)
    for pause_s in attempt.pauses():
        await anyio.sleep(pause_s)
    return attempt.held


class _Attempt:
    """A wait for a lock. Nothing is open between two tries, because the file may be replaced meanwhile."""

    def __init__(self, path: str | os.PathLike[str], timeout_s: float | None) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self.held: HeldLock | None = None

    def pauses(self) -> Iterator[float]:
        """Yield how long to wait before the next try. Ends when the lock is held, or when the time is over."""
        give_up_at = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        while not self._tried():
            left_s = _LONGEST_PAUSE_S if give_up_at is None else give_up_at - time.monotonic()
            if left_s <= 0:
                return
            yield min(pause_s, left_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _tried(self) -> bool:
        fd = open_lock_file(self._path)
        try:
            if take(fd) and is_at(fd, self._path):
                self.held = HeldLock(fd)
        finally:
            if self.held is None:
                os.close(fd)
        return self.held is not None


def open_lock_file(path: str | os.PathLike[str]) -> int:
    """Open a lock file; one that is missing is made. A lock that is only taken changes nothing on disk."""
    try:
        return os.open(path, _OPEN)
    except FileNotFoundError:
        return os.open(path, _OPEN | os.O_CREAT, 0o600)


class LockFile:
    """A lock file that stays open between two holdings: opening it would take as long as what is done under the lock.

    Threads of one process are not kept apart by it: they share the descriptor.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd, self._pid, self._inode = -1, 0, (0, 0)

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """Hold the lock, however long it takes to get; gives the descriptor, for what is written in the file."""
        fd = self._lock()
        try:
            yield fd
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the descriptor; the next holding opens it again."""
        if self._pid == os.getpid():
            os.close(self._fd)
        self._fd, self._pid = -1, 0

    def _lock(self) -> int:
        """Lock the file that bears the name now. A forked child shares its parent's lock, and so opens it anew."""
        while True:
            if self._pid != os.getpid():
                self._open()
            wait_for(self._fd)
            try:
                there = os.stat(self._path, follow_symlinks=False)
            except FileNotFoundError:
                there = None
            if there is not None and (there.st_dev, there.st_ino) == self._inode:
                return self._fd
            self.close()

    def _open(self) -> None:
        fd = open_lock_file(self._path)
        found = os.fstat(fd)
        self._fd, self._pid, self._inode = fd, os.getpid(), (found.st_dev, found.st_ino)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()
