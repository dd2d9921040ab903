"""Write a session log: the daemon's own (``SessionLog``), and one line from any process (``append``).

``SessionLog`` numbers lines and keeps those that are not on disk yet. Writing never raises once the log is open: lines
that the disk refuses stay in memory, ``failing`` says why, and the next ``flush`` tries again. Beyond ``KEPT_LINES``
the oldest are dropped and a ``log_gap`` line takes their place. A file that was deleted or renamed under us is followed
by a new one; so is one that ``is_full``, of which the new one says so in its first line. Only whole lines are in a file
that was followed so, and nothing is written to it any more.

``append`` makes one O_APPEND write while it holds a flock on the log itself, behind whatever is left of a writer that
died within its line. Nothing is kept open between two lines: a log that was removed begins anew, and a process that
forks shares nothing. It fails with OSError: the line is then not there, or its beginning is, which readers pass over
and the next writer closes off.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from ackd.core.daemon_facts import log_continued, log_gap
from ackd.storage import atomic_file, file_lock
from ackd.storage.atomic_file import make_private
from ackd.storage.session_log.files import OpenFile, create, not_before_the_last
from ackd.storage.session_log.lines import encode_line, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.core.fact import Fact

KEPT_LINES: Final = 10_000
_LOOK_INTERVAL_S: Final = 1.0


class SessionLog:
    """The file that this process writes its facts to. ``record`` buffers, ``flush`` hands everything to the kernel."""

    def __init__(self, opened: OpenFile, session_id: str, writer: str, started_at: float) -> None:
        self.session_id = session_id
        #: Called when lines begin to go to another file than before.
        self.moved: Callable[[Path], None] = lambda _path: None
        #: Asked after lines were written whether the next ones go to another file: by its size, and by how long ago, in
        #: the time of the lines, it was begun.
        self.is_full: Callable[[int, float], bool] = lambda _size_bytes, _age_s: False
        #: Called with the file before and the file now; returns the first line of the new file.
        self.first_line: Callable[[Path, Path], Fact] = lambda before, _now: log_continued(before=before.name)
        self.failing: OSError | None = None
        self._file = opened
        self._writer = writer
        self._seq = 0
        self._pending: deque[bytes] = deque()
        self._lost = 0  # while not 0, the first pending line is the log_gap that tells of them
        self._torn = False  # the file ends within a line
        self._second = (-1, "")
        self._stamped_at, self._last_stamp = -1.0, ""
        self._looked_at = started_at
        self._begun_at, self._size_bytes = started_at, 0

    @classmethod
    def open(
        cls,
        logs_dir: Path,
        *,
        started_at: float,
        writer: str = "daemon",
    ) -> SessionLog:
        """Begin a session in a new file; a second session within the same second gets a suffix. Raises OSError."""
        stem = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_at))
        opened = create(logs_dir, *not_before_the_last(logs_dir, stem))
        return cls(opened, opened.path.stem.removeprefix("session-"), writer, started_at)

    @property
    def path(self) -> Path:
        """The file that lines go to now. It changes when the file is deleted under us; ``session_id`` does not."""
        return self._file.path

    def size_bytes(self) -> int:
        """Return the size of the file at ``path``. Lines that are recorded and not flushed do not count."""
        return os.fstat(self._file.fd).st_size

    def record(self, type: str, data: dict[str, object], at: float) -> None:  # noqa: A002 - the line's own word
        self._seq += 1
        if at != self._stamped_at:  # the lines of one event have one time
            self._stamped_at, self._last_stamp = at, self._stamp(at)
        self._pending.append(encode_line(self._last_stamp, self.session_id, self._seq, self._writer, type, data))

    def flush(self) -> None:
        if not self._pending:
            return
        try:
            self._follow_lost_file()
            if self.failing is not None:
                self._write(1)  # one line as a probe, since joining ten thousand lines for a full disk is a waste
            if self._torn or not self._write_at_once():
                self._write(len(self._pending))
            self._begin_next_if_full()
        except OSError as error:
            self.failing = error
            self._bound()
        else:
            self.failing = None

    def close(self) -> None:
        if self._file.fd < 0:
            return
        self.flush()
        os.close(self._file.fd)
        self._file.fd = -1

    def _stamp(self, at: float) -> str:
        second, micros = divmod(round(at * 1_000_000), 1_000_000)
        if second != self._second[0]:
            self._second = (second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)))
        return f"{self._second[1]}.{micros:06d}Z"

    def _write_at_once(self) -> bool:
        """Write all lines in one call. Nearly always the disk takes them, and nothing has to be remembered."""
        data = b"".join(self._pending)
        written = os.write(self._file.fd, data)
        self._size_bytes += written
        if written != len(data):
            self._forget_written(list(self._pending), written)
            return False
        self._pending.clear()
        self._lost = 0
        return True

    def _write(self, count: int) -> None:
        lines = list(itertools.islice(self._pending, count))
        # A fragment is closed off and its line written again whole, rather than completed: that is right whoever else
        # appended meanwhile, and readers skip the fragment.
        head = b"\n" if self._torn else b""
        rest = memoryview(b"".join([head, *lines]))
        total = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._file.fd, rest) :]
        finally:
            self._size_bytes += total - len(rest)
            self._forget_written(lines, total - len(rest) - len(head))

    def _forget_written(self, lines: list[bytes], written: int) -> None:
        if written < 0:
            return  # not even the head was written
        if len(lines) == len(self._pending) and written == sum(map(len, lines)):
            self._pending.clear()
            self._lost, self._torn = 0, False
            return
        for line in lines:
            if written < len(line) - 1:  # a line that lacks only its end counts: the head of the next write is its end
                break
            written -= len(line)
            self._pending.popleft()
            self._lost = 0
        self._torn = written != 0

    def _bound(self) -> None:
        excess = len(self._pending) - KEPT_LINES
        if excess <= 0:
            return
        if self._lost:
            self._pending.popleft()  # the earlier log_gap line; it is made anew below
        else:
            excess += 1  # room for the log_gap line
        for _ in range(excess):
            dropped = self._pending.popleft()
        self._lost += excess
        # The log_gap line stands in the place of the lost lines, with the number and time of the last of them.
        seq, stamp = self._seq - len(self._pending), stamp_of(dropped)
        gap = encode_line(stamp, self.session_id, seq, self._writer, *log_gap(lost=self._lost))
        self._pending.appendleft(gap)

    def _begin_next_if_full(self) -> None:
        self._begun_at = min(self._begun_at, self._stamped_at)  # the clock was set back
        if self._torn or self._pending or not self.is_full(self._size_bytes, self._stamped_at - self._begun_at):
            return
        before = self.path
        try:
            self._go_on_in_a_new_file()
        except OSError:
            return  # this one takes the lines as well; it is tried again after the next
        self.record(*self.first_line(before, self.path), self._stamped_at)
        if not self._write_at_once():
            self._write(len(self._pending))

    def _follow_lost_file(self) -> None:
        if self._lost_file():
            self._go_on_in_a_new_file()

    def _go_on_in_a_new_file(self) -> None:
        # The old name is not used again: a reader's offset in the old file would be wrong in the new one.
        fresh = create(self.path.parent, self._file.stem, self._file.number + 1)
        os.close(self._file.fd)
        self._file = fresh
        self._torn = False
        self._begun_at, self._size_bytes = self._stamped_at, 0
        self.moved(fresh.path)

    def _lost_file(self) -> bool:
        ours = os.fstat(self._file.fd)
        if ours.st_nlink == 0:
            return True
        if abs(self._stamped_at - self._looked_at) < _LOOK_INTERVAL_S:  # in the time of the lines, which may jump
            return False
        self._looked_at = self._stamped_at
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return True  # renamed: the lines in it are safe, but no reader would look there
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


# --- one line, from any process ---------------------------------------------------------------------------------------
_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

#: The last number of each writer of this process; several loggers may write for the same writer.
_counts: Final[dict[tuple[str, str], itertools.count[int]]] = {}


def append(path: Path, session_id: str, writer: str, type_: str, data: dict[str, object]) -> None:
    """Append one line. Lines are numbered by writer: its name must be that of one process."""
    fd = _open(path)
    try:
        file_lock.wait_for(fd)
        seq = next(_counts.setdefault((str(path), writer), itertools.count(1)))
        line = encode_line(_stamp(time.time_ns()), session_id, seq, writer, type_, data)
        atomic_file.write_all(fd, (b"\n" if _is_torn(fd) else b"") + line)
    finally:
        os.close(fd)  # also releases the lock, since nobody else has this descriptor


def _open(path: Path) -> int:
    try:
        return os.open(path, _APPEND, 0o600)
    except FileNotFoundError:
        make_private(path.parent)
        return os.open(path, _APPEND, 0o600)


def _is_torn(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def _stamp(at_ns: int) -> str:
    second, nanos = divmod(at_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{nanos // 1000:06d}Z"
