"""The gateway of leases: what needs time, mail or a memory. Everything else any process does by itself (ackd.leases).

Over all buses: leases that are over are taken back and who waits is woken; signs of life renew, ends release; agents
that only append to the bus are served; what changed is written down, whoever changed it, and edits by hand that took a
lease from somebody are named. Owns that order. Refuses to decide who gets what (core/leases). The files are the truth;
what is kept beside them (known.py) only says what was told of already. Fails with OSError: looked at again.
"""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd import tracks
from ackd.core import leases
from ackd.core.bus_words import BusType
from ackd.core.deadlock import Wait
from ackd.core.errors import BadPath
from ackd.core.escalations import stamp
from ackd.core.lease_words import EMPTY, Change, Earlier, Why
from ackd.core.waits import Wait as AgentWait
from ackd.leases import Leases
from ackd.runtime.gateways.gateway import LookRefused
from ackd.runtime.gateways.leases import endings, lines
from ackd.runtime.gateways.leases.heartbeats import Beat, read_beats
from ackd.runtime.gateways.leases.known import Known
from ackd.runtime.gateways.leases.record import Recorder
from ackd.runtime.gateways.waits_said import WaitsSaid
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ackd.adapters.lease_files import Decide as Step
    from ackd.adapters.lease_files import LeaseFiles
    from ackd.config_coordination import Bus
    from ackd.core.bus_layout import Track
    from ackd.core.bus_words import BusLine
    from ackd.core.deadlock import FileWait
    from ackd.core.lease_words import Happening, Table
    from ackd.runtime.gateways.gateway import Around

#: How many of a bus's leases the status page names.
_SHOWN: Final = 50


@dataclass
class Desk:
    """One bus. ``table``: as it was last seen. ``due``, ``progress``: by the monotonic clock. ``ended``: agents that
    are through, which it could not act on yet."""

    track: Track
    doors: Leases
    known: Known
    table: Table = EMPTY
    due: float | None = None
    progress: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)


class LeaseGateway:
    name = "leases"
    listens = endings.TYPES

    def __init__(self, config: Bus, around: Around) -> None:
        self._config = config
        self._around = around
        self._endings = endings.Endings()
        self._ended: dict[str, float] = {}  # agent → when it was through
        self._desks: dict[str, Desk] = {}
        self._recorder = Recorder(around, self.agent_of)
        self._waits_said = WaitsSaid(self.name, around.post)

    # --- a gateway --------------------------------------------------------------------------------------------------
    def heard(self, type_: str, data: dict[str, object]) -> None:
        agent = self._endings.heard(type_, data)
        if agent is not None:
            self._ended[agent] = self._now()

    def places(self) -> frozenset[str]:
        around = self._around
        new = tracks.watch_places(around.base, self._config.tracks, around.root)
        return frozenset(new | {desk.track.bus for desk in self._desks.values()})

    async def look(self, where: frozenset[str] | None) -> float | None:
        ended, self._ended = self._ended, {}
        refused: dict[str, OSError] = {}
        wishes: list[float | None] = []
        for desk in self._present(ended):
            if not self._wants(desk, where, ended):
                continue
            desk.ended |= ended
            try:
                wishes.append(await self._tend(desk, where, desk.ended))
                desk.ended = {}
            except OSError as error:  # who is through is heard of again, by this one only
                refused[f"track {desk.track.name}"] = error
        self._recorder.conflicts((desk.track, desk.table) for desk in self._desks.values())
        self._waits_said.say(self._agents_that_wait())
        due = [desk.due for desk in self._desks.values() if desk.due is not None]
        wishes += [max(0.0, min(due) - self._mono())] if due else []
        wish = min((wish for wish in wishes if wish is not None), default=None)
        if refused:
            raise LookRefused(refused, wish)
        return wish

    def page(self) -> dict[str, object]:
        return {desk.track.name: _shown(desk.table) for desk in self._desks.values() if desk.table.held}

    async def waits(self, track: Track, blocked: Sequence[FileWait] = ()) -> list[Wait]:
        """Who waits for a lease on this bus, and for whom: an edge for each who hinders it, in line or holding; and of
        those who only said that they are ``blocked`` by a file, as agents do that were refused it by their own code.

        As the files say it, not as the last look saw them: who asks was rung by the same change, and may be earlier.
        """
        if not blocked and not _somebody_waits(track):
            return []
        files = self._desk(track).doors.files
        table = await in_thread(files.look)
        return [*_waits(table), *_waits_said(table, blocked, files)]

    def _agents_that_wait(self) -> Iterator[tuple[str | None, AgentWait]]:
        """Who waits at its prompt for a lease is not idle."""
        for desk in self._desks.values():
            for wait in _waits(desk.table):
                yield self.agent_of(wait.waiter), AgentWait(self.agent_of(wait.holder), wait.what)

    def agent_of(self, worker: str) -> str | None:
        """The agent behind a worker's id, as far as there is one."""
        mapped = next((to for glob, to in self._config.workers.items() if fnmatch.fnmatchcase(worker, glob)), worker)
        return self._around.called(mapped)

    # --- the lines of a bus -----------------------------------------------------------------------------------------
    async def line(self, track: Track, line: BusLine) -> None:
        desk = self._desk(track)
        if line.type not in lines.MEANT or (line.again and (line.offset, line.message_id) == desk.known.last):
            return
        known = desk.known
        met = Earlier(lines.said_at(line, self._now()), frozenset(known.tokens), frozenset(known.places))
        decide = lines.decision(line, desk.doors, self._config.lease_s, self._now(), self._is_history(desk, line), met)
        if isinstance(decide, str):
            said = {"track": track.name, "agent": line.source, "path": str(line.payload.get("filepath"))}
            self._around.record("lease_refused", {**said, "reason": decide})
        elif decide is not None and not self._is_idle(desk, line):
            change = await in_thread(desk.doors.files.change, decide)
            known.met(lines.tokens(change), lines.places(change))
            known.drop_all_but(change.table)
            await self._recorder.queued(track, change, line.offset)
            desk.due = self._mono()  # what it changed is written down by the look that follows
        if line.type is not BusType.PROGRESS:
            known.met(lines.token_said(line), ())
            known.last = (line.offset, line.message_id)
            known.save()

    def _is_history(self, desk: Desk, line: BusLine) -> bool:
        return line.offset < (desk.known.history or 0)

    def _is_idle(self, desk: Desk, line: BusLine) -> bool:
        """Whether there is nothing that it could change. Progress comes often, and leases last long."""
        if line.type is BusType.FILE_LOCK:
            return False
        if line.type is BusType.PROGRESS:
            now = self._mono()
            if now - desk.progress.get(line.source, float("-inf")) < lines.PROGRESS_EVERY_S:
                return True
            desk.progress[line.source] = now
        return not _exist(desk.track)

    # --- one bus ----------------------------------------------------------------------------------------------------
    def _present(self, ended: dict[str, float]) -> list[Desk]:
        around = self._around
        found = tracks.find_tracks(around.base, self._config.tracks, around.root)
        for bus in self._desks.keys() - {track.bus for track in found}:
            self._desks.pop(bus).doors.files.close()
        try:
            return [self._desk(track) for track in found]
        except OSError:
            self._ended = ended | self._ended
            raise

    def _desk(self, track: Track) -> Desk:
        desk = self._desks.get(track.bus)
        if desk is None:
            known = Known.load(self._around.state, track.bus)
            if known.history is None:
                known.history = _size(track.queue)
                known.save()
            doors = Leases(track.bus, self._around.base, for_others=True, clocks=self._clocks)
            desk = self._desks[track.bus] = Desk(track, doors, known)
            desk.due = self._mono()
        return desk

    def _wants(self, desk: Desk, where: frozenset[str] | None, ended: dict[str, float]) -> bool:
        is_due = desk.due is not None and desk.due <= self._mono()
        return where is None or desk.track.bus in where or bool(ended or desk.ended) or is_due

    async def _tend(self, desk: Desk, where: frozenset[str] | None, ended: dict[str, float]) -> float | None:
        first = desk.table is EMPTY
        desk.due = None
        if not _exist(desk.track) and not desk.known.held and not desk.known.waiting:
            return None
        desk.known.keep_time(desk.doors.files.frame())
        found = await in_thread(self._found, desk, where)
        self._report_aside(desk)
        await self._recorder.met(desk.track, _with_tokens(found), desk.known)
        desk.table = await in_thread(self._tended, desk, found, ended, first)
        wish = await self._recorder.record(desk.track, desk.table, desk.known, desk.doors.files.key)
        end, now = leases.next_end(desk.table), self._around.clock.now()
        desk.due = None if end is None else now.mono + end - now.wall
        return wish

    def _found(self, desk: Desk, where: frozenset[str] | None) -> Table:
        """In a thread: who writes the file in place is waited for."""
        if where is None:
            desk.doors.files.sweep()
        return desk.doors.files.look()

    def _tended(self, desk: Desk, found: Table, ended: dict[str, float], first: bool) -> Table:
        """In a thread: another process may have the lock, which is taken only if there is something to do."""
        files, now = desk.doors.files, self._now()
        steps = self._steps(found, read_beats(desk.track.status), ended, first)
        trial = _chained(steps)(leases.adopt(found, now).table, now, files.dead(found))
        if trial.table is found and not files.is_bad and not files.is_outdated:
            return found
        change = files.change(_chained(steps))
        self._recorder.prolonged(desk.known, change)
        return change.table

    def _steps(self, table: Table, beats: list[Beat], ended: dict[str, float], first: bool) -> list[Step]:
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
        """Whose end stands in the log since it took its lease, and was not acted on: the last daemon was killed."""
        logs = self._around.root / "logs"
        agents = [(one, agent, at) for one, at in since.items() if (agent := self.agent_of(one)) is not None]
        ends = {one: endings.last_end(logs, agent, at) for one, agent, at in agents}
        return {one: at for one, at in ends.items() if at is not None}

    def _report_aside(self, desk: Desk) -> None:
        for kept in desk.doors.files.set_aside:
            self._around.record("lease_unreadable", {"track": desk.track.name, "kept_as": kept})
        desk.doors.files.set_aside.clear()

    def _now(self) -> float:
        return self._around.clock.now().wall

    def _mono(self) -> float:
        return self._around.clock.now().mono

    def _clocks(self) -> tuple[float, float]:
        now = self._around.clock.now()
        return now.mono, now.wall


# --- what is done to a table ------------------------------------------------------------------------------------------
def _chained(steps: Iterable[Step]) -> Step:
    def decide(table: Table, now: float, dead: frozenset[str]) -> Change:
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


def _with_tokens(table: Table) -> Table:
    """Without what came by hand a moment ago: it has its token in the table that follows."""
    held = {path: tuple(lease for lease in each if lease.token) for path, each in table.held.items()}
    return table._replace(held={path: each for path, each in held.items() if each})


# --- what is seen of one ----------------------------------------------------------------------------------------------
def _somebody_waits(track: Track) -> bool:
    return os.path.exists(f"{track.bus}/leases.json")  # noqa: PTH110


def _waits(table: Table) -> Iterator[Wait]:
    for path, line in table.waiting.items():
        for waiter in line:
            before = leases.hindering_holders(table, path, waiter.agent, shared=waiter.shared)
            ahead = leases.hindering_waiters(table, path, waiter)
            for name in dict.fromkeys([*(one.agent for one in before), *(one.agent for one in ahead)]):
                yield Wait(waiter.agent, name, f"the lease on {path}", waiter.since)


def _waits_said(table: Table, blocked: Iterable[FileWait], files: LeaseFiles) -> Iterator[Wait]:
    for wait in blocked if table.held else ():
        try:
            path = files.key(wait.name)
        except BadPath:
            continue
        if any(waiter.agent == wait.waiter for waiter in table.waiting.get(path, ())):
            continue  # in line: that is the better word
        for lease in leases.hindering_holders(table, path, wait.waiter, shared=False):
            yield Wait(wait.waiter, lease.agent, f"the lease on {path}", wait.since)


def _shown(table: Table) -> dict[str, object]:
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
