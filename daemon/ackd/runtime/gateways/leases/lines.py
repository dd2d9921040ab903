"""What a line of a bus does to the leases: for agents that only append there, by ``echo >>``.

FILE_LOCK asks, and stands in line if need be; FILE_UNLOCK lets go; TASK_COMPLETE and TASK_FAILED let go of everything;
PROGRESS renews. A FILE_LOCK that has a token is the record of what a door has done already, and does nothing. Of what
was said before the bus was met first, only what still holds by its own times counts. Pure but for resolving paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import leases, utc_times
from ackd.core.bus_words import BusType
from ackd.core.errors import BadPath
from ackd.core.lease_words import Ask, Why

if TYPE_CHECKING:
    from ackd.adapters.lease_files import Decide
    from ackd.core.bus_words import BusLine
    from ackd.leases import Leases

MEANT: Final = frozenset(
    {BusType.FILE_LOCK, BusType.FILE_UNLOCK, BusType.TASK_COMPLETE, BusType.TASK_FAILED, BusType.PROGRESS}
)
PROGRESS_EVERY_S: Final = 5.0


def decision(line: BusLine, doors: Leases, lease_s: float, now: float, is_history: bool) -> Decide | str | None:
    """What is to be done; None: nothing; words: why it cannot be."""
    if not line.source:
        return None
    heard_at = min(line.at, now) if is_history else now
    match line.type:
        case BusType.TASK_COMPLETE | BusType.TASK_FAILED:
            return lambda table, at, dead: leases.release(
                table, line.source, at, dead=dead, before=heard_at, why=Why.ENDED
            )
        case BusType.PROGRESS:
            return lambda table, at, dead: leases.renew(table, line.source, at, since=heard_at, dead=dead)
        case BusType.FILE_LOCK | BusType.FILE_UNLOCK:
            return _about_a_file(line, doors, lease_s, heard_at, now)
        case _:
            return None


def _about_a_file(line: BusLine, doors: Leases, lease_s: float, heard_at: float, now: float) -> Decide | str | None:
    try:
        path = doors.files.key(str(line.payload.get("filepath") or ""))
    except BadPath as error:
        return str(error)
    said = line.payload.get("token")
    token = said if type(said) is int else None
    if line.type is BusType.FILE_UNLOCK:
        return lambda table, at, dead: leases.release(table, line.source, at, path, token, dead, before=heard_at)
    if token is not None:
        return None
    until = utc_times.read(line.payload.get("expires_at"))
    ends_at = until if until is not None and until > heard_at else heard_at + lease_s
    if ends_at <= now:
        return None
    shared = str(line.payload.get("lock_type", "")).lower() in ("shared", "read")
    ask = Ask(line.source, shared, ends_at - now, now + max(lease_s, ends_at - now))
    return lambda table, at, dead: leases.acquire(table, path, ask, at, dead)
