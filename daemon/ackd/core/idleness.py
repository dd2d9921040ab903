"""The steps for a message whose agent is back at its prompt and has not finished it, as a table.

There are two reminders, then someone is told and the message fills no window any more, and at last it is dead as
``unfinished``. ``decide_idle`` says when the next step is due. Idle means: the screen shows that the agent waits for a
line and nothing is typed there, and there is no other sign of life. Going busy is no answer; it only ends the idle
time. To show busy is neither a sign of life nor silence: ``decide_hung`` says when an agent that shows nothing else is
taken for hung. A pair that is not in the table cannot happen: ``ImpossibleEvent``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ackd.core.errors import ImpossibleEvent
from ackd.core.message import Idled
from ackd.core.values import value
from ackd.core.words import Word


class Doing(Word):
    """The activity that an agent's screen, hook or protocol shows."""

    IDLE = "idle"  # it waits for a line, and its input line is empty
    BUSY = "busy"  # at work, as it says itself: neither a sign of life nor silence
    UNCLEAR = "unclear"  # a prompt, a limit, a person's own words on its input line, or a screen that cannot be read


class IdleStage(Word):
    """The steps that were taken for a message that its agent took and does not finish."""

    WORKING = "working"  # no reminder yet
    REMINDED = "reminded once"
    REMINDED_TWICE = "reminded twice"
    TOLD = "told"  # someone was told; the message fills no window any more
    UNFINISHED = "unfinished"  # given up: it may have been done


class Idling(Word):
    """The events of the table."""

    IDLE = "idle for ack_timeout_s"
    TYPED = "reminder typed"
    UNTYPED = "reminder cannot be typed"  # tried ``REMIND_TRIES`` times
    ANSWERED = "answered"  # an ack, a checkpoint, a reply, a message of its own: idle time begins anew
    BUSY = "went busy"  # no answer
    USED_UP = "idle time used up"


class IdleAct(Word):
    NOTHING = "nothing"
    REMIND = "remind"
    TELL = "tell someone"  # one escalation, and out of the window
    BURY = "bury"


S, D, A = IdleStage, Idling, IdleAct

#: Reminders in all, for one telling of a message.
REMINDERS: Final = 2
#: A reminder that cannot be typed so often in a row is given up, and someone is told instead.
REMIND_TRIES: Final = 3


def _stays(stage: IdleStage) -> dict[Idling, tuple[IdleStage, IdleAct]]:
    return dict.fromkeys(Idling, (stage, A.NOTHING))


TABLE: Final[dict[IdleStage, dict[Idling, tuple[IdleStage, IdleAct]]]] = {
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


def step(stage: IdleStage, happened: Idling) -> tuple[IdleStage, IdleAct]:
    try:
        return TABLE[stage][happened]
    except KeyError:
        raise ImpossibleEvent("idleness", stage.value, happened.value) from None


#: How many reminders each stage stands for; ``TOLD`` may have been reached without any.
_GIVEN: Final = {S.WORKING: 0, S.REMINDED: 1, S.REMINDED_TWICE: 2}
_BY_COUNT: Final = {count: stage for stage, count in _GIVEN.items()}


def stage_of(idled: Idled) -> IdleStage:
    return S.TOLD if idled.told else _BY_COUNT[min(idled.reminders, REMINDERS)]


# --- when -------------------------------------------------------------------------------------------------------------
@value
class NothingDue:
    """No step is due before ``at`` (monotonic)."""

    at: float


@value
class StepDecision:
    """An event has happened: take the table's step."""

    happened: Idling


IdleDecision: TypeAlias = NothingDue | StepDecision


def decide_idle(
    idled: Idled, *, idle_since: float, stepped_at: float, now: float, ack_timeout_s: float, left_s: float
) -> IdleDecision:
    """Decide for an agent that is idle now. ``idle_since``: since when, without a break. ``stepped_at``: the last
    reminder, typed or tried. ``left_s``: the idle time that is left before the message is given up."""
    due = max(idle_since, stepped_at) + ack_timeout_s
    if now < due:
        return NothingDue(due)
    if stage_of(idled) is not S.TOLD:
        return StepDecision(D.IDLE)
    return StepDecision(D.USED_UP) if left_s <= 0 else NothingDue(now + left_s)


def counts(spell_s: float, ack_timeout_s: float, *, by_life: bool) -> bool:
    """Return whether idle time that has ended counts. Time that was ended by a sign of life, and was shorter than an
    agent must be quiet to be called idle, does not: something was at work all along."""
    return not by_life or spell_s >= ack_timeout_s


def allowed_s(task_timeout_s: float, *, acked: bool) -> float:
    """Return how long an agent may be idle with a message in hand: twice as long if it acknowledged it than if it only
    saw it."""
    return 2 * task_timeout_s if acked else task_timeout_s


# --- busy, and nothing else -------------------------------------------------------------------------------------------
@value
class HungDecision:
    """The agent is to be woken: nothing but its busy rows changed for ``hung_after_s``."""


@value
class BusyDecision:
    """Someone is to be told, once, of an agent that was quiet for ``busy_timeout_s``. Look again at ``at``, if anything
    can follow."""

    at: float | None


HangDecision: TypeAlias = NothingDue | HungDecision | BusyDecision


def decide_hung(
    *, quiet_since: float, now: float, busy_timeout_s: float, hung_after_s: float, told: bool
) -> HangDecision | None:
    """Decide for an agent that shows busy now; None: nothing will follow (``hung_after_s`` 0). ``quiet_since``: since
    then no processor time, no child at work, and nothing but its busy rows changed. ``told``: someone was told of
    this."""
    hung_at = quiet_since + hung_after_s if hung_after_s > 0 else None
    if hung_at is not None and now >= hung_at:
        return HungDecision()
    busy_at = quiet_since + busy_timeout_s
    if not told and now >= busy_at:
        return BusyDecision(hung_at)
    moments = [at for at in (hung_at, None if told else busy_at) if at is not None]
    return NothingDue(min(moments)) if moments else None
