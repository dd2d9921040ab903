"""The lines of session logs, forwards or newest first, and what it takes to take up reading where it ended.

Refuses to know what a fact means, and what is being looked for. Never fails for what is in a file: torn and foreign
lines are skipped and counted, one that is not finished yet is left for the next time, and a file that is gone has none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ackd.adapters.session_log.files import session_files
from ackd.adapters.session_log.lines import Line, parse_line

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_CHUNK_BYTES: Final = 1 << 20


class LineReader:
    """The whole lines of one file from ``offset`` on. Iterating again goes on where the last time ended.

    ``offset`` is always the start of a line: one that is not finished yet is left for the next time. ``only``: lines in
    which this is not found are passed over unparsed.
    """

    def __init__(self, path: Path, offset: int = 0, only: re.Pattern[bytes] | None = None) -> None:
        self.path = path
        self.offset = offset
        self._only = only
        self.skipped = 0

    def __iter__(self) -> Iterator[Line]:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self.offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                self.offset += len(raw)
                if self._only is not None and not self._only.search(raw):
                    continue
                line = parse_line(raw[:-1])
                if line is not None:
                    yield line
                else:
                    self.skipped += 1


def read_lines(path: Path, start: int = 0, only: re.Pattern[bytes] | None = None) -> LineReader:
    """The lines of one file, oldest first. Afterwards the result knows its ``offset`` and what it ``skipped``."""
    return LineReader(path, start, only)


def iter_logs(
    logs_dir: Path,
    *,
    newest_first: bool = False,
    ends: Mapping[Path, int] | None = None,
    containing: bytes = b"",
) -> Iterator[Line]:
    """Every line of every session. Newest first reads from the end, so that taking a few of them costs little.

    ``ends``: look at these files only, and only up to these offsets (newest first only). ``containing``: lines without
    these bytes are passed over unread.
    """
    files = session_files(logs_dir) if ends is None else list(ends)
    if not newest_first:
        for path in files:
            yield from (line for line in LineReader(path) if containing in line.raw)
        return
    for path in reversed(files):
        for raw in _raw_backwards(path, end_of_lines(path) if ends is None else ends[path]):
            if containing in raw and (line := parse_line(raw)) is not None:
                yield line


def end_of_lines(path: Path) -> int:
    """The offset behind the last finished line; 0 for a file that is gone."""
    try:
        with path.open("rb") as file:
            position = file.seek(0, os.SEEK_END)
            while position > 0:
                start = max(0, position - _CHUNK_BYTES)
                file.seek(start)
                found = file.read(position - start).rfind(b"\n")
                if found >= 0:
                    return start + found + 1
                position = start
    except FileNotFoundError:
        pass
    return 0


def _raw_backwards(path: Path, end: int) -> Iterator[bytes]:
    """Lines before ``end``, which is the end of one, last first. A file truncated meanwhile yields what is left."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        position, rest = end - 1, b""
        size_bytes = 1 << 14  # small at first: mostly the last twenty lines are wanted
        while position > 0:
            start = max(0, position - size_bytes)
            file.seek(start)
            rest, *lines = (file.read(position - start) + rest).split(b"\n")
            yield from reversed(lines)
            position, size_bytes = start, min(size_bytes * 4, _CHUNK_BYTES)
        if rest:
            yield rest


def chunks(path: Path) -> Iterator[bytes]:
    """The whole file in pieces that end with a line, for searching faster than lines can be parsed."""
    # Not mmap: a log that someone truncates meanwhile would end us with SIGBUS.
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk + file.readline()
