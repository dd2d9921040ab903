"""Read a part of one session log. Everything in this folder that looks into a log does it through ``LogPiece``.

A place in a log is its file and an offset in what was written to it. Whoever keeps logs in another form (compressed, in
pieces that can be read alone) has to answer ``state``, ``read`` and the two ways through the lines, and nothing else
changes. A file that is gone, or was cut, has no bytes there; any other failure is an OSError.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from pathlib import Path

_CHUNK_BYTES: Final = 1 << 20
#: Small at first: mostly the last twenty lines are wanted.
_FIRST_CHUNK_BYTES: Final = 1 << 14


class LogState(NamedTuple):
    """A log at one moment: which file it is, how much of it there is, and when it was last written to."""

    inode: int
    size: int
    mtime_ns: int


def state(path: Path) -> LogState | None:
    """Return the log's state; None for a log that is gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return LogState(found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def read(path: Path, start: int, end: int) -> bytes:
    """Return the bytes from ``start`` to ``end``; fewer if there are no more."""
    try:
        with path.open("rb", buffering=0) as file:
            return _exactly(file.fileno(), start, end)
    except FileNotFoundError:
        return b""


def chunks(path: Path, start: int, end: int, size_bytes: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """Yield whole lines between two offsets, in pieces of about that size. An unfinished line is left out."""
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return
    with file:
        rest = b""
        while start < end:
            piece = _exactly(file.fileno(), start, min(end, start + size_bytes))
            if not piece:
                return
            start += len(piece)
            whole, newline, after = piece.rpartition(b"\n")
            if not newline:
                rest += after
                continue
            yield rest + whole + newline
            rest = after


def chunks_backwards(path: Path, start: int, end: int) -> Iterator[bytes]:
    """Yield what ``chunks`` does, the last lines first. Within a piece lines stand in their order."""
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return
    with file:
        rest, finished, size_bytes = b"", False, _FIRST_CHUNK_BYTES
        while start < end:
            begin = max(start, end - size_bytes)
            piece = _exactly(file.fileno(), begin, end)
            if not finished:  # behind the last newline is a line that is not finished
                piece = piece[: piece.rfind(b"\n") + 1]
                finished = bool(piece)
            data = piece + rest
            cut = 0 if begin == start else data.find(b"\n", 0, max(0, len(data) - 1)) + 1
            if cut or begin == start:
                if data[cut:]:
                    yield data[cut:]
                rest = data[:cut]
            else:
                rest = data
            end, size_bytes = begin, min(size_bytes * 4, _CHUNK_BYTES)


def lines_in(chunk: bytes, hint: re.Pattern[bytes] | None) -> Iterator[bytes]:
    """Yield the lines of a piece, without their ends; with a hint, only those in which it is found."""
    if hint is None:
        yield from chunk.split(b"\n")[:-1]
        return
    found = hint.search(chunk)
    while found is not None:
        begin, end = chunk.rfind(b"\n", 0, found.start()) + 1, chunk.find(b"\n", found.start())
        if end < 0:
            return
        yield chunk[begin:end]
        found = hint.search(chunk, end + 1)


def _exactly(fd: int, start: int, end: int) -> bytes:
    """Read all that was asked for, unless the file ends before."""
    data = os.pread(fd, max(0, end - start), start)
    while data and start + len(data) < end and (more := os.pread(fd, end - start - len(data), start + len(data))):
        data += more
    return data
