"""The in-flight journal: the messages that ackd had in hand, and those that it finished lately.

``state/journal.ndjson`` gets one line when a message is taken in hand, one when it is let go, one at a clean stop. From
it recovery learns which files vanished while no daemon ran, how often ackd died with a message in hand, and which
completed messages a duplicate must be compared with. The place of a message is decided by its directory alone. So
appended lines are never fsynced: a line that a power cut takes away costs a repeated delivery, never a message.

Lines are buffered until ``flush``. Torn and foreign lines are skipped and counted. A write that fails (full disk)
raises OSError and keeps what it could not write: the next flush goes on at the very byte. A file that is removed or
moved away is brought back to its path; if that fails with OSError, the path is as it was.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.storage.journal.entries import PARTS_KEPT_S, STOP, NoticeWritten, add_up, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from ackd.core.parts import PartEnd, PartsNotice
    from ackd.storage.journal.entries import Held, JournalState, PutAway, TakenIn

COMPACT_ABOVE_BYTES: Final = 64 * 1024 * 1024
#: At most this many ends wait for the session log lines that must be written before them: as many as the session log
#: keeps lines.
KEPT_ENDS: Final = 10_000
#: A file that was removed is noticed at once; one that was moved away costs a look at the path.
LOOK_INTERVAL_S: Final = 1.0
_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Compaction:
    """A shorter journal, written beside the old one; it stands for the first ``covers_bytes`` of it.

    ``followed``: how often the file had been lost and followed by then. If that has happened again since, the first
    ``covers_bytes`` are no longer the same bytes.
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
        #: Begins with a line end, so that a line that a crash tore does not swallow our first line.
        self._buffer = bytearray(b"\n" if self._size else b"")
        #: Ends and written notices that are not in the file yet, in order. A notice's key is its id.
        self._ends: dict[Held | str, PutAway | NoticeWritten] = {}
        #: Called before ends are written; returns whether everything that must reach the kernel before them has got
        #: there. If not, they wait: a message whose end is recorded nowhere must be found in hand by the next daemon,
        #: and a notice that no line tells of is written, and told of, again.
        self.ahead: Callable[[], bool] = lambda: True
        #: Called before anything is written to a journal that we did not open, or to a root that is not the one we
        #: began with: another daemon may serve it.
        self.root_is_ours: Callable[[], bool] = lambda: True
        self._looked_at = _NEVER
        self._followed = 0

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open the journal. The caller holds the root, so a shorter journal that was never put in place is a dead
        daemon's, and is removed."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in path.parent.glob(f".{path.name}.*.tmp"):
            left.unlink(missing_ok=True)
        return cls(path, open_for_appending(path))

    # --- writing ------------------------------------------------------------------------------------------------------
    def take_in(self, entry: TakenIn) -> None:
        if entry.key in self._ends:  # the lines of one message must stay in order
            self._buffer += encode(self._ends.pop(entry.key))
        self._buffer += encode(entry)

    def let_go(self, entry: PutAway) -> None:
        self._ends[entry.key] = entry

    def note(self, entry: PartEnd | PartsNotice | NoticeWritten) -> None:
        """Keep what is known about parts. It is written before the ends of the messages that it is about. That a notice
        is on disk is written after the line that tells of it."""
        if isinstance(entry, NoticeWritten):
            self._ends[entry.notice_id] = entry
        else:
            self._buffer += encode(entry)

    def stop(self) -> None:
        """Write the line of a clean stop, at once."""
        self._add_ends()
        self._buffer += STOP
        self._looked_at = _NEVER  # forces a look at the path now: this is the last chance
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
        """Write the ends that may go out now: all, or those above ``KEPT_ENDS``, whose log lines have been dropped by
        then with a line that says so."""
        due = len(self._ends) if self.ahead() else max(0, len(self._ends) - KEPT_ENDS)
        for key in list(itertools.islice(self._ends, due)):
            self._buffer += encode(self._ends.pop(key))

    def close(self) -> None:
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1

    def _follow_lost_file(self) -> None:
        """Follow a file that was removed or moved away under us (``git clean``, ``mv``): the next daemon must find it
        at its path all the same, with what it said before."""
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
            return  # the root was moved away, and may be moved back: nothing is lost, so nothing is made in its place
        os.close(self._fd)
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._followed += 1

    # --- reading ------------------------------------------------------------------------------------------------------
    def load(self, now_wall: float, window_s: float) -> JournalState:
        """Add up the file, with completions of the last ``window_s`` only. Lines that the disk refuses meanwhile are
        kept for the next flush: a daemon must be able to start on a full disk."""
        with contextlib.suppress(OSError):
            self.flush()
        state, _ = add_up(self._path, self._size, now_wall - window_s, now_wall - PARTS_KEPT_S)
        return state

    # --- keeping it short ---------------------------------------------------------------------------------------------
    @property
    def too_large(self) -> bool:
        """True if compacting is worth while: only when the size has doubled, so that a journal of many lines that are
        still needed is not rewritten all the time."""
        return self._size > self._compact_above

    def compact(self, state: JournalState) -> None:
        """Replace the file by what ``state`` says, at once. A crash leaves the old file or the new one."""
        self.flush()
        temp = _write_state(self._path, state)
        self._replace_by(temp)

    def prepare_compaction(self, now_wall: float, window_s: float) -> Compaction:
        """Do the slow part, which may run in a thread: read the file as it is now, while lines are still appended."""
        followed = self._followed
        state, covers_bytes = add_up(self._path, self._size, now_wall - window_s, now_wall - PARTS_KEPT_S)
        return Compaction(_write_state(self._path, state), covers_bytes, followed)

    def finish_compaction(self, prepared: Compaction) -> None:
        """Do the quick part, on the loop: add the lines that came meanwhile, and put the new file in place of the old.

        Does nothing if the file was lost meanwhile: the next compaction will do.
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
            file.writelines(map(encode, state.parts.values()))
            file.writelines(map(encode, state.notices.values()))
            file.writelines(map(encode, state.in_flight.values()))
            file.flush()
            # Without this flush, a power cut after the rename could leave an empty journal.
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):  # a disk with trouble may refuse this, too: the next start removes the file
            temp.unlink()
        raise
    return temp


# --- the file ---------------------------------------------------------------------------------------------------------
_CHUNK_BYTES: Final = 1 << 20


def open_for_appending(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def temp_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")


def put_back(lost: int, path: Path) -> int:
    """Put a copy of the lost file at a path where nothing is now; return it, open for appending."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temp = temp_beside(path)
    fd = open_for_appending(temp)
    try:
        with _reading(lost) as old, open(fd, "wb", closefd=False) as new:
            shutil.copyfileobj(old, new)
        temp.rename(path)
    except OSError:
        os.close(fd)
        temp.unlink(missing_ok=True)
        raise
    return fd


def add_to(lost: int, path: Path) -> int:
    """Append what the lost file said to another journal that lies at its path now; return that, open for appending.
    Lines are read in order, so nothing that either said is lost. If the other is a copy of ours, it gets only what it
    lacks."""
    fd = open_for_appending(path)
    before = os.fstat(fd).st_size
    try:
        with _reading(lost) as old, _reading(fd) as other, open(fd, "wb", closefd=False) as new:
            if not _begins_with(old, other):
                old.seek(0)
                new.write(b"\n")
            shutil.copyfileobj(old, new)
    except OSError:
        with contextlib.suppress(OSError):  # otherwise every attempt would leave another part of it there
            os.ftruncate(fd, before)
        os.close(fd)
        raise
    return fd


def _reading(fd: int) -> BinaryIO:
    return open(f"/proc/self/fd/{fd}", "rb")  # noqa: PTH123 - whatever its name is now, if it has one


def _begins_with(whole: BinaryIO, beginning: BinaryIO) -> bool:
    """Say whether ``whole`` begins with ``beginning``; if so, ``whole`` is read on just behind it."""
    while chunk := beginning.read(_CHUNK_BYTES):
        if whole.read(len(chunk)) != chunk:
            return False
    return True
