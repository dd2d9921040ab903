"""The session log on disk: one NDJSON line per fact, appended whole, and read back.

Owns the files ``logs/session-YYYYMMDD-HHMMSS.ndjson`` (UTC, 0600): their names, the shape of a line, writing, reading,
searching and following. Refuses to know what a fact means. Synchronous, because the command line reads with it.

Writing never raises once the log is open: lines that the disk refuses stay in memory, ``failing`` says why, and the
next ``flush`` tries again. Beyond ``KEPT_LINES`` the oldest are dropped and a ``log_gap`` line takes their place. A
file that was deleted or renamed under us is followed by a new one. Reading never raises for what is in a file: torn
and foreign lines are skipped and counted.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
import time
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from ackd.core.errors import AmbiguousMessage, UnknownMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

KEPT_LINES: Final = 10_000
_LOOK_INTERVAL_S: Final = 1.0
_CREATE: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_NAME: Final = re.compile(r"session-(\d{8}-\d{6})(?:-(\d{1,9}))?\.ndjson")
_STAMP_OF_LINE: Final = slice(len('{"timestamp":"'), len('{"timestamp":"2026-11-16T01:02:03.123456Z'))
_CHUNK_BYTES: Final = 1 << 20
_DEEPEST: Final = 32


# --- writing ----------------------------------------------------------------------------------------------------------
class SessionLog:
    """The file that this process writes its facts to. ``record`` buffers, ``flush`` hands everything to the kernel."""

    def __init__(self, opened: _OpenFile, session_id: str, writer: str, clock: Callable[[], float]) -> None:
        self.session_id = session_id
        self.failing: OSError | None = None
        self._file = opened
        self._writer = writer
        self._clock = clock
        self._seq = 0
        self._pending: deque[bytes] = deque()
        self._lost = 0  # while not 0, the first pending line is the log_gap that tells of them
        self._torn = False  # the file ends within a line
        self._second = (-1, "")
        self._look_at = clock() + _LOOK_INTERVAL_S

    @classmethod
    def open(
        cls,
        logs_dir: Path,
        *,
        started_at: float,
        writer: str = "daemon",
        clock: Callable[[], float] = time.monotonic,
    ) -> SessionLog:
        """A new file of its own; a second session within the second gets a suffix. Raises OSError."""
        opened = _create(logs_dir, time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_at)), 1)
        return cls(opened, opened.path.stem.removeprefix("session-"), writer, clock)

    @property
    def path(self) -> Path:
        """Where lines go now. It changes when the file is deleted under us; ``session_id`` does not."""
        return self._file.path

    @property
    def unwritten(self) -> int:
        """How many lines the kernel has not been given yet."""
        return len(self._pending)

    def record(self, type: str, data: dict[str, object], at: float) -> None:  # noqa: A002 - the line's own word
        self._seq += 1
        self._pending.append(self._encode(self._stamp(at), self._seq, type, data))

    def flush(self) -> None:
        if not self._pending:
            return
        try:
            self._follow_lost_file()
            if self.failing is not None:
                self._write(1)  # a probe: a full disk must not cost the joining of ten thousand lines at every flush
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

    def _encode(self, stamp: str, seq: int, type_: str, data: dict[str, object]) -> bytes:
        line = {
            "timestamp": stamp,
            "session_id": self.session_id,
            "seq": seq,
            "writer": self._writer,
            "type": type_,
            "data": data,
        }
        try:
            return orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError:  # lone surrogates, keys that are no text, huge integers, circles
            return orjson.dumps(_writable(line), option=orjson.OPT_APPEND_NEWLINE)

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
        stamp = dropped[_STAMP_OF_LINE].decode()
        self._pending.appendleft(self._encode(stamp, self._seq - len(self._pending), "log_gap", {"lost": self._lost}))

    def _follow_lost_file(self) -> None:
        if not self._lost_file():
            return
        # Never the old name: whoever reads it has a place in it that would be wrong in the new file.
        fresh = _create(self.path.parent, self._file.stem, self._file.number + 1)
        os.close(self._file.fd)
        self._file = fresh
        self._torn = False

    def _lost_file(self) -> bool:
        ours = os.fstat(self._file.fd)
        if ours.st_nlink == 0:
            return True
        if self._clock() < self._look_at:
            return False
        self._look_at = self._clock() + _LOOK_INTERVAL_S
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return True  # renamed away: what was written is safe there, but no reader would look
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


@dataclass(slots=True)
class _OpenFile:
    path: Path
    fd: int
    stem: str
    number: int


def _create(logs_dir: Path, stem: str, first: int) -> _OpenFile:
    _make_private(logs_dir)
    for number in itertools.count(first):
        path = logs_dir / (f"session-{stem}.ndjson" if number == 1 else f"session-{stem}-{number}.ndjson")
        try:
            return _OpenFile(path, os.open(path, _CREATE, 0o600), stem, number)
        except FileExistsError:
            continue
    raise AssertionError("count() ended")


def _make_private(directory: Path) -> None:
    if not directory.is_dir():
        _make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def _writable(value: object, depth: int = 0) -> Any:
    """The value as orjson takes it for sure; what it cannot take is replaced by text."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else str(value)
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {_writable(str(key)): _writable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_writable(item, depth + 1) for item in value]
    return _writable(str(value))


# --- reading ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Line:
    """One fact as it stands in the log. ``raw`` is the line itself, without its end."""

    timestamp: str
    session_id: str
    seq: int
    writer: str
    type: str
    data: dict[str, Any]
    raw: bytes

    @property
    def at(self) -> float:
        """Wall-clock seconds."""
        return datetime.fromisoformat(self.timestamp).timestamp()


def parse_line(raw: bytes) -> Line | None:
    """None for what is no line of a session log: torn, foreign or garbage."""
    try:
        content = orjson.loads(raw)
        timestamp, type_, data = content["timestamp"], content["type"], content["data"]
        datetime.fromisoformat(timestamp)
    except (ValueError, TypeError, KeyError):
        return None
    if not (isinstance(type_, str) and isinstance(data, dict)):
        return None
    seq = content.get("seq")
    return Line(
        timestamp,
        str(content.get("session_id", "")),
        seq if isinstance(seq, int) else 0,
        str(content.get("writer", "")),
        type_,
        data,
        raw,
    )


class LineReader:
    """The whole lines of one file from ``offset`` on. Iterating again goes on where the last time ended.

    ``offset`` is always the start of a line: one that is not finished yet is left for the next time.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
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
                line = parse_line(raw[:-1])
                if line is not None:
                    yield line
                else:
                    self.skipped += 1


def read_lines(path: Path, start: int = 0) -> LineReader:
    """The lines of one file, oldest first. Afterwards the result knows its ``offset`` and what it ``skipped``."""
    return LineReader(path, start)


def session_files(logs_dir: Path) -> list[Path]:
    """The session logs of a directory, oldest first. None when there is no such directory."""
    try:
        with os.scandir(logs_dir) as entries:
            found = [(m[1], int(m[2] or 1), e.name) for e in entries if (m := _NAME.fullmatch(e.name)) and _regular(e)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [logs_dir / name for _, _, name in sorted(found)]


def _regular(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


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


# --- finding a message ------------------------------------------------------------------------------------------------
def find_message_lines(logs_dir: Path, message_id: str) -> list[Line]:
    """All lines about a message, oldest first, given its id or a unique beginning of it.

    Lines of its answers (``in_reply_to``) and of the escalation that it is (``escalation_id``) belong to it too.
    Raises UnknownMessage, AmbiguousMessage.
    """
    return _lines_of(logs_dir, message_id) or _lines_of(
        logs_dir, choose_id(message_id, matching_ids(logs_dir, message_id))
    )


def choose_id(wanted: str, ids: Iterable[str]) -> str:
    """The one id that is meant. A whole id, then one that is whole up to its ``@``, wins over mere beginnings."""
    fitting = {one for one in ids if wanted and one.startswith(wanted)}
    whole = {one for one in fitting if one.partition("@")[0] == wanted}
    best = (fitting & {wanted}) or whole or fitting
    if not best:
        raise UnknownMessage(wanted)
    if len(best) > 1:
        raise AmbiguousMessage(wanted, tuple(sorted(best)))
    return best.pop()


def matching_ids(logs_dir: Path, prefix: str) -> set[str]:
    """The ids in all logs that begin so, without reading any line as JSON: minutes become moments on big logs."""
    pattern = re.compile(rb'"message_id": ?"(' + re.escape(_in_json(prefix)) + rb'(?:[^"\\\n]|\\.)*)"')
    found = {raw for path in session_files(logs_dir) for chunk in _chunks(path) for raw in pattern.findall(chunk)}
    return {text for raw in found if (text := _from_json(raw)) is not None}


def _lines_of(logs_dir: Path, message_id: str) -> list[Line]:
    needle = b'"' + _in_json(message_id) + b'"'
    raws = (raw for path in session_files(logs_dir) for chunk in _chunks(path) for raw in _lines_with(chunk, needle))
    lines = (parse_line(raw) for raw in raws)
    return [line for line in lines if line is not None and _is_about(line, message_id)]


def _is_about(line: Line, message_id: str) -> bool:
    return message_id in (line.data.get(key) for key in ("message_id", "in_reply_to", "escalation_id"))


def _lines_with(chunk: bytes, needle: bytes) -> Iterator[bytes]:
    at = chunk.find(needle)
    while at >= 0:
        start, end = chunk.rfind(b"\n", 0, at) + 1, chunk.find(b"\n", at)
        if end < 0:
            return  # torn
        yield chunk[start:end]
        at = chunk.find(needle, end)


def _chunks(path: Path) -> Iterator[bytes]:
    # Not mmap: a log that someone truncates meanwhile would end us with SIGBUS.
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk + file.readline()


def _in_json(text: str) -> bytes:
    return orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1]


def _from_json(raw: bytes) -> str | None:
    try:
        return str(orjson.loads(b'"' + raw + b'"'))
    except ValueError:
        return None


# --- following --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Position:
    inode: int
    reader: LineReader


class Follower:
    """Remembers how far every log has been read; ``poll`` gives what came since, the next sessions' files included."""

    #: Only these newest files can still grow: one daemon writes one file at a time.
    LIVE_FILES: Final = 4

    def __init__(self, logs_dir: Path) -> None:
        self.logs_dir = logs_dir
        #: Where each file ended when following began.
        self.ends: dict[Path, int] = {path: end_of_lines(path) for path in session_files(logs_dir)}
        self._positions = {path: _Position(_inode(path), LineReader(path, end)) for path, end in self.ends.items()}

    @property
    def found_any(self) -> bool:
        return bool(self._positions)

    def poll(self) -> Iterator[Line]:
        files = session_files(self.logs_dir)
        for path in files:
            if path not in self._positions:
                self._positions[path] = _Position(_inode(path), LineReader(path))
            elif path not in files[-self.LIVE_FILES :]:
                continue
            yield from self._news(self._positions[path])

    def _news(self, position: _Position) -> Iterator[Line]:
        try:
            now = position.reader.path.stat()
        except FileNotFoundError:
            return
        if now.st_ino != position.inode or now.st_size < position.reader.offset:  # replaced, or truncated
            position.inode, position.reader.offset = now.st_ino, 0
        if now.st_size > position.reader.offset and stat.S_ISREG(now.st_mode):
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
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
