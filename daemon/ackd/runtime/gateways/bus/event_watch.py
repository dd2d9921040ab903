"""Ends that exist only as event files: a worker that does no more than ``touch events/TASK_COMPLETE_1.1.event``.

Owns which event files no line of the bus has raised, and which of those were acted on, in
``state/gateways/bus-<digits>.events.json``: so each is news once. A file is taken for such a one only when it has lain
there for ``settle_s``, since a line is written before its event, and may be read after it. Lists the directory only
when it has changed by another's hand, for it grows with the track. Refuses to know what an end means (followed). Fails
with OSError.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson

from ackd.adapters import atomic_file
from ackd.core import bus_events
from ackd.core.bus_words import BusLine, BusType
from ackd.core.errors import BadMessage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ackd.core.bus_layout import Track
    from ackd.core.bus_track import TrackView
    from ackd.runtime.gateways.gateway import Around

_MAX_BYTES: Final = 16 * 1_048_576


@dataclass
class EventWatch:
    track: Track
    around: Around
    path: Path
    #: Raised by lines that were read, of this file or one before it.
    _raised: set[str] = field(default_factory=set, init=False)
    #: Acted on, or raised by lines that are not in the file any more.
    _known: set[str] | None = field(default=None, init=False)
    #: Without a line so far, and since when (monotonic).
    _lone: dict[str, float] = field(default_factory=dict, init=False)
    #: The directory's time when it was listed last, or changed by us alone.
    _seen: int | None = field(default=None, init=False)

    def heard(self, line: BusLine) -> None:
        """A line was read: its events are its own."""
        self._raised.update(bus_events.ends_raised(line.type.value, line.payload))

    def raised_by_us(self) -> None:
        self._seen = self._time()

    def lines_are_gone(self, *, all_of_them: bool = False) -> None:
        """The file was begun anew: what its lines raised is still there, and no news. ``all_of_them``: while nobody
        looked, so that none of those lines was heard."""
        self._save(self._load() | self._raised | (self._listed().keys() if all_of_them else set()))

    def wish_s(self) -> float | None:
        if not self._lone:
            return None
        return min(self._lone.values()) + self.around.settle_s - self.around.clock.now().mono

    def look(self, view: TrackView, *, everything: bool) -> list[BusLine]:
        """Ends that no line has told of: as lines, whose source is who holds the task, as far as that is known."""
        if not everything and not self._lone and self._time() == self._seen:
            return []
        self._seen = self._time()
        there, known, now = self._listed(), self._load(), self.around.clock.now()
        lone = there.keys() - self._raised - known
        self._lone = {name: self._lone.get(name, now.mono) for name in lone}
        settled = [name for name in sorted(lone) if now.mono >= self._lone[name] + self.around.settle_s]
        tasks = {bus_events.end_name(type_, task): task for task in view.tasks for type_ in bus_events.ENDS}
        return [self._line(name, there[name], tasks.get(name), view, now.wall) for name in settled]

    def acted_on(self, lines: Iterable[BusLine]) -> None:
        names = {line.event for line in lines}
        for name in names:
            self._lone.pop(name, None)
        self._save((self._load() & self._listed().keys()) | names)

    # --- one file -----------------------------------------------------------------------------------------------------
    def _line(self, name: str, found: os.stat_result, task: str | None, view: TrackView, wall: float) -> BusLine:
        type_, subject = bus_events.end_of(name)
        task = task or subject
        known = view.tasks.get(task)
        source = known.holder if known is not None else bus_events.NOBODY
        ident = f"event-{found.st_ino}-{name}"
        at, payload = min(found.st_mtime, wall), {"task_id": task}
        return BusLine(0, 0, ident, BusType(type_), source, at, payload, event=name)

    def _listed(self) -> dict[str, os.stat_result]:
        found: dict[str, os.stat_result] = {}
        try:
            with os.scandir(self.track.events) as entries:
                for entry in entries:
                    if bus_events.is_end(entry.name):
                        info = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(info.st_mode):
                            found[entry.name] = info
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return found

    def _time(self) -> int:
        try:
            return os.stat(self.track.events).st_mtime_ns  # noqa: PTH116 - a path of the bus, as text
        except (FileNotFoundError, NotADirectoryError):
            return 0

    # --- what survives us ---------------------------------------------------------------------------------------------
    def _load(self) -> set[str]:
        if self._known is None:
            try:
                self._known = set(map(str, orjson.loads(atomic_file.read_regular(self.path, _MAX_BYTES))["events"]))
            except (FileNotFoundError, BadMessage, ValueError, KeyError, TypeError):
                self._known = set()
        return self._known

    def _save(self, known: set[str]) -> None:
        said = orjson.dumps({"bus": self.track.bus, "events": sorted(known)})
        atomic_file.put(self.path, self.path.with_name(f".{self.path.name}.tmp"), said)
        self._known = known
