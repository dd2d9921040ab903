"""A message bus from Python, with or without a daemon: post to it, read it, wait for events on it.

    from ackd.bus import Bus

    bus = Bus("conductor/tracks/login")
    bus.post("TASK_COMPLETE", "worker-1.1", {"task_id": "1.1", "unblocks": ["1.2"]})
    bus.wait("TASK_COMPLETE_1.2", timeout=60)

Posting writes the line first, whole, then its event files; if the process dies in between, the daemon makes them.
Posting is quick to import; reading and waiting import what they need when they are called. Fails with ``BadBusLine``
for a message that must not stand on a bus, and with OSError.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ackd.coordination.bus.files import Appender, make_track, raise_event
from ackd.coordination.bus.rules.events import RAISING, event_names, wanted_names
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.tracks import BUS_DIR, track_at
from ackd.coordination.bus.wire import TYPES, encode, quick_check
from ackd.core.errors import BadBusLine

if TYPE_CHECKING:
    from ackd.coordination.bus.files.tailing import Position
    from ackd.coordination.bus.rules.words import BusLine

_MAX_LINE_BYTES: Final = 1_048_576
#: Half of a surrogate pair, as ``encode`` writes it: no reader of JSON accepts it.
_HALF_PAIR: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\ud[89a-f]")


class Bus:
    """``path``: a directory that holds ``.message-bus/``, or is a bus."""

    def __init__(self, path: str | os.PathLike[str] | Track) -> None:
        self.track = path if isinstance(path, Track) else _track(path)
        self._queue = Appender(self.track.queue)

    def close(self) -> None:
        """Close the file. It is opened again when something is posted."""
        self._queue.close()

    def __del__(self) -> None:
        self.close()

    def make(self) -> list[str]:
        """Make whatever is missing of the bus; existing files stay. Returns the names of what was made."""
        return make_track(self.track)

    def post(self, type_: str, source: str, payload: Mapping[str, object] | None = None) -> str:
        """Append a message, and raise its events. Returns its id."""
        said = {} if payload is None else payload if isinstance(payload, dict) else dict(payload)
        check(type_, source, said)
        message_id = _new_id()
        try:
            line = encode(message_id, type_, source, said, time.time())
        except (TypeError, ValueError, RecursionError) as error:
            raise BadBusLine("not_json", f"the payload is no JSON: {error}") from None
        if len(line) > _MAX_LINE_BYTES:
            raise BadBusLine("too_long", f"{len(line)} bytes in one message: at most {_MAX_LINE_BYTES}")
        if b"\\ud" in line and _HALF_PAIR.search(line):
            raise BadBusLine("not_utf8", "the message is not UTF-8")
        self._queue.append(line)
        if type_ in RAISING:
            self._raise(event_names(type_, message_id, said))
        return message_id

    def _raise(self, names: tuple[str, ...]) -> None:
        for name in names:
            try:
                raise_event(self.track.events, name)
            except FileNotFoundError:
                os.mkdir(self.track.events, 0o700)  # noqa: PTH102
                raise_event(self.track.events, name)

    # --- reading ------------------------------------------------------------------------------------------------------
    def read(
        self, *, since: float | None = None, offset: int | None = None, type_: str | None = None
    ) -> Iterator["BusLine | BadBusLine"]:
        """Yield the lines so far: from a byte offset on, since a time (wall seconds), or of one type. Lines that cannot
        be read come as ``BadBusLine``, unless a time or type is given."""
        from ackd.coordination.bus.files.tailing import Position, position_at  # noqa: PLC0415

        position = Position() if not offset else position_at(self.track.queue, offset)
        while True:
            lines, position, more = self.read_on(position)
            yield from (line for line in lines if fits(line, since, type_))
            if not more:
                return

    def read_on(self, position: "Position") -> "tuple[list[BusLine | BadBusLine], Position, bool]":
        """Return the next lines, the position after them, and whether there are more already. A last line without a
        line end counts if it is complete."""
        from ackd.coordination.bus.files.tailing import read_on  # noqa: PLC0415
        from ackd.coordination.bus.wire.reading import read  # noqa: PLC0415

        piece = read_on(self.track.queue, position, _MAX_LINE_BYTES)
        wall = time.time()
        lines = [said for one in piece.lines for said in read(one.raw, one.offset, one.end, wall, piece.written_at)]
        return lines, piece.position, piece.more

    # --- waiting ------------------------------------------------------------------------------------------------------
    def wait(self, pattern: str, timeout: float = 300.0, *, new: bool = False) -> bool:
        """Wait for an event of that name (a glob); True if it has happened, or happens in time. ``new``: from now on
        only.

        A line on the bus counts, too, even if nobody has raised its event.
        """
        from ackd.coordination.bus.waiting import EventWait  # noqa: PLC0415

        return EventWait(self, wanted_names(pattern), new=new).wait(timeout)


def _track(path: str | os.PathLike[str]) -> Track:
    place = os.path.abspath(path)  # noqa: PTH100 - pathlib is slow to import
    is_bus = os.path.exists(f"{place}/queue.jsonl")  # noqa: PTH110
    return track_at(place) or Track(place if is_bus else f"{place}/{BUS_DIR}", os.path.basename(place))  # noqa: PTH119


def fits(line: "BusLine | BadBusLine", since: float | None, type_: str | None) -> bool:
    if isinstance(line, BadBusLine):
        return since is None and type_ is None
    return (since is None or line.at >= since) and (type_ is None or line.type.value == type_)


def check(type_: str, source: str, payload: dict[str, object]) -> None:
    """Raise BadBusLine for a message that no reader would accept."""
    if type_ not in TYPES:
        raise BadBusLine("unknown_type", f"unknown type {type_!r:.60}: known are {', '.join(TYPES)}")
    if not source.strip():
        raise BadBusLine("missing_field", "source: is required, and missing")
    if not quick_check(type_, payload):
        from ackd.coordination.bus.wire.reading import problems  # noqa: PLC0415 - pydantic: only what is unusual pays for it

        if found := problems(type_, payload):
            raise BadBusLine("bad_field", f"{type_}: {'; '.join(found)}")


def _new_id() -> str:
    """A random id as uuid4 makes it; that module takes longer to import than all of this one."""
    digits = os.urandom(16).hex()
    return f"msg-{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
