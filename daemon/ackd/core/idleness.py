"""An agent that is back at its prompt and has not finished what it took: what becomes of that message, as a table.

Owns the steps (two reminders, then someone is told and the message fills no window any more, at last it is dead as
``unfinished``) and when the next one is due. Idle means: its screen shows that it waits for a line and nothing is typed
there, and there is no other sign of life. Going busy is no answer; it only ends the spell. Busy itself is neither life
nor silence: ``decide_hung`` says when an agent that shows nothing but that is taken for hung. Refuses to know screens,
messages and how anybody is told. A pair that is not in the table cannot happen: ``ImpossibleEvent``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ackd.core.errors import ImpossibleEvent
from ackd.core.message import Idled
from ackd.core.values import value
from ackd.core.words import Word


class Doing(Word):
    """What an agent's screen, hook or protocol says that it is doing."""

    IDLE = "idle"  # it waits for a line, and its input line is empty
    BUSY = "busy"  # at work, by its own word: neither life nor silence
    UNCLEAR = "unclear"  # a prompt, a limit, a person's own words on its input line, or a screen that cannot be read


class Stage(Word):
    """How far things have gone with one message that its agent took and does not finish."""

    WORKING = "working"  # no reminder yet
    REMINDED = "reminded once"
    REMINDED_TWICE = "reminded twice"
    TOLD = "told"  # someone was told; the message fills no window any more
    UNFINISHED = "unfinished"  # given up: it may have been done


class Idling(Word):
    """What can happen to it meanwhile."""

    IDLE = "idle for ack_timeout_s"
    TYPED = "reminder typed"
    UNTYPED = "reminder cannot be typed"  # tried ``REMIND_TRIES`` times
    ANSWERED = "answered"  # an ack, a checkpoint, a reply, a message of its own: the idle clock begins anew
    BUSY = "went busy"  # no answer
    USED_UP = "idle time used up"


class IdleAct(Word):
    NOTHING = "nothing"
    REMIND = "remind"
    TELL = "tell someone"  # one escalation, and out of the window
    BURY = "bury"


S, D, A = Stage, Idling, IdleAct

#: Reminders in all, for one telling of a message.
REMINDERS: Final = 2
#: A reminder that cannot be typed so often in a row is given up, and someone is told instead.
REMIND_TRIES: Final = 3


def _stays(stage: Stage) -> dict[Idling, tuple[Stage, IdleAct]]:
    return dict.fromkeys(Idling, (stage, A.NOTHING))


TABLE: Final[dict[Stage, dict[Idling, tuple[Stage, IdleAct]]]] = {
    S.WORKING: {
        **_stays(S.WORKING),
        D.IDLE: (S.WORKING, A.REMIND),
        D.TYPED: (S.REMINDED, A.NOTHING),
        D.UNTYPED: (S.TOLD, A.TELL),
    },
    S.REMINDED: {
        **_stays(S.REMINDED),
        D.IDLE: (S.REMINDED, A.REMIND),
        D.TYPED: (S.REMINDED_TWICE, A.NOTHING),
        D.UNTYPED: (S.TOLD, A.TELL),
    },
    S.REMINDED_TWICE: {
        **_stays(S.REMINDED_TWICE),
        D.IDLE: (S.TOLD, A.TELL),
    },
    S.TOLD: {
        **_stays(S.TOLD),
        D.USED_UP: (S.UNFINISHED, A.BURY),
    },
    S.UNFINISHED: _stays(S.UNFINISHED),
}


def step(stage: Stage, happened: Idling) -> tuple[Stage, IdleAct]:
    try:
        return TABLE[stage][happened]
    except KeyError:
        raise ImpossibleEvent("idleness", stage.value, happened.value) from None


#: How many reminders each stage stands for; ``TOLD`` may have been reached without any.
_GIVEN: Final = {S.WORKING: 0, S.REMINDED: 1, S.REMINDED_TWICE: 2}
_BY_COUNT: Final = {count: stage for stage, count in _GIVEN.items()}


def stage_of(idled: Idled) -> Stage:
    return S.TOLD if idled.told else _BY_COUNT[min(idled.reminders, REMINDERS)]


# --- when -------------------------------------------------------------------------------------------------------------
@value
class LookAgain:
    """Nothing is due before ``at`` (monotonic)."""

    at: float


@value
class StepDecision:
    """This has happened: take the table's step."""

    happened: Idling


IdleDecision: TypeAlias = LookAgain | StepDecision


def decide_idle(
    idled: Idled, *, idle_since: float, stepped_at: float, now: float, ack_timeout_s: float, left_s: float
) -> IdleDecision:
    """For an agent that is idle now. ``idle_since``: since when, without a break. ``stepped_at``: the last reminder, or
    the last time that one was tried. ``left_s``: of idle time in all, before it is given up."""
    due = max(idle_since, stepped_at) + ack_timeout_s
    if now < due:
        return LookAgain(due)
    if stage_of(idled) is not S.TOLD:
        return StepDecision(D.IDLE)
    return StepDecision(D.USED_UP) if left_s <= 0 else LookAgain(now + left_s)


def counts(spell_s: float, ack_timeout_s: float, *, by_life: bool) -> bool:
    """Whether a spell that has ended is idle time. One that ends by a sign of life, and was shorter than an agent need
    be quiet to be called idle, is none: something was at work all along."""
    return not by_life or spell_s >= ack_timeout_s


def allowed_s(task_timeout_s: float, *, acked: bool) -> float:
    """Whoever said that it has the message has twice the time of one that only saw it."""
    return 2 * task_timeout_s if acked else task_timeout_s


# --- busy, and nothing else -------------------------------------------------------------------------------------------
@value
class HungDecision:
    """Nothing but its busy rows changed for ``hung_after_s``: it is woken."""


@value
class BusyDecision:
    """Quiet for ``busy_timeout_s``: someone is told, once. Looked at again at ``at``, if anything can follow."""

    at: float | None


HangDecision: TypeAlias = LookAgain | HungDecision | BusyDecision


def decide_hung(
    *, quiet_since: float, now: float, busy_timeout_s: float, hung_after_s: float, told: bool
) -> HangDecision | None:
    """For an agent that shows busy now. ``quiet_since``: no processor time, no child at work, nothing but its busy rows
    changed since then. ``told``: someone was, of this spell. None: nothing will follow (``hung_after_s`` 0)."""
    hung_at = quiet_since + hung_after_s if hung_after_s > 0 else None
    if hung_at is not None and now >= hung_at:
        return HungDecision()
    busy_at = quiet_since + busy_timeout_s
    if not told and now >= busy_at:
        return BusyDecision(hung_at)
    moments = [at for at in (hung_at, None if told else busy_at) if at is not None]
    return LookAgain(min(moments)) if moments else None
