"""The actions when a time that a sender gave a message has come: it expires, is nearly due, or its deadline is past.

A message that expires is dead, and its sender is told; one that its agent has in hand does not expire. The agent is
reminded once, by mail if it reads mail while it works, by a line if it is a worker; a command or a handler cannot be
reminded. When the deadline is past, somebody is told once, and with ``on_deadline = "cancel"`` the message is
cancelled. What was told before a restart is recognised by its derived id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core import alerts, delivery_facts, escalations
from ackd.core.delivery import SHOWN, Happening
from ackd.core.due_times import WAITING, Deadline, is_expired
from ackd.core.effects import ProbeAgent, RecordFact, SendMessage
from ackd.core.escalations import Cause
from ackd.core.message import MONITOR, AutoSubmitted, Draft, Priority
from ackd.core.message_facts import deadline_near, deadline_passed
from ackd.core.policy import OnDeadline
from ackd.core.state import Cancellation
from ackd.core.transitions import apply

if TYPE_CHECKING:
    from ackd.core.state import Delivery, EngineState

H = Happening


# --- expired ----------------------------------------------------------------------------------------------------------
def expired(state: EngineState, delivery: Delivery) -> None:
    at = delivery.message.expires_at
    said = f" at {escalations.stamp(at)}" if at is not None else ""
    apply(state, delivery, H.EXPIRED, f"expired{said}: nobody had it in hand by then, it was {SHOWN[delivery.state]}")


def expire_instead(state: EngineState, delivery: Delivery, agent: str) -> bool:
    """Bury a message whose turn has come with this agent if it has expired, or is past a deadline at which the agent's
    work is cancelled: its timer may be due in the same moment."""
    if is_expired(state, delivery):
        expired(state, delivery)
        return True
    due = delivery.due
    if due is None or due.deadline is None or due.deadline > state.now.mono:
        return False
    if state.agents[agent].policy.on_deadline is not OnDeadline.CANCEL:
        return False
    if due.stage is Deadline.PAST:
        _cancel(state, delivery)
    else:
        passed(state, delivery, cancels=True)
    return True


# --- nearly due -------------------------------------------------------------------------------------------------------
def nearly_due(state: EngineState, delivery: Delivery) -> None:
    due = delivery.due
    if due is None:
        return
    if due.stage is Deadline.AHEAD:  # it may be past in the same moment
        due.stage = Deadline.NEAR
    if delivery.first_told_at > due.nearly_due:
        return  # it was told a moment ago, with its deadline
    how = _remind(state, delivery)
    state.record(deadline_near(**delivery_facts.about(delivery), deadline=_deadline(delivery), how=how))


def _remind(state: EngineState, delivery: Delivery) -> str:
    agent = state.agents[delivery.agent]
    if agent.policy.reminds or agent.policy.shows:
        draft = _reminder(state, delivery)
        if _was_sent(state, draft.message_id, agent.name):
            return "by mail, before the restart"
        state.emit(SendMessage(agent.name, draft))
        return "by mail"
    if agent.is_watched:
        subject = delivery.message.task_id or delivery.message.message_id
        text = f"Status check: are you still working on {subject}? It is due at {_deadline(delivery)}."
        key, message, place = delivery.key, delivery.message, delivery.place
        state.emit(ProbeAgent(agent.name, key, message, place, text, attempt=delivery.tells))
        return "by a status check"
    return "in no way, because it runs and nothing can be said to it meanwhile"


def _reminder(state: EngineState, delivery: Delivery) -> Draft:
    message = delivery.message
    left_s = max(0.0, (message.deadline_at or 0.0) - state.now.wall)
    body: dict[str, object] = {
        "summary": f"1 message that {delivery.agent} has ({message.type} from {message.sender}), {delivery.place}, is "
        f"due at {_deadline(delivery)}, in {left_s:.0f} s, and open",
        "action": f"Finish it and run `ackd done {message.message_id}`, or say that you cannot: `ackd refuse`",
        "message_id": message.message_id,
        "deadline": _deadline(delivery),
    }
    ident, auto = escalations.deadline_id("nearly due", delivery), AutoSubmitted.GENERATED
    return Draft(
        ident,
        MONITOR,
        delivery.agent,
        "notification",
        Priority.HIGH,
        body,
        thread_id=message.thread_id,
        in_reply_to=message.message_id,
        auto=auto,
    )


# --- past -------------------------------------------------------------------------------------------------------------
def passed(state: EngineState, delivery: Delivery, *, cancels: bool | None = None) -> None:
    if delivery.due is None:
        return
    delivery.due.stage = Deadline.PAST
    if cancels is None:
        cancels = state.agents[delivery.agent].policy.on_deadline is OnDeadline.CANCEL
    fact = deadline_passed(
        **delivery_facts.about(delivery),
        deadline=_deadline(delivery),
        state=SHOWN[delivery.state],
        then="cancel" if cancels else "tell",
    )
    state.emit(RecordFact(fact, lane=delivery.agent))
    if delivery.message.sender != MONITOR:
        _escalate(state, delivery, cancels=cancels)
    if cancels:
        _cancel(state, delivery)


def _cancel(state: EngineState, delivery: Delivery) -> None:
    why = f"its deadline, {_deadline(delivery)}, is past"
    if delivery.state in WAITING:
        apply(state, delivery, H.EXPIRED, f"expired: {why}, and nobody had it in hand")
    else:
        delivery.cancellation = Cancellation(MONITOR, why)
        apply(state, delivery, H.CANCELLED, delivery.cancellation.words)


def _escalate(state: EngineState, delivery: Delivery, *, cancels: bool) -> None:
    """Tell somebody, unless that was done before a restart."""
    ident, message = escalations.deadline_id("deadline", delivery), delivery.message
    known = state.escalations.of(delivery.agent, Cause.DEADLINE)
    if known is not None and message.message_id in known.about:
        return
    if _was_sent(state, ident, alerts.reader(state, delivery.agent)):
        return
    cure = f"`ackd explain {message.message_id}` says how far it has come"
    done = "It is cancelled now" if cancels else f"Nothing was done. `ackd cancel {message.message_id}` ends it"
    alerts.escalate(
        state,
        delivery.agent,
        Cause.DEADLINE,
        ident,
        f"{delivery.agent} has not completed 1 message ({message.type} from {message.sender}) by its deadline, "
        f"{_deadline(delivery)}: it is {SHOWN[delivery.state]}, {delivery.place}",
        f"{done}. {cure}",
        delivery,
    )


def _was_sent(state: EngineState, message_id: str, to: str) -> bool:
    return bool(state.deliveries.of_id(message_id, to)) or state.completed.knows(message_id, to)


def _deadline(delivery: Delivery) -> str:
    at = delivery.message.deadline_at
    return escalations.stamp(at) if at is not None else "an unknown time"
