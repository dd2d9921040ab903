"""Finds workers of a bus that wait for each other in a circle, reports each circle once, and notices when it ends.

The circles that are known are saved for each track in ``state/gateways/``. A new one is saved first, with the moment
that closed it, then logged, then mailed to its members (the youngest is asked to yield) and to the leader; only then is
it saved as told. So a crash in between repeats the same mail, under the same ids, which are recognised, and a line that
may have been lost comes again, marked as recovered.

The bus gateway calls this after each look at a track. After an OSError the next look goes on where this one ended.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ackd.coordination.bus.bookmarks import state_file
from ackd.coordination.bus.gateway import BusGateway
from ackd.coordination.deadlock import mail as deadlock_mail
from ackd.coordination.deadlock.facts import deadlock_broken, deadlock_detected
from ackd.coordination.deadlock.rules import MOST, find_cycles, lasts
from ackd.coordination.leases.gateway import LeaseGateway
from ackd.core.errors import UnknownAgent
from ackd.storage.json_state import BadState, JsonState
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.rules.track import TrackView
    from ackd.coordination.bus.rules.words import FileWait, WorkerWait
    from ackd.coordination.deadlock.rules import Cycle
    from ackd.coordination.gateway import Gateway, GatewayContext, GatewayServices
    from ackd.core.message import Draft

_LARGEST: Final = 16 << 20


@dataclass(slots=True)
class _Circle:
    """``closed_at`` as it was first seen: the ids of the mail derive from it. ``said``: logged by this daemon."""

    closed_at: float
    told: bool = False
    found_at_start: bool = False
    said: bool = False


_Circles = dict[tuple[str, ...], _Circle]


class LeaseWaits(Protocol):
    """The signature of ``LeaseGateway.waits``."""

    async def __call__(self, track: Track, blocked: Sequence[FileWait], /) -> Sequence[WorkerWait]: ...


def make(context: GatewayContext, others: Mapping[str, Gateway]) -> None:
    """Add the search to the bus gateway, which calls it after each look at a track. It has no gateway of its own."""
    bus, leases = others["bus"], others["leases"]
    assert isinstance(bus, BusGateway)
    assert isinstance(leases, LeaseGateway)
    bus.observers.append(Deadlocks(context.services, bus.orchestrator, leases.waits))


@dataclass
class Deadlocks:
    """``orchestrator``: the leading agent, which gets mail about every circle, as a member or as the leader."""

    services: GatewayServices
    orchestrator: str
    lease_waits: LeaseWaits | None = None
    what: str = field(default="circles", init=False)
    _tracks: dict[str, _Circles] = field(default_factory=dict, init=False)

    async def looked(self, track: Track, view: TrackView, agent_of: Callable[[str], str | None]) -> None:
        """Look for circles among workers that say they are blocked or wait for a lease (see ``TrackObserver``)."""
        leases = await self.lease_waits(track, view.blocked_by_files()) if self.lease_waits is not None else ()
        await self.look(track, [*view.blocked(), *leases], agent_of)

    async def look(self, track: Track, waits: Sequence[WorkerWait], agent_of: Callable[[str], str | None]) -> None:
        """Report circles that are new and circles that ended. ``waits``: all there are on this track now."""
        known = self._known(track)
        await self._see_ends(track, known, waits)
        for cycle in find_cycles(waits):
            if cycle.members not in known and len(known) < MOST:
                known[cycle.members] = _Circle(cycle.closed_at)
                await self._save(track, known)
            circle = known.get(cycle.members)
            if circle is not None and not circle.told:
                await self._tell(track, cycle, circle, agent_of)
                await self._save(track, known)

    # --- ends and beginnings
    async def _see_ends(self, track: Track, known: _Circles, waits: Sequence[WorkerWait]) -> None:
        broken = [members for members in known if not lasts(members, waits)]
        for members in broken:
            circle = known.pop(members)
            seconds = round(max(0.0, self.services.clock.now().wall - circle.closed_at), 3)
            data = _about(track, members, circle.closed_at)
            self.services.record(deadlock_broken(**data, seconds=seconds))
        if broken:
            await self._save(track, known)

    async def _tell(self, track: Track, cycle: Cycle, circle: _Circle, agent_of: Callable[[str], str | None]) -> None:
        drafts = list(self._drafts(track, cycle, circle, agent_of))
        if not circle.said:
            youngest = deadlock_mail.plain(cycle.youngest.waiter)
            data = _about(track, cycle.members, circle.closed_at)
            again: dict[str, Any] = {"recovered": True} if circle.found_at_start else {}
            self.services.record(
                deadlock_detected(
                    **data,
                    waits=deadlock_mail.shown(cycle),
                    youngest=youngest,
                    told=sorted({draft.recipient for draft in drafts}),
                    **again,
                )
            )
            circle.said = True
        for draft in drafts:
            with contextlib.suppress(UnknownAgent):  # the agent has left the team since
                await self.services.mail(draft)
        circle.told = True

    def _drafts(
        self, track: Track, cycle: Cycle, circle: _Circle, agent_of: Callable[[str], str | None]
    ) -> Iterator[Draft]:
        """The mail about a circle, one for each agent: an agent may be several workers, and the leader one of them."""
        ident = deadlock_mail.deadlock_id(track.bus, cycle.members, circle.closed_at)
        youngest_first = sorted(cycle.members, key=lambda worker: worker != cycle.youngest.waiter)
        members: dict[str, str] = {}
        for worker in youngest_first:
            agent = agent_of(worker)
            if agent is not None and (called := self.services.called(agent)) is not None:
                members.setdefault(called, worker)
        for agent, worker in members.items():
            yield deadlock_mail.to_member(cycle, ident, track.name, worker, agent)
        leader = self.services.called(self.orchestrator)
        if leader is not None and leader not in members:
            yield deadlock_mail.to_leader(cycle, ident, track.name, leader)

    # --- the saved circles
    def _file(self, track: Track) -> JsonState:
        path = state_file(self.services.state, "deadlocks", track.bus)
        return JsonState(path, durable=self.services.durable, readable=True, max_bytes=_LARGEST)

    def _known(self, track: Track) -> _Circles:
        if track.bus not in self._tracks:
            self._tracks[track.bus] = _read(self._file(track))
        return self._tracks[track.bus]

    async def _save(self, track: Track, known: _Circles) -> None:
        rows = [{"members": members, "closed_at": one.closed_at, "told": one.told} for members, one in known.items()]
        file = self._file(track)
        await in_thread(file.save_encoded, file.encode({"bus": track.bus, "deadlocks": rows}))


def _about(track: Track, members: tuple[str, ...], closed_at: float) -> dict[str, Any]:
    shown = [deadlock_mail.plain(member) for member in members[:50]]
    ident = deadlock_mail.deadlock_id(track.bus, members, closed_at)
    return {"deadlock_id": ident, "track": track.name, "members": shown, "since": deadlock_mail.when(closed_at)}


def _read(file: JsonState) -> _Circles:
    """The saved circles; none if the file cannot be read: mail that is sent again has the ids of the first time."""
    try:
        found = file.load()
        rows = found["deadlocks"] if found is not None else ()
        return {
            tuple(map(str, row["members"])): _Circle(
                float(row["closed_at"]), told=row["told"] is True, found_at_start=True
            )
            for row in rows
            if row["members"]
        }
    except (BadState, ValueError, TypeError, KeyError, AttributeError):
        return {}
