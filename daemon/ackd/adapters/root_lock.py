"""Who serves this root: the flock on the root directory itself, and the one on ``run/ackd.lock``.

Owns taking both, giving them back, asking who has them, and the pid written in the file. The directory's lock is the
one that counts, because nothing that is removed or replaced below the root frees it; the file says who, is what earlier
versions look at, and is put back when it was removed. Where directories cannot be flocked (NFS) the file's stands
alone: it is never unlinked by us, and if someone else unlinks it, ``still_ours`` says so. Fails with ``RootHeld`` when
another process has either, OSError when the file cannot be made or is a link.

Asking takes a shared lock for a moment. Askers disturb neither each other nor a running daemon; a daemon that starts in
that very moment finds it locked, which is why ``hold`` tries for a while before it believes it. Descriptors are closed
in every program that we start: a command that outlives its daemon holds nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from ackd.core.errors import RootHeld

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOCK_NAME: Final = "ackd.lock"
PATIENCE_S: Final = 0.25
_STEP_S: Final = 0.01
_MAX_CONTENT_BYTES: Final = 4096
#: What a file system says that has no such lock for a directory.
_NO_SUCH_LOCK: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
_NONE: Final = -1


class RootLock:
    """The held lock. It ends with the process, however that ends; ``release`` gives it back before."""

    def __init__(self, path: Path, fd: int, root_fd: int) -> None:
        """``root_fd``: of the locked root; ``_NONE`` where a directory cannot be locked."""
        self.path = path
        self._fd = fd
        self._root_fd = root_fd

    def still_ours(self) -> bool:
        """False once released, or when the root (without its lock: the file) was removed or replaced: then another
        daemon may start beside us."""
        if self._fd == _NONE:
            return False
        if self._root_fd != _NONE:
            return _is_same(self._root_fd, self.path.parent.parent)
        return _is_same_file(self._fd, self.path)

    def keep(self) -> None:
        """Take anew what was removed or replaced; ``RootHeld`` if another process was quicker."""
        run_dir = self.path.parent
        if not self.still_ours():
            anew = hold(run_dir)
            self.release()
            self._fd, self._root_fd = anew._fd, anew._root_fd  # noqa: SLF001 - of our own kind
        elif not _is_same_file(self._fd, self.path):
            fd = _take(run_dir)
            os.close(self._fd)
            self._fd = fd

    def release(self) -> None:
        for fd in (self._fd, self._root_fd):  # the root last: whoever waits for both gets both
            if fd != _NONE:
                os.close(fd)
        self._fd = self._root_fd = _NONE


def hold(run_dir: Path) -> RootLock:
    """The lock of this root, or ``RootHeld``. Makes ``run_dir`` if it is missing."""
    _make_private(run_dir)
    root_fd = _take_root(run_dir)
    try:
        return RootLock(run_dir / LOCK_NAME, _take(run_dir), root_fd)
    except BaseException:
        if root_fd != _NONE:
            os.close(root_fd)
        raise


def _take_root(run_dir: Path) -> int:
    root = run_dir.parent
    return _patiently(run_dir, lambda: _try_root(root))


def _try_root(root: Path) -> int | None:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    kept = False
    try:
        kept = _locked(fd, fcntl.LOCK_EX) and _is_same(fd, root)
    except OSError as error:
        if error.errno not in _NO_SUCH_LOCK:
            raise
        return _NONE
    finally:
        if not kept:
            os.close(fd)
    return fd if kept else None


def _take(run_dir: Path) -> int:
    _make_private(run_dir)
    return _patiently(run_dir, lambda: _try_file(run_dir / LOCK_NAME))


def _try_file(path: Path) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    kept = False
    try:
        kept = _locked(fd, fcntl.LOCK_EX) and _is_same_file(fd, path)
        if kept:
            _write_holder(fd)
    except BaseException:
        kept = False
        raise
    finally:
        if not kept:
            os.close(fd)
    return fd if kept else None


def _patiently(run_dir: Path, attempt: Callable[[], int | None]) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while (fd := attempt()) is None:
        if time.monotonic() >= deadline:
            raise RootHeld(str(run_dir.parent), holder(run_dir) or None)
        time.sleep(_STEP_S)
    return fd


def holder(run_dir: Path) -> int | None:
    """The pid of whoever holds the root; 0 if someone does but nothing says who; None if nobody does."""
    try:
        fd = os.open(run_dir / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return _root_holder(run_dir.parent)
    try:
        return _root_holder(run_dir.parent) if _locked(fd, fcntl.LOCK_SH) else _written_pid(fd)
    finally:
        os.close(fd)


def _root_holder(root: Path) -> int | None:
    """Whoever holds the directory, if the file does not say."""
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # not there, or not ours to look at
        return None
    try:
        return None if _locked(fd, fcntl.LOCK_SH) else _known_to_the_kernel(fd)
    except OSError:  # nobody can lock a directory here
        return None
    finally:
        os.close(fd)


def _known_to_the_kernel(fd: int) -> int:
    """Who has the lock by /proc/locks, which calls a file by its device and inode; 0 if it cannot be found there."""
    info = os.fstat(fd)
    name = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - quick to import
            rows = [line.split() for line in file]
    except OSError:
        return 0
    pids = [row[4] for row in rows if row[1:2] == ["FLOCK"] and row[5:6] == [name]]
    return int(pids[0]) if pids and pids[0].isdigit() else 0


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(fd: int, path: Path) -> bool:
    """Whether the path leads there; a root may be a link."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return _is_one(there, os.fstat(fd))


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return _is_one(there, os.fstat(fd))


def _is_one(there: os.stat_result, ours: os.stat_result) -> bool:
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _write_holder(fd: int) -> None:
    """Over what the last holder wrote, and cut then: on a full disk, room that is given up does not come back."""
    content = b'{"pid": %d}\n' % os.getpid()
    os.pwrite(fd, content, 0)
    os.ftruncate(fd, len(content))


def _written_pid(fd: int) -> int:
    import json  # noqa: PLC0415 - `ackd send` asks this module, mostly with nobody holding

    try:
        pid = json.loads(os.pread(fd, _MAX_CONTENT_BYTES, 0))["pid"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0
    return pid if isinstance(pid, int) and pid > 0 else 0


def _make_private(directory: Path) -> None:
    if not directory.is_dir():
        _make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
