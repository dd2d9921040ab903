"""The waits of an agent that holds a message: what it waits for, and whether that can ever end. Such an agent is not
idle.

The table holds for one message whose agent waits. Its decision: wait on, or tell someone, because nothing moves or
because the waits close a circle in which all are idle. screen_rules.py gathers the waits: open messages of the agent,
leases, boards, stories. A pair that is not in the table cannot happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.core.errors import ImpossibleEvent
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet


@value
class Wait:
    """Something an agent waits for. ``whom``: another agent, or None where it is nobody in particular (a board, a
    story). ``what``: in words. ``stands``: how far it has come, where the other agent's signs of life do not show that;
    a change of it is a move."""

    whom: str | None
    what: str
    stands: str = ""

    def __str__(self) -> str:
        return self.whom if self.whom is not None else self.what


class Waiting(Word):
    """The states of a message with respect to what its agent waits for."""

    NOT = "waits for nobody"  # the idle rules hold
    WAITS = "waits"
    STALLED = "stalled"  # nothing moved: someone was told, it fills no window; it still waits
    CIRCLE = "in a circle"  # the same, and the idle rules hold again


@dataclass(slots=True)
class Spell:
    """A time in which the agent that holds a message waits for others."""

    stage: Waiting
    things: tuple[Wait, ...]
    moved_at: float  # monotonic: it began, or something that the agent waits for changed
    moves: frozenset[object] = frozenset()  # what that looked like then


class WaitEvent(Word):
    """The events of the table."""

    BEGAN = "waits for someone"
    ENDED = "waits for nobody"
    UNMOVED = "nothing moved for task_timeout_s"
    CLOSED = "a circle of idle ones"
    BROKEN = "the circle is broken"


class WaitAct(Word):
    NOTHING = "nothing"
    NOTICE = "tell someone"  # one notice, and out of the window


W, T, A = Waiting, WaitEvent, WaitAct

TABLE: Final[dict[Waiting, dict[WaitEvent, tuple[Waiting, WaitAct]]]] = {
    W.NOT: {
        T.BEGAN: (W.WAITS, A.NOTHING),
        T.ENDED: (W.NOT, A.NOTHING),
        T.BROKEN: (W.NOT, A.NOTHING),
    },
    W.WAITS: {
        T.BEGAN: (W.WAITS, A.NOTHING),
        T.ENDED: (W.NOT, A.NOTHING),
        T.UNMOVED: (W.STALLED, A.NOTICE),
        T.CLOSED: (W.CIRCLE, A.NOTICE),
        T.BROKEN: (W.WAITS, A.NOTHING),
    },
    W.STALLED: {
        T.BEGAN: (W.STALLED, A.NOTHING),
        T.ENDED: (W.NOT, A.NOTHING),
        T.UNMOVED: (W.STALLED, A.NOTHING),
        T.CLOSED: (W.CIRCLE, A.NOTHING),  # someone was told already
        T.BROKEN: (W.STALLED, A.NOTHING),
    },
    W.CIRCLE: {
        T.BEGAN: (W.CIRCLE, A.NOTHING),
        T.ENDED: (W.NOT, A.NOTHING),
        T.UNMOVED: (W.CIRCLE, A.NOTHING),
        T.CLOSED: (W.CIRCLE, A.NOTHING),
        T.BROKEN: (W.STALLED, A.NOTHING),  # told of once, whatever follows
    },
}


def step(waiting: Waiting, turn: WaitEvent) -> tuple[Waiting, WaitAct]:
    try:
        return TABLE[waiting][turn]
    except KeyError:
        raise ImpossibleEvent("waits", waiting.value, turn.value) from None


def circle(waits: Mapping[str, AbstractSet[str]], start: str) -> tuple[str, ...] | None:
    """Return the shortest way from ``start`` along the waits back to itself; None if there is none."""
    way: dict[str, str | None] = {start: None}
    row = [start]
    while row:
        following: list[str] = []
        for one in row:
            for other in sorted(waits.get(one, ())):
                if other == start:
                    return _walked(way, one)
                if other not in way:
                    way[other] = one
                    following.append(other)
        row = following
    return None


def _walked(way: Mapping[str, str | None], last: str) -> tuple[str, ...]:
    members: list[str] = []
    at: str | None = last
    while at is not None:
        members.append(at)
        at = way[at]
    return tuple(reversed(members))
