"""The daemon's saved knowledge of a bus's leases: which it has logged and mailed about, so that it does so once.

It is saved in ``state/gateways/leases-<bus>.json`` after the lines and mail: a crash in between repeats them, in lines
with the same token and mail with the same id. A file that cannot be read counts as missing: then everything is new.
Saving fails with OSError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ackd.coordination.bus.bookmarks import state_file
from ackd.coordination.leases.rules.words import Lease
from ackd.core import clock_frames
from ackd.storage.json_state import BadState, JsonState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ackd.coordination.leases.rules.words import LeaseTable
    from ackd.core.clock_frames import Frame

Place = tuple[str, str]


@dataclass
class SavedLeases:
    """``last``: offset and id of the last line of the bus that was acted on. ``history``: where the bus's file ended
    when the daemon first saw it: lines before that may be long over. ``unsaid``: tokens that were seen, and perhaps not
    logged. ``tokens`` and ``places``: leases and places in line that came by lines of the bus and still last."""

    path: Path
    held: dict[str, tuple[Lease, ...]] = field(default_factory=dict)
    waiting: set[Place] = field(default_factory=set)
    last: tuple[int, str] = (-1, "")
    history: int | None = None
    unsaid: set[int] = field(default_factory=set)
    tokens: set[int] = field(default_factory=set)
    places: set[Place] = field(default_factory=set)
    frame: Frame | None = None  # the clock that the times of ``held`` were read from
    is_new: bool = False  # changed since it was saved

    @classmethod
    def load(cls, state: Path, bus: str) -> SavedLeases:
        path = state_file(state, "leases", bus)
        try:
            found = JsonState(path, durable=False).load()
            return cls(path) if found is None else _read(path, found)
        except (OSError, BadState, ValueError, TypeError, KeyError, AttributeError):
            return cls(path)

    def save(self) -> None:
        page = {
            "held": {path: [list(lease) for lease in leases] for path, leases in self.held.items()},
            "waiting": sorted(self.waiting),
            "last": self.last,
            "history": self.history,
            "unsaid": sorted(self.unsaid),
            "tokens": sorted(self.tokens),
            "places": sorted(self.places),
            "clock": None if self.frame is None else clock_frames.write(self.frame),
        }
        JsonState(self.path, durable=False).save(page)
        self.is_new = False

    def keep_time(self, now: Frame | None) -> None:
        """Move the known times with the clock: setting it neither ends nor prolongs a lease."""
        moved_s = clock_frames.moved_s(self.frame, now)
        if moved_s:
            self.held = {path: tuple(_moved(one, moved_s) for one in each) for path, each in self.held.items()}
        if now is not None and moved_s != 0.0:
            self.frame, self.is_new = now, True

    def met(self, tokens: Iterable[int], places: Iterable[Place]) -> None:
        self.tokens.update(tokens)
        self.places.update(places)

    def drop_all_but(self, table: LeaseTable) -> None:
        """Forget leases and places that came by lines of the bus and are gone: no later line can release them."""
        self.tokens &= {lease.token for held in table.held.values() for lease in held}
        self.places &= {(path, waiter.agent) for path, line in table.waiting.items() for waiter in line}

    def forget(self, path: str, token: int) -> None:
        self.is_new = True
        left = tuple(lease for lease in self.held.get(path, ()) if lease.token != token)
        if left:
            self.held[path] = left
        else:
            self.held.pop(path, None)

    def was_said(self, token: int) -> None:
        self.unsaid.discard(token)
        self.is_new = True

    def note(self, path: str, lease: Lease) -> None:
        self.forget(path, lease.token)
        self.held[path] = (*self.held.get(path, ()), lease)


def _moved(lease: Lease, by_s: float) -> Lease:
    return lease._replace(acquired_at=lease.acquired_at + by_s, expires_at=lease.expires_at + by_s)


def _read(path: Path, page: dict[str, Any]) -> SavedLeases:
    return SavedLeases(
        path,
        {key: tuple(Lease(*one) for one in leases) for key, leases in page["held"].items()},
        {(str(key), str(agent)) for key, agent in page["waiting"]},
        (int(page["last"][0]), str(page["last"][1])),
        page["history"],
        set(map(int, page["unsaid"])),
        set(map(int, page.get("tokens", ()))),
        {(str(key), str(agent)) for key, agent in page.get("places", ())},
        clock_frames.read(page.get("clock")),
    )


def places_in_line(table: LeaseTable) -> dict[Place, tuple[str, ...]]:
    """Every (path, agent) that waits, with the agents before it, holders first."""
    return {
        (path, waiter.agent): (
            *(lease.agent for lease in table.held.get(path, ()) if lease.agent != waiter.agent),
            *(one.agent for one in line[:number] if one.agent != waiter.agent),
        )
        for path, line in table.waiting.items()
        for number, waiter in enumerate(line)
    }
