"""Pools: several agents that share one queue. The two rules of a pool, as values: who is given a message, and what
becomes of one that its holder did not complete.

A pool has a queue and nobody of its own. A message in it goes to one member, the *holder*, by the rename that claims
it: from ``queue/<pool>/`` to the holder's ``processed/``. From then on it is the holder's message like any other, with
two differences: it remembers its pool, and where another agent's message would wait to be told again, it goes back.

| a member | may be given a message |
|---|---|
| is available, its window has room, none of its own mail waits | yes |
| is busy, parked, paused or down, or its own mail waits | no |
| lacks a label that the message needs | never |

Of those who may, the one that has not had this message before; then one with the labels that the message prefers; then
the one with the least work in hand; then the one that has been without work for longest.

| what became of it with its holder | the message |
|---|---|
| it could not be told, deferred, failed or died with it | goes back, counted |
| it fell silent and had never seen it | goes back, counted |
| it is parked, paused or down, and the message waits to be told again | goes back, not counted |
| it died and goes on by itself (``AgentPolicy.resumes``; no kind of endpoint does yet) | stays |
| it is handed over to a fresh generation, or ackd stops | stays |
| it refused, or the failures are too many | is dead |
| it had taken it, and then fell silent or did not finish it ("may have been done") | is dead, never another's |

A holder that gave a message back may still complete it while nobody else has it in hand, and after that: its word that
it is done is a completion, whoever holds the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.availability import AgentState
from ackd.core.lineup import Lineup
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackd.core.message import Priority

#: Labels: ``gpu``.
Labels: TypeAlias = frozenset[str]
NO_LABELS: Final[Labels] = frozenset()

#: The name of a pool's kind of endpoint: nobody is told there.
POOL: Final = "pool"
#: A pool that nobody serves is told of after this time.
POOL_TIMEOUT_S: Final = 900.0

#: States in which an agent serves: it has room for a message, or will have.
SERVING: Final = frozenset({AgentState.AVAILABLE, AgentState.BUSY})


@value
class Wish:
    """The members of its pool that a message is for. ``had_by``: those who gave it back."""

    needs: Labels = NO_LABELS
    prefers: Labels = NO_LABELS
    had_by: tuple[str, ...] = ()


@value
class Candidate:
    """A member of a pool at one moment. ``free_since``: monotonic, when it last was given a message or let go of
    one."""

    name: str
    state: AgentState
    labels: Labels = NO_LABELS
    has_room: bool = True
    own_mail_waits: bool = False
    in_hand: int = 0
    free_since: float = 0.0


def may_take(member: Candidate, wish: Wish) -> bool:
    """Return whether the member may be given such a message now."""
    is_free = member.state is AgentState.AVAILABLE and member.has_room and not member.own_mail_waits
    return is_free and wish.needs <= member.labels


def choose(members: Iterable[Candidate], wish: Wish) -> str | None:
    """Return the member that is given the message; None if nobody may take it now."""
    fit = [member for member in members if may_take(member, wish)]
    return min(fit, key=lambda member: _rank(member, wish)).name if fit else None


def _rank(member: Candidate, wish: Wish) -> tuple[bool, int, int, float, str]:
    missing = len(wish.prefers - member.labels)
    return member.name in wish.had_by, missing, member.in_hand, member.free_since, member.name


def is_served(members: Iterable[Candidate], needs: Labels) -> bool:
    """Return whether some member takes such messages, now or when it has room again."""
    return any(member.state in SERVING and needs <= member.labels for member in members)


class Kept(Word):
    """The fate of a message that its holder did not complete, and that is not dead."""

    STAYS = "stays"
    GOES_BACK = "goes back"


class Setback(Word):
    """The way in which a holder did not complete a message."""

    FAILED = "failed"  # could not be told, deferred, failed: counted
    DIED = "died"
    AWAY = "away"  # nobody there to tell, or the machine refused: its agent is parked
    STOPPED = "stopped"  # by us: a fresh generation goes on, or ackd stops


#: The table of hand-backs: whether the message stays with its holder. The two columns that decide beside the setback:
#: whether its agent goes on by itself after a death, and whether it serves (see ``SERVING``).
def after_setback(setback: Setback, *, resumes: bool, serves: bool, ackd_stops: bool) -> Kept:
    if ackd_stops or (setback is Setback.DIED and resumes):
        return Kept.STAYS
    if setback is Setback.STOPPED and serves:
        return Kept.STAYS
    return Kept.GOES_BACK


class PoolLineup(Lineup):
    """The waiting messages of a pool. They are kept by the labels that they need, too: one that nobody can take now
    must not hold up those behind it."""

    __slots__ = ("_by_needs", "_needs")

    def __init__(self, aging_s: float) -> None:
        super().__init__(aging_s)
        self._by_needs: dict[Labels, Lineup] = {}
        self._needs: dict[int, Labels] = {}

    def add_for(self, needs: Labels, key: int, priority: Priority, arrived_at: float, name: str) -> None:
        self.discard(key)
        self.add(key, priority, arrived_at, name)
        self._needs[key] = needs
        line = self._by_needs.get(needs)
        if line is None:
            line = self._by_needs[needs] = Lineup(self._aging_s)
        line.add(key, priority, arrived_at, name)

    def age_in(self, aging_s: float) -> None:
        super().age_in(aging_s)
        for line in self._by_needs.values():
            line.age_in(aging_s)

    def discard(self, key: int) -> None:
        super().discard(key)
        needs = self._needs.pop(key, None)
        if needs is not None:
            line = self._by_needs[needs]
            line.discard(key)
            if not line:
                del self._by_needs[needs]

    def needs(self) -> Iterator[tuple[Labels, int]]:
        """Yield the sets of labels that waiting messages need, and how many need each."""
        return ((needs, len(line)) for needs, line in self._by_needs.items())

    @property
    def has_needs(self) -> bool:
        """True if some message needs a label."""
        return len(self._by_needs) > 1 or NO_LABELS not in self._by_needs

    def heads(self) -> Iterator[int]:
        """Yield the next message of each set of needs, the most urgent first."""
        if len(self._by_needs) == 1:  # nearly always
            key = self.peek()
            if key is not None:
                yield key
            return
        firsts = (line.peek() for line in self._by_needs.values())
        yield from sorted((key for key in firsts if key is not None), key=self.waiting.__getitem__)


@dataclass(slots=True)
class Pool:
    """A pool of the team, beside the agent of its name that has its queue."""

    name: str
    members: tuple[str, ...]
    timeout_s: float
    #: Members that may have room, with the monotonic time since when. Those who have none any more are found out when
    #: they are about to be given a message; nobody who has room is missing.
    free: dict[str, float] = field(default_factory=dict)
    #: The key of the message whose claim the disk refused last, if none was claimed since.
    refused: int | None = None
