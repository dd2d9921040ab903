"""Workers of a bus that wait for each other in a circle: noticed, told of once, and seen to end.

Owns which circles are known, for each track, in ``state/gateways/``. One that is new is written there first, with the
moment that closed it, then said to the log, then to its members, the youngest among them asked to yield, and to who
leads them; only then is it noted as told. So a crash in between says the same again, under the same ids, which are
recognised, and a line that may have been lost comes again, marked as recovered.

Refuses to know where waits come from: whoever calls gives those of now, after each look of its own. Fails with OSError,
and the next look goes on where this one ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.adapters import atomic_file
from ackd.core import deadlock_mail
from ackd.core.deadlock import MOST, find_cycles, lasts
from ackd.core.errors import BadMessage, UnknownAgent
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ackd.core.bus_layout import Track
    from ackd.core.deadlock import Cycle, Wait
    from ackd.core.message import Draft
    from ackd.runtime.gateways.gateway import Around

_LARGEST: Final = 16 << 20


@dataclass(slots=True)
class _Known:
    """``closed_at`` as it was first seen: the ids of what is said derive from it. ``said``: in a line, by us."""

    closed_at: float
    told: bool = False
    found_at_start: bool = False
    said: bool = False


_Circles = dict[tuple[str, ...], _Known]


@dataclass
class Deadlocks:
    """``orchestrator``: the agent that leads; it hears of every circle, as a member or as the leader."""

    around: Around
    orchestrator: str
    _tracks: dict[str, _Circles] = field(default_factory=dict, init=False)

    async def look(self, track: Track, waits: Sequence[Wait], agent_of: Callable[[str], str | None]) -> None:
        """``waits``: all there are on this track now. ``agent_of``: whose mail a worker reads; None: nobody's."""
        known = self._known(track)
        await self._see_ends(track, known, waits)
        for cycle in find_cycles(waits):
            if cycle.members not in known and len(known) < MOST:
                known[cycle.members] = _Known(cycle.closed_at)
                await self._save(track, known)
            circle = known.get(cycle.members)
            if circle is not None and not circle.told:
                await self._tell(track, cycle, circle, agent_of)
                await self._save(track, known)

    # --- ends and beginnings
    async def _see_ends(self, track: Track, known: _Circles, waits: Sequence[Wait]) -> None:
        broken = [members for members in known if not lasts(members, waits)]
        for members in broken:
            circle = known.pop(members)
            seconds = round(max(0.0, self.around.clock.now().wall - circle.closed_at), 3)
            data = _about(track, members, circle.closed_at)
            self.around.record("deadlock_broken", {**data, "seconds": seconds})
        if broken:
            await self._save(track, known)

    async def _tell(self, track: Track, cycle: Cycle, circle: _Known, agent_of: Callable[[str], str | None]) -> None:
        drafts = list(self._drafts(track, cycle, circle, agent_of))
        if not circle.said:
            youngest = deadlock_mail.plain(cycle.youngest.waiter)
            data = _about(track, cycle.members, circle.closed_at)
            told = {"youngest": youngest, "told": sorted({draft.recipient for draft in drafts})}
            again: dict[str, object] = {"recovered": True} if circle.found_at_start else {}
            self.around.record("deadlock_detected", {**data, "waits": deadlock_mail.shown(cycle), **told, **again})
            circle.said = True
        for draft in drafts:
            with contextlib.suppress(UnknownAgent):  # it has left the team since it was asked for
                await self.around.mail(draft)
        circle.told = True

    def _drafts(
        self, track: Track, cycle: Cycle, circle: _Known, agent_of: Callable[[str], str | None]
    ) -> Iterator[Draft]:
        """One agent may be more than one worker, and the leader one of them."""
        ident = deadlock_mail.deadlock_id(track.bus, cycle.members, circle.closed_at)
        youngest_first = sorted(cycle.members, key=lambda worker: worker != cycle.youngest.waiter)
        members: dict[str, str] = {}
        for worker in youngest_first:
            agent = agent_of(worker)
            if agent is not None and (called := self.around.called(agent)) is not None:
                members.setdefault(called, worker)
        for agent, worker in members.items():
            yield deadlock_mail.to_member(cycle, ident, track.name, worker, agent)
        leader = self.around.called(self.orchestrator)
        if leader is not None and leader not in members:
            yield deadlock_mail.to_leader(cycle, ident, track.name, leader)

    # --- what survives us
    def _path(self, track: Track) -> Path:
        name = hashlib.blake2b(track.bus.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return self.around.state / f"deadlocks-{name}.json"

    def _known(self, track: Track) -> _Circles:
        if track.bus not in self._tracks:
            self._tracks[track.bus] = _read(self._path(track))
        return self._tracks[track.bus]

    async def _save(self, track: Track, known: _Circles) -> None:
        rows = [{"members": members, "closed_at": one.closed_at, "told": one.told} for members, one in known.items()]
        data = json.dumps({"bus": track.bus, "deadlocks": rows}, indent=1).encode()
        path = self._path(track)
        put = atomic_file.put_durably if self.around.durable else atomic_file.put
        await in_thread(put, path, path.with_name(f".{path.name}.tmp"), data)


def _about(track: Track, members: tuple[str, ...], closed_at: float) -> dict[str, object]:
    shown = [deadlock_mail.plain(member) for member in members[:50]]
    ident = deadlock_mail.deadlock_id(track.bus, members, closed_at)
    return {"deadlock_id": ident, "track": track.name, "members": shown, "since": deadlock_mail.when(closed_at)}


def _read(path: Path) -> _Circles:
    """What cannot be read is as good as nothing: what is told again has the ids of the first time."""
    try:
        rows = json.loads(atomic_file.read_regular(path, _LARGEST))["deadlocks"]
        return {
            tuple(map(str, row["members"])): _Known(
                float(row["closed_at"]), told=row["told"] is True, found_at_start=True
            )
            for row in rows
            if row["members"]
        }
    except (FileNotFoundError, BadMessage, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
