"""Writes each change of a lease to the session log once, whoever made it, and mails those who waited for it.

Compares what the files say with what was known before. A lease that has disappeared counts as given up only after
``settle_s``: its holder may be about to say so on the bus, and somebody who took it by hand is named only if the holder
said nothing. All lines ``lease_*`` come from here, except refusals. No lease is changed here. After an OSError
everything that was not saved is treated as new again.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Final

import orjson

from ackd.coordination.bus.rules.layout import event_name
from ackd.coordination.leases.facts import (
    lease_broken,
    lease_conflict,
    lease_expired,
    lease_granted,
    lease_released,
    lease_renewed,
    lease_waiting,
)
from ackd.coordination.leases.rules.leases import differences, hindering_holders
from ackd.coordination.leases.rules.words import BY_HAND, BY_LINE, Broken, Granted, Queued, Released, Why
from ackd.coordination.leases.saved_state import places_in_line
from ackd.core.errors import BadPath, UnknownAgent
from ackd.core.escalations import derived_id, stamp
from ackd.core.message import MONITOR, Draft, Priority
from ackd.formats import utc_times
from ackd.leases import announce, raise_events
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.gateway import GatewayServices
    from ackd.coordination.leases.rules.words import Change, Lease, LeaseTable
    from ackd.coordination.leases.saved_state import SavedLeases


#: The number of bytes at the end of the bus that are read for a FILE_UNLOCK that explains why a lease is gone.
_TAIL_BYTES: Final = 256 * 1024


class LeaseLog:
    """``agent_of``: the agent behind a worker's id; None: there is none."""

    def __init__(self, services: GatewayServices, agent_of: Callable[[str], str | None]) -> None:
        self._services = services
        self._agent_of = agent_of
        self._gone_since: dict[tuple[str, str, int], float] = {}
        self._conflicts: set[tuple[str, tuple[tuple[str, int], ...]]] = set()

    async def record(
        self, track: Track, table: LeaseTable, known: SavedLeases, key_of: Callable[[str], str]
    ) -> float | None:
        """Write down everything that changed. Returns in how many seconds to look again for what is not clear yet.
        ``key_of``: a path's key, however it is spelled."""
        await self._say_unsaid(track, known)
        changed = list(differences(known.held, table.held, self._now()))
        gone = [one for one in changed if isinstance(one, Released | Broken)]
        next_looks = [await self._gone(track, table, known, one, key_of) for one in gone]
        await self.met(track, table, known)
        return min((left_s for left_s in next_looks if left_s is not None), default=None)

    async def met(self, track: Track, table: LeaseTable, known: SavedLeases) -> None:
        """Write down new leases only. Called before the table is changed, so that every lease which ends by that change
        was known. A lease is noted before its line is written, and noted as said after it."""
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

    async def _say_unsaid(self, track: Track, known: SavedLeases) -> None:
        met = [(path, lease) for path, held in known.held.items() for lease in held if lease.token in known.unsaid]
        for path, lease in met:
            await self._granted(track, path, lease)
            known.was_said(lease.token)

    def _save(self, known: SavedLeases) -> None:
        """Hand the lines to the kernel first: only then may it be noted that they were written."""
        if known.is_new and self._services.written():
            known.save()

    async def queued(self, track: Track, change: Change, cause: object) -> None:
        """Mail those whom a line on the bus has put in line: they have no process that waits."""
        for one in change.happened:
            if isinstance(one, Queued):
                await self._mail(one.waiter.agent, functools.partial(waiting_mail, track, one, cause))

    def prolonged(self, known: SavedLeases, change: Change) -> None:
        """Note renewals by a sign of life. They come too often to be written to the log."""
        for one in change.happened:
            if isinstance(one, Granted) and one.again and known.held.get(one.path):
                known.note(one.path, one.lease)

    def conflicts(self, seen: Iterable[tuple[Track, LeaseTable]]) -> None:
        """Report exclusive leases on one file that are held on two buses, once for each such meeting."""
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
            self._services.record(lease_conflict(path=key[0], tracks=tracks, agents=agents))
        self._conflicts = set(met)

    # --- lines ------------------------------------------------------------------------------------------------------
    async def _granted(self, track: Track, path: str, lease: Lease) -> None:
        kind = "shared" if lease.shared else "exclusive"
        data = {**self._about(track, path, lease), "lock_type": kind, "until": stamp(lease.expires_at)}
        if lease.by:
            data["by"] = lease.by
        if lease.by == BY_LINE:
            await in_thread(raise_events, track, [event_name("FILE_LOCK", path)])
            await self._mail(lease.agent, lambda agent: granted_mail(track, path, lease, agent))
        self._services.record(lease_granted(**data))

    async def _gone(
        self, track: Track, table: LeaseTable, known: SavedLeases, one: Released | Broken, key_of: Callable[[str], str]
    ) -> float | None:
        """Write down the end of a lease; None: done. Otherwise in how many seconds it will be clear why it ended."""
        key = (track.bus, one.path, one.lease.token)
        reason = await in_thread(_said_why, track, one.path, one.lease, key_of)
        if reason is None:
            mono = self._services.clock.now().mono
            since = self._gone_since.setdefault(key, mono)
            if (left_s := since + self._services.settle_s - mono) > 0:
                return left_s
            why = one.why if isinstance(one, Released) else Why.RELEASED
            released = Released(one.path, one.lease, why)
            # Readers of the bus take FILE_UNLOCK for "free", so none is posted while another holder is in the way.
            if not hindering_holders(table, one.path, one.lease.agent, shared=one.lease.shared):
                await in_thread(functools.partial(announce, track, [released], for_others=True))
        self._gone_since.pop(key, None)
        self._write_end(self._about(track, one.path, one.lease), one, reason)
        known.forget(one.path, one.lease.token)
        return None

    def _write_end(self, about: dict[str, Any], one: Released | Broken, reason: str | None) -> None:
        """``reason``: as it was given on the bus; None: nothing was said there."""
        if isinstance(one, Broken) and reason is None:
            self._services.record(lease_broken(**about, taken_by=one.by.agent, their_token=one.by.token))
        elif reason == Why.EXPIRED.value or (reason is None and isinstance(one, Released) and one.why is Why.EXPIRED):
            self._services.record(lease_expired(**about))
        else:
            self._services.record(lease_released(**about, reason=reason, by=BY_HAND if reason is None else None))

    def _renewed(self, track: Track, table: LeaseTable, known: SavedLeases) -> None:
        before = {(path, lease.token): lease for path, held in known.held.items() for lease in held}
        longer = [
            (path, lease)
            for path, held in table.held.items()
            for lease in held
            if (old := before.get((path, lease.token))) is not None and lease.expires_at > old.expires_at + 1
        ]
        for path, lease in longer:
            self._services.record(lease_renewed(**self._about(track, path, lease), until=stamp(lease.expires_at)))
            known.note(path, lease)

    def _waiting(self, track: Track, table: LeaseTable, known: SavedLeases) -> None:
        line = places_in_line(table)
        for place in sorted(line.keys() - known.waiting):
            self._services.record(
                lease_waiting(track=track.name, path=place[0], agent=place[1], behind=list(line[place]))
            )
        if line.keys() != known.waiting:
            known.waiting, known.is_new = set(line), True

    def _about(self, track: Track, path: str, lease: Lease) -> dict[str, Any]:
        return {"track": track.name, "path": path, "agent": lease.agent, "token": lease.token}

    async def _mail(self, worker: str, draft: Callable[[str], Draft]) -> None:
        """Mail the worker if it is an agent of the team; other workers read the bus."""
        agent = self._agent_of(worker)
        if agent is not None:
            try:
                await self._services.mail(draft(agent))
            except UnknownAgent:
                return

    def _now(self) -> float:
        return self._services.clock.now().wall


def _said_why(track: Track, path: str, lease: Lease, key_of: Callable[[str], str]) -> str | None:
    """The reason why this lease ended, if somebody gave it on the bus: one of ackd's own commands, which name the
    token, or the holder, who edited the file by hand and said so as the seed does, with the path alone."""
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
    """The latest moment that a time in whole seconds may mean."""
    return at + 1 if at.is_integer() else at


def _last_lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of the bus, as text
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().splitlines()
    except OSError:
        return []


# --- mail to agents: its id derives from what it is about, so that sending it again is harmless -----------------------
def granted_mail(track: Track, path: str, lease: Lease, agent: str) -> Draft:
    kind = "shared" if lease.shared else "exclusive"
    body: dict[str, object] = {
        "content": (
            f"{path} is leased to {lease.agent} ({kind}) since {stamp(lease.acquired_at)} until "
            f"{stamp(lease.expires_at)}, token {lease.token}. When finished: "
            f"ackd lock release {path} --agent {lease.agent} --track {track.bus}"
        ),
        "summary": f"The lease on {path} is yours",
        "path": path,
        "token": lease.token,
        "track": track.bus,
    }
    ident = derived_id("lease_granted", track.bus, path, lease.token)
    return Draft(ident, MONITOR, agent, "message", Priority.HIGH, body)


def waiting_mail(track: Track, queued: Queued, cause: object, agent: str) -> Draft:
    path, waiter = queued.path, queued.waiter.agent
    body: dict[str, object] = {
        "content": (
            f"{path} is not free: {waiter} stands in line behind {', '.join(queued.behind)}, and is told when it has "
            f"the lease. To leave the line: ackd lock release {path} --agent {waiter} --track {track.bus}"
        ),
        "summary": f"{waiter} waits for the lease on {path}",
        "path": path,
        "track": track.bus,
    }
    ident = derived_id("lease_waiting", track.bus, path, waiter, cause)
    return Draft(ident, MONITOR, agent, "message", Priority.NORMAL, body)
