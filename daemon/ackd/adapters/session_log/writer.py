"""The log that this process writes its facts to.

Owns what is not on disk yet, and the numbers of lines. Refuses to know what a fact means.

Writing never raises once the log is open: lines that the disk refuses stay in memory, ``failing`` says why, and the
next ``flush`` tries again. Beyond ``KEPT_LINES`` the oldest are dropped and a ``log_gap`` line takes their place. A
file that was deleted or renamed under us is followed by a new one.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from ackd.adapters.session_log.files import OpenFile, create, not_before_the_last
from ackd.adapters.session_log.lines import encode_line, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEPT_LINES: Final = 10_000
_LOOK_INTERVAL_S: Final = 1.0


class SessionLog:
    """The file that this process writes its facts to. ``record`` buffers, ``flush`` hands everything to the kernel."""

    def __init__(self, opened: OpenFile, session_id: str, writer: str, started_at: float) -> None:
        self.session_id = session_id
        #: Called when lines begin to go to another file than before.
        self.moved: Callable[[Path], None] = lambda _path: None
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

    @classmethod
    def open(
        cls,
        logs_dir: Path,
        *,
        started_at: float,
        writer: str = "daemon",
    ) -> SessionLog:
        """A new file of its own; a second session within the second gets a suffix. Raises OSError."""
        stem = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_at))
        opened = create(logs_dir, *not_before_the_last(logs_dir, stem))
        return cls(opened, opened.path.stem.removeprefix("session-"), writer, started_at)

    @property
    def path(self) -> Path:
        """Where lines go now. It changes when the file is deleted under us; ``session_id`` does not."""
        return self._file.path

    def size_bytes(self) -> int:
        """How far ``path`` reaches in the kernel's eyes: what is only recorded is not in it."""
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
                self._write(1)  # a probe: a full disk must not cost the joining of ten thousand lines at every flush
            if self._torn or not self._write_at_once():
                self._write(len(self._pending))
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
        """Nearly always the disk takes all of it, and there is nothing to be kept in mind."""
        data = b"".join(self._pending)
        written = os.write(self._file.fd, data)
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
            self._forget_written(lines, total - len(rest) - len(head))

    def _forget_written(self, lines: list[bytes], written: int) -> None:
        if written < 0:
            return  # not even the head went out
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
            excess += 1  # room for it
        for _ in range(excess):
            dropped = self._pending.popleft()
        self._lost += excess
        # It stands where the lost ones would have stood, under the number and time of the last of them.
        seq, stamp = self._seq - len(self._pending), stamp_of(dropped)
        gap = encode_line(stamp, self.session_id, seq, self._writer, "log_gap", {"lost": self._lost})
        self._pending.appendleft(gap)

    def _follow_lost_file(self) -> None:
        if not self._lost_file():
            return
        # Never the old name: whoever reads it has a place in it that would be wrong in the new file.
        fresh = create(self.path.parent, self._file.stem, self._file.number + 1)
        os.close(self._file.fd)
        self._file = fresh
        self._torn = False
        self.moved(fresh.path)

    def _lost_file(self) -> bool:
        ours = os.fstat(self._file.fd)
        if ours.st_nlink == 0:
            return True
        if abs(self._stamped_at - self._looked_at) < _LOOK_INTERVAL_S:  # by the lines' own time, which may jump
            return False
        self._looked_at = self._stamped_at
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return True  # renamed away: what was written is safe there, but no reader would look
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)
