"""Read a part of one session log. Everything in this folder that looks into a log does it through this module.

A place in a log is its path and an offset in what was written to it. In which form the log is stored is the business of
``session_log.stored``. A log that is gone, or was cut, has no bytes there; any other failure is an OSError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.storage.session_log.stored import LogState, open_log, state

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["LogState", "chunks", "chunks_backwards", "lines_in", "read", "state"]

_CHUNK_BYTES: Final = 1 << 20
#: Small at first: mostly the last twenty lines are wanted.
_FIRST_CHUNK_BYTES: Final = 1 << 14


def read(path: Path, start: int, end: int) -> bytes:
    """Return the bytes from ``start`` to ``end``; fewer if there are no more."""
    with open_log(path) as log:
        return log.read(start, end) if log is not None else b""


def chunks(path: Path, start: int, end: int, size_bytes: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """Yield whole lines between two offsets, in pieces of about that size. An unfinished line is left out."""
    with open_log(path) as log:
        rest = b""
        while log is not None and start < end:
            piece = log.read(start, min(end, start + size_bytes))
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
    with open_log(path) as log:
        rest, finished, size_bytes = b"", False, _FIRST_CHUNK_BYTES
        while log is not None and start < end:
            begin = max(start, end - size_bytes)
            piece = log.read(begin, end)
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
