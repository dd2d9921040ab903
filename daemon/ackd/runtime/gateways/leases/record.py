"""What became of leases, written down once, whoever did it; and told to those who waited.

Compares what the files say with what was known. A lease that is gone without a word is believed to be given up only
when ``settle_s`` has passed: its holder may be about to say so on the bus, and a hand that took it is named only if
nobody did. Owns the lines ``lease_*``. Refuses to change a lease. Fails with OSError: then all of it is news again.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Final

import orjson

from ackd.core import utc_times
from ackd.core.bus_layout import event_name
from ackd.core.errors import BadPath, UnknownAgent
from ackd.core.escalations import stamp
from ackd.core.lease_words import BY_HAND, BY_LINE, Broken, Granted, Queued, Released, Why
from ackd.core.leases import differences, hindering_holders
from ackd.leases import announce, raise_events
from ackd.runtime.gateways.leases import tidings
from ackd.runtime.gateways.leases.known import places_in_line
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ackd.core.bus_layout import Track
    from ackd.core.lease_words import Change, Lease, Table
    from ackd.core.message import Draft
    from ackd.runtime.gateways.gateway import Around
    from ackd.runtime.gateways.leases.known import Known

#: How far back the bus is read for the word of who let go.
_TAIL_BYTES: Final = 256 * 1024


class Recorder:
    def __init__(self, around: Around, agent_of: Callable[[str], str | None]) -> None:
        self._around = around
        self._agent_of = agent_of
        self._gone_since: dict[tuple[str, str, int], float] = {}
        self._conflicts: set[tuple[str, tuple[tuple[str, int], ...]]] = set()

    async def record(self, track: Track, table: Table, known: Known, key_of: Callable[[str], str]) -> float | None:
        """In how many seconds to look again for what is not clear yet. ``key_of``: a path's key, however spelled."""
        await self._say_unsaid(track, known)
        changed = list(differences(known.held, table.held, self._now()))
        gone = [one for one in changed if isinstance(one, Released | Broken)]
        wishes = [await self._gone(track, table, known, one, key_of) for one in gone]
        await self.met(track, table, known)
        return min((left_s for left_s in wishes if left_s is not None), default=None)

    async def met(self, track: Track, table: Table, known: Known) -> None:
        """Only who has come: before the table is changed, so that whoever goes then was known. Each is noted before it
        is said, and that it was said after it."""
        for one in differences(dict(known.held), table.held, self._now()):
            if isinstance(one, Granted):
                known.note(one.path, one.lease)
                known.unsaid.add(one.lease.token)
        if known.unsaid:
            self._save(known)
        await self._say_unsaid(track, known)
        self._renewed(track, table, known)
        self._waiting(track, table, known)
        self._save(known)

    async def _say_unsaid(self, track: Track, known: Known) -> None:
        met = [(path, lease) for path, held in known.held.items() for lease in held if lease.token in known.unsaid]
        for path, lease in met:
            await self._granted(track, path, lease)
            known.was_said(lease.token)

    def _save(self, known: Known) -> None:
        """What was said so far is the kernel's before it is noted that it was."""
        if known.is_new and self._around.written():
            known.save()

    async def queued(self, track: Track, change: Change, cause: object) -> None:
        """Somebody who cannot wait by itself stands in line because of a line on the bus."""
        for one in change.happened:
            if isinstance(one, Queued):
                await self._mail(one.waiter.agent, functools.partial(tidings.waits, track, one, cause))

    def prolonged(self, known: Known, change: Change) -> None:
        """By a sign of life: too often to be written down."""
        for one in change.happened:
            if isinstance(one, Granted) and one.again and known.held.get(one.path):
                known.note(one.path, one.lease)

    def conflicts(self, seen: Iterable[tuple[Track, Table]]) -> None:
        """Buses are apart, the files that they are about are not: said once for each two that meet."""
        writers: dict[str, list[tuple[Track, Lease]]] = {}
        for track, table in seen:
            for path, held in table.held.items():
                writers.setdefault(path, []).extend((track, lease) for lease in held if not lease.shared)
        met = {
            (path, tuple((track.bus, lease.token) for track, lease in each)): each
            for path, each in writers.items()
            if len(each) > 1
        }
        for key in met.keys() - self._conflicts:
            tracks, agents = [track.name for track, _ in met[key]], [lease.agent for _, lease in met[key]]
            self._around.record("lease_conflict", {"path": key[0], "tracks": tracks, "agents": agents})
        self._conflicts = set(met)

    # --- lines ------------------------------------------------------------------------------------------------------
    async def _granted(self, track: Track, path: str, lease: Lease) -> None:
        kind = "shared" if lease.shared else "exclusive"
        data = {**self._about(track, path, lease), "lock_type": kind, "until": stamp(lease.expires_at)}
        if lease.by:
            data["by"] = lease.by
        if lease.by == BY_LINE:
            await in_thread(raise_events, track, [event_name("FILE_LOCK", path)])
            await self._mail(lease.agent, lambda agent: tidings.granted(track, path, lease, agent))
        self._around.record("lease_granted", data)

    async def _gone(
        self, track: Track, table: Table, known: Known, one: Released | Broken, key_of: Callable[[str], str]
    ) -> float | None:
        """None: it is written down. Else: in how many seconds it is clear what became of it."""
        key = (track.bus, one.path, one.lease.token)
        reason = await in_thread(_said_why, track, one.path, one.lease, key_of)
        if reason is None:
            mono = self._around.clock.now().mono
            since = self._gone_since.setdefault(key, mono)
            if (left_s := since + self._around.settle_s - mono) > 0:
                return left_s
            why = one.why if isinstance(one, Released) else Why.RELEASED
            released = Released(one.path, one.lease, why)
            # Who reads that it is free believes so: not while another has it.
            if not hindering_holders(table, one.path, one.lease.agent, shared=one.lease.shared):
                await in_thread(functools.partial(announce, track, [released], for_others=True))
        self._gone_since.pop(key, None)
        self._write_end(self._about(track, one.path, one.lease), one, reason)
        known.forget(one.path, one.lease.token)
        return None

    def _write_end(self, about: dict[str, object], one: Released | Broken, reason: str | None) -> None:
        """``reason``: what was said of it on the bus, None if nothing was."""
        if isinstance(one, Broken) and reason is None:
            self._around.record("lease_broken", {**about, "taken_by": one.by.agent, "their_token": one.by.token})
        elif reason == Why.EXPIRED.value or (reason is None and isinstance(one, Released) and one.why is Why.EXPIRED):
            self._around.record("lease_expired", about)
        else:
            self._around.record(
                "lease_released", {**about, **({"by": BY_HAND} if reason is None else {"reason": reason})}
            )

    def _renewed(self, track: Track, table: Table, known: Known) -> None:
        before = {(path, lease.token): lease for path, held in known.held.items() for lease in held}
        longer = [
            (path, lease)
            for path, held in table.held.items()
            for lease in held
            if (old := before.get((path, lease.token))) is not None and lease.expires_at > old.expires_at + 1
        ]
        for path, lease in longer:
            data = {**self._about(track, path, lease), "until": stamp(lease.expires_at)}
            self._around.record("lease_renewed", data)
            known.note(path, lease)

    def _waiting(self, track: Track, table: Table, known: Known) -> None:
        line = places_in_line(table)
        for place in sorted(line.keys() - known.waiting):
            who = {"track": track.name, "path": place[0], "agent": place[1]}
            self._around.record("lease_waiting", {**who, "behind": list(line[place])})
        if line.keys() != known.waiting:
            known.waiting, known.is_new = set(line), True

    def _about(self, track: Track, path: str, lease: Lease) -> dict[str, object]:
        return {"track": track.name, "path": path, "agent": lease.agent, "token": lease.token}

    async def _mail(self, worker: str, draft: Callable[[str], Draft]) -> None:
        """To who is an agent; others have the bus."""
        agent = self._agent_of(worker)
        if agent is not None:
            try:
                await self._around.mail(draft(agent))
            except UnknownAgent:
                return

    def _now(self) -> float:
        return self._around.clock.now().wall


def _said_why(track: Track, path: str, lease: Lease, key_of: Callable[[str], str]) -> str | None:
    """Why this lease ended, as far as that was said on the bus: by one of ackd's doors, which name its token, or by its
    holder, who freed it by hand and said so as the seed does, with the path alone."""
    for raw in reversed(_last_lines(track.queue)):
        if b'"FILE_UNLOCK"' not in raw:
            continue
        try:
            line = orjson.loads(raw)
            payload, source, at = line["payload"], line.get("source"), utc_times.read(line.get("timestamp"))
            token, named = payload.get("token"), str(payload.get("filepath"))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if token == lease.token:
            return str(payload.get("reason", Why.RELEASED.value))
        its_own = token is None and source == lease.agent and _key(key_of, named) == path
        if its_own and at is not None and _latest(at) >= lease.acquired_at:
            return Why.RELEASED.value
    return None


def _key(key_of: Callable[[str], str], named: str) -> str | None:
    try:
        return key_of(named)
    except BadPath:
        return None


def _latest(at: float) -> float:
    """A time in whole seconds has lost up to one."""
    return at + 1 if at.is_integer() else at


def _last_lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of the bus, as text
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().splitlines()
    except OSError:
        return []
