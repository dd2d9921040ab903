"""Bookmarks: how far each track was read, in state/gateways/bus-<digits of its path>.json and a .reading file beside
it.

The first is replaced when the lines that were read have been acted on, and flushed now and then. The second is one
number, written in place before anything is acted on: lines between the two at a start were perhaps acted on by a daemon
that died. A bookmark that cannot be read counts as missing, and the track as one that was never seen. Fails with
OSError.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.coordination.bus.files.tailing import Position
from ackd.storage.json_state import BadState, JsonState
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ackd.coordination.bus.rules.layout import Track

_MAX_BYTES: Final = 4 * 1_048_576
_DIGITS: Final = 20


def state_file(state: Path, kind: str, bus: str) -> Path:
    """The file of one kind that gateways keep about a bus. Its name comes from the bus's real path, so that a bus has
    one file however it is reached."""
    whole = os.path.realpath(bus).encode("utf-8", "surrogateescape")
    return state / f"{kind}-{hashlib.blake2b(whole, digest_size=8).hexdigest()}.json"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """``reading``: the file (inode) that was being acted on, and up to where; ``stale``: workers that were reported
    silent, and when each was last heard; ``met_at``: when the daemon first saw the track."""

    position: Position
    reading: tuple[int, int]
    stale: Mapping[str, float]
    met_at: float


@dataclass(frozen=True)
class Bookmarks:
    state: Path
    durable: bool

    def load(self, track: Track) -> Bookmark | None:
        try:
            said = self._file(track, durable=False).load()
            if said is None:
                return None
            position = Position(int(said["inode"]), int(said["done"]), str(said["mark"]))
            stale = {str(name): float(heard) for name, heard in said["stale"].items()}
            met_at = float(said["met_at"])
        except (BadState, ValueError, KeyError, TypeError, AttributeError):
            return None
        if position.offset < 0:
            return None
        return Bookmark(position, self._reading(track), stale, met_at)

    def begin(self, track: Track, inode: int, end: int) -> None:
        """Note, before acting, that lines up to ``end`` may be acted on."""
        fd = os.open(self._reading_path(track), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            data, written = f"{inode:0{_DIGITS}} {end:0{_DIGITS}}\n".encode(), 0
            while written < len(data):  # a disk that is nearly full takes a part, and refuses the rest
                written += os.pwrite(fd, data[written:], written)
        finally:
            os.close(fd)

    async def keep(self, track: Track, bookmark: Bookmark, *, flush: bool) -> None:
        """Note that all lines up to the bookmark have been acted on."""
        position = bookmark.position
        where = {"track": track.bus, "inode": position.inode, "done": position.offset, "mark": position.mark}
        said = {**where, "met_at": bookmark.met_at, "stale": dict(bookmark.stale)}
        if flush and self.durable:
            await in_thread(self._file(track, durable=True).save, said)
        else:
            self._file(track, durable=False).save(said)

    def _reading(self, track: Track) -> tuple[int, int]:
        with contextlib.suppress(OSError, ValueError):
            with open(self._reading_path(track), "rb") as file:  # noqa: PTH123
                whose, end = file.read(3 * _DIGITS).split()
            return int(whose), int(end)
        return 0, 0

    def _file(self, track: Track, *, durable: bool) -> JsonState:
        return JsonState(self._path(track), durable=durable, max_bytes=_MAX_BYTES)

    def _path(self, track: Track) -> Path:
        return state_file(self.state, "bus", track.bus)

    def events_path(self, track: Track) -> Path:
        """The file in which event_watch keeps the event files that it knows."""
        return self._path(track).with_suffix(".events.json")

    def _reading_path(self, track: Track) -> str:
        return str(self._path(track).with_suffix(".reading"))
