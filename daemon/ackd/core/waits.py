"""Who waits for others is not idle: what an agent that holds a message waits for, and whether that can ever end.

Owns the table of one message whose agent waits, and one decision: wait on, or tell someone, because nothing moves or
because the waits close a circle in which all are idle. Refuses to know where waits come from (idling.py gathers them:
open messages of its own, leases, boards, stories) and who is told. A pair that is not in the table cannot happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.errors import ImpossibleEvent
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet


@value
class Wait:
    """``whom`` it waits for: an agent, or None where nobody in particular is (a board, a story). ``what``: in words.
    ``stands``: how far that has come, where its own life says nothing of it: another one is a move."""

    whom: str | None
    what: str
    stands: str = ""

    def __str__(self) -> str:
        return self.whom if self.whom is not None else self.what


class Waiting(Word):
    """How one message stands whose agent waits for others, or does not."""

    NOT = "waits for nobody"  # the idle rules hold
    WAITS = "waits"
    STALLED = "stalled"  # nothing moved: someone was told, it fills no window; it still waits
    CIRCLE = "in a circle"  # the same, and the idle rules hold again


class Turn(Word):
    BEGAN = "waits for someone"
    ENDED = "waits for nobody"
    UNMOVED = "nothing moved for task_timeout_s"
    CLOSED = "a circle of idle ones"
    BROKEN = "the circle is broken"


class WaitAct(Word):
    NOTHING = "nothing"
    NOTICE = "tell someone"  # one notice, and out of the window


W, T, A = Waiting, Turn, WaitAct

TABLE: Final[dict[Waiting, dict[Turn, tuple[Waiting, WaitAct]]]] = {
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


def step(waiting: Waiting, turn: Turn) -> tuple[Waiting, WaitAct]:
    try:
        return TABLE[waiting][turn]
    except KeyError:
        raise ImpossibleEvent("waits", waiting.value, turn.value) from None


def circle(waits: Mapping[str, AbstractSet[str]], start: str) -> tuple[str, ...] | None:
    """The shortest way from ``start`` over who waits for whom back to itself; None: there is none."""
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
