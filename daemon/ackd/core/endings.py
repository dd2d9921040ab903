"""The ends of a message (finished, dead, withdrawn), and the way back of a dead one.

The order of a commit: messages that ackd derives from it, then the move (which is the commit), then the line in the
log, then the outside is told. So a line is recorded by the answer to a move, never by the request for it, and in the
agent's lane, where nothing overtakes what came before. Which event leads here is up to delivery.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import agent_rules, alerts, delivery_facts, escalations, headers, message_facts, parts_told
from ackd.core.delivery import IN_DEAD_LETTER, SHOWN, Completion, Happening, State, Uptake
from ackd.core.effects import (
    ArchiveMessage,
    BuryMessage,
    DropReceipt,
    ForgetMessage,
    RecordFact,
    ReturnMessage,
    ReviveMessage,
    SendMessage,
)
from ackd.core.escalations import Cause, Over
from ackd.core.message import MONITOR, USER, Folder
from ackd.core.signals import MessageEnded
from ackd.core.words import MessageEnd
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    from ackd.core.fact import Fact
    from ackd.core.message import ReceiptFile
    from ackd.core.state import Delivery, EngineState

H, S = Happening, State
_COMPLETED, _STARTED, _LATE = State.COMPLETED, Uptake.STARTED, Completion.LATE
#: The cause that the escalation of a death names; that of any other death is ``DEAD``.
_CAUSES: Final = {H.SILENT: Cause.SILENT, H.REFUSED: Cause.REFUSED, H.UNFINISHED: Cause.UNFINISHED}
_ENDS: Final = {
    S.COMPLETED: MessageEnd.COMPLETED,
    S.DEAD: MessageEnd.DEAD,
    S.CANCELLED: MessageEnd.DEAD,
    S.WITHDRAWN: MessageEnd.WITHDRAWN,
}
_BY_HAND = frozenset({Happening.VANISHED, Happening.LOST})


def ask_for_move(state: EngineState, delivery: Delivery) -> None:
    """Ask for the move that the message's state stands for. Asked again when the disk refused."""
    lane, key, message, place = delivery.agent, delivery.key, delivery.message, delivery.place
    state.agents[lane].line.discard(key)
    if delivery.state is S.FINISHING:
        state.emit(ArchiveMessage(lane, key, message, place, delivery.duplicate))
    elif delivery.state is S.WITHDRAWING:
        words = headers.withdrawn(delivery, state.now.wall)
        state.emit(ArchiveMessage(lane, key, message, place, headers=words))
    elif delivery.state in (S.BURYING, S.ANNULLING):
        state.emit(BuryMessage(lane, key, message, place, headers.tombstone(delivery, state.now.wall)))
    elif delivery.state is S.REVIVING:
        state.emit(ReviveMessage(lane, key, message, place))
    elif delivery.state is S.RETURNING:
        state.emit(ReturnMessage(lane, key, message, place))


# --- dying ------------------------------------------------------------------------------------------------------------
def bury(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    """Tell the sender and a leader of the death, in one mail if they are the same agent, then ask for the move to
    dead_letter/."""
    delivery.reason, delivery.ended = why, "expired" if happening is H.EXPIRED else ""
    delivery.pending_event = None  # an ack that the disk had put off: what was said since is the stronger word
    if happening is H.REFUSED:
        delivery.remember(state.now.wall, why)
    if delivery.message.sender == MONITOR:
        pass_on(state, delivery, why)
    else:
        _tell_of_death(state, delivery, happening, why)
    ask_for_move(state, delivery)


def _tell_of_death(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    sender = state.agent_called(delivery.message.sender)
    if happening is H.EXPIRED and sender is not None:  # its sender set the time, and is told; nothing is to be mended
        _tell_sender(state, delivery, why)
        return
    notice = escalations.dead_notice(delivery, sender, why, state.now.wall) if sender is not None else None
    escalation_id = escalations.death_id(delivery)
    opened = alerts.escalate(
        state,
        delivery.addressee,
        _CAUSES.get(happening, Cause.DEAD),
        escalation_id,
        escalations.death_summary(delivery, why),
        f"Look at it with `ackd explain {delivery.message.message_id}`, mend the cause, then "
        f"`ackd dead requeue {delivery.message.message_id}`",
        delivery,
        notice=notice,
    )
    # Compared by id and reader, which a restart keeps: a death that is met again after a crash makes no second mail.
    told = notice is not None and (opened.escalation_id, opened.to) == (escalation_id, notice.recipient)
    if notice is not None and not told:
        state.emit(SendMessage(delivery.agent, notice))


def _tell_sender(state: EngineState, delivery: Delivery, why: str) -> None:
    sender = state.agent_called(delivery.message.sender)
    if sender is not None:
        notice = escalations.dead_notice(delivery, sender, why, state.now.wall)
        state.emit(SendMessage(delivery.agent, notice))


def pass_on(state: EngineState, delivery: Delivery, why: str) -> None:
    """Tell a person of an escalation that could not be delivered. Other mail from ackd that cannot be delivered leads
    to no mail."""
    if delivery.message.type != "escalation" or delivery.agent == USER or delivery.passed_on:
        return
    delivery.passed_on = True
    alerts.escalate(
        state,
        delivery.agent,
        Cause.UNDELIVERED,
        escalations.derived_id("passed on", delivery.message.message_id, delivery.agent),
        f"1 escalation for {delivery.agent} could not be delivered: {why}. Its file is {delivery.place.name}",
        f"Read it with `ackd explain {delivery.message.message_id}`",
        delivery,
        to=USER,
    )


# --- cancelled --------------------------------------------------------------------------------------------------------
def annul(state: EngineState, delivery: Delivery, happening: Happening, how: str) -> None:
    """Tell the sender that the message is cancelled, and ask for the move to dead_letter/. Nobody else is told: nothing
    is to be mended. An agent that reads its mail by itself is told by mail."""
    delivery.reason = delivery.cancellation.words if delivery.cancellation is not None else "cancelled"
    delivery.ended, delivery.pending_event = "cancelled", None
    if happening is not H.CANCELLED:
        state.emit(
            RecordFact(
                message_facts.message_let_go(**delivery_facts.about(delivery), how=how or "its work has ended"),
                lane=delivery.agent,
            )
        )
        if state.agents[delivery.agent].policy.reminds:
            _tell_reader(state, delivery)
    if delivery.message.sender != MONITOR:
        _tell_sender(state, delivery, delivery.reason)
    ask_for_move(state, delivery)


def _tell_reader(state: EngineState, delivery: Delivery) -> None:
    message = delivery.message
    summary = (
        f"1 message that {delivery.agent} had ({message.type} from {message.sender}), {delivery.place}, is "
        f"{delivery.reason}: it need not be done any more"
    )
    action = "Stop working on it. Nothing is to be answered"
    state.emit(SendMessage(delivery.agent, escalations.cancel_notice(delivery, delivery.agent, summary, action)))


def withdraw(state: EngineState, delivery: Delivery, _happening: Happening, why: str) -> None:
    """Ask for the move to archive/ of a message that nobody was told of. Its sender is told if it was not its own
    wish."""
    delivery.reason, delivery.ended, delivery.pending_event = why, "withdrawn", None
    message, by = delivery.message, delivery.cancellation
    sender = state.agent_called(message.sender)
    if sender is not None and message.sender != MONITOR and by is not None and state.agent_called(by.by) != sender:
        summary = (
            f"1 message for {delivery.agent} ({message.type} from {message.sender}), {delivery.place}, is "
            f"{why}: it was not delivered"
        )
        action = "Nothing is to be done. If it is still wanted, send it again"
        state.emit(SendMessage(delivery.agent, escalations.cancel_notice(delivery, sender, summary, action)))
    ask_for_move(state, delivery)


# --- ended ------------------------------------------------------------------------------------------------------------
def end(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    """Record the end, which is on disk now."""
    if delivery.state is _COMPLETED and delivery.duplicate:
        state.totals.duplicates += 1
        about = delivery_facts.about(delivery)
        duplicate = message_facts.message_duplicate(**about, of_state=delivery.by, file=str(delivery.place))
        _record_end(state, delivery, duplicate, MessageEnd.DUPLICATE)
    elif delivery.state is _COMPLETED:
        _completed(state, delivery, happening, why)
    elif delivery.state in IN_DEAD_LETTER:
        _dead(state, delivery)
    else:
        _withdrawn(state, delivery, why)
    if not delivery.duplicate:
        _close_escalations(state, delivery)
        over_with(state, delivery)


def close(state: EngineState, delivery: Delivery) -> None:
    """Forget a message whose end is on disk and in the log."""
    end_ = MessageEnd.DUPLICATE if delivery.duplicate else _ENDS[delivery.state]
    part = parts_told.ended(state, delivery)
    state.emit(ForgetMessage(delivery.agent, delivery.key, delivery.message, delivery.place, end_, part))
    put_back(state, delivery)


def put_back(state: EngineState, delivery: Delivery) -> None:
    """Forget a message that has not ended, as a dead letter that was looked up and stays where it is."""
    drop_receipts(state, delivery)
    state.timers.cancel_all(delivery.key)
    state.timed.discard(delivery.key)
    if delivery.held:
        state.end_hold(delivery)
    state.deliveries.close(delivery)


def drop_receipts(state: EngineState, delivery: Delivery, *, keep: ReceiptFile | None = None) -> None:
    if not delivery.receipts:
        return
    for receipt in delivery.receipts:
        if receipt != keep:
            state.emit(DropReceipt.of(delivery.agent, receipt))
    delivery.receipts = [receipt for receipt in delivery.receipts if receipt == keep]


def released(state: EngineState, delivery: Delivery, why: str, worker: WorkerState = WorkerState.IDLE) -> None:
    """Note that the agent no longer has the message. ``worker``: how that ended for its worker; IDLE: it was taken
    away."""
    if delivery.assigned:
        delivery.assigned = False
        state.emit(delivery_facts.work(message_facts.worker_release, delivery, in_lane=True, reason=why))
        agent_rules.worker_let_go(state, state.agents[delivery.agent], delivery, worker)


def task_started(state: EngineState, delivery: Delivery) -> None:
    if delivery.uptake is not _STARTED and delivery_facts.is_task(delivery):
        state.emit(delivery_facts.work(message_facts.task_start, delivery, in_lane=True))
    delivery.uptake = _STARTED


def _record_end(state: EngineState, delivery: Delivery, fact: Fact, how: MessageEnd) -> None:
    """Write the fact once what precedes it in the agent's lane is done, and signal the end."""
    signal = MessageEnded(delivery.message.message_id, delivery.addressee, how)
    state.emit(RecordFact(fact, lane=delivery.agent, signal=signal))


def _completed(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    message, kept = delivery.message, delivery.place.folder is Folder.ARCHIVE
    state.totals.completed += 1
    late = delivery.completion is _LATE
    state.totals.dead -= late
    state.completed.remember(message.message_id, delivery.addressee, message.digest, state.steady_wall)
    if delivery_facts.is_task(delivery):
        task_started(state, delivery)
    fact = message_facts.message_completed(
        **delivery_facts.about(delivery),
        by=delivery.by or why or "file deleted by its agent",
        seconds=round(max(0.0, state.now.wall - delivery.met_at), 3),
        file=str(delivery.place) if kept else None,
        late=late or None,
    )
    _record_end(state, delivery, fact, MessageEnd.COMPLETED)
    if happening in _BY_HAND:
        agent_rules.sign_of_life(state, state.agents[delivery.agent])
    if delivery_facts.is_task(delivery):
        state.emit(delivery_facts.task_ended(message_facts.task_complete, delivery))
    released(state, delivery, "completed", WorkerState.COMPLETE)


def _dead(state: EngineState, delivery: Delivery) -> None:
    state.totals.dead += 1
    reason = delivery.reason
    fact = message_facts.message_dead(
        **delivery_facts.about(delivery),
        from_=delivery.message.sender,
        reason=reason,
        retry_count=delivery.retries,
        file=str(delivery.place),
        end=delivery.ended or None,
    )
    _record_end(state, delivery, fact, MessageEnd.DEAD)
    if delivery_facts.is_task(delivery):
        state.emit(delivery_facts.task_ended(message_facts.task_failed, delivery, reason=reason))
    released(state, delivery, reason, WorkerState.IDLE if delivery.state is S.CANCELLED else WorkerState.FAILED)


def _withdrawn(state: EngineState, delivery: Delivery, why: str) -> None:
    state.totals.withdrawn += 1
    cancelled = delivery.reason if delivery.ended == "withdrawn" else ""
    reason = why or cancelled or "file deleted from the queue before its agent was told"
    if delivery.pending_event is not None:
        reason += f" (it had said: {delivery.pending_event[1]})"
    fact = message_facts.message_withdrawn(**delivery_facts.about(delivery), reason=reason)
    _record_end(state, delivery, fact, MessageEnd.WITHDRAWN)
    released(state, delivery, reason)


def over_with(state: EngineState, delivery: Delivery) -> None:
    """Close what was escalated about a message that ended, was brought back, or was taken after all. The escalation of
    its death is closed only when it lives again."""
    ends = (Over.MESSAGE,) if delivery.state in IN_DEAD_LETTER else (Over.MESSAGE, Over.LETTER)
    for name in dict.fromkeys((delivery.agent, delivery.addressee)):
        if ended := state.escalations.settled(name, delivery.message.message_id, *ends):
            alerts.record_over(state, ended, f"{delivery.message.message_id} is {SHOWN[delivery.state]}")


def purged(state: EngineState, message_id: str, agent: str) -> None:
    """Close the escalation of a death whose letter a person has removed."""
    name = state.agent_called(agent) or agent
    alerts.record_over(
        state, state.escalations.settled(name, message_id, Over.LETTER), f"{message_id} was removed for good"
    )


def _close_escalations(state: EngineState, delivery: Delivery) -> None:
    """Close an escalation whose own mail has ended, or that was answered by a reply which the monitor has completed.
    The next case opens a new one."""
    message, how = delivery.message, delivery.state.value
    if message.sender == MONITOR and delivery.completion is Completion.BY_SIGHT:
        _stays_open(state, message.message_id)
    elif message.sender == MONITOR:
        alerts.close_answered(state, message.message_id, delivery.agent, how)
    if delivery.agent == MONITOR and delivery.state is S.COMPLETED and message.in_reply_to and not message.automatic:
        _replied(state, message.in_reply_to, state.agent_called(message.sender) or message.sender, how)


def _replied(state: EngineState, escalation_id: str, by: str, how: str) -> None:
    """Close an escalation by a reply of whoever it went to, or of a person. What others have to say about it is no
    answer."""
    one = state.escalations.called(escalation_id)
    if one is not None and by in (*alerts.readers(state, one.to), USER):
        alerts.close_answered(state, escalation_id, by, how)


def _stays_open(state: EngineState, escalation_id: str) -> None:
    """Keep an escalation open whose mail was only seen: to have seen it is not to have dealt with it."""
    one = state.escalations.called(escalation_id)
    if one is not None:
        one.told = True
