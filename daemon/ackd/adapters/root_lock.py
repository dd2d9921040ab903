"""Who serves this root: the flock on ``run/ackd.lock``.

Owns taking the lock, giving it back, asking who has it, and the pid written in it. The file is never unlinked, because
two daemons would each hold "the" lock; if someone else unlinks it, ``still_ours`` says so. Fails with ``RootHeld`` when
another process has it, OSError when it cannot be made or is a link.

Asking takes a shared lock for a moment. Askers disturb neither each other nor a running daemon; a daemon that starts in
that very moment finds the file locked, which is why ``hold`` tries for a while before it believes it.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from ackd.core.errors import RootHeld

if TYPE_CHECKING:
    from pathlib import Path

LOCK_NAME: Final = "ackd.lock"
PATIENCE_S: Final = 0.25
_STEP_S: Final = 0.01
_MAX_CONTENT_BYTES: Final = 4096


class RootLock:
    """The held lock. It ends with the process, however that ends; ``release`` gives it back before."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    def still_ours(self) -> bool:
        """False once released, or when the file was removed or replaced: then another daemon may start beside us."""
        return self._fd >= 0 and _is_same_file(self._fd, self.path)

    def keep(self) -> None:
        """Take it anew if the file was removed or replaced; ``RootHeld`` if another process was quicker."""
        if self.still_ours():
            return
        anew = _take(self.path.parent)
        self.release()
        self._fd = anew

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def hold(run_dir: Path) -> RootLock:
    """The lock of this root, or ``RootHeld``. Makes ``run_dir`` if it is missing."""
    return RootLock(run_dir / LOCK_NAME, _take(run_dir))


def _take(run_dir: Path) -> int:
    _make_private(run_dir)
    path = run_dir / LOCK_NAME
    deadline = time.monotonic() + PATIENCE_S
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if _locked(fd, fcntl.LOCK_EX) and _is_same_file(fd, path):
                _write_holder(fd)
                return os.dup(fd)
        finally:
            os.close(fd)  # the duplicate keeps the lock: a flock belongs to the open file, not to a descriptor
        if time.monotonic() >= deadline:
            raise RootHeld(str(run_dir.parent), holder(run_dir) or None)
        time.sleep(_STEP_S)


def holder(run_dir: Path) -> int | None:
    """The pid of whoever holds the root; 0 if someone does but the file does not say who; None if nobody does."""
    try:
        fd = os.open(run_dir / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return None if _locked(fd, fcntl.LOCK_SH) else _written_pid(fd)
    finally:
        os.close(fd)


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    ours = os.fstat(fd)
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
