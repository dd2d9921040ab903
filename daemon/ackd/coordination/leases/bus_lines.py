"""Translates a line of a bus into a change of its leases, for agents that only append there, by ``echo >>``.

FILE_LOCK asks for a lease, and stands in line if need be; FILE_UNLOCK releases one; TASK_COMPLETE and TASK_FAILED
release all of an agent; PROGRESS renews. A FILE_LOCK with a token records what a command or program has done already,
and changes nothing. Lines from before the daemon first saw the bus count only if they still hold by their own times. A
line releases what its author held when writing it, although it is read later: an agent that had finished and then
leased again keeps the new lease. Pure but for resolving paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.coordination.bus.rules.words import BusType
from ackd.coordination.leases.rules import leases
from ackd.coordination.leases.rules.words import BY_HAND, Ask, Granted, Queued, Why
from ackd.core.errors import BadPath
from ackd.formats import utc_times

if TYPE_CHECKING:
    from ackd.coordination.bus.rules.words import BusLine
    from ackd.coordination.leases.files import Decide
    from ackd.coordination.leases.rules.words import Change, Earlier
    from ackd.leases import Leases

MEANT: Final = frozenset(
    {BusType.FILE_LOCK, BusType.FILE_UNLOCK, BusType.TASK_COMPLETE, BusType.TASK_FAILED, BusType.PROGRESS}
)
PROGRESS_EVERY_S: Final = 5.0


def said_at(line: BusLine, now: float) -> float:
    """Return the latest time at which the line can have been written: a time in whole seconds has lost up to one."""
    return min(now, line.at + 1 if line.at.is_integer() else line.at)


def token_said(line: BusLine) -> list[int]:
    """The token in a FILE_LOCK that records a lease: held before anything that a later line says."""
    token = line.payload.get("token")
    return [token] if line.type is BusType.FILE_LOCK and type(token) is int else []


def tokens(change: Change) -> list[int]:
    """Tokens of the leases that a line was granted. A lease made by hand was only noticed in the same change: nobody
    asked for it, and it may be younger than the line."""
    granted = (one for one in change.happened if isinstance(one, Granted))
    return [one.lease.token for one in granted if one.again or one.lease.by != BY_HAND]


def places(change: Change) -> list[tuple[str, str]]:
    return [(one.path, one.waiter.agent) for one in change.happened if isinstance(one, Queued)]


def decision(
    line: BusLine, leased: Leases, lease_s: float, now: float, is_history: bool, met: Earlier
) -> Decide | str | None:
    """Return the change to make; None: none; a text: why the line is refused. ``met``: the leases and places that the
    author had when writing it."""
    if not line.source:
        return None
    heard_at = min(line.at, now) if is_history else now
    match line.type:
        case BusType.TASK_COMPLETE | BusType.TASK_FAILED:
            return lambda table, at, dead: leases.release(table, line.source, at, dead=dead, had=met, why=Why.ENDED)
        case BusType.PROGRESS:
            return lambda table, at, dead: leases.renew(table, line.source, at, since=heard_at, dead=dead)
        case BusType.FILE_LOCK | BusType.FILE_UNLOCK:
            return _about_a_file(line, leased, lease_s, heard_at, now, met)
        case _:
            return None


def _about_a_file(
    line: BusLine, leased: Leases, lease_s: float, heard_at: float, now: float, met: Earlier
) -> Decide | str | None:
    try:
        path = leased.files.key(str(line.payload.get("filepath") or ""))
    except BadPath as error:
        return str(error)
    said = line.payload.get("token")
    token = said if type(said) is int else None
    if line.type is BusType.FILE_UNLOCK:
        return lambda table, at, dead: leases.release(table, line.source, at, path, token, dead, had=met)
    if token is not None:
        return None
    until = utc_times.read(line.payload.get("expires_at"))
    ends_at = until if until is not None and until > heard_at else heard_at + lease_s
    if ends_at <= now:
        return None
    shared = str(line.payload.get("lock_type", "")).lower() in ("shared", "read")
    ask = Ask(line.source, shared, ends_at - now, now + max(lease_s, ends_at - now))
    return lambda table, at, dead: leases.acquire(table, path, ask, at, dead)
