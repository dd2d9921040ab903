"""Read session logs: lines forwards or newest first, all about one message, and new lines as they come.

Reading can continue where it ended. A search looks for bytes and parses only the lines that have them, which turns
minutes into seconds on big logs. The content of a file never makes reading fail: torn and foreign lines are skipped and
counted, an unfinished line is left for the next time, and a file that is gone has none. Following goes on when a file
is removed, replaced or truncated. A search fails with ``UnknownMessage`` and ``AmbiguousMessage``.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from ackd.core import message_ids
from ackd.storage.session_log.files import session_files
from ackd.storage.session_log.lines import Line, parse_line
from ackd.storage.session_log.stored import open_log, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ackd.storage.session_log.lines import Line

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
        with open_log(self.path) as log:
            if log is None:
                return
            for raw in log.raw_lines(self.offset):
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


def newest_session(logs_dir: Path) -> list[Path]:
    """The files of the session that began last, oldest first. A file without any line yet is the newest session's if it
    is the last file; another one is left of a daemon that was killed, and tells nothing."""
    found: list[Path] = []
    session_id: str | None = None
    for path in reversed(session_files(logs_dir)):
        first = next(iter(LineReader(path)), None)
        if first is None and session_id is not None:
            continue
        session_id = session_id or (first.session_id if first is not None else None)
        if first is not None and first.session_id != session_id:
            break
        found.append(path)
    return found[::-1]


def end_of_lines(path: Path) -> int:
    """The offset behind the last finished line; 0 for a file that is gone."""
    with open_log(path) as log:
        position = log.state().size if log is not None else 0
        while log is not None and position > 0:
            start = max(0, position - _CHUNK_BYTES)
            found = log.read(start, position).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            position = start
    return 0


def _raw_backwards(path: Path, end: int) -> Iterator[bytes]:
    """Lines before ``end``, which is the end of one, last first. A file truncated meanwhile yields what is left."""
    with open_log(path) as log:
        if log is None:
            return
        position, rest = end - 1, b""
        size_bytes = 1 << 14  # small at first: mostly the last twenty lines are wanted
        while position > 0:
            start = max(0, position - size_bytes)
            rest, *lines = (log.read(start, position) + rest).split(b"\n")
            yield from reversed(lines)
            position, size_bytes = start, min(size_bytes * 4, _CHUNK_BYTES)
        if rest:
            yield rest


def chunks(path: Path) -> Iterator[bytes]:
    """The whole file in pieces that end with a line, for searching faster than lines can be parsed."""
    # Not mmap: a log that someone truncates meanwhile would end us with SIGBUS.
    with open_log(path) as log:
        position, rest = 0, b""
        while log is not None and (piece := log.read(position, position + _CHUNK_BYTES)):
            position += len(piece)
            whole, newline, after = piece.rpartition(b"\n")
            if newline:
                yield rest + whole + newline
                rest = after
            else:
                rest += after
        if rest:
            yield rest


# --- following --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Position:
    inode: int
    reader: LineReader
    #: It was read when enough newer files were there already: nothing can come to it any more.
    is_final: bool = False


class Follower:
    """Remembers how far every log has been read; ``poll`` gives what came since, the next sessions' files included."""

    #: Only these newest files can still grow: one daemon writes one file at a time.
    LIVE_FILES: Final = 4

    def __init__(self, logs_dir: Path) -> None:
        self.logs_dir = logs_dir
        #: The end of each file when following began.
        self.ends: dict[Path, int] = {path: end_of_lines(path) for path in session_files(logs_dir)}
        live = set(list(self.ends)[-self.LIVE_FILES :])
        self._positions = {
            path: _Position(_inode(path), LineReader(path, end), path not in live) for path, end in self.ends.items()
        }

    @property
    def found_any(self) -> bool:
        return bool(self._positions)

    def poll(self) -> Iterator[Line]:
        files = session_files(self.logs_dir)
        live = set(files[-self.LIVE_FILES :])
        for path in files:
            position = self._positions.get(path)
            if position is None:
                position = self._positions[path] = _Position(_inode(path), LineReader(path))
            if position.is_final:
                continue
            yield from self._news(position)
            position.is_final = path not in live

    def _news(self, position: _Position) -> Iterator[Line]:
        now = state(position.reader.path)
        if now is None:
            return
        if now.inode != position.inode or now.size < position.reader.offset:  # replaced, or truncated
            position.inode, position.reader.offset = now.inode, 0
        if now.size > position.reader.offset:
            yield from position.reader


def follow(
    follower: Follower, *, poll_s: float = 0.2, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Line | None]:
    """New lines for ever, across restarts of the daemon; None whenever there was nothing, before waiting again."""
    while True:
        news = False
        for line in follower.poll():
            news = True
            yield line
        if not news:
            yield None
            sleep(poll_s)


def _inode(path: Path) -> int:
    now = state(path)
    return now.inode if now is not None else 0


# --- one message ------------------------------------------------------------------------------------------------------
def find_message_lines(logs_dir: Path, message_id: str) -> list[Line]:
    """Return all lines about a message, oldest first, given its id, a unique beginning of it, or its hash.

    Lines of its answers (``in_reply_to``) and of the escalation that it is (``escalation_id``) belong to it too. Raises
    UnknownMessage, AmbiguousMessage.
    """
    return _lines_of(logs_dir, message_id) or _lines_of(
        logs_dir, choose_id(message_id, matching_ids(logs_dir, message_id))
    )


def choose_id(wanted: str, ids: Iterable[str]) -> str:
    """Return the one id that is meant, by whatever part of it (core/message_ids.py)."""
    return message_ids.choose(wanted, ids)


def matching_ids(logs_dir: Path, wanted: str) -> set[str]:
    """Return the ids in all logs that begin so, or whose hash does, without reading any line as JSON."""
    start = re.escape(in_json(wanted))
    if message_ids.may_be_hash(wanted):
        start = rb'(?:[^".\\\n]*\.[^".\\\n]*\.)?' + start
    pattern = re.compile(rb'"message_id": ?"(' + start + rb'(?:[^"\\\n]|\\.)*)"')
    found = {raw for path in session_files(logs_dir) for chunk in chunks(path) for raw in pattern.findall(chunk)}
    return {text for raw in found if (text := _from_json(raw)) is not None and message_ids.fits(wanted, text)}


def _lines_of(logs_dir: Path, message_id: str) -> list[Line]:
    needle = b'"' + in_json(message_id) + b'"'
    raws = (raw for path in session_files(logs_dir) for chunk in chunks(path) for raw in _lines_with(chunk, needle))
    lines = (parse_line(raw) for raw in raws)
    return [line for line in lines if line is not None and _is_about(line, message_id)]


def _is_about(line: Line, message_id: str) -> bool:
    return message_id in (line.data.get(key) for key in ("message_id", "in_reply_to", "escalation_id"))


def _lines_with(chunk: bytes, needle: bytes) -> Iterator[bytes]:
    at = chunk.find(needle)
    while at >= 0:
        start, end = chunk.rfind(b"\n", 0, at) + 1, chunk.find(b"\n", at)
        if end < 0:
            return  # the line is torn
        yield chunk[start:end]
        at = chunk.find(needle, end)


def in_json(text: str) -> bytes:
    """Return the text as it stands in a line, between its quotes."""
    return orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1]


def _from_json(raw: bytes) -> str | None:
    try:
        return str(orjson.loads(b'"' + raw + b'"'))
    except ValueError:
        return None
