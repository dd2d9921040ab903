"""The table that says whether an agent that holds work is alive, and the decision when it is asked.

Only an agent that holds work which it has taken is watched. One without work owes no sign of life, and one that was
told and did not take it is woken by its ladder (ladder.py). Never seen is not alive. An agent that shows signs of life
is never asked, because an answer would cost it a turn. How signs are read is up to the endpoints.
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
        P.UNANSWERED: V.ALIVE,  # a sign of life came in the same moment
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
class Asked:
    """The last status check, and when (monotonic). One that could not be made does not count: it is tried again."""

    at: float
    made: bool = True


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The agent is not quiet for long enough: look again at ``at`` (monotonic)."""

    at: float


@dataclass(frozen=True, slots=True)
class AskDecision:
    """The agent is quiet for too long: ask it, and wait until ``until`` (monotonic)."""

    until: float


@dataclass(frozen=True, slots=True)
class DisbelieveDecision:
    """The agent was asked and gave no answer: it hangs."""


LivenessDecision: TypeAlias = LookAgain | AskDecision | DisbelieveDecision


def decide_liveness(
    held_since: float,
    last_life: float | None,
    asked: Asked | None,
    now: float,
    quiet_s: float,
    answer_s: float,
    *,
    deaf_s: float = 0.0,
) -> LivenessDecision:
    """Decide what is due; all times are monotonic. ``held_since``: when the agent took the work; before that it owed no
    sign. ``deaf_s``: for so long it is asked again if it could not be asked."""
    heard = max(held_since, last_life if last_life is not None else held_since)
    if asked is not None and asked.at > heard:
        if now < asked.at + answer_s:
            return LookAgain(asked.at + answer_s)
        return AskDecision(now + answer_s) if not asked.made and now < heard + deaf_s else DisbelieveDecision()
    return AskDecision(now + answer_s) if now >= heard + quiet_s else LookAgain(heard + quiet_s)
