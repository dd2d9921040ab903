"""Makes a bus, appends to it, and raises its events: everything that any process may do, with or without a daemon.

A line is appended whole, by one write, and never glued to the half line of a writer that died. Making a bus overwrites
nothing. Quick to import. Fails with OSError.
"""

import os
import time
from _thread import allocate_lock  # threading is slow to import
from collections.abc import Sequence
from typing import Final

from ackd.coordination.bus.rules.layout import Track
from ackd.storage import atomic_file

_LOOK_AGAIN_S: Final = 0.001
_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def append(path: str, lines: bytes) -> int:
    """Append whole lines to the file, which is made if it is missing. Returns the offset behind them."""
    fd = os.open(path, _APPEND, 0o600)
    try:
        _append(fd, os.fstat(fd).st_size, lines)
        return os.lseek(fd, 0, os.SEEK_CUR)
    finally:
        os.close(fd)


class Appender:
    """Appends again and again: the file stays open, unless another has taken its name, which is checked once in a
    millisecond. Nothing is lost by that: readers read a replaced file to its end (tailing)."""

    __slots__ = ("_fd", "_lock", "_looked_at", "_path", "_whose")

    def __init__(self, path: str) -> None:
        self._path, self._fd, self._whose, self._looked_at = path, -1, (0, 0), 0.0
        self._lock = allocate_lock()  # threads share the descriptor: none may open it anew while another writes

    def append(self, lines: bytes) -> None:
        with self._lock:
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
    while written < len(lines):  # a disk that is nearly full may take a part only
        written += os.write(fd, lines[written:])


def raise_event(events_dir: str, name: str) -> None:
    """Make the file ``name``, or give it a new time if it exists."""
    fd = os.open(f"{events_dir}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.utime(fd)
    finally:
        os.close(fd)


# --- making a bus -----------------------------------------------------------------------------------------------------
_FILES: Final[Sequence[tuple[str, bytes]]] = (
    ("queue.jsonl", b""),
    ("locks.json", b"{}\n"),
    ("worker-status.json", b"{}\n"),
    ("board/assessments.json", b"{}\n"),
    ("board/votes.json", b"{}\n"),
    ("board/discussion.jsonl", b""),
)


def make_track(track: Track) -> list[str]:
    """Make whatever is missing of the bus, for its owner only. Returns the names of what was made."""
    os.makedirs(os.path.dirname(track.bus), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 - pathlib is slow
    made = [name for name in ("", "events/", "board/") if _made_directory(f"{track.bus}/{name}")]
    return made + [name for name, content in _FILES if _made_file(f"{track.bus}/{name}", content)]


def _made_directory(path: str) -> bool:
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102
    except FileExistsError:
        return False
    return True


def _made_file(path: str, content: bytes) -> bool:
    """Make a file unless there is one. It appears with its content: nobody reads an empty locks.json."""
    if os.path.lexists(path):
        return False
    try:
        atomic_file.write_new(path, content, durable=False)
    except FileExistsError:
        return False
    return True
