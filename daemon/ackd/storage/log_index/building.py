"""Bring the index up to date: read what came to the logs since, and drop what is not as it was.

A log is as it was if it is the same file, has not become shorter, and either was not written to since or ends, as far
as it is known, with the bytes of the last block. Lines are kept in blocks of some 64 KiB: an entry of the index says
"lines with this key are in that block". That makes it a hundred times smaller than one entry for each line, and reading
a block again costs less than a millisecond.
"""

from __future__ import annotations

import math
import os
import re
import time
import zlib
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.storage.log_index import index_file, pieces
from ackd.storage.log_index.index_file import Block, KnownLog, NewBlock
from ackd.storage.log_index.query import keys_of, marks_of
from ackd.storage.session_log.lines import parse_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ackd.storage.log_index.index_file import IndexFile
    from ackd.storage.log_index.pieces import LogState
    from ackd.storage.session_log.lines import Line

BLOCK_BYTES: Final = 64 * 1024
#: Less than this is read each time rather than kept: it takes a millisecond, and writing costs two flushes.
WORTH_BYTES: Final = 512 * 1024
#: This much of the logs is read before what was found is written: whoever is interrupted loses no more.
_TOGETHER_BYTES: Final = 32 * 1024 * 1024
#: Which part of the index may be entries of logs that are gone.
_MOST_WASTE: Final = 0.5
#: The times of files go in steps: one that was written to this recently may be written to again within the same step.
_STEP_NS: Final = 2_000_000_000
_USUAL_STAMP: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")


class IndexedLogs(NamedTuple):
    """The logs that are there now, as far as the index knows them. ``changed``: logs whose part of it is not true any
    more; ``gone``: those that are not there."""

    known: dict[str, KnownLog]
    changed: frozenset[str]
    gone: frozenset[str]
    unread_bytes: int


def standing(index: IndexFile | None, files: Sequence[Path], distrusted: Collection[str] = ()) -> IndexedLogs:
    """Compare the index with the logs. Without one nothing is known."""
    noted = index.logs() if index is not None else {}
    known, changed, unread_bytes = dict[str, KnownLog](), set[str](), 0
    for path in files:
        now, one = pieces.state(path), noted.get(path.name)
        if now is None:
            continue
        unread_bytes += now.size
        if index is None or one is None:
            continue
        if path.name not in distrusted and _is_as_it_was(index, path, one, now):
            known[path.name] = one
            unread_bytes -= one.known
        else:
            changed.add(path.name)
    return IndexedLogs(known, frozenset(changed), frozenset(noted.keys() - {path.name for path in files}), unread_bytes)


def _is_as_it_was(index: IndexFile, path: Path, one: KnownLog, now: LogState) -> bool:
    if now.inode != one.state.inode or now.size < one.known:
        return False
    if now == one.state:  # nobody has written to it
        return True
    last = index.last_block(one.id)
    return last is None or is_intact(pieces.read(path, last.start, last.end), last)


def is_intact(data: bytes, block: Block) -> bool:
    return len(data) == block.end - block.start and zlib.crc32(data) == block.crc


def bring_up_to_date(
    state_dir: Path,
    files: Sequence[Path],
    *,
    distrusted: Collection[str] = (),
    anew: bool = False,
    building: Callable[[int], None] | None = None,
) -> None:
    """Read what the index does not know of the logs, and keep it. Does nothing if the index cannot be written.

    ``distrusted``: logs whose part of it turned out not to be true. ``anew``: the index as a whole is not wanted.
    ``building`` is called with the number of bytes that are still to be read.
    """
    try:
        with index_file.writing(state_dir, anew=anew) as index:
            if index is None:
                return
            begun = standing(index, files, distrusted)
            if not _has_room(state_dir, begun.unread_bytes):
                return
            if not anew and index.waste() <= _MOST_WASTE:
                _update(index, files, begun, building or (lambda _left: None))
                return
        if not anew:
            bring_up_to_date(state_dir, files, anew=True, building=building)
    except index_file.errors():
        return


def _has_room(state_dir: Path, unread_bytes: int) -> bool:
    """Leave a disk that is nearly full to the messages."""
    room = os.statvfs(state_dir)
    return room.f_bavail * room.f_frsize > 2 * unread_bytes + WORTH_BYTES


def _update(index: IndexFile, files: Iterable[Path], begun: IndexedLogs, building: Callable[[int], None]) -> None:
    left_bytes = begun.unread_bytes
    building(left_bytes)
    with index.change():
        for name in begun.changed | begun.gone:
            index.forget(name)
    news = _news(files, begun.known)
    while some := list(_together(news)):
        with index.change():
            for one in some:
                log = index.note_log(one.name, one.state, one.known)
                if one.block is not None:
                    index.add(log, one.block)
                    left_bytes -= one.size_bytes
        building(left_bytes)


class _News(NamedTuple):
    """A block to add, or, after the last one of a log, the log's state."""

    name: str
    state: LogState
    known: int
    block: NewBlock | None = None

    @property
    def size_bytes(self) -> int:
        return self.block.block.end - self.block.block.start if self.block is not None else 0


def _news(files: Iterable[Path], known: Mapping[str, KnownLog]) -> Iterator[_News]:
    for path in files:
        before, one = pieces.state(path), known.get(path.name)
        if before is None or (one is not None and one.state == before):
            continue
        end = one.known if one is not None else 0
        for new in blocks_of(path, end, before.size):
            end = new.block.end
            yield _News(path.name, before._replace(mtime_ns=0), end, new)
        fresh = time.time_ns() - before.mtime_ns < _STEP_NS
        yield _News(path.name, before._replace(mtime_ns=0) if fresh else before, end)


def _together(news: Iterator[_News]) -> Iterator[_News]:
    size_bytes = 0
    for one in news:
        yield one
        size_bytes += one.size_bytes
        if size_bytes >= _TOGETHER_BYTES:
            return


def blocks_of(path: Path, start: int, end: int) -> Iterator[NewBlock]:
    """Yield the whole lines of a part of a log, in blocks, with their keys."""
    for data in pieces.chunks(path, start, end, BLOCK_BYTES):
        lines = [line for raw in pieces.lines_in(data, None) if (line := parse_line(raw)) is not None]
        marks = Counter(mark for line in lines for mark in marks_of(line))
        keys = Counter[bytes]()
        for mark, count in marks.items():
            for key in keys_of(*mark):
                keys[key] += count
        first, last = _times(lines)
        yield NewBlock(Block(start, start + len(data), zlib.crc32(data), first, last), keys)
        start += len(data)


def _times(lines: Sequence[Line]) -> tuple[float, float]:
    """Return the earliest and the latest time. Stamps of one form are compared as text, which is quicker."""
    stamps = {line.timestamp for line in lines}
    if stamps and all(map(_USUAL_STAMP.fullmatch, stamps)):
        stamps = {min(stamps), max(stamps)}
    times = [datetime.fromisoformat(stamp).timestamp() for stamp in stamps]
    return min(times, default=math.inf), max(times, default=-math.inf)
