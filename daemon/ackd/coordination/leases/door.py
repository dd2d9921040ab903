"""The use cases of leases, for programs and every front end: take a lease, keep it for longer, release it, see who has
what.

Everything works on the files, with and without a daemon; one that runs wakes who waits and takes back the leases of who
has died. Paths are relative to the project, or absolute. Each call takes the bus that the leases belong to (``track``)
by its name or path; None stands for ACKD_TRACK's, else the only one there is, else the team's own. Quick to import. A
lease that ends with a block or with the process is ``ackd.leases``'s.

Fails with ``BadName``, ``BadPath``, ``NoTrack``, ``WhichTrack`` and OSError. A lease that another has is an answer.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import time
from typing import Final, NamedTuple, TypeAlias

from ackd.config.site import Site
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.tracks import choose_track, seconds_of
from ackd.coordination.leases.files import granted
from ackd.coordination.leases.rules.words import DEFAULT_TTL_S, Ask, Change, Denied, Granted, Lease, Queued, Waiter
from ackd.core.errors import BadName, UnknownAgent
from ackd.leases import Leases

#: The time for which an agent without a waiting process keeps its place in line.
LATER_S: Final = 86_400.0
_MOST_CHARS: Final = 200

#: A path, and the lease that is held or was released on it.
LeasedPath: TypeAlias = tuple[str, Lease]


class Trouble(NamedTuple):
    """Trouble that came up beside the answer, which stands all the same.

    ``set_aside``: files of leases that could not be read, were kept under these names, and taken for empty. ``unsaid``:
    the reason why a change that was made could not be announced on the bus.
    """

    set_aside: tuple[str, ...] = ()
    unsaid: OSError | None = None


class LeaseAnswer(NamedTuple):
    """``answer``: the lease was granted, denied because of others, or the agent stands in line for it."""

    answer: Granted | Denied | Queued
    trouble: Trouble

    @property
    def is_granted(self) -> bool:
        return isinstance(self.answer, Granted)


class ChangedLeases(NamedTuple):
    """``agent`` in its own spelling, and the leases that were renewed or released."""

    agent: str
    leases: tuple[LeasedPath, ...]
    trouble: Trouble


class LeaseList(NamedTuple):
    """The holders and those who wait, in order. ``waiting_for``: how many wait for each path, whoever was asked for."""

    track: Track
    held: tuple[LeasedPath, ...]
    waiting: tuple[tuple[str, Waiter], ...]
    waiting_for: dict[str, int]
    trouble: Trouble


class LeaseDoor:
    """The leases of one team."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def acquire(
        self,
        path: str,
        agent: str,
        *,
        shared: bool = False,
        ttl_s: float | None = None,
        wait_s: float = 0.0,
        later: bool = False,
        track: str | Track | None = None,
    ) -> LeaseAnswer:
        """Ask for the lease of a file, which need not exist.

        ``ttl_s`` None: lease_s of [bus]. ``wait_s``: wait in line here; ``later``: stand in line without waiting, and
        be told by mail.
        """
        holder = self.holder(agent)
        leases = self._leases(track, make=True)
        key = leases.files.key(path)
        until = time.time() + LATER_S if later else None
        usual_s = seconds_of(self._site, "lease_s", DEFAULT_TTL_S)
        ask = Ask(holder, shared, usual_s if ttl_s is None else ttl_s, until)
        change = leases.ask(key, ask, wait_s)[0]
        return LeaseAnswer(_answer(change, key, holder), _trouble(leases))

    def renew(
        self,
        agent: str,
        path: str | None = None,
        *,
        ttl_s: float | None = None,
        track: str | Track | None = None,
    ) -> ChangedLeases:
        """Keep one lease of an agent for longer, or all. Nothing is returned for a path that it does not hold."""
        holder = self.holder(agent)
        leases = self._leases(track)
        held = leases.renew(holder, path, ttl_s)
        return ChangedLeases(holder, tuple(held), _trouble(leases))

    def release(self, agent: str, path: str | None = None, *, track: str | Track | None = None) -> ChangedLeases:
        """Release one lease of an agent, or all, and its places in line; who is next is woken."""
        holder = self.holder(agent)
        leases = self._leases(track)
        released = tuple((one.path, one.lease) for one in leases.release(holder, path))
        return ChangedLeases(holder, released, _trouble(leases))

    def list(self, agent: str | None = None, *, track: str | Track | None = None) -> LeaseList:
        """List all leases and waiters, or those of one agent. A team without any bus has none."""
        where = choose_track(self._site, track, make=False, listing=True)
        leases = Leases(where.bus, self._site.base)
        table = leases.look()
        held = ((path, lease) for path, found in table.held.items() for lease in found)
        line = ((path, waiter) for path, found in table.waiting.items() for waiter in found)
        return LeaseList(
            track=where,
            held=tuple(one for one in held if agent in (None, one[1].agent)),
            waiting=tuple(one for one in line if agent in (None, one[1].agent)),
            waiting_for={path: len(found) for path, found in table.waiting.items()},
            trouble=_trouble(leases),
        )

    def holder(self, name: str) -> str:
        """Return an agent in its own spelling. A worker's id that is no agent's name stays as it is: buses have such.

        ``BadName`` for a name that nobody could read.
        """
        if not name.isprintable() or not name.strip() or len(name) > _MOST_CHARS:
            raise BadName(name[:_MOST_CHARS], f"a holder is named by at most {_MOST_CHARS} printable characters")
        try:
            return self._site.resolve_agent(name)
        except (UnknownAgent, BadName):
            return name

    def _leases(self, track: str | Track | None, *, make: bool = False) -> Leases:
        return Leases(choose_track(self._site, track, make=make).bus, self._site.base)


def _answer(change: Change, key: str, holder: str) -> Granted | Denied | Queued:
    found = granted(change, key, holder)
    return found or next(one for one in change.happened if isinstance(one, Denied | Queued))


def _trouble(leases: Leases) -> Trouble:
    return Trouble(tuple(leases.files.set_aside), leases.unsaid)
