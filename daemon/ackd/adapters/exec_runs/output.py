"""What a command prints: kept while it runs, up to a limit, so that a flood does not fill the disk.

The command writes to the file itself, for it outlives us; so the limit is kept by looking now and then, and between two
looks a command may go beyond it. (A pipe would be exact, but needs a process of ours that outlives us, or the command
would die with the daemon.) What is cut is the beginning: why a run failed stands at the end. Fails with OSError, as the
disk does; the command never hears of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_BYTES: Final = 8 * 1024 * 1024
#: Left of what was printed so far.
KEPT_BYTES: Final = 64 * 1024
LOOK_EVERY_S: Final = 0.25


def is_too_long(path: Path) -> bool:
    """Of the run in ``path``."""
    try:
        return (path / "output").stat().st_size > LIMIT_BYTES
    except OSError:
        return False


def size_of(path: Path) -> int:
    try:
        return (path / "output").stat().st_size
    except OSError:
        return 0


def end_of(path: Path, limit_bytes: int = KEPT_BYTES) -> bytes:
    """What was printed last; nothing if it cannot be read."""
    try:
        with (path / "output").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit_bytes))
            return file.read(limit_bytes)
    except OSError:
        return b""


def piece_of(path: Path, offset: int, limit_bytes: int) -> tuple[bytes, int]:
    """What was printed from there on, and where that ends. What was cut meanwhile is passed over."""
    try:
        with (path / "output").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size <= offset:
                return b"", size
            file.seek(offset)
            data = file.read(limit_bytes)
    except OSError:
        return b"", offset
    return data, offset + len(data)


def cut(path: Path) -> int:
    """Take away all but the end; how many bytes that was. May take long, for a thread.

    What the command prints in that moment may be lost with the rest. It appends, so it goes on after what is left.
    """
    fd = os.open(path / "output", os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        end = os.pread(fd, KEPT_BYTES, max(0, size - KEPT_BYTES))
        os.ftruncate(fd, 0)
        os.write(fd, b"[ackd cut %d bytes here]\n" % (size - len(end)) + end)
    finally:
        os.close(fd)
    return size - len(end)
