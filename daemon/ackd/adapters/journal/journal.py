"""The in-flight journal: what ackd had in hand, and what it finished lately.

Owns ``state/journal.ndjson``: one line when a message is taken in hand, one when it is let go, one at a clean stop.
From it recovery learns which files vanished while nobody looked, how often ackd died with a message in hand, and what
the dedup memory held. Refuses to be the truth about where a message is: that is the directory. So appended lines are
never fsynced: what a power cut takes away costs a repeated delivery, never a message.

Lines are buffered until ``flush``. Torn and foreign lines are skipped and counted. A write that fails (full disk)
raises OSError and keeps what it could not write: the next flush goes on at the very byte.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.adapters.journal.entries import STOP, add_up, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.adapters.journal.entries import Held, JournalState, LetGo, TakenIn

COMPACT_ABOVE_BYTES: Final = 64 * 1024 * 1024
#: No more ends than this wait for what must go ahead of them: as many as the session log keeps lines.
KEPT_ENDS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Compaction:
    """A shorter journal, written beside the old one; it stands for the first ``covers_bytes`` of it."""

    temp: Path
    covers_bytes: int


class Journal:
    """Appends to one file. ``compact`` after ``load`` at start: it also takes the word "stop" away again."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._compact_above = COMPACT_ABOVE_BYTES
        #: A line that a crash tore must not swallow the first of ours.
        self._buffer = bytearray(b"\n" if self._size else b"")
        #: Ends that are not written yet, in order.
        self._ends: dict[Held, LetGo] = {}
        #: Asked before ends are written: whether what must reach the kernel no later than they has got there. If not,
        #: they wait: a message that nothing tells the end of must be found in hand by the next daemon.
        self.ahead: Callable[[], bool] = lambda: True

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Whoever opens it holds the root: a shorter journal that was never put in place is a dead daemon's."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in path.parent.glob(f".{path.name}.*.tmp"):
            left.unlink(missing_ok=True)
        return cls(path, _open_for_appending(path))

    # --- writing ------------------------------------------------------------------------------------------------------
    def take_in(self, entry: TakenIn) -> None:
        if entry.key in self._ends:  # the order of one message's lines is its story
            self._buffer += encode(self._ends.pop(entry.key))
        self._buffer += encode(entry)

    def let_go(self, entry: LetGo) -> None:
        self._ends[entry.key] = entry

    def stop(self) -> None:
        """The clean stop, at once."""
        self._add_ends()
        self._buffer += STOP
        self.flush()

    def flush(self) -> None:
        """Hand the lines to the kernel: from there on they survive us."""
        if self._ends:
            self._add_ends()
        if self._buffer:
            self._follow_lost_file()
        while self._buffer:
            written = os.write(self._fd, self._buffer)
            del self._buffer[:written]
            self._size += written

    def _add_ends(self) -> None:
        """All, or as many as are too many to wait: the log has dropped the oldest ones' lines by then, and says so."""
        due = len(self._ends) if self.ahead() else max(0, len(self._ends) - KEPT_ENDS)
        for key in list(itertools.islice(self._ends, due)):
            self._buffer += encode(self._ends.pop(key))

    def close(self) -> None:
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1

    def _follow_lost_file(self) -> None:
        """Removed under us (``git clean``): the next daemon must find it all the same, with what it said before."""
        if os.fstat(self._fd).st_nlink:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temp = self._path.with_name(f".{self._path.name}.{os.urandom(4).hex()}.tmp")
        fd = _open_for_appending(temp)
        try:
            with open(f"/proc/self/fd/{self._fd}", "rb") as old, open(fd, "wb", closefd=False) as new:  # noqa: PTH123
                shutil.copyfileobj(old, new)
            temp.rename(self._path)
        except OSError:
            os.close(fd)
            temp.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._fd = fd

    # --- reading ------------------------------------------------------------------------------------------------------
    def load(self, now_wall: float, window_s: float) -> JournalState:
        """What the file says, with completions of the last ``window_s`` only. A disk that takes nothing is read all the
        same, or a daemon could not start on it: what it refuses is kept for the next flush."""
        with contextlib.suppress(OSError):
            self.flush()
        state, _ = add_up(self._path, self._size, now_wall - window_s)
        return state

    # --- keeping it short ---------------------------------------------------------------------------------------------
    @property
    def too_large(self) -> bool:
        """Compacting is worth while. Not before the size has doubled: a long memory is not rewritten all the time."""
        return self._size > self._compact_above

    def compact(self, state: JournalState) -> None:
        """Replace the file by what ``state`` says, at once. A crash leaves the old file or the new one."""
        self.flush()
        temp = _write_state(self._path, state)
        self._replace_by(temp)

    def prepare_compaction(self, now_wall: float, window_s: float) -> Compaction:
        """The slow part, fit for a thread: reads the file as it is now, while lines are still appended."""
        state, covers_bytes = add_up(self._path, self._size, now_wall - window_s)
        return Compaction(_write_state(self._path, state), covers_bytes)

    def finish_compaction(self, prepared: Compaction) -> None:
        """The quick part, on the loop: adds the lines that came meanwhile and takes the new file's name."""
        self.flush()
        with self._path.open("rb") as old, prepared.temp.open("ab") as new:
            old.seek(prepared.covers_bytes)
            new.write(old.read())
        self._replace_by(prepared.temp)

    def _replace_by(self, temp: Path) -> None:
        fd = -1
        try:
            fd = _open_for_appending(temp)
            temp.replace(self._path)
        except OSError:
            if fd >= 0:
                os.close(fd)
            with contextlib.suppress(OSError):
                temp.unlink()
            raise
        os.close(self._fd)
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._compact_above = max(COMPACT_ABOVE_BYTES, 2 * self._size)


def _open_for_appending(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def _write_state(path: Path, state: JournalState) -> Path:
    temp = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with open(_open_for_appending(temp), "wb") as file:
            file.writelines(map(encode, state.completed))
            file.writelines(map(encode, state.in_flight.values()))
            file.flush()
            # Renamed without it, a power cut could leave nothing at all in place of everything.
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):  # the disk that refused may refuse this, too: the next start removes it
            temp.unlink()
        raise
    return temp
