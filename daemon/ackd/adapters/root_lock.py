"""Who serves this root: the flock on ``run/ackd.lock``.

Owns taking the lock, asking whether it is held, and the pid written in it. The file is never unlinked: two daemons
would each hold "the" lock. Fails with ``RootHeld`` when another process has it, OSError when it cannot be made.

Asking takes a shared lock for a moment. Askers do not disturb each other or a running daemon; a daemon that starts in
that very moment finds the file locked, which is why ``hold`` tries for a while before it believes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from ackd.core.errors import RootHeld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_NAME: Final = "ackd.lock"
PATIENCE_S: Final = 0.25
_STEP_S: Final = 0.01


def is_held(run_dir: Path) -> bool:
    """True if a daemon (or an operator's command that moves files) has the root. No lock file: nobody ever had."""
    try:
        fd = os.open(run_dir / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def holder(run_dir: Path) -> int | None:
    """The pid that the holder wrote; None if it is not there yet or makes no sense. Only meaningful while held."""
    try:
        text = (run_dir / LOCK_NAME).read_text(encoding="ascii", errors="replace")[:20].strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) > 0 else None


@contextlib.contextmanager
def hold(run_dir: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """The root is ours inside the block, or ``RootHeld``. ``run_dir`` must exist."""
    fd = os.open(run_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + patience_s
        while not _locked(fd, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise RootHeld(str(run_dir.parent), holder(run_dir))
            time.sleep(_STEP_S)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
