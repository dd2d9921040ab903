"""Finds ends of tasks that exist only as event files, from workers that just ``touch events/TASK_COMPLETE_1.1.event``.

The event files that no line of the bus has raised, and those that were acted on, are saved in
``state/gateways/bus-<digits>.events.json``, so that each counts once. A file counts only after ``settle_s``, because a
line is written before its event and may be read after it. The directory grows with the track, so it is listed only when
somebody else has changed it. Fails with OSError.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.coordination.bus.rules import events as bus_events
from ackd.coordination.bus.rules.words import BusLine, BusType
from ackd.storage.json_state import BadState, JsonState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.rules.track import TrackView
    from ackd.coordination.gateway import GatewayServices

_MAX_BYTES: Final = 16 * 1_048_576


@dataclass
class EventWatch:
    track: Track
    services: GatewayServices
    path: Path
    #: Events of lines that were read, from this file or one before it.
    _raised: set[str] = field(default_factory=set, init=False)
    #: Events that were acted on, or whose lines are not in the file any more.
    _known: set[str] | None = field(default=None, init=False)
    #: Events without a line so far, and since when (monotonic).
    _lone: dict[str, float] = field(default_factory=dict, init=False)
    #: The directory's mtime when it was listed last, or after a change that only this daemon made.
    _seen: int | None = field(default=None, init=False)

    def heard(self, line: BusLine) -> None:
        """Note the events of a line that was read: they are not news."""
        self._raised.update(bus_events.ends_raised(line.type.value, line.payload))

    def raised_by_us(self) -> None:
        self._seen = self._time()

    def lines_are_gone(self, *, all_of_them: bool = False) -> None:
        """Note that the file was begun anew: the events that its lines raised are still there, and are not news.
        ``all_of_them``: this happened while no daemon ran, so none of those lines was read."""
        self._save(self._load() | self._raised | (self._listed().keys() if all_of_them else set()))

    def next_look_s(self) -> float | None:
        if not self._lone:
            return None
        return min(self._lone.values()) + self.services.settle_s - self.services.clock.now().mono

    def look(self, view: TrackView, *, everything: bool) -> list[BusLine]:
        """Ends that no line has told of, as lines. Their source is the task's holder, as far as it is known."""
        if not everything and not self._lone and self._time() == self._seen:
            return []
        self._seen = self._time()
        there, known, now = self._listed(), self._load(), self.services.clock.now()
        lone = there.keys() - self._raised - known
        self._lone = {name: self._lone.get(name, now.mono) for name in lone}
        settled = [name for name in sorted(lone) if now.mono >= self._lone[name] + self.services.settle_s]
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

    # --- the saved state ----------------------------------------------------------------------------------------------
    def _load(self) -> set[str]:
        if self._known is None:
            try:
                found = JsonState(self.path, durable=False, max_bytes=_MAX_BYTES).load()
                self._known = set(map(str, found["events"])) if found is not None else set()
            except (BadState, ValueError, KeyError, TypeError):
                self._known = set()
        return self._known

    def _save(self, known: set[str]) -> None:
        JsonState(self.path, durable=False).save({"bus": self.track.bus, "events": sorted(known)})
        self._known = known
