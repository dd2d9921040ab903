"""Reads the small files of a bus that others write, worker-status.json and the event files, and removes old events.

Nothing blocks, and no link is followed. Fails with OSError.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
#: The most event files that are removed in one go, because the event loop waits meanwhile.
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class StateFile:
    """``identity`` changes with every write; ``written_at``: wall seconds."""

    identity: tuple[int, int, int]
    written_at: float
    data: bytes


def identity_of(path: str) -> tuple[int, int, int] | None:
    """A value that changes when the file is written; None: there is no such file, or it is no regular one."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return None
    return (info.st_ino, info.st_mtime_ns, info.st_size) if stat.S_ISREG(info.st_mode) else None


def read_file(path: str, max_bytes: int) -> StateFile | None:
    """The file; None: there is no such file, or it is no regular one, or larger than allowed."""
    try:
        fd = os.open(path, _READ)
    except FileNotFoundError:
        return None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > max_bytes:
            return None
        data = os.pread(fd, max_bytes, 0)
        return StateFile((info.st_ino, info.st_mtime_ns, info.st_size), info.st_mtime, data)
    finally:
        os.close(fd)


def last_written(*paths: str) -> float:
    """Return the time at which the newest of these files was written; 0 if there is none."""
    newest = 0.0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            newest = max(newest, os.lstat(path).st_mtime)
    return newest


def clear_events(events_dir: str, before: float, wanted: Callable[[str], bool]) -> tuple[int, bool]:
    """Remove event files that are older and that ``wanted`` selects. Return how many, and whether more may be left."""
    removed = looked_at = 0
    try:
        with os.scandir(events_dir) as entries:
            for entry in entries:
                looked_at += 1
                if not entry.name.endswith(".event") or not wanted(entry.name):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < before:
                        os.unlink(entry.path)  # noqa: PTH108
                        removed += 1
                if removed >= _AT_ONCE:
                    return removed, True
    except (FileNotFoundError, NotADirectoryError):
        return removed, False
    return removed, False


def make_directory(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)  # noqa: PTH102
