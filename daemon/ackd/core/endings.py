"""How a message ends: finished, buried, withdrawn; and how it is dug up.

Keeps the commit order: derived messages, then the move (which is the commit), then the log line, then what the outside
is told. So a line is written by the answer to a move, never by the wish for one, and in the agent's lane, where nothing
that came before it can be overtaken. Refuses to know which happening leads here (delivery.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core import calling, escalations, facts, headers, workers
from ackd.core.delivery import SHOWN, Happening, State
from ackd.core.effects import (
    ArchiveMessage,
    BuryMessage,
    DropReceipt,
    ForgetMessage,
    RecordFact,
    ReviveMessage,
    SendMessage,
)
from ackd.core.escalations import Over
from ackd.core.message import MONITOR, USER, Folder
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    from ackd.core.book import Delivery
    from ackd.core.desk import Desk
    from ackd.core.message import ReceiptFile

H, S = Happening, State
_COMPLETED = State.COMPLETED
_BY_HAND = frozenset({Happening.VANISHED, Happening.LOST})


def ask_for_move(desk: Desk, delivery: Delivery) -> None:
    """The move that the message's state stands for; asked for again when the disk refused."""
    lane, key, message, place = delivery.agent, delivery.key, delivery.message, delivery.place
    desk.book.agents[lane].line.discard(key)
    if delivery.state is S.FINISHING:
        desk.put(ArchiveMessage(lane, key, message, place, delivery.duplicate))
    elif delivery.state is S.BURYING:
        desk.put(BuryMessage(lane, key, message, place, headers.tombstone(delivery, desk.now.wall)))
    elif delivery.state is S.REVIVING:
        desk.put(ReviveMessage(lane, key, message, place))


# --- dying ------------------------------------------------------------------------------------------------------------
def bury(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    delivery.reason = why
    delivery.wish = None  # an ack that the disk had put off: what was said since is the stronger word
    if happening is H.REFUSED:
        delivery.remember(desk.now.wall, why)
    if delivery.message.sender == MONITOR:
        pass_on(desk, delivery, why)
    else:
        _tell_of_death(desk, delivery, happening, why)
    ask_for_move(desk, delivery)


def _tell_of_death(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    cause = {H.SILENT: "silent", H.REFUSED: "refused", H.UNFINISHED: "unfinished"}.get(happening, "dead")
    calling.escalate(
        desk,
        delivery.agent,
        cause,
        escalations.death_id(delivery),
        escalations.death_summary(delivery, why),
        f"Look at it with `ackd explain {delivery.message.message_id}`, mend the cause, then "
        f"`ackd dead requeue {delivery.message.message_id}`",
        delivery,
    )
    sender = desk.agent_called(delivery.message.sender)
    if sender is not None:
        notice = escalations.dead_notice(delivery, sender, why, desk.now.wall)
        desk.put(SendMessage(delivery.agent, notice))


def pass_on(desk: Desk, delivery: Delivery, why: str) -> None:
    """Our own mail that cannot be delivered breeds none, but an escalation goes down the chain: to a person."""
    if delivery.message.type != "escalation" or delivery.agent == USER or delivery.passed_on:
        return
    delivery.passed_on = True
    calling.escalate(
        desk,
        delivery.agent,
        "escalation_undelivered",
        escalations.derived_id("passed on", delivery.message.message_id, delivery.agent),
        f"1 escalation for {delivery.agent} could not be delivered: 1 of 1 (100%), {why}. "
        f"Its file is {delivery.place.name}",
        f"Read it with `ackd explain {delivery.message.message_id}`",
        delivery,
        to=USER,
    )


# --- ended ------------------------------------------------------------------------------------------------------------
def end(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    """The commit is on disk: write it down."""
    if delivery.state is _COMPLETED and delivery.duplicate:
        desk.totals.duplicates += 1
        _say(desk, delivery, "message_duplicate", of_state=delivery.by, file=str(delivery.place))
    elif delivery.state is _COMPLETED:
        _completed(desk, delivery, happening, why)
    elif delivery.state is S.DEAD:
        _dead(desk, delivery)
    else:
        _withdrawn(desk, delivery, why)
    if not delivery.duplicate:
        _close_escalations(desk, delivery)
        over_with(desk, delivery)


def close(desk: Desk, delivery: Delivery) -> None:
    """Everything about it is on disk and in the log: let go."""
    outcome = "duplicate" if delivery.duplicate else delivery.state.value
    desk.put(ForgetMessage(delivery.agent, delivery.key, delivery.message, delivery.place, outcome))
    put_back(desk, delivery)


def put_back(desk: Desk, delivery: Delivery) -> None:
    """Forget it without an end: a dead letter that was looked at and stays where it is."""
    drop_receipts(desk, delivery)
    desk.hush_all(delivery.key)
    if delivery.held:
        desk.unhold(delivery)
    desk.book.close(delivery)


def drop_receipts(desk: Desk, delivery: Delivery, *, keep: ReceiptFile | None = None) -> None:
    if not delivery.receipts:
        return
    for paper in delivery.receipts:
        if paper != keep:
            desk.put(DropReceipt(delivery.agent, *paper))
    delivery.receipts = [paper for paper in delivery.receipts if paper == keep]


def released(desk: Desk, delivery: Delivery, why: str, worker: WorkerState = WorkerState.IDLE) -> None:
    """Its agent no longer has it. ``worker``: how that ended for its worker; IDLE: it was taken away."""
    if delivery.assigned:
        delivery.assigned = False
        desk.put(facts.work("worker_release", delivery, in_lane=True, reason=why))
        workers.let_go(desk, desk.book.agents[delivery.agent], delivery, worker)


def task_started(desk: Desk, delivery: Delivery) -> None:
    if not delivery.started and facts.is_task(delivery):
        desk.put(facts.work("task_start", delivery, in_lane=True))
    delivery.started = True


def _say(desk: Desk, delivery: Delivery, type_: str, **data: object) -> None:
    desk.put(RecordFact(type_, facts.about(delivery, **data), lane=delivery.agent))


def _completed(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    message, kept = delivery.message, delivery.place.folder is Folder.ARCHIVE
    desk.totals.completed += 1
    desk.totals.dead -= delivery.late
    desk.completed.remember(message.message_id, delivery.agent, message.digest, desk.steady)
    if facts.is_task(delivery):
        task_started(desk, delivery)
    _say(
        desk,
        delivery,
        "message_completed",
        by=delivery.by or why or "file deleted by its agent",
        seconds=round(max(0.0, desk.now.wall - delivery.met_at), 3),
        **({"file": str(delivery.place)} if kept else {}),
        **({"late": True} if delivery.late else {}),
    )
    if happening in _BY_HAND:
        calling.lived(desk, desk.book.agents[delivery.agent])
    if facts.is_task(delivery):
        desk.put(facts.work("task_complete", delivery, in_lane=True))
    released(desk, delivery, "completed", WorkerState.COMPLETE)


def _dead(desk: Desk, delivery: Delivery) -> None:
    desk.totals.dead += 1
    delivery.late = True
    sender = {"from": delivery.message.sender}
    reason, retries = delivery.reason, delivery.retries
    _say(desk, delivery, "message_dead", **sender, reason=reason, retry_count=retries, file=str(delivery.place))
    if facts.is_task(delivery):
        desk.put(facts.work("task_failed", delivery, in_lane=True, reason=reason))
    released(desk, delivery, reason, WorkerState.FAILED)


def _withdrawn(desk: Desk, delivery: Delivery, why: str) -> None:
    desk.totals.withdrawn += 1
    reason = why or "file deleted from the queue before its agent was told"
    if delivery.wish is not None:
        reason += f" (it had said: {delivery.wish[1]})"
    _say(desk, delivery, "message_withdrawn", reason=reason)
    released(desk, delivery, reason)


def over_with(desk: Desk, delivery: Delivery) -> None:
    """What was said about this message is over: it ended, was dug up, or was taken after all. Its death is over only
    when it lives again."""
    ends = (Over.MESSAGE,) if delivery.state is S.DEAD else (Over.MESSAGE, Over.LETTER)
    if ended := desk.escalations.settled(delivery.agent, delivery.message.message_id, *ends):
        calling.over(desk, ended, f"{delivery.message.message_id} is {SHOWN[delivery.state]}")


def purged(desk: Desk, message_id: str, agent: str) -> None:
    """A person removed its letter: whatever was said about its death is dealt with."""
    name = desk.agent_called(agent) or agent
    calling.over(desk, desk.escalations.settled(name, message_id, Over.LETTER), f"{message_id} was removed for good")


def _close_escalations(desk: Desk, delivery: Delivery) -> None:
    """Nobody will deal with it any more, or somebody did: completed, removed or lost the escalation itself, or answered
    it (a reply that the monitor has completed). What happens next is worth a new one."""
    message, how = delivery.message, delivery.state.value
    if message.sender == MONITOR and delivery.only_seen:
        _stays_open(desk, message.message_id)
    elif message.sender == MONITOR:
        answered(desk, message.message_id, delivery.agent, how)
    if delivery.agent == MONITOR and delivery.state is S.COMPLETED and message.in_reply_to and not message.automatic:
        _replied(desk, message.in_reply_to, desk.agent_called(message.sender) or message.sender, how)


def _replied(desk: Desk, escalation_id: str, by: str, how: str) -> None:
    """By whoever it went to, or by a person: what others have to say about it is not an answer."""
    one = desk.escalations.called(escalation_id)
    if one is not None and by in (one.to, USER):
        answered(desk, escalation_id, by, how)


def answered(desk: Desk, escalation_id: str, by: str, how: str) -> bool:
    """Closed by whoever dealt with it. False: it was not open."""
    closed = desk.escalations.close(escalation_id)
    if closed is None:
        return False
    data: dict[str, object] = {"agent": closed.agent, "cause": closed.cause, "escalation_id": escalation_id}
    data |= {"by": by, "how": how, "counted": closed.counted}
    desk.put(RecordFact("escalation_closed", data, lane=by if by in desk.book.agents else closed.agent))
    return True


def _stays_open(desk: Desk, escalation_id: str) -> None:
    """Its mail is away, and it is not: to have seen it is not to have dealt with it."""
    one = desk.escalations.called(escalation_id)
    if one is not None:
        one.told = True
