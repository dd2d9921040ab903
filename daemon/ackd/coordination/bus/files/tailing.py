"""Reads queue.jsonl on from a byte offset, in bounded pieces.

If the file is not the one that was read before (another inode, shorter, or other bytes before the offset), it is read
from its beginning. A line ends with its line end; a last one without it counts only when the caller says that it has
not grown for long enough. Only regular files are opened, nothing blocks, and a missing file is empty. Fails with
OSError.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES: Final = 65_536
_MARK_BYTES: Final = 64
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class Position:
    """``mark`` is a fingerprint of the bytes before ``offset``: a file that was written anew has others there."""

    inode: int = 0
    offset: int = 0
    mark: str = ""


@dataclass(frozen=True, slots=True)
class RawLine:
    """``end``: where the next line begins. A line longer than allowed is cut to one byte more than that."""

    offset: int
    end: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """``position``: behind the last line. ``restarted``: why it was read from the beginning, "" if it was not.

    ``more``: there is more to read now. ``rest_bytes``: the length of the line that has no end yet. ``written_at``: the
    file's mtime.
    """

    lines: tuple[RawLine, ...]
    position: Position
    restarted: str = ""
    more: bool = False
    rest_bytes: int = 0
    written_at: float = 0.0


def read_on(path: str, position: Position, max_line_bytes: int, *, take_rest: bool = False) -> Piece:
    """The next lines, about ``CHUNK_BYTES`` of them. ``take_rest``: a last line needs no end."""
    with _opened(path) as fd:
        if fd is None:
            gone = position.offset > 0
            return Piece((), Position(), "it is gone" if gone else "")
        return _read_on(fd, position, max_line_bytes, take_rest=take_rest)


def _read_on(fd: int, position: Position, max_line_bytes: int, *, take_rest: bool) -> Piece:
    info = os.fstat(fd)
    restarted = _not_the_same(fd, info, position)
    offset = 0 if restarted else position.offset
    lines = list(_lines(fd, offset, max_line_bytes))
    end = lines[-1].end if lines else offset
    more = bool(lines) and end - offset >= CHUNK_BYTES
    if take_rest and not more and 0 < info.st_size - end <= max_line_bytes:
        lines.append(RawLine(end, info.st_size, os.pread(fd, info.st_size - end, end)))
        end = info.st_size
    rest = 0 if more else max(0, info.st_size - end)
    position = Position(info.st_ino, end, _mark(fd, end))
    return Piece(tuple(lines), position, restarted, more, rest, info.st_mtime)


class HeldFile:
    """The file that is being read, kept open, so that it can be read to its end when another has taken its name."""

    def __init__(self) -> None:
        self._fd, self._inode = -1, 0

    def hold(self, path: str, inode: int) -> None:
        """Open the file and keep it, if the name still belongs to this inode."""
        if inode == self._inode:
            return
        self.let_go()
        with _opened(path) as fd:
            if fd is not None and os.fstat(fd).st_ino == inode:
                self._fd, self._inode = os.dup(fd), inode

    def rest(self, position: Position, max_line_bytes: int) -> Piece | None:
        """The lines appended behind that offset, the last one with or without an end; None: the file is not held."""
        if self._fd < 0 or position.inode != self._inode:
            return None
        piece = _read_on(self._fd, position, max_line_bytes, take_rest=True)
        return None if piece.restarted else piece

    def let_go(self) -> None:
        fd, self._fd, self._inode = self._fd, -1, 0
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.let_go()


def position_at_end(path: str) -> Position:
    """The position behind the last whole line."""
    with _opened(path) as fd:
        if fd is None:
            return Position()
        info, end = os.fstat(fd), 0
        at = info.st_size
        while at > 0 and not end:
            start = max(0, at - CHUNK_BYTES)
            found = os.pread(fd, at - start, start).rfind(b"\n")
            end, at = (start + found + 1 if found >= 0 else 0), start
        return Position(info.st_ino, end, _mark(fd, end))


def position_at(path: str, offset: int) -> Position:
    """The position at a byte that somebody names; the line that begins there, or behind it, is the next."""
    with _opened(path) as fd:
        if fd is None:
            return Position()
        info = os.fstat(fd)
        offset = max(0, min(offset, info.st_size))
        if offset and os.pread(fd, 1, offset - 1) != b"\n":
            found = os.pread(fd, CHUNK_BYTES * 32, offset).find(b"\n")
            offset = info.st_size if found < 0 else offset + found + 1
        return Position(info.st_ino, offset, _mark(fd, offset))


def _not_the_same(fd: int, info: os.stat_result, position: Position) -> str:
    if not position.offset:
        return ""
    if info.st_ino != position.inode:
        return "another file has its name"
    if info.st_size < position.offset:
        return "it was cut short"
    return "" if _mark(fd, position.offset) == position.mark else "it was written anew"


def _mark(fd: int, offset: int) -> str:
    before = os.pread(fd, min(offset, _MARK_BYTES), max(0, offset - _MARK_BYTES))
    return hashlib.blake2b(before, digest_size=8).hexdigest()


def _lines(fd: int, offset: int, max_line_bytes: int) -> Iterator[RawLine]:
    """Whole lines from there on, until a chunk is full. An endless line is cut into several, each of them too long."""
    begin, at, parts, held = offset, offset, list[bytes](), 0
    while data := os.pread(fd, CHUNK_BYTES, at):
        at += len(data)
        *ended, rest = data.split(b"\n")
        for one in ended:
            size = held + len(one) + 1
            yield RawLine(begin, begin + size, b"".join([*parts, one])[: max_line_bytes + 1])
            begin, parts, held = begin + size, [], 0
        parts.append(rest)
        held += len(rest)
        if held > max_line_bytes:
            yield RawLine(begin, at, b"".join(parts)[: max_line_bytes + 1])
            begin, parts, held = at, [], 0
        if begin - offset >= CHUNK_BYTES:
            return


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int | None]:
    try:
        fd = os.open(path, _READ)
    except FileNotFoundError:
        yield None
        return
    try:
        yield fd if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)
