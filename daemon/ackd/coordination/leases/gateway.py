"""The gateway of leases: everything about leases that needs time, mail or a memory.

Any process takes and releases leases by itself (ackd.leases). The gateway does the rest, on every bus: it takes back
leases that have expired and wakes the next in line; renews them by signs of life and releases them when their holder
has finished; serves agents that only append to the bus; writes every change to the log, whoever made it, and names
edits by hand that took a lease from somebody. Grants are decided in rules/leases. The files are the truth; the
state saved beside them (saved_state) only says what was logged already. After an OSError the bus is looked at again.
"""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.coordination.bus import tracks
from ackd.coordination.bus.gateway import BusGateway
from ackd.coordination.bus.rules.words import BusType, WorkerWait
from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.gateway import Gateway, LookRefused, WaitsSaid
from ackd.coordination.leases import bus_lines, release_rules
from ackd.coordination.leases.facts import lease_refused, lease_unreadable
from ackd.coordination.leases.log_changes import LeaseLog
from ackd.coordination.leases.release_rules import Beat, read_beats
from ackd.coordination.leases.rules import leases
from ackd.coordination.leases.rules.words import EMPTY, Change, Earlier, Why
from ackd.coordination.leases.saved_state import SavedLeases
from ackd.core.errors import BadPath
from ackd.core.escalations import stamp
from ackd.core.waits import Wait
from ackd.leases import Leases
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.rules.words import BusLine, FileWait
    from ackd.coordination.gateway import GatewayContext, GatewayServices
    from ackd.coordination.leases.files import Decide as Step
    from ackd.coordination.leases.files import LeaseFiles
    from ackd.coordination.leases.rules.words import Happening, LeaseTable
    from ackd.core.signals import Signal

#: The most leases of a bus that the status page names.
_SHOWN: Final = 50


def make(context: GatewayContext, others: Mapping[str, Gateway]) -> Gateway:
    """Make the gateway. Every team that has buses has leases on them."""
    bus = others["bus"]
    assert isinstance(bus, BusGateway)
    gateway = LeaseGateway(context.config.settings(BusSettings) or BusSettings(), context.services)
    bus.subscribers.append(gateway)
    return gateway


@dataclass
class LeasedBus:
    """The leases of a bus. ``table``: as it was last seen. ``due``, ``progress``: by the monotonic clock. ``ended``:
    agents that have finished, but whose leases on this bus could not be released yet."""

    track: Track
    leased: Leases
    known: SavedLeases
    table: LeaseTable = EMPTY
    due: float | None = None
    progress: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)


class LeaseGateway(Gateway):
    name = "leases"
    listens = release_rules.SIGNALS

    def __init__(self, config: BusSettings, services: GatewayServices) -> None:
        self._config = config
        self._services = services
        self._rules = release_rules.ReleaseRules()
        self._ended: dict[str, float] = {}  # agent → when it finished
        self._buses: dict[str, LeasedBus] = {}
        self._log = LeaseLog(services, self.agent_of)
        self._waits_said = WaitsSaid(self.name, services.post)

    # --- a gateway --------------------------------------------------------------------------------------------------
    def heard(self, signal: Signal) -> None:
        agent = self._rules.heard(signal)
        if agent is not None:
            self._ended[agent] = self._now()

    def places(self) -> frozenset[str]:
        services = self._services
        new = tracks.watch_places(services.base, self._config.tracks, services.root)
        return frozenset(new | {bus.track.bus for bus in self._buses.values()})

    async def look(self, where: frozenset[str] | None) -> float | None:
        ended, self._ended = self._ended, {}
        refused: dict[str, OSError] = {}
        next_looks: list[float | None] = []
        for bus in self._present(ended):
            if not self._wants(bus, where, ended):
                continue
            bus.ended |= ended
            try:
                next_looks.append(await self._tend(bus, where, bus.ended))
                bus.ended = {}
            except OSError as error:  # this bus will be told again who has finished
                refused[f"track {bus.track.name}"] = error
        self._log.conflicts((bus.track, bus.table) for bus in self._buses.values())
        self._waits_said.say(self._agents_that_wait())
        due = [bus.due for bus in self._buses.values() if bus.due is not None]
        next_looks += [max(0.0, min(due) - self._mono())] if due else []
        next_look_s = min((in_s for in_s in next_looks if in_s is not None), default=None)
        if refused:
            raise LookRefused(refused, next_look_s)
        return next_look_s

    def page(self) -> dict[str, object]:
        return {bus.track.name: _shown(bus.table) for bus in self._buses.values() if bus.table.held}

    async def waits(self, track: Track, blocked: Sequence[FileWait] = ()) -> list[WorkerWait]:
        """Every wait for a lease on this bus: one for each holder or waiter that is in the way. Workers that only said
        they are ``blocked`` by a file count too, as agents do whose own code refused them the lease.

        Reads the files, because the last look may be older than the change that the caller reacts to.
        """
        if not blocked and not _somebody_waits(track):
            return []
        files = self._bus(track).leased.files
        table = await in_thread(files.look)
        return [*_waits(table), *_waits_said(table, blocked, files)]

    def _agents_that_wait(self) -> Iterator[tuple[str | None, Wait]]:
        """Yield the waits of agents for leases: an agent that waits for one at its prompt is not idle."""
        for bus in self._buses.values():
            for wait in _waits(bus.table):
                yield self.agent_of(wait.waiter), Wait(self.agent_of(wait.holder), wait.what)

    def agent_of(self, worker: str) -> str | None:
        """The agent behind a worker's id, as far as there is one."""
        mapped = next((to for glob, to in self._config.workers.items() if fnmatch.fnmatchcase(worker, glob)), worker)
        return self._services.called(mapped)

    # --- the lines of a bus -----------------------------------------------------------------------------------------
    async def line(self, track: Track, line: BusLine) -> None:
        bus = self._bus(track)
        if line.type not in bus_lines.MEANT or (line.again and (line.offset, line.message_id) == bus.known.last):
            return
        known = bus.known
        met = Earlier(bus_lines.said_at(line, self._now()), frozenset(known.tokens), frozenset(known.places))
        decide = bus_lines.decision(
            line, bus.leased, self._config.lease_s, self._now(), self._is_history(bus, line), met
        )
        if isinstance(decide, str):
            self._services.record(
                lease_refused(
                    track=track.name, agent=line.source, path=str(line.payload.get("filepath")), reason=decide
                )
            )
        elif decide is not None and not self._is_idle(bus, line):
            change = await in_thread(bus.leased.files.change, decide)
            known.met(bus_lines.tokens(change), bus_lines.places(change))
            known.drop_all_but(change.table)
            await self._log.queued(track, change, line.offset)
            bus.due = self._mono()  # the look that follows writes the change to the log
        if line.type is not BusType.PROGRESS:
            known.met(bus_lines.token_said(line), ())
            known.last = (line.offset, line.message_id)
            known.save()

    def _is_history(self, bus: LeasedBus, line: BusLine) -> bool:
        return line.offset < (bus.known.history or 0)

    def _is_idle(self, bus: LeasedBus, line: BusLine) -> bool:
        """True if the line cannot change anything. Progress comes often, and leases last long."""
        if line.type is BusType.FILE_LOCK:
            return False
        if line.type is BusType.PROGRESS:
            now = self._mono()
            if now - bus.progress.get(line.source, float("-inf")) < bus_lines.PROGRESS_EVERY_S:
                return True
            bus.progress[line.source] = now
        return not _exist(bus.track)

    # --- one bus ----------------------------------------------------------------------------------------------------
    def _present(self, ended: dict[str, float]) -> list[LeasedBus]:
        services = self._services
        found = tracks.find_tracks(services.base, self._config.tracks, services.root)
        for gone in self._buses.keys() - {track.bus for track in found}:
            self._buses.pop(gone).leased.files.close()
        try:
            return [self._bus(track) for track in found]
        except OSError:
            self._ended = ended | self._ended
            raise

    def _bus(self, track: Track) -> LeasedBus:
        bus = self._buses.get(track.bus)
        if bus is None:
            known = SavedLeases.load(self._services.state, track.bus)
            if known.history is None:
                known.history = _size(track.queue)
                known.save()
            leased = Leases(track.bus, self._services.base, for_others=True, clocks=self._clocks)
            bus = self._buses[track.bus] = LeasedBus(track, leased, known)
            bus.due = self._mono()
        return bus

    def _wants(self, bus: LeasedBus, where: frozenset[str] | None, ended: dict[str, float]) -> bool:
        is_due = bus.due is not None and bus.due <= self._mono()
        return where is None or bus.track.bus in where or bool(ended or bus.ended) or is_due

    async def _tend(self, bus: LeasedBus, where: frozenset[str] | None, ended: dict[str, float]) -> float | None:
        first = bus.table is EMPTY
        bus.due = None
        if not _exist(bus.track) and not bus.known.held and not bus.known.waiting:
            return None
        bus.known.keep_time(bus.leased.files.frame())
        found = await in_thread(self._found, bus, where)
        self._report_aside(bus)
        await self._log.met(bus.track, _with_tokens(found), bus.known)
        bus.table = await in_thread(self._tended, bus, found, ended, first)
        next_look_s = await self._log.record(bus.track, bus.table, bus.known, bus.leased.files.key)
        end, now = leases.next_end(bus.table), self._services.clock.now()
        bus.due = None if end is None else now.mono + end - now.wall
        return next_look_s

    def _found(self, bus: LeasedBus, where: frozenset[str] | None) -> LeaseTable:
        """Read the leases. Runs in a thread, because it may wait for somebody who writes the file in place."""
        if where is None:
            bus.leased.files.sweep()
        return bus.leased.files.look()

    def _tended(self, bus: LeasedBus, found: LeaseTable, ended: dict[str, float], first: bool) -> LeaseTable:
        """Make the changes that are due. Runs in a thread, because another process may have the lock. The lock is taken
        only if there is something to do."""
        files, now = bus.leased.files, self._now()
        steps = self._steps(found, read_beats(bus.track.status), ended, first)
        trial = _chained(steps)(leases.adopt(found, now).table, now, files.dead(found))
        if trial.table is found and not files.is_bad and not files.is_outdated:
            return found
        change = files.change(_chained(steps))
        self._log.prolonged(bus.known, change)
        return change.table

    def _steps(self, table: LeaseTable, beats: list[Beat], ended: dict[str, float], first: bool) -> list[Step]:
        since: dict[str, float] = {}
        for held in table.held.values():
            since |= {one.agent: min(one.acquired_at, since.get(one.agent, one.acquired_at)) for one in held}
        holders = since.keys() | {waiter.agent for line in table.waiting.values() for waiter in line}
        through = {one: ended[agent] for one in holders if (agent := self.agent_of(one)) in ended and agent is not None}
        if first:
            through = self._through_before(since) | through
        steps: list[Step] = [_beat_step(beat) for beat in beats if beat.worker in holders]
        return [*steps, *(_end_step(one, at) for one, at in through.items()), leases.expire]

    def _through_before(self, since: dict[str, float]) -> dict[str, float]:
        """Workers that finished after they took their lease, by the logs: a daemon that was killed did not act on
        it."""
        logs = self._services.root / "logs"
        agents = [(one, agent, at) for one, at in since.items() if (agent := self.agent_of(one)) is not None]
        ends = {one: release_rules.last_end(logs, agent, at) for one, agent, at in agents}
        return {one: at for one, at in ends.items() if at is not None}

    def _report_aside(self, bus: LeasedBus) -> None:
        for kept in bus.leased.files.set_aside:
            self._services.record(lease_unreadable(track=bus.track.name, kept_as=kept))
        bus.leased.files.set_aside.clear()

    def _now(self) -> float:
        return self._services.clock.now().wall

    def _mono(self) -> float:
        return self._services.clock.now().mono

    def _clocks(self) -> tuple[float, float]:
        now = self._services.clock.now()
        return now.mono, now.wall


# --- steps of a change to a table -------------------------------------------------------------------------------------
def _chained(steps: Iterable[Step]) -> Step:
    def decide(table: LeaseTable, now: float, dead: frozenset[str]) -> Change:
        happened: list[Happening] = []
        for step in steps:
            change = step(table, now, dead)
            table = change.table
            happened += change.happened
        return Change(table, tuple(happened))

    return decide


def _beat_step(beat: Beat) -> Step:
    if beat.through:
        return lambda table, now, dead: leases.release(
            table, beat.worker, now, dead=dead, had=Earlier(beat.at), why=Why.ENDED
        )
    return lambda table, now, dead: leases.renew(table, beat.worker, now, since=beat.at, dead=dead)


def _end_step(worker: str, at: float) -> Step:
    return lambda table, now, dead: leases.release(table, worker, now, dead=dead, had=Earlier(at), why=Why.ENDED)


def _with_tokens(table: LeaseTable) -> LeaseTable:
    """The table without leases that were just made by hand: they get their token in the next table."""
    held = {path: tuple(lease for lease in each if lease.token) for path, each in table.held.items()}
    return table._replace(held={path: each for path, each in held.items() if each})


# --- waits in a table -------------------------------------------------------------------------------------------------
def _somebody_waits(track: Track) -> bool:
    return os.path.exists(f"{track.bus}/leases.json")  # noqa: PTH110


def _waits(table: LeaseTable) -> Iterator[WorkerWait]:
    for path, line in table.waiting.items():
        for waiter in line:
            before = leases.hindering_holders(table, path, waiter.agent, shared=waiter.shared)
            ahead = leases.hindering_waiters(table, path, waiter)
            for name in dict.fromkeys([*(one.agent for one in before), *(one.agent for one in ahead)]):
                yield WorkerWait(waiter.agent, name, f"the lease on {path}", waiter.since)


def _waits_said(table: LeaseTable, blocked: Iterable[FileWait], files: LeaseFiles) -> Iterator[WorkerWait]:
    for wait in blocked if table.held else ():
        try:
            path = files.key(wait.name)
        except BadPath:
            continue
        if any(waiter.agent == wait.waiter for waiter in table.waiting.get(path, ())):
            continue  # its place in line says more
        for lease in leases.hindering_holders(table, path, wait.waiter, shared=False):
            yield WorkerWait(wait.waiter, lease.agent, f"the lease on {path}", wait.since)


def _shown(table: LeaseTable) -> dict[str, object]:
    held = [
        {"path": path, "agent": lease.agent, "token": lease.token, "until": stamp(lease.expires_at)}
        for path, each in table.held.items()
        for lease in each
    ]
    waiting = [{"path": path, "agent": waiter.agent} for path, line in table.waiting.items() for waiter in line]
    return {"held": held[:_SHOWN], "waiting": waiting[:_SHOWN], "leases": len(held), "waiters": len(waiting)}


def _exist(track: Track) -> bool:
    return os.path.exists(track.locks) or os.path.exists(f"{track.bus}/leases.json")  # noqa: PTH110 - asked for every line


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0
