"""What a line of a bus does to the leases: for agents that only append there, by ``echo >>``.

FILE_LOCK asks, and stands in line if need be; FILE_UNLOCK lets go; TASK_COMPLETE and TASK_FAILED let go of everything;
PROGRESS renews. A FILE_LOCK that has a token is the record of what a door has done already, and does nothing. Of what
was said before the bus was met first, only what still holds by its own times counts. What is let go is what its holder
had when it said so, though it is read later: who was through and then leased anew keeps that. Pure but for resolving
paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import leases, utc_times
from ackd.core.bus_words import BusType
from ackd.core.errors import BadPath
from ackd.core.lease_words import BY_HAND, Ask, Granted, Queued, Why

if TYPE_CHECKING:
    from ackd.adapters.lease_files import Decide
    from ackd.core.bus_words import BusLine
    from ackd.core.lease_words import Change, Earlier
    from ackd.leases import Leases

MEANT: Final = frozenset(
    {BusType.FILE_LOCK, BusType.FILE_UNLOCK, BusType.TASK_COMPLETE, BusType.TASK_FAILED, BusType.PROGRESS}
)
PROGRESS_EVERY_S: Final = 5.0


def said_at(line: BusLine, now: float) -> float:
    """A time in whole seconds has lost up to one."""
    return min(now, line.at + 1 if line.at.is_integer() else line.at)


def token_said(line: BusLine) -> list[int]:
    """Of the lease that a door's FILE_LOCK records: had before whatever is said after it."""
    token = line.payload.get("token")
    return [token] if line.type is BusType.FILE_LOCK and type(token) is int else []


def tokens(change: Change) -> list[int]:
    """Of leases that a line was answered with. One that a hand made and nobody asked for was only met by the way, and
    may be younger than the line."""
    granted = (one for one in change.happened if isinstance(one, Granted))
    return [one.lease.token for one in granted if one.again or one.lease.by != BY_HAND]


def places(change: Change) -> list[tuple[str, str]]:
    return [(one.path, one.waiter.agent) for one in change.happened if isinstance(one, Queued)]


def decision(
    line: BusLine, doors: Leases, lease_s: float, now: float, is_history: bool, met: Earlier
) -> Decide | str | None:
    """What is to be done; None: nothing; words: why it cannot be. ``met``: what had been leased when it was said."""
    if not line.source:
        return None
    heard_at = min(line.at, now) if is_history else now
    match line.type:
        case BusType.TASK_COMPLETE | BusType.TASK_FAILED:
            return lambda table, at, dead: leases.release(table, line.source, at, dead=dead, had=met, why=Why.ENDED)
        case BusType.PROGRESS:
            return lambda table, at, dead: leases.renew(table, line.source, at, since=heard_at, dead=dead)
        case BusType.FILE_LOCK | BusType.FILE_UNLOCK:
            return _about_a_file(line, doors, lease_s, heard_at, now, met)
        case _:
            return None


def _about_a_file(
    line: BusLine, doors: Leases, lease_s: float, heard_at: float, now: float, met: Earlier
) -> Decide | str | None:
    try:
        path = doors.files.key(str(line.payload.get("filepath") or ""))
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
