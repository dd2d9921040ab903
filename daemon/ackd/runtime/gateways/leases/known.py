"""What the daemon knows of a bus's leases: what it has written down and told of, so that it is said once.

Kept in ``state/gateways/leases-<bus>.json`` after it was said: a crash in between says it again, in lines with the same
token and mail with the same id. A file that cannot be read is as none: everything is news. Saving fails with OSError.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from ackd.adapters import atomic_file
from ackd.core import clock_frames
from ackd.core.lease_words import Lease

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ackd.core.clock_frames import Frame
    from ackd.core.lease_words import Table

Place = tuple[str, str]


@dataclass
class Known:
    """``last``: offset and id of the last line of the bus that was acted on. ``history``: where the bus's file ended
    when it was met first: what lies before may be long over. ``unsaid``: tokens that were seen, and perhaps not told
    of. ``tokens`` and ``places``: leases and places in line that came by lines which were read, as far as they last."""

    path: Path
    held: dict[str, tuple[Lease, ...]] = field(default_factory=dict)
    waiting: set[Place] = field(default_factory=set)
    last: tuple[int, str] = (-1, "")
    history: int | None = None
    unsaid: set[int] = field(default_factory=set)
    tokens: set[int] = field(default_factory=set)
    places: set[Place] = field(default_factory=set)
    frame: Frame | None = None  # which the times of ``held`` are in
    is_new: bool = False  # not saved yet

    @classmethod
    def load(cls, state: Path, bus: str) -> Known:
        digest = hashlib.blake2b(bus.encode(errors="surrogateescape"), digest_size=8).hexdigest()
        path = state / f"leases-{digest}.json"
        try:
            return _read(path, orjson.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
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
        atomic_file.put(self.path, self.path.with_name(f".{self.path.name}.tmp"), orjson.dumps(page))
        self.is_new = False

    def keep_time(self, now: Frame | None) -> None:
        """A clock that was set neither ends nor prolongs a lease: what is known of them is moved with it."""
        moved_s = clock_frames.moved_s(self.frame, now)
        if moved_s:
            self.held = {path: tuple(_moved(one, moved_s) for one in each) for path, each in self.held.items()}
        if now is not None and moved_s != 0.0:
            self.frame, self.is_new = now, True

    def met(self, tokens: Iterable[int], places: Iterable[Place]) -> None:
        self.tokens.update(tokens)
        self.places.update(places)

    def drop_all_but(self, table: Table) -> None:
        """Of what came by lines, only what is still there can be let go by one."""
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


def _read(path: Path, page: dict[str, Any]) -> Known:
    return Known(
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


def places_in_line(table: Table) -> dict[Place, tuple[str, ...]]:
    """Who waits for what; and who is before it, holders first."""
    return {
        (path, waiter.agent): (
            *(lease.agent for lease in table.held.get(path, ()) if lease.agent != waiter.agent),
            *(one.agent for one in line[:number] if one.agent != waiter.agent),
        )
        for path, line in table.waiting.items()
        for number, waiter in enumerate(line)
    }
