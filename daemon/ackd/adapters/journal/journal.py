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
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.adapters.journal.entries import STOP, add_up, encode
from ackd.adapters.journal.files import add_to, open_for_appending, put_back, temp_beside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.adapters.journal.entries import Held, JournalState, LetGo, TakenIn

COMPACT_ABOVE_BYTES: Final = 64 * 1024 * 1024
#: No more ends than this wait for what must go ahead of them: as many as the session log keeps lines.
KEPT_ENDS: Final = 10_000
#: A file that was removed is noticed at once; one that was moved away costs a look at the path.
LOOK_INTERVAL_S: Final = 1.0
_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Compaction:
    """A shorter journal, written beside the old one; it stands for the first ``covers_bytes`` of it.

    ``followed``: how often the file had been lost and followed by then. Once more, and those bytes are others.
    """

    temp: Path
    covers_bytes: int
    followed: int


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
        #: Asked before anything is written to a journal that we did not open, or to a root that is not the one we began
        #: with: another daemon may serve it.
        self.root_is_ours: Callable[[], bool] = lambda: True
        self._looked_at = _NEVER
        self._followed = 0

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Whoever opens it holds the root: a shorter journal that was never put in place is a dead daemon's."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in path.parent.glob(f".{path.name}.*.tmp"):
            left.unlink(missing_ok=True)
        return cls(path, open_for_appending(path))

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
        self._looked_at = _NEVER  # there is no later look
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
        """Removed or moved away under us (``git clean``, ``mv``): the next daemon must find it all the same, with what
        it said before."""
        removed, now = not os.fstat(self._fd).st_nlink, time.monotonic()
        if not removed and now - self._looked_at < LOOK_INTERVAL_S:
            return
        if self._is_lost():
            self._follow(removed)
        else:
            self._looked_at = now

    def _is_lost(self) -> bool:
        there, ours = _look_at(self._path), os.fstat(self._fd)
        return there is None or (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

    def _follow(self, removed: bool) -> None:
        there = _look_at(self._path)
        if there is not None and stat.S_ISREG(there.st_mode):
            if not self.root_is_ours():
                return
            fd = add_to(self._fd, self._path)
        elif removed or (self._path.parent.parent.is_dir() and self.root_is_ours()):
            fd = put_back(self._fd, self._path)
        else:
            return  # the root is moved away, and may be moved back: nothing is lost, nothing is made in its place
        os.close(self._fd)
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._followed += 1

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
        followed = self._followed
        state, covers_bytes = add_up(self._path, self._size, now_wall - window_s)
        return Compaction(_write_state(self._path, state), covers_bytes, followed)

    def finish_compaction(self, prepared: Compaction) -> None:
        """The quick part, on the loop: adds the lines that came meanwhile and takes the new file's name.

        Not if the file was lost meanwhile: the next time will do.
        """
        self.flush()
        if self._is_lost() or self._followed != prepared.followed:
            prepared.temp.unlink(missing_ok=True)
            return
        with self._path.open("rb") as old, prepared.temp.open("ab") as new:
            old.seek(prepared.covers_bytes)
            new.write(old.read())
        self._replace_by(prepared.temp)

    def _replace_by(self, temp: Path) -> None:
        fd = -1
        try:
            fd = open_for_appending(temp)
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


def _look_at(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _write_state(path: Path, state: JournalState) -> Path:
    temp = temp_beside(path)
    try:
        with os.fdopen(open_for_appending(temp), "wb") as file:
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
