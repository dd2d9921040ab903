"""The operator's view of ``ackd run``: facts as they happen, one line each.

On a terminal they are rendered as ``ackd tail`` renders them, progress at the pace of core/throttle.py; elsewhere each
is a JSON object on a line of its own. Never fails and never waits: a reader who left ends the view, one who does not
read (a pager, Ctrl-S) misses lines and is told how many, and the daemon goes on. The session log has them all.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import stat
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO, cast

import orjson

from ackd import facts
from ackd.cli.output import escaped_json
from ackd.core.daemon_facts import session_stopping
from ackd.core.escalations import stamp
from ackd.core.message_facts import progress
from ackd.core.throttle import ProgressDisplay
from ackd.facts.table import FACTS
from ackd.storage.session_log import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping

#: Types of lines that an operator should look into.
LOUD: Final = frozenset(type_ for type_, row in FACTS.items() if row.loud)
_DEL: Final = b"\x7f"
#: As much as a pipe that has room takes at once (PIPE_BUF).
_AT_ONCE_BYTES: Final = 4096
#: Types of lines that say what can be done just now: a terminal shows them whole, however narrow it is.
_SHOWN_WHOLE: Final = frozenset({session_stopping.type})
_READER_LEFT: Final = frozenset({errno.EPIPE, errno.EIO, errno.EBADF, errno.ECONNRESET, errno.ENOTCONN})


class TerminalView:
    """Lines for people. ``structlog`` carries each fact through one processor, which draws it."""

    def __init__(self, stream: TextIO, agents: Iterable[str] = ()) -> None:
        self._colour = facts.colour_wanted(stream)
        self._on_terminal = stream.isatty()
        self._agents = facts.agent_width(agents)
        self._encoding = stream.encoding or "utf-8"
        self._held: ProgressDisplay[Line] = ProgressDisplay()
        self._outlet = Outlet(stream.fileno(), lambda n: f"… {n} lines were not shown: nobody read them\n".encode())
        self._logger = _logger(self._outlet, self._draw)

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        line = Line(stamp(at), "", 0, "daemon", type_, data, b"")
        if type_ == progress.type:
            final = data.get("final") is True
            self._say(self._held.offer(facts.agent_of(line), line, time.monotonic(), final=final))
        else:
            self._say(line)
        for held in self._held.due(time.monotonic()):
            self._say(held)

    def flush(self) -> None:
        self._outlet.send()

    def _say(self, line: Line | None) -> None:
        if line is not None:
            self._logger.info(line.type, line=line)

    def _draw(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> bytes:
        line: Line = event["line"]
        is_cut = self._on_terminal and line.type not in _SHOWN_WHOLE
        width = shutil.get_terminal_size().columns if is_cut else 0
        text = facts.render(line, colour=self._colour, width=width, agents=self._agents)
        return text.encode(self._encoding, "replace")


class StructuredView:
    """Lines for programs: one JSON object per fact, in the form of structlog's JSON lines. Encoded here, because a
    service shows seven facts a message, and structlog takes three times as long for each."""

    def __init__(self, stream: TextIO, prefix: Callable[[str], str] = lambda _type: "") -> None:
        """``prefix``: returns what stands before the lines of a type."""
        self._outlet = Outlet(stream.fileno(), _output_gap)
        self._prefix = prefix

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        level = "warning" if type_ in LOUD else "info"
        line = _encode({"timestamp": stamp(at), "data": data, "event": type_, "level": level})
        line = self._prefix(type_).encode() + line
        self._outlet.write(line if line.isascii() and _DEL not in line else _escaped(line))

    def flush(self) -> None:
        self._outlet.send()


def _escaped(line: bytes) -> bytes:
    """Escape the control characters beyond ASCII, which orjson leaves as they are."""
    return escaped_json(line.decode()).encode()


def _output_gap(missed: int) -> bytes:
    return orjson.dumps({"event": "output_gap", "level": "warning", "lost": missed}) + b"\n"


def _logger(outlet: Outlet, processor: Any) -> Any:
    import structlog

    return structlog.wrap_logger(
        structlog.BytesLogger(cast("BinaryIO", outlet)),
        processors=[processor],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=True,
    )


def _encode(event: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a name that is not UTF-8
        shown = {"event": str(event["event"]), "data": ascii(event["data"])}
        return orjson.dumps(shown, option=orjson.OPT_APPEND_NEWLINE)


class Outlet:
    """A descriptor that is written to only while it has room. ``gap`` words how many lines were missed.

    Lines are kept until ``send``: those of one turn are one write.
    """

    def __init__(self, fd: int, gap: Callable[[int], bytes]) -> None:
        self._fd = _without_waiting(fd)
        self._gap = gap
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._lines: list[bytes] = []
        self._missed = 0
        self._torn = False
        self._left = False

    def write(self, line: bytes) -> None:
        self._lines.append(line)

    def flush(self) -> None:
        """Do nothing: structlog flushes every line."""

    def send(self) -> None:
        lines, self._lines = self._lines, []
        for chunk in _chunks(lines):
            if not self._left:
                self._send(chunk)

    def _send(self, lines: list[bytes]) -> None:
        before = (b"\n" if self._torn else b"") + (self._gap(self._missed) if self._missed else b"")
        rest = memoryview(before + b"".join(lines))
        total = len(rest)
        try:
            while rest and self._has_room():
                rest = rest[os.write(self._fd, rest[:_AT_ONCE_BYTES]) :]
        except OSError as error:  # no room after all, or a full disk, which is the same to us
            self._left = error.errno in _READER_LEFT
        unsent = len(rest)
        self._torn = unsent > 0 and (self._torn or unsent < total)
        self._missed = (self._missed if unsent > total - len(before) else 0) + _unsent_lines(lines, unsent)

    def _has_room(self) -> bool:
        return any(events & (select.POLLOUT | select.POLLERR) for _, events in self._poll.poll(0))


def _chunks(lines: list[bytes]) -> Iterable[list[bytes]]:
    """Rows of lines that a pipe with room takes whole; a longer line goes by itself."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        if chunk and size + len(line) > _AT_ONCE_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line)
    if chunk:
        yield chunk


def _unsent_lines(lines: list[bytes], unsent: int) -> int:
    """Count the lines that are not written whole when this many bytes at their end are not."""
    count = 0
    for line in reversed(lines):
        if unsent <= 0:
            break
        count, unsent = count + 1, unsent - len(line)
    return count


def _without_waiting(fd: int) -> int:
    """The same pipe or terminal under a description of our own: O_NONBLOCK on the one we were given would be that of
    the shell, too. A file needs none; where none can be had (a socket), there is the look whether it has room."""
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd
