"""The phases of a meeting and the ways between them, as a table (message-bus, "Board Deliberation Protocol").

The seed cuts a phase's name to find its part of the record, which fails at VOTING; here ``SECTION`` names that part.
An event that the table lacks is an ``ImpossibleEvent``.
"""

from __future__ import annotations

from typing import Final

from ackd.core.errors import ImpossibleEvent
from ackd.core.words import Word


class Phase(Word):
    ASSESSING = "ASSESSING"  # each director judges the proposal on its own
    DISCUSSING = "DISCUSSING"  # counted rounds, in which they answer each other
    VOTING = "VOTING"  # sealed until it closes
    RESOLVING = "RESOLVING"  # counted; the result is being made known
    COMPLETE = "COMPLETE"
    CANCELLED = "CANCELLED"


class Turn(Word):
    """The event that ends a phase, or a round of one."""

    ASSESSED = "assessed"  # all have assessed, or the time is up
    REVIEWED = "reviewed"  # the same in a quick review, which has no further phases
    DESERTED = "deserted"  # the time is up and nobody has said anything
    ROUND_OVER = "round over"
    DISCUSSED = "discussed"  # the last round is over
    VOTED = "voted"
    RESOLVED = "resolved"
    CANCELLED = "cancelled"


P, T = Phase, Turn

TABLE: Final[dict[Phase, dict[Turn, Phase]]] = {
    P.ASSESSING: {
        T.ASSESSED: P.DISCUSSING,
        T.REVIEWED: P.RESOLVING,
        T.DESERTED: P.RESOLVING,
        T.CANCELLED: P.CANCELLED,
    },
    P.DISCUSSING: {T.ROUND_OVER: P.DISCUSSING, T.DISCUSSED: P.VOTING, T.CANCELLED: P.CANCELLED},
    P.VOTING: {T.VOTED: P.RESOLVING, T.CANCELLED: P.CANCELLED},
    P.RESOLVING: {T.RESOLVED: P.COMPLETE},  # a meeting that was counted cannot be cancelled
    P.COMPLETE: {},
    P.CANCELLED: {},
}

#: The phases in which something can still be said.
OPEN: Final = frozenset({P.ASSESSING, P.DISCUSSING, P.VOTING})
#: The phases of meetings that are over, and change no more.
ENDED: Final = frozenset({P.COMPLETE, P.CANCELLED})

#: The name of each phase's part of the seed's session record.
SECTION: Final = {
    P.ASSESSING: "assess",
    P.DISCUSSING: "discuss",
    P.VOTING: "vote",
    P.RESOLVING: "resolve",
}


def after(phase: Phase, turn: Turn) -> Phase:
    try:
        return TABLE[phase][turn]
    except KeyError:
        raise ImpossibleEvent("board", phase.value, turn.value) from None


class BoardCheckpoint(Word):
    """The purpose of a meeting."""

    EVALUATE_PLAN = "EVALUATE_PLAN"
    EVALUATE_EXECUTION = "EVALUATE_EXECUTION"
    PRE_LAUNCH = "PRE_LAUNCH"
    QUICK_REVIEW = "QUICK_REVIEW"  # assessments only
