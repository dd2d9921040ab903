"""A session log as it is stored: the plain file, or compressed in pieces that can be read alone (README.md).

A log is known by the path of its plain file, whether that is there or not. ``open_log`` opens what there is of it, and
``state`` says which log it is; an offset counts what was written, not what is stored. So readers need not know the
difference, and nothing that was kept about a log (offsets, the index) changes when it is compressed.

The compressed form is gzip: one member for each piece of whole lines, then an empty one whose extra field says where
the pieces are and which file they were made of. ``zcat`` reads it. A log that is gone has no bytes. A piece that is
damaged reads as empty lines, so that all others keep their offsets; without the table of pieces (the file was cut, or
made by ``gzip``) the file is read from its beginning to make one.
"""

from __future__ import annotations

import bisect
import contextlib
import io
import itertools
import os
import stat
import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Behind the name of the plain file.
SUFFIX: Final = ".gz"
PIECE_BYTES: Final = 128 * 1024

_READ: Final = os.O_RDONLY | os.O_CLOEXEC
_GZIP: Final = 31  # wbits of zlib: a gzip member
_MAGIC: Final = b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff"  # with an extra field
_FIELD: Final = b"AK"
#: An empty deflate stream, its checksum and its length: how a member without content ends.
_EMPTY: Final = b"\x03\x00" + bytes(8)
_PIECE: Final = struct.Struct("<II")
#: inode, size and time of the plain file, the number of pieces, and a checksum of the table and all this.
_FOOTER: Final = struct.Struct("<QQqII")
#: An extra field has 64 KiB at most.
_MOST_PIECES: Final = 8_000
_CHUNK_BYTES: Final = 1 << 20


class LogState(NamedTuple):
    """A log at one moment: which file it is, how much of it there is, and when it was last written to."""

    inode: int
    size: int
    mtime_ns: int


class StoredPiece(NamedTuple):
    """How many bytes a piece takes in the compressed file, and how many it has."""

    stored: int
    plain: int


class LogFile:
    """A log that is open. It is read by offsets in what was written, and stays as it is when its file is removed."""

    def state(self) -> LogState:
        raise NotImplementedError

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to ``end``; fewer if there are no more."""
        raise NotImplementedError

    def raw_lines(self, start: int) -> Iterator[bytes]:
        """Yield the lines from an offset on, with their ends. The last one may be unfinished, and have none."""
        raise NotImplementedError


class _PlainLog(LogFile):
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def state(self) -> LogState:
        return _state_of(os.fstat(self._fd))

    def read(self, start: int, end: int) -> bytes:
        data = os.pread(self._fd, max(0, end - start), start)
        while data and start + len(data) < end:
            more = os.pread(self._fd, end - start - len(data), start + len(data))
            if not more:
                break
            data += more
        return data

    def raw_lines(self, start: int) -> Iterator[bytes]:
        with os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(start)
            yield from file


class _PackedLog(LogFile):
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._state, pieces = _table(fd)
        self._stored_at = [0, *itertools.accumulate(one.stored for one in pieces)]
        self._begins = [0, *itertools.accumulate(one.plain for one in pieces)]
        self._last = (-1, b"")

    def state(self) -> LogState:
        return self._state

    def read(self, start: int, end: int) -> bytes:
        end = min(end, self._begins[-1])
        if start >= end:
            return b""
        first, last = bisect.bisect_right(self._begins, start) - 1, bisect.bisect_left(self._begins, end)
        data = b"".join(map(self._piece, range(first, last)))
        return data[start - self._begins[first] : end - self._begins[first]]

    def raw_lines(self, start: int) -> Iterator[bytes]:
        first = bisect.bisect_right(self._begins, start) - 1
        for number in range(first, len(self._begins) - 1):
            file = io.BytesIO(self._piece(number))
            file.seek(max(0, start - self._begins[number]))
            yield from file

    def _piece(self, number: int) -> bytes:
        if self._last[0] != number:
            size_bytes = self._begins[number + 1] - self._begins[number]
            stored = os.pread(self._fd, self._stored_at[number + 1] - self._stored_at[number], self._stored_at[number])
            try:
                data = zlib.decompress(stored, _GZIP, size_bytes)
            except zlib.error:
                data = b""
            self._last = number, data if len(data) == size_bytes else b"\n" * size_bytes
        return self._last[1]


# --- opening ----------------------------------------------------------------------------------------------------------
def packed_path(path: Path) -> Path:
    """Return where a log lies when it is compressed."""
    return path.with_name(path.name + SUFFIX)


@contextlib.contextmanager
def open_log(path: Path) -> Iterator[LogFile | None]:
    """Open a log, in whichever form it is there; None for one that is gone, or is no regular file.

    The plain file is asked for first: it is removed only after the compressed one is in place, so one of them is there
    at every moment, and while both are, the plain one is the log.
    """
    found = _opened(path)
    if found is None:
        yield None
        return
    fd, packed = found
    try:
        yield _PackedLog(fd) if packed else _PlainLog(fd)
    finally:
        os.close(fd)


def _opened(path: Path) -> tuple[int, bool] | None:
    for form, packed in ((path, False), (packed_path(path), True)):
        try:
            if not stat.S_ISREG(form.stat().st_mode):
                return None
            return os.open(form, _READ), packed
        except FileNotFoundError:
            continue
    return None


def state(path: Path) -> LogState | None:
    """Return the log's state, which is the same in both forms; None for a log that is gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        with open_log(path) as log:
            return log.state() if log is not None else None
    return _state_of(found) if stat.S_ISREG(found.st_mode) else None


def state_of_packed(packed: Path) -> LogState | None:
    """Return which log a compressed file was made of; None for one that is gone."""
    try:
        fd = os.open(packed, _READ | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return _table(fd)[0]
    finally:
        os.close(fd)


def _state_of(found: os.stat_result) -> LogState:
    return LogState(found.st_ino, found.st_size, found.st_mtime_ns)


# --- the compressed form ----------------------------------------------------------------------------------------------
def packed_pieces(log: LogFile, was: LogState) -> Iterator[bytes]:
    """Yield the compressed form of a log, piece by piece, the table of them last."""
    wanted = max(PIECE_BYTES, -(-was.size // (_MOST_PIECES // 2)))
    pieces: list[StoredPiece] = []
    start = 0
    while start < was.size:
        data = _whole_lines(log, start, was.size, wanted)
        if not data:  # it was cut meanwhile: whoever asks for this compares, and keeps nothing
            break
        packed = _member(data)
        pieces.append(StoredPiece(len(packed), len(data)))
        start += len(data)
        yield packed
    yield _last_member(pieces, was)


def _whole_lines(log: LogFile, start: int, end: int, wanted: int) -> bytes:
    """Return about so many bytes, up to the end of a line; to the end of the log if no line ends before."""
    data = log.read(start, min(end, start + wanted))
    while start + len(data) < end and b"\n" not in data:
        more = log.read(start + len(data), min(end, start + len(data) + wanted))
        if not more:
            return b""
        data += more
    return data if start + len(data) >= end else data[: data.rfind(b"\n") + 1]


def _member(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(data) + packer.flush()


def _last_member(pieces: list[StoredPiece], was: LogState) -> bytes:
    table = b"".join(_PIECE.pack(*one) for one in pieces) if len(pieces) <= _MOST_PIECES else b""
    count = len(table) // _PIECE.size
    known = table + _FOOTER.pack(was.inode, was.size, was.mtime_ns, count, 0)[:-4]
    data = known + struct.pack("<I", zlib.crc32(known))
    field = _FIELD + struct.pack("<H", len(data)) + data
    return _MAGIC + struct.pack("<H", len(field)) + field + _EMPTY


def _table(fd: int) -> tuple[LogState, list[StoredPiece]]:
    """Return which log it is, and its pieces."""
    found = os.fstat(fd)
    tail_bytes = _FOOTER.size + len(_EMPTY)
    tail = os.pread(fd, tail_bytes, max(0, found.st_size - tail_bytes))
    if len(tail) == tail_bytes and tail.endswith(_EMPTY):
        inode, size, mtime_ns, count, crc = _FOOTER.unpack(tail[: _FOOTER.size])
        table_bytes = count * _PIECE.size
        if count <= _MOST_PIECES:
            table = os.pread(fd, table_bytes, max(0, found.st_size - tail_bytes - table_bytes))
            pieces = [StoredPiece(*one) for one in _PIECE.iter_unpack(table[: len(table) // 8 * 8])]
            whole = zlib.crc32(table + tail[: _FOOTER.size - 4]) == crc
            if whole and sum(one.plain for one in pieces) == size:
                return LogState(inode, size, mtime_ns), pieces
    pieces = list(_members(fd))
    return LogState(found.st_ino, sum(one.plain for one in pieces), found.st_mtime_ns), pieces


def _members(fd: int) -> Iterator[StoredPiece]:
    """Read a compressed file from its beginning, as far as it can be read, for what its table would say."""
    at, rest, ended = 0, b"", False
    while not ended:
        unpacker, stored, plain = zlib.decompressobj(_GZIP), 0, 0
        while not unpacker.eof:
            if not rest:
                rest = os.pread(fd, _CHUNK_BYTES, at)
                at += len(rest)
            if not rest:
                return
            try:
                plain += len(unpacker.decompress(rest))
            except zlib.error:
                return
            stored += len(rest) - len(unpacker.unused_data)
            rest = unpacker.unused_data
        yield StoredPiece(stored, plain)
        ended = not rest and not os.pread(fd, 1, at)
