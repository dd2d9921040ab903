"""The bus gateway: finds the tracks, which come and go, and looks at each of them.

Lines of a track are acted on in followed_track. A disk that refuses one track delays no other: the refusal
is raised after all tracks have been looked at.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Final

from ackd.coordination.bus.bookmarks import Bookmarks
from ackd.coordination.bus.facts import bus_track
from ackd.coordination.bus.followed_track import FollowedTrack
from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.bus.tracks import find_tracks, watch_places
from ackd.coordination.gateway import Gateway, LookRefused
from ackd.core.message import MONITOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.subscriber import Subscriber, TrackObserver
    from ackd.coordination.gateway import GatewayContext, GatewayServices

#: Agents that live inside the daemon: no worker of a bus is one of them, whatever it calls itself.
_INSIDE: Final = frozenset({MONITOR, "system"})


def make(context: GatewayContext, others: Mapping[str, Gateway]) -> Gateway:  # noqa: ARG001 - requires nobody
    """Every team has a bus gateway: the bus below the root may be made at any time."""
    settings = context.config.settings(BusSettings) or BusSettings()
    orchestrator = settings.orchestrator or context.escalate_to
    return BusGateway(config=settings, orchestrator=orchestrator, services=context.services)


class BusGateway(Gateway):
    """``orchestrator``: the agent that is told of tasks that ended or failed and workers that are blocked or silent.

    Other capabilities add themselves: ``subscribers`` get each line, in order; ``observers`` are called after each look
    at a track.
    """

    name = "bus"

    def __init__(self, *, config: BusSettings, orchestrator: str, services: GatewayServices) -> None:
        self._config, self._services = config, services
        self.orchestrator = orchestrator
        self.subscribers: list[Subscriber] = []
        self.observers: list[TrackObserver] = []
        self._bookmarks = Bookmarks(services.state, services.durable)
        self._followed: dict[str, FollowedTrack] = {}

    def places(self) -> frozenset[str]:
        events = (followed.track.events for followed in self._followed.values())
        return frozenset({*self._followed, *events, *self._watched()})

    async def look(self, where: frozenset[str] | None) -> float | None:
        if where is None or where & self._watched():
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
            for observer in self.observers:
                try:
                    await observer.looked(followed.track, followed.view, self.agent_of)
                except OSError as error:
                    refused[f"{observer.what} of track {followed.track.name}"] = error
        next_looks = [in_s for followed in self._followed.values() if (in_s := followed.next_look_s()) is not None]
        if refused:
            raise LookRefused(refused, min(next_looks, default=None))
        return min(next_looks, default=None)

    def page(self) -> dict[str, object]:
        return {track.track.name: track.page() for track in self._followed.values()}

    def agent_of(self, worker: str) -> str | None:
        """The agent behind a worker of a bus, by the config's globs or by the worker's own name; None: no agent of the
        team."""
        named = (agent for glob, agent in self._config.workers.items() if fnmatch.fnmatchcase(worker, glob))
        agent = self._services.called(next(named, worker))
        return None if agent in _INSIDE else agent

    # --- which there are ----------------------------------------------------------------------------------------------
    def _watched(self) -> set[str]:
        return watch_places(self._services.base, self._config.tracks, self._services.root)

    def _find(self) -> None:
        found = {
            track.bus: track for track in find_tracks(self._services.base, self._config.tracks, self._services.root)
        }
        for bus in [bus for bus in self._followed if bus not in found]:
            gone = self._followed.pop(bus)
            self._services.record(bus_track(track=gone.track.name, bus=bus, state="gone"))
        for bus, track in found.items():
            if bus not in self._followed:
                self._services.record(bus_track(track=track.name, bus=bus, state="found"))
                self._followed[bus] = self._follow(track)

    def _follow(self, track: Track) -> FollowedTrack:
        return FollowedTrack(
            track=track,
            config=self._config,
            services=self._services,
            bookmarks=self._bookmarks,
            subscribers=self.subscribers,
            orchestrator=self.orchestrator,
            agent_of=self.agent_of,
        )
