"""How far each track was read, on disk: state/gateways/bus-<digits of its path>.json, and .reading beside it.

The first is replaced when what was read has been acted on, and flushed now and then. The second is one number written
in place before anything is acted on: what lies between the two when we start was perhaps acted on by a daemon that
died. A bookmark that cannot be read is none: the track is then read as one that was never met. Fails with OSError.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from ackd.adapters import atomic_file
from ackd.adapters.bus_files.tailing import Position
from ackd.core.errors import BadMessage
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ackd.core.bus_layout import Track

_MAX_BYTES: Final = 4 * 1_048_576
_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class Bookmark:
    """``reading``: of which file (inode) what was being acted on, and up to where; ``stale``: workers that somebody was
    told of, and when each was last heard; ``met_at``: when the track was first met."""

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
            said = orjson.loads(atomic_file.read_regular(self._path(track), _MAX_BYTES))
            position = Position(int(said["inode"]), int(said["done"]), str(said["mark"]))
            stale = {str(name): float(heard) for name, heard in said["stale"].items()}
            met_at = float(said["met_at"])
        except (FileNotFoundError, BadMessage, ValueError, KeyError, TypeError, AttributeError):
            return None
        if position.offset < 0:
            return None
        return Bookmark(position, self._reading(track), stale, met_at)

    def begin(self, track: Track, inode: int, end: int) -> None:
        """What comes next may be acted on up to there."""
        fd = os.open(self._reading_path(track), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            data, written = f"{inode:0{_DIGITS}} {end:0{_DIGITS}}\n".encode(), 0
            while written < len(data):  # a disk that is nearly full takes a part, and refuses the rest
                written += os.pwrite(fd, data[written:], written)
        finally:
            os.close(fd)

    async def keep(self, track: Track, bookmark: Bookmark, *, flush: bool) -> None:
        """All up to there has been acted on."""
        position = bookmark.position
        where = {"track": track.bus, "inode": position.inode, "done": position.offset, "mark": position.mark}
        said = {**where, "met_at": bookmark.met_at, "stale": dict(bookmark.stale)}
        path = self._path(track)
        flush = flush and self.durable
        put = atomic_file.put_durably if flush else atomic_file.put
        data = orjson.dumps(said, option=orjson.OPT_INDENT_2)
        act = partial(put, path, path.with_name(f"{path.name}.tmp"), data)
        if flush:
            await in_thread(act)
        else:
            act()

    def _reading(self, track: Track) -> tuple[int, int]:
        with contextlib.suppress(OSError, ValueError):
            with open(self._reading_path(track), "rb") as file:  # noqa: PTH123
                whose, end = file.read(3 * _DIGITS).split()
            return int(whose), int(end)
        return 0, 0

    def _path(self, track: Track) -> Path:
        whole = os.path.realpath(track.bus).encode("utf-8", "surrogateescape")
        return self.state / f"bus-{hashlib.blake2b(whole, digest_size=8).hexdigest()}.json"

    def events_path(self, track: Track) -> Path:
        """For event_watch: which event files are known."""
        return self._path(track).with_suffix(".events.json")

    def _reading_path(self, track: Track) -> str:
        return str(self._path(track).with_suffix(".reading"))
