"""The values about leases: who holds a path, who waits for it, and what happened. The rules are in leases.py."""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import enum
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from ackd.coordination.bus.rules.defaults import LEASE_S

#: The time of a lease that says none: the default of the table [bus], too.
DEFAULT_TTL_S: Final = float(LEASE_S)

#: The origin of a lease that no process was granted when it asked: an edit of locks.json by hand, or a wait that ended
#: in the holder's absence.
BY_HAND: Final = "hand"
BY_LINE: Final = "line"


class Lease(NamedTuple):
    """A holder of a path. Times are wall seconds.

    ``ttl_s``: the time that a renewal adds. ``ticket``: the process that the lease ends with. A token of 0 stands for
    none yet (``adopt``).
    """

    agent: str
    shared: bool
    token: int
    acquired_at: float
    expires_at: float
    ttl_s: float = DEFAULT_TTL_S
    ticket: str = ""
    by: str = ""


class Waiter(NamedTuple):
    """``until``: wall time at which it gives up; ``ttl_s``: how long it wants to hold."""

    agent: str
    shared: bool
    since: float
    until: float
    ttl_s: float = DEFAULT_TTL_S
    ticket: str = ""


class LeaseTable(NamedTuple):
    """``held`` and ``waiting`` have no empty entries. ``token``: the last that was given."""

    held: Mapping[str, tuple[Lease, ...]]
    waiting: Mapping[str, tuple[Waiter, ...]]
    token: int


class Ask(NamedTuple):
    """A request for a lease. ``until``: the agent waits until then; None: it does not wait. ``bound``: the lease ends
    with the ticket's process."""

    agent: str
    shared: bool = False
    ttl_s: float = DEFAULT_TTL_S
    until: float | None = None
    ticket: str = ""
    bound: bool = False


class Earlier(NamedTuple):
    """The leases and places in line that an agent had when it wrote a line of the bus.

    The meaning of a line must not depend on when it is read. ``at`` decides by the clock. Since agents sometimes make
    times up, leases (``tokens``) and places (path and agent) that an earlier line of the bus has named count in any
    case.
    """

    at: float = float("inf")
    tokens: frozenset[int] = frozenset()
    places: frozenset[tuple[str, str]] = frozenset()


EVER: Final = Earlier()


class Why(enum.Enum):
    RELEASED = "released"
    EXPIRED = "expired"
    DIED = "its process is gone"
    ENDED = "its holder has ended"
    WITHDREW = "withdrew"


# --- happenings -------------------------------------------------------------------------------------------------------
class Granted(NamedTuple):
    """A lease was given. ``again``: its holder had it already. ``waited``: the place in line that this ends."""

    path: str
    lease: Lease
    again: bool = False
    waited: Waiter | None = None


class Queued(NamedTuple):
    """The agent stands in line, since now or before. ``behind``: the holders, then the waiters in its way."""

    path: str
    waiter: Waiter
    behind: tuple[str, ...]


class Denied(NamedTuple):
    path: str
    holders: tuple[Lease, ...]
    ahead: tuple[Waiter, ...]


class Released(NamedTuple):
    path: str
    lease: Lease
    why: Why


class LeaseWoken(NamedTuple):
    path: str
    waiter: Waiter


class LeftLine(NamedTuple):
    path: str
    waiter: Waiter
    why: Why


Happening: TypeAlias = Granted | Queued | Denied | Released | LeaseWoken | LeftLine


class Change(NamedTuple):
    """The result of a rule. ``table`` is the very object that came in if nothing changed."""

    table: LeaseTable
    happened: tuple[Happening, ...]


class Broken(NamedTuple):
    """Somebody edited locks.json by hand and put ``by`` in the place of ``lease``, which still held."""

    path: str
    lease: Lease
    by: Lease


EMPTY: Final = LeaseTable({}, {}, 0)
