"""The times that a sender gives a message: when it expires, and its deadline.

Both come as wall time in a header. When the message is met they are turned into monotonic time, so that a wall clock
that is set while the daemon runs moves neither; after a restart the wall clock is believed again. A clock that was set
back since the message was written does not make its time longer than its sender meant. Only the times and their timers
are here; deadlines.py says what is done when one is due.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.core.delivery import State
from ackd.core.timers import TimerKind
from ackd.core.words import Word

if TYPE_CHECKING:
    from ackd.core.events import Now
    from ackd.core.message import Message
    from ackd.core.state import Delivery, EngineState

S = State

#: The holder is reminded when this share of the time from sending to the deadline is over.
REMIND_AT: Final = 0.8
#: States in which nobody has the message in hand: it may expire.
WAITING: Final = frozenset({S.QUEUED, S.RETRYING})
#: States in which a deadline counts.
OPEN: Final = frozenset({S.QUEUED, S.CLAIMING, S.PROCESSING, S.DELIVERED, S.ACKED, S.RETRYING})
#: States in which its agent can be reminded of it.
HELD: Final = frozenset({S.DELIVERED, S.ACKED})


class Deadline(Word):
    """The stages of a message's deadline: what was done about it."""

    AHEAD = "ahead"
    NEAR = "near"  # its holder was reminded, or knows without that
    PAST = "past"  # somebody was told


@dataclass(slots=True)
class DueTimes:
    """Monotonic times of one message."""

    expires: float | None = None
    nearly_due: float = 0.0
    deadline: float | None = None
    stage: Deadline = Deadline.AHEAD


def due_times(message: Message, written_at: float, now: Now) -> DueTimes | None:
    """Return when the message is due; None if its sender gave no time. ``written_at``: the time of its file, wall."""
    if message.expires_at is None and message.deadline_at is None:
        return None  # nearly always
    due = DueTimes()
    if message.expires_at is not None:
        due.expires = _monotonic(message.expires_at, written_at, now)
    if message.deadline_at is not None:
        due.deadline = _monotonic(message.deadline_at, written_at, now)
        due.nearly_due = due.deadline - (1 - REMIND_AT) * max(0.0, message.deadline_at - written_at)
    return due


def _monotonic(at: float, written_at: float, now: Now) -> float:
    left_s, meant_s = at - now.wall, at - written_at
    return now.mono + (min(left_s, meant_s) if meant_s > 0 else left_s)


def watch(state: EngineState, delivery: Delivery) -> None:
    """Start the timers that count in the message's state."""
    due, key = delivery.due, delivery.key
    if due is None:
        return
    if due.expires is not None and delivery.state in WAITING:
        state.timers.start(TimerKind.EXPIRES, key, due.expires)
    if due.deadline is None or due.stage is Deadline.PAST or delivery.state not in OPEN:
        return
    state.timers.start(TimerKind.DEADLINE, key, due.deadline)
    if due.stage is Deadline.AHEAD and delivery.state in HELD:
        state.timers.start(TimerKind.NEARLY_DUE, key, due.nearly_due)


def is_expired(state: EngineState, delivery: Delivery) -> bool:
    return delivery.due is not None and delivery.due.expires is not None and delivery.due.expires <= state.now.mono
