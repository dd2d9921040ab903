"""The pipes of a child: lines to its stdin, lines from its stdout, and its stderr, which is kept in a log file.

Everything is bounded: how much waits for a child that does not read, how long a line may be, how fast a flood is taken
in. A child that prints more than that waits at its own write. Writing fails with ``StdinRefused``. That a child has
closed a pipe says only that, not that it is dead.

The log file of stderr is written by us and not by the child, so that it can be rotated while the child goes on. A disk
that refuses to take it loses text and never stops a child; the first refusal is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

#: How much may wait for a child that does not read, beside what the pipe itself holds; one line more is taken.
MAX_WAITING_BYTES: Final = 64 * 1024
MAX_LINE_BYTES: Final = 1024 * 1024
#: How much is kept of a line that is too long: enough to tell what it was.
KEPT_BYTES: Final = 512
_CHUNK_BYTES: Final = 64 * 1024


class StdinRefused(Exception):  # noqa: N818 - a condition, named as such
    """``closed``: stdin is closed for good; otherwise the child has not read ``waiting_bytes`` of earlier lines."""

    def __init__(self, why: str, *, closed: bool, waiting_bytes: int = 0) -> None:
        super().__init__(why)
        self.why = why
        self.closed = closed
        self.waiting_bytes = waiting_bytes


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line without its line end. ``cut``: it was longer than ``MAX_LINE_BYTES``, and this is its beginning."""

    data: bytes
    cut: bool = False


class LineWriter:
    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._waiting = bytearray()
        self._to_be_closed = False

    @property
    def closed(self) -> bool:
        return self._fd is None

    def write(self, line: bytes) -> None:
        """Raises StdinRefused; then nothing of the line was written."""
        if self._fd is None:
            raise StdinRefused("it has closed its stdin", closed=True)
        if len(self._waiting) > MAX_WAITING_BYTES:
            waiting = len(self._waiting)
            raise StdinRefused(f"it does not read: {waiting} bytes wait", closed=False, waiting_bytes=waiting)
        was_empty = not self._waiting
        self._waiting += line
        if was_empty:
            self._go_on()
        if self._fd is None:
            raise StdinRefused("it has closed its stdin", closed=True)

    def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._fd is not None
        loop.remove_writer(self._fd)
        try:
            while self._waiting:
                del self._waiting[: os.write(self._fd, self._waiting)]
        except BlockingIOError:
            loop.add_writer(self._fd, self._go_on)
        except OSError:  # it has closed its stdin, or is dead: its exit says which
            self.close()
        else:
            if self._to_be_closed:
                self.close()

    def close(self) -> None:
        """Close the pipe, and drop what still waits."""
        if self._fd is not None:
            with contextlib.suppress(RuntimeError):  # at the end of the loop
                asyncio.get_running_loop().remove_writer(self._fd)
            os.close(self._fd)
            self._fd = None
            self._waiting.clear()

    def close_when_read(self) -> None:
        """Close the pipe after everything that was written: at once, or when the child has read so far."""
        self._to_be_closed = True
        if not self._waiting:
            self.close()


class ReadingPace:
    """A rate limit: ``burst_bytes`` at once, then only ``bytes_per_s``."""

    def __init__(self, burst_bytes: int, bytes_per_s: int) -> None:
        self._burst_bytes = self._left_bytes = float(burst_bytes)
        self._bytes_per_s = bytes_per_s
        self._at = 0.0

    def spend(self, count: int, now: float) -> float:
        """The seconds to wait after reading ``count`` bytes."""
        regained = (now - self._at) * self._bytes_per_s
        self._left_bytes = min(self._burst_bytes, self._left_bytes + regained) - count
        self._at = now
        return max(0.0, -self._left_bytes / self._bytes_per_s)


def words_pace() -> ReadingPace:
    return ReadingPace(2 * MAX_LINE_BYTES, MAX_LINE_BYTES)


def text_pace() -> ReadingPace:
    """The pace of stderr: what a test run prints is taken in at once; a flood would only push it out of the log."""
    return ReadingPace(4 * 1024 * 1024, 256 * 1024)


class PipeReader:
    """Reads lines, and only as fast as ``lines`` is asked for them."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._left: int | None = None  # bytes still to be read of a dead child
        self._stir = anyio.Event()
        self._pace = words_pace()
        self.heard_bytes = 0

    @property
    def closed(self) -> bool:
        return self._fd is None

    def finish(self) -> None:
        """Called when the child is dead: what is in the pipe now is the last of it, even if others hold the other
        end."""
        if self._fd is not None and self._left is None:
            self._left = in_pipe(self._fd)
            self._stir.set()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    async def lines(self) -> AsyncIterator[OutputLine]:
        """Lines until the child has closed its stdout or is dead. Text after the last line end is a line, too."""
        begun = bytearray()
        skipping = False
        while chunk := await self._chunk():
            *whole, rest = chunk.split(b"\n")
            for end in whole:
                if not skipping:
                    yield _line(begun + end)
                begun.clear()
                skipping = False
            begun += rest if not skipping else b""
            if len(begun) > MAX_LINE_BYTES:
                yield _line(begun)
                begun.clear()
                skipping = True
        if begun:
            yield _line(begun)

    async def _chunk(self) -> bytes:
        """The next bytes; nothing only at the end."""
        while self._fd is not None and self._left != 0:
            try:
                data = os.read(self._fd, min(_CHUNK_BYTES, self._left or _CHUNK_BYTES))
            except BlockingIOError:
                if self._left is not None:
                    break
                await self._readable(self._fd)
                continue
            self._took(len(data))
            await anyio.sleep(self._pace.spend(len(data), anyio.current_time()))
            if data:
                return data
            break
        self.close()
        return b""

    def _took(self, count: int) -> None:
        self.heard_bytes += count
        if self._left is not None:
            self._left -= count

    async def _readable(self, fd: int) -> None:
        loop = asyncio.get_running_loop()
        self._stir = anyio.Event()
        loop.add_reader(fd, self._stir.set)
        try:
            await self._stir.wait()
        finally:
            loop.remove_reader(fd)


def _line(begun: bytearray) -> OutputLine:
    return OutputLine(bytes(begun)) if len(begun) <= MAX_LINE_BYTES else OutputLine(bytes(begun[:KEPT_BYTES]), cut=True)


class TextReader:
    """Reads text and hands it on, at a limited pace: for stderr."""

    def __init__(self, fd: int, take: Callable[[bytes], None], pace: ReadingPace | None = None) -> None:
        self._fd: int | None = fd
        self._take = take
        self._pace = pace or text_pace()
        self._resting: asyncio.TimerHandle | None = None
        self.heard_bytes = 0
        self._listen()

    def finish(self) -> None:
        """Called when the child is dead: read what is left in the pipe."""
        left = in_pipe(self._fd) if self._fd is not None else 0
        while left > 0 and self._fd is not None:
            left -= self._read(min(left, _CHUNK_BYTES))
        self.close()

    def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        if self._fd is not None:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _listen(self) -> None:
        if self._fd is not None:
            asyncio.get_running_loop().add_reader(self._fd, self._readable, self._fd)

    def _readable(self, fd: int) -> None:
        loop = asyncio.get_running_loop()
        rest_s = self._pace.spend(self._read(_CHUNK_BYTES), loop.time())
        if rest_s > 0 and self._fd is not None:
            loop.remove_reader(fd)
            self._resting = loop.call_later(rest_s, self._listen)

    def _read(self, most: int) -> int:
        assert self._fd is not None
        try:
            data = os.read(self._fd, most)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
        self.heard_bytes += len(data)
        self._take(data)
        return len(data)


def in_pipe(fd: int) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
    return int(count)


# --- the log file of stderr -------------------------------------------------------------------------------------------
MAX_BYTES: Final = 4 * 1024 * 1024
#: The number of older files that are kept; .1 is the newest of them.
OLD_FILES: Final = 2
_TAIL_BYTES: Final = 4096


class StderrLog:
    def __init__(self, path: Path, trouble: Callable[[OSError], None], max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._trouble = trouble
        self._max_bytes = max_bytes
        self._fd: int | None = None
        self._failing = False
        self.tail = b""

    def begin(self, first_line: str) -> None:
        """Begin the log of a new process: ``tail`` has only its own words."""
        self._append(first_line.encode() + b"\n")
        self.tail = b""

    def write(self, text: bytes) -> None:
        self.tail = (self.tail + text)[-_TAIL_BYTES:]
        self._append(text)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _append(self, text: bytes) -> None:
        try:
            fd = self._opened(len(text))
            while text:
                text = text[os.write(fd, text) :]
            self._failing = False
        except OSError as error:
            if not self._failing:
                self._trouble(error)
            self._failing = True

    def _opened(self, more: int) -> int:
        if self._fd is None:
            self._fd = self._open()
        size = os.fstat(self._fd).st_size
        if size and size + more > self._max_bytes:
            self.close()
            self._rotate()
            self._fd = self._open()
        return self._fd

    def _open(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _rotate(self) -> None:
        for number in range(OLD_FILES, 0, -1):
            newer = self._old(number - 1) if number > 1 else self.path
            with contextlib.suppress(FileNotFoundError):
                newer.rename(self._old(number))

    def _old(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
