"""Appending to a bus, and raising its events: what any process may do, with or without a daemon.

Owns that a line is appended whole, by one write, and never glued to the half line of somebody who died. Refuses to know
what it says. Quick to import. Fails with OSError.
"""

import os
import time
from typing import Final

_LOOK_AGAIN_S: Final = 0.001
_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def append(path: str, lines: bytes) -> int:
    """Whole lines at the end of the file, which is made if it is missing. Returns the offset behind them."""
    fd = os.open(path, _APPEND, 0o600)
    try:
        _append(fd, os.fstat(fd).st_size, lines)
        return os.lseek(fd, 0, os.SEEK_CUR)
    finally:
        os.close(fd)


class Appender:
    """The same for who appends again and again: the file stays open, unless another has taken its name. That is looked
    at once in a millisecond; who reads a file to its end when it is replaced misses nothing (tailing)."""

    __slots__ = ("_fd", "_looked_at", "_path", "_whose")

    def __init__(self, path: str) -> None:
        self._path, self._fd, self._whose, self._looked_at = path, -1, (0, 0), 0.0

    def append(self, lines: bytes) -> None:
        now = time.monotonic()
        if now - self._looked_at > _LOOK_AGAIN_S:
            self._look()
            self._looked_at = now
        _append(self._fd, os.lseek(self._fd, 0, os.SEEK_END), lines)

    def _look(self) -> None:
        try:
            info = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116 - pathlib is slow to import
        except FileNotFoundError:
            self._open()
        else:
            if (info.st_dev, info.st_ino) != self._whose:
                self._open()

    def close(self) -> None:
        fd, self._fd, self._whose, self._looked_at = self._fd, -1, (0, 0), 0.0
        if fd >= 0:
            os.close(fd)

    def _open(self) -> None:
        self.close()
        self._fd = os.open(self._path, _APPEND, 0o600)
        info = os.fstat(self._fd)
        self._whose = (info.st_dev, info.st_ino)


def _append(fd: int, size: int, lines: bytes) -> None:
    if size and os.pread(fd, 1, size - 1) != b"\n":
        lines = b"\n" + lines
    written = os.write(fd, lines)
    while written < len(lines):  # a disk that is nearly full takes a part
        written += os.write(fd, lines[written:])


def raise_event(events_dir: str, name: str) -> None:
    """The file ``name``, with a new time if it is there already."""
    fd = os.open(f"{events_dir}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.utime(fd)
    finally:
        os.close(fd)
