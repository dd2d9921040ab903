"""The bus gateway: any number of tracks, coming and going, each followed by itself.

Owns which tracks there are and what each look covers. What is done with a track's lines is followed.py's. A disk that
refuses one track delays no other: what was refused is raised when all have been looked at.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Final, Protocol

from ackd.core.message import MONITOR
from ackd.runtime.gateways.bus.bookmarks import Bookmarks
from ackd.runtime.gateways.bus.followed import FollowedTrack
from ackd.runtime.gateways.gateway import LookRefused
from ackd.tracks import find_tracks, watch_places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.config_coordination import Bus
    from ackd.core.bus_layout import Track
    from ackd.core.deadlock import FileWait, Wait
    from ackd.runtime.gateways.gateway import Around
    from ackd.runtime.gateways.subscriber import Subscriber

#: Agents that live inside the daemon: no worker of a bus is one of them, whatever it calls itself.
_INSIDE: Final = frozenset({MONITOR, "system"})


class DeadlockSearch(Protocol):
    async def look(self, track: Track, waits: Sequence[Wait], agent_of: Callable[[str], str | None]) -> None: ...


class LeaseWaits(Protocol):
    async def __call__(self, track: Track, blocked: Sequence[FileWait], /) -> Sequence[Wait]: ...


class BusGateway:
    """``orchestrator``: the agent that hears of what ended, failed, is blocked or silent. ``subscribers`` get each
    line, in order; ``deadlocks`` who waits for whom after each look, with what ``lease_waits`` adds to it."""

    name = "bus"
    listens: frozenset[str] = frozenset()

    def __init__(
        self,
        config: Bus,
        orchestrator: str,
        around: Around,
        subscribers: Sequence[Subscriber] = (),
        deadlocks: DeadlockSearch | None = None,
        lease_waits: LeaseWaits | None = None,
    ) -> None:
        self._config, self._around = config, around
        self._orchestrator, self._subscribers = orchestrator, tuple(subscribers)
        self._deadlocks, self._lease_waits = deadlocks, lease_waits
        self._bookmarks = Bookmarks(around.state, around.durable)
        self._followed: dict[str, FollowedTrack] = {}

    def heard(self, type_: str, data: dict[str, object]) -> None:
        """Nothing is listened for."""

    def places(self) -> frozenset[str]:
        events = (followed.track.events for followed in self._followed.values())
        return frozenset({*self._followed, *events, *self._lookouts()})

    async def look(self, where: frozenset[str] | None) -> float | None:
        if where is None or where & self._lookouts():
            self._find()
        refused: dict[str, OSError] = {}
        for bus, followed in list(self._followed.items()):
            if where is not None and not where & {bus, followed.track.events} and not followed.is_due():
                continue
            try:
                await followed.look(everything=where is None)
            except OSError as error:
                followed.forget()
                refused[f"track {followed.track.name}"] = error
                continue
            try:
                await self._search(followed)
            except OSError as error:
                refused[f"circles of track {followed.track.name}"] = error
        wishes = [wish for followed in self._followed.values() if (wish := followed.wish_s()) is not None]
        if refused:
            raise LookRefused(refused, min(wishes, default=None))
        return min(wishes, default=None)

    def page(self) -> dict[str, object]:
        return {track.track.name: track.page() for track in self._followed.values()}

    def agent_of(self, worker: str) -> str | None:
        """The agent that a worker of a bus is, by the config's globs or its own name; None: it is none of ours."""
        named = (agent for glob, agent in self._config.workers.items() if fnmatch.fnmatchcase(worker, glob))
        agent = self._around.called(next(named, worker))
        return None if agent in _INSIDE else agent

    # --- which there are ----------------------------------------------------------------------------------------------
    def _lookouts(self) -> set[str]:
        return watch_places(self._around.base, self._config.tracks, self._around.root)

    def _find(self) -> None:
        found = {track.bus: track for track in find_tracks(self._around.base, self._config.tracks, self._around.root)}
        for bus in [bus for bus in self._followed if bus not in found]:
            gone = self._followed.pop(bus)
            self._around.record("bus_track", {"track": gone.track.name, "bus": bus, "state": "gone"})
        for bus, track in found.items():
            if bus not in self._followed:
                self._around.record("bus_track", {"track": track.name, "bus": bus, "state": "found"})
                self._followed[bus] = self._follow(track)

    def _follow(self, track: Track) -> FollowedTrack:
        return FollowedTrack(
            track=track,
            config=self._config,
            around=self._around,
            bookmarks=self._bookmarks,
            subscribers=self._subscribers,
            orchestrator=self._orchestrator,
            agent_of=self.agent_of,
        )

    async def _search(self, followed: FollowedTrack) -> None:
        if self._deadlocks is not None:
            track, view = followed.track, followed.view
            leases = await self._lease_waits(track, view.blocked_by_files()) if self._lease_waits is not None else ()
            await self._deadlocks.look(track, [*view.blocked(), *leases], self.agent_of)
