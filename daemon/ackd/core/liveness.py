"""Whether an agent that holds work is alive, as a table, and when it is asked.

Owns what a sign of life, its absence and a death mean, and one decision: wait, ask, or stop believing. Watched is only
who holds work that it has taken: who has none owes nobody a sign, and who was told and did not take it is the ladder's
(ladder.py). Never seen is not alive. An agent that shows signs of life is never asked: an answer would cost it a turn.
Refuses to know what a sign is and how it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from ackd.core.errors import ImpossibleEvent
from ackd.core.words import Word


class Vital(Word):
    UNSEEN = "unseen"  # started, perhaps; it has given no sign yet
    ALIVE = "alive"
    SUSPECT = "suspect"  # quiet with work in its hands, and asked
    UNRESPONSIVE = "unresponsive"  # it did not answer
    DOWN = "down"  # gone, or silent to the end of its ladder


class Pulse(Word):
    BEAT = "sign of life"
    QUIET = "quiet for too long"
    UNANSWERED = "no answer"
    STARTED = "started"
    ENDED = "ended"


V, P = Vital, Pulse

TABLE: Final[dict[Vital, dict[Pulse, Vital]]] = {
    V.UNSEEN: {
        P.BEAT: V.ALIVE,
        P.QUIET: V.SUSPECT,
        P.UNANSWERED: V.UNSEEN,  # it was started anew while it was asked
        P.STARTED: V.UNSEEN,
        P.ENDED: V.DOWN,
    },
    V.ALIVE: {
        P.BEAT: V.ALIVE,
        P.QUIET: V.SUSPECT,
        P.UNANSWERED: V.ALIVE,  # a sign came in the same breath
        P.STARTED: V.UNSEEN,
        P.ENDED: V.DOWN,
    },
    V.SUSPECT: {
        P.BEAT: V.ALIVE,
        P.QUIET: V.SUSPECT,
        P.UNANSWERED: V.UNRESPONSIVE,
        P.STARTED: V.UNSEEN,
        P.ENDED: V.DOWN,
    },
    V.UNRESPONSIVE: {
        P.BEAT: V.ALIVE,
        P.QUIET: V.UNRESPONSIVE,
        P.UNANSWERED: V.UNRESPONSIVE,
        P.STARTED: V.UNSEEN,
        P.ENDED: V.DOWN,
    },
    V.DOWN: {
        P.BEAT: V.ALIVE,
        P.QUIET: V.DOWN,
        P.UNANSWERED: V.DOWN,
        P.STARTED: V.UNSEEN,
        P.ENDED: V.DOWN,
    },
}


def step(vital: Vital, pulse: Pulse) -> Vital:
    try:
        return TABLE[vital][pulse]
    except KeyError:
        raise ImpossibleEvent("liveness", vital.value, pulse.value) from None


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Not quiet for long enough: look at ``at`` (monotonic)."""

    at: float


@dataclass(frozen=True, slots=True)
class AskDecision:
    """Quiet for too long: ask, and listen until ``until`` (monotonic)."""

    until: float


@dataclass(frozen=True, slots=True)
class DisbelieveDecision:
    """Asked, and no answer: it hangs."""


LivenessDecision: TypeAlias = LookAgain | AskDecision | DisbelieveDecision


def decide(
    held_since: float,
    last_life: float | None,
    asked_at: float | None,
    now: float,
    quiet_s: float,
    answer_s: float,
    *,
    unasked: bool = False,
    deaf_s: float = 0.0,
) -> LivenessDecision:
    """``held_since``: when it took the work; before that it owed no sign. ``unasked``: the last status check could not
    be made, and is none: it is tried again, until it has been deaf for ``deaf_s``. All times monotonic."""
    heard = max(held_since, last_life if last_life is not None else held_since)
    if asked_at is not None and asked_at > heard:
        if now < asked_at + answer_s:
            return LookAgain(asked_at + answer_s)
        return AskDecision(now + answer_s) if unasked and now < heard + deaf_s else DisbelieveDecision()
    return AskDecision(now + answer_s) if now >= heard + quiet_s else LookAgain(heard + quiet_s)
