"""What is said of leases: who holds a path, who waits for it, and what happened.

Owns the words; the rules are leases.py's.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import enum
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

DEFAULT_TTL_S: Final = 1800.0


#: How a lease came, if not by asking for it: by an edit of the file; after waiting, in its holder's absence.
BY_HAND: Final = "hand"
BY_LINE: Final = "line"


class Lease(NamedTuple):
    """One holder of one path. Times are wall seconds; ``ttl_s``: for how long it is renewed. ``ticket``: a process that
    it ends with. A token of 0 is none yet (``adopt``)."""

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


class Table(NamedTuple):
    """``held`` and ``waiting`` have no empty entries. ``token``: the last that was given."""

    held: Mapping[str, tuple[Lease, ...]]
    waiting: Mapping[str, tuple[Waiter, ...]]
    token: int


class Ask(NamedTuple):
    """``until``: it waits, till then; None: it does not. ``bound``: the lease ends with the ticket's process."""

    agent: str
    shared: bool = False
    ttl_s: float = DEFAULT_TTL_S
    until: float | None = None
    ticket: str = ""
    bound: bool = False


class Earlier(NamedTuple):
    """What somebody had when it said something: by the clock; or for certain, because a bus said so before: leases by
    their tokens, places in line by path and agent. What a line is about must not depend on when it is read, and clocks
    of agents are made up at times."""

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


# --- what happened ----------------------------------------------------------------------------------------------------
class Granted(NamedTuple):
    """``again``: it was the holder's already. ``waited``: whom it was given to in its absence, or who asked again."""

    path: str
    lease: Lease
    again: bool = False
    waited: Waiter | None = None


class Queued(NamedTuple):
    """It stands in line, since now or before. ``behind``: who hinders it, holders first."""

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


class Woken(NamedTuple):
    path: str
    waiter: Waiter


class LeftLine(NamedTuple):
    path: str
    waiter: Waiter
    why: Why


Happening: TypeAlias = Granted | Queued | Denied | Released | Woken | LeftLine


class Change(NamedTuple):
    """``table`` is the one that came in, itself, if nothing changed."""

    table: Table
    happened: tuple[Happening, ...]


class Broken(NamedTuple):
    """A hand put ``by`` where ``lease`` still held."""

    path: str
    lease: Lease
    by: Lease


EMPTY: Final = Table({}, {}, 0)
