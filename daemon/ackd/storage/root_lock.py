"""The lock of a root, which says who serves it: a flock on the root directory itself, and one on ``run/ackd.lock``.

The directory's lock is the one that counts, because nothing that is removed or replaced below the root frees it; the
file has the pid of the holder, is what earlier versions look at, and is put back when it was removed. Where directories
cannot be flocked (NFS) the file's lock stands alone: it is never unlinked by us, and if someone else unlinks it,
``still_ours`` says so. Fails with ``RootHeld`` when another process has either, OSError when the file cannot be made or
is a link.

Asking takes a shared lock for a moment. Askers disturb neither each other nor a running daemon; a daemon that starts in
that very moment finds it locked, which is why ``hold`` tries for a while before it believes it. Descriptors are closed
in every program that we start: a command that outlives its daemon holds nothing.
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Final

from ackd.core.errors import RootHeld
from ackd.storage.atomic_file import make_private
from ackd.storage.file_lock import holder_of, is_at, take

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOCK_NAME: Final = "ackd.lock"
PATIENCE_S: Final = 0.25
_STEP_S: Final = 0.01
_MAX_CONTENT_BYTES: Final = 4096
#: Errors of file systems on which a directory cannot be locked.
_NO_SUCH_LOCK: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
_NONE: Final = -1


class RootLock:
    """The held lock. It ends with the process, however that ends; ``release`` gives it back before."""

    def __init__(self, path: Path, fd: int, root_fd: int) -> None:
        """``root_fd``: descriptor of the locked root; ``_NONE`` where a directory cannot be locked."""
        self.path = path
        self._fd = fd
        self._root_fd = root_fd

    def still_ours(self) -> bool:
        """Return False once released, or when the root (without its lock: the file) was removed or replaced: then
        another daemon may start beside us."""
        if self._fd == _NONE:
            return False
        if self._root_fd != _NONE:
            return is_at(self._root_fd, self.path.parent.parent, follow_symlinks=True)  # a root may be a link
        return is_at(self._fd, self.path)

    def keep(self) -> None:
        """Take anew what was removed or replaced; ``RootHeld`` if another process was quicker."""
        run_dir = self.path.parent
        if not self.still_ours():
            anew = hold(run_dir)
            self.release()
            self._fd, self._root_fd = anew._fd, anew._root_fd  # noqa: SLF001 - of our own kind
        elif not is_at(self._fd, self.path):
            fd = _take(run_dir)
            os.close(self._fd)
            self._fd = fd

    def release(self) -> None:
        for fd in (self._fd, self._root_fd):  # the root last, so that whoever gets its lock can take the file's, too
            if fd != _NONE:
                os.close(fd)
        self._fd = self._root_fd = _NONE


def hold(run_dir: Path) -> RootLock:
    """Take the lock of this root, or ``RootHeld``. Makes ``run_dir`` if it is missing."""
    make_private(run_dir)
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
        kept = take(fd) and is_at(fd, root, follow_symlinks=True)
    except OSError as error:
        if error.errno not in _NO_SUCH_LOCK:
            raise
        return _NONE
    finally:
        if not kept:
            os.close(fd)
    return fd if kept else None


def _take(run_dir: Path) -> int:
    make_private(run_dir)
    return _patiently(run_dir, lambda: _try_file(run_dir / LOCK_NAME))


def _try_file(path: Path) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    kept = False
    try:
        kept = take(fd) and is_at(fd, path)
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
    """Return the pid of the root's holder; 0 if someone holds it but nothing says who; None if nobody does."""
    try:
        fd = os.open(run_dir / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return _root_holder(run_dir.parent)
    try:
        return _root_holder(run_dir.parent) if take(fd, shared=True) else _written_pid(fd)
    finally:
        os.close(fd)


def is_held_by(run_dir: Path, pid: int) -> bool:
    """Tell whether this process, of our own pid namespace, has the lock's file or the root open, as its holder has. The
    pid in the file may be one of another namespace, or an earlier holder's. Raises PermissionError for a process of
    another user's."""
    ours = [path.stat() for path in (run_dir / LOCK_NAME, run_dir.parent) if path.exists()]
    fds = f"/proc/{pid}/fd"
    for name in os.listdir(fds):  # noqa: PTH208
        try:
            there = os.stat(f"{fds}/{name}")  # noqa: PTH116
        except FileNotFoundError:  # closed meanwhile
            continue
        if any(os.path.samestat(there, one) for one in ours):
            return True
    return False


def _root_holder(root: Path) -> int | None:
    """Return the holder of the directory's lock, if the file does not say."""
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # missing, or we may not look at it
        return None
    try:
        return None if take(fd, shared=True) else holder_of(os.fstat(fd)) or 0
    except OSError:  # nobody can lock a directory here
        return None
    finally:
        os.close(fd)


def _write_holder(fd: int) -> None:
    """Write our pid over the last holder's, and truncate the file only after that: on a full disk, room that was given
    up first might not be available again."""
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
