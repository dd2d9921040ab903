"""What is done in each cell of the delivery table: effects, facts and clocks for one message.

``apply`` is the only way a message changes its state. Commit order is kept here: derived messages, then the move
(which is the commit), then the log line, then what the outside is told. A line is therefore written by the answer to
a move, never by the wish for one.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, assert_never

from ackd.core import calling, escalations, facts
from ackd.core.availability import AgentHappening
from ackd.core.delivery import ENDED, Act, Happening, State, step
from ackd.core.effects import (
    ArchiveMessage,
    BuryMessage,
    ClaimMessage,
    DropReceipt,
    ForgetMessage,
    RecordFact,
    ReviveMessage,
    SendMessage,
    TellAgent,
    WriteStatus,
)
from ackd.core.message import MONITOR, USER, Folder
from ackd.core.retry import Again, GiveUp, RetryDecision
from ackd.core.retry import decide as decide_retry

if TYPE_CHECKING:
    from ackd.core.book import Delivery
    from ackd.core.desk import Desk

H, S = Happening, State

#: A state that lasts longer than this is worth writing to the header; a handler that is through at once costs no rewrite.
STATUS_AFTER_S: Final = 0.05
#: A move that the disk refused is asked for again after this.
DISK_RETRY_S: Final = 5.0
_CLOCKS: Final = ("ack", "processing", "task", "retry", "status", "remind", "disk")
_WORKING: Final = frozenset({S.PROCESSING, S.DELIVERED, S.ACKED})


def apply(desk: Desk, delivery: Delivery, happening: Happening, why: str = "") -> None:
    """Take one step of the table and do what its cell says."""
    before = delivery.state
    after, act = step(before, happening)
    desk.book.set_state(delivery, after)
    if after is not before:
        desk.hush(delivery.key, *_CLOCKS)
    desk.touched.add(delivery.agent)
    match act:
        case Act.NOTHING:
            pass
        case Act.NOTE:
            _note(desk, delivery, happening, why)
        case Act.REMEMBER:
            delivery.wish = (happening, why)
        case Act.CLAIM:
            _claim(desk, delivery, happening, why)
        case Act.TELL:
            _tell(desk, delivery, happening)
        case Act.AWAIT:
            _await_ack(desk, delivery, why)
        case Act.START:
            _start(desk, delivery, why)
        case Act.RETRY:
            _retry(desk, delivery, why)
        case Act.POSTPONE:
            _postpone(desk, delivery, happening, why)
        case Act.FINISH:
            delivery.by = why
            ask_for_move(desk, delivery)
        case Act.BURY:
            _bury(desk, delivery, happening, why)
        case Act.REVIVE:
            ask_for_move(desk, delivery)
        case Act.AGAIN:
            desk.alarm("disk", delivery.key, DISK_RETRY_S)
        case Act.HOLD:
            _hold(desk, delivery, why)
        case Act.WARN:
            _warn(desk, delivery)
        case Act.END:
            _end(desk, delivery, happening, why)
        case _:
            assert_never(act)


def fail(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    """A failure that counts, if the message is in its agent's hands; else the answer is late and changes nothing."""
    if delivery.state not in _WORKING or (happening is H.NOT_TOLD and delivery.state is not S.PROCESSING):
        apply(desk, delivery, happening, why)
        return
    delivery.remember(desk.now.wall, f"attempt {delivery.tells}: {why}")
    policy = desk.book.agents[delivery.agent].policy
    decision: RetryDecision = decide_retry(delivery.retries + 1, policy, desk.rng)
    match decision:
        case GiveUp():
            apply(desk, delivery, H.EXHAUSTED, why)
        case Again(delay_s):
            delivery.delay_s = delay_s
            apply(desk, delivery, happening, why)
        case _:
            assert_never(decision)


def _retry(desk: Desk, delivery: Delivery, why: str) -> None:
    delivery.retries += 1
    _told_off(desk, delivery, why)
    _record_retry(desk, delivery, why, delivery.delay_s, counted=True)
    desk.alarm("retry", delivery.key, delivery.delay_s)


def _record_retry(desk: Desk, delivery: Delivery, why: str, delay_s: float, *, counted: bool) -> None:
    """Old acks go first: after a crash a stale one must not answer for the next telling."""
    due = desk.now.wall + delay_s
    _drop_receipts(desk, delivery, keep_last=True)
    headers = (
        ("X-IGNITE-Status", "retrying"),
        ("X-IGNITE-Retry-Count", str(delivery.retries)),
        ("X-IGNITE-Next-Retry-After", precise(due)),
    )
    desk.put(WriteStatus(delivery.agent, delivery.key, delivery.place, headers))
    limit = desk.book.agents[delivery.agent].policy.retry_limit
    data = facts.about(
        delivery,
        reason=why,
        counted=counted,
        retry_count=delivery.retries,
        retry_limit=limit,
        delay_s=round(delay_s, 3),
        next_retry_after=escalations.stamp(due),
    )
    desk.put(RecordFact("message_retry", data, lane=delivery.agent))
    _drop_receipts(desk, delivery)


def _note(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    if happening is H.SEEN:
        _see(desk, delivery, why)
    elif happening is H.TOLD:
        desk.put(RecordFact("message_told", facts.about(delivery, attempt=delivery.tells, proof=why)))
    else:  # back from the dead, with a clean slate
        delivery.retries = delivery.crashes = delivery.tells = 0
        delivery.late = False
        desk.put(RecordFact("message_requeued", facts.about(delivery, file=str(delivery.place))))
        _drop_receipts(desk, delivery)
        line_up(desk, delivery)


def _see(desk: Desk, delivery: Delivery, evidence: str) -> None:
    calling.lived(desk, desk.book.agents[delivery.agent])
    if delivery.seen:
        return
    delivery.seen = True
    desk.hush(delivery.key, "ack", "remind")
    desk.put(RecordFact("message_seen", facts.about(delivery, evidence=evidence)))
    _task_started(desk, delivery)


def _task_started(desk: Desk, delivery: Delivery) -> None:
    if not delivery.started and facts.is_task(delivery):
        desk.put(facts.work("task_start", delivery))
    delivery.started = True


def line_up(desk: Desk, delivery: Delivery) -> None:
    agent = desk.book.agents[delivery.agent]
    agent.line.add(delivery.key, delivery.message.priority, delivery.arrived_at, delivery.place.name)
    desk.touched.add(agent.name)


def _claim(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    if happening is H.ACKED:
        delivery.wish = (happening, why)
    desk.book.agents[delivery.agent].line.discard(delivery.key)
    desk.put(ClaimMessage(delivery.agent, delivery.key, delivery.message, delivery.place))


def _tell(desk: Desk, delivery: Delivery, happening: Happening) -> None:
    if happening is H.CLAIMED:
        desk.put(RecordFact("message_claimed", facts.about(delivery, file=str(delivery.place))))
    if delivery.wish is not None:
        wish, delivery.wish = delivery.wish, None
        apply(desk, delivery, *wish)
        return
    policy = desk.book.agents[delivery.agent].policy
    delivery.tells += 1
    delivery.seen = delivery.started = False
    desk.alarm("processing", delivery.key, policy.processing_timeout_s)
    desk.put(
        TellAgent(
            delivery.agent,
            delivery.key,
            delivery.message,
            delivery.place,
            attempt=delivery.tells,
            crashes=delivery.crashes,
        )
    )


def _await_ack(desk: Desk, delivery: Delivery, proof: str) -> None:
    agent = desk.book.agents[delivery.agent]
    agent.parks = 0
    delivery.told_at = desk.now.mono
    desk.put(RecordFact("message_told", facts.about(delivery, attempt=delivery.tells, proof=proof)))
    desk.put(facts.work("worker_assign", delivery))
    if facts.is_review(delivery):
        desk.put(facts.work("review_start", delivery))
    desk.alarm("status", delivery.key, STATUS_AFTER_S)
    watch_silence(desk, delivery, waited_s=0)


def watch_silence(desk: Desk, delivery: Delivery, waited_s: float) -> None:
    """Start the clock that notices silence: the ladder's, or the inbox's reminder."""
    policy = desk.book.agents[delivery.agent].policy
    if policy.rungs is not None and not delivery.seen:
        desk.alarm("ack", delivery.key, max(0.0, policy.ack_timeout_s - waited_s))
    if policy.reminds and not delivery.seen:
        desk.alarm("remind", delivery.key, max(0.0, policy.remind_after_s - waited_s))


def _start(desk: Desk, delivery: Delivery, by: str) -> None:
    agent = desk.book.agents[delivery.agent]
    agent.line.discard(delivery.key)  # it may have been due for another telling
    calling.lived(desk, agent)
    delivery.seen = True
    desk.alarm("task", delivery.key, agent.policy.task_timeout_s)
    write_status(desk, delivery, "acked")
    desk.put(RecordFact("message_acked", facts.about(delivery, by=by), lane=delivery.agent))
    _task_started(desk, delivery)
    _drop_receipts(desk, delivery)


def write_status(desk: Desk, delivery: Delivery, status: str) -> None:
    headers = (
        ("X-IGNITE-Status", status),
        ("X-IGNITE-Processed-At", local_seconds(desk.now.wall)),
        ("X-IGNITE-Next-Retry-After", None),
    )
    desk.put(WriteStatus(delivery.agent, delivery.key, delivery.place, headers))


def _postpone(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    """Uncounted: nobody was there, or we stopped it ourselves. A stop is written down for the next daemon to find."""
    delivery.remember(desk.now.wall, f"attempt {delivery.tells}: {why}")
    if happening is H.STOPPED:
        _told_off(desk, delivery, why)
        _record_retry(desk, delivery, why, 0, counted=False)
    else:
        agent = desk.book.agents[delivery.agent]
        if agent.parks == 0:
            _record_retry(desk, delivery, why, calling.PARK_BASE_S, counted=False)
        calling.park(desk, agent, why)
        _escalate_away(desk, delivery, why)
    line_up(desk, delivery)


def _escalate_away(desk: Desk, delivery: Delivery, why: str) -> None:
    agent = desk.book.agents[delivery.agent]
    if agent.parks > 1 or delivery.message.sender == MONITOR:
        return  # said once per absence; and mail of ours never breeds mail
    waiting = len(agent.line) + 1
    calling.escalate(
        desk,
        agent.name,
        "away",
        escalations.derived_id("away", delivery.message.message_id, agent.name, int(desk.now.wall)),
        f"{agent.name} cannot be told: {why}. {waiting} of its {waiting} messages wait (100%) in queue/{agent.name}:1",
        f"Mend it; ackd tries again by itself within {calling.PARK_CAP_S:.0f} s. `ackd status` shows when",
        delivery,
    )


def ask_for_move(desk: Desk, delivery: Delivery) -> None:
    """The move that the message's state stands for; asked for again when the disk refused."""
    lane, key, message, place = delivery.agent, delivery.key, delivery.message, delivery.place
    if delivery.state is S.FINISHING:
        desk.book.agents[lane].line.discard(key)
        desk.put(ArchiveMessage(lane, key, message, place))
    elif delivery.state is S.BURYING:
        desk.put(BuryMessage(lane, key, message, place, _tombstone(desk, delivery)))
    elif delivery.state is S.REVIVING:
        desk.put(ReviveMessage(lane, key, message, place))


def _tombstone(desk: Desk, delivery: Delivery) -> tuple[tuple[str, str | None], ...]:
    return (
        ("X-IGNITE-Status", None),
        ("X-IGNITE-Next-Retry-After", None),
        ("X-IGNITE-Error-Reason", one_line(delivery.reason)),
        ("X-IGNITE-Error-At", local_seconds(desk.now.wall)),
        ("X-IGNITE-Retry-Count", str(delivery.retries)),
        ("X-IGNITE-Recipient", delivery.agent),
    )


def _bury(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    delivery.reason = why
    desk.book.agents[delivery.agent].line.discard(delivery.key)
    if happening is H.REFUSED:
        delivery.remember(desk.now.wall, why)
    if delivery.message.sender == MONITOR:
        _pass_on(desk, delivery, why)
    else:
        _tell_of_death(desk, delivery, happening, why)
    ask_for_move(desk, delivery)


def _tell_of_death(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    cause = {H.SILENT: "silent", H.REFUSED: "refused"}.get(happening, "dead")
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
        notice = escalations.dead_notice(delivery, why, desk.now.wall)
        desk.put(SendMessage(delivery.agent, notice))


def _pass_on(desk: Desk, delivery: Delivery, why: str) -> None:
    """Our own mail that died breeds none, but an escalation goes one step down the chain: to a person."""
    if delivery.message.type != "escalation" or delivery.agent == USER:
        return
    desk.escalations.close(delivery.message.message_id)
    calling.escalate(
        desk,
        delivery.agent,
        "escalation_undelivered",
        escalations.derived_id("passed on", delivery.message.message_id, delivery.agent),
        f"1 escalation for {delivery.agent} could not be delivered: 1 of 1 (100%), {why}. "
        f"It is kept in queue/dead_letter/{delivery.place.name}:1",
        f"Read it with `ackd dead show {delivery.message.message_id}`",
        delivery,
    )


def _hold(desk: Desk, delivery: Delivery, error: str) -> None:
    line_up(desk, delivery)
    calling.park(desk, desk.book.agents[delivery.agent], f"disk: {error}")


def _warn(desk: Desk, delivery: Delivery) -> None:
    seconds = desk.book.agents[delivery.agent].policy.task_timeout_s
    desk.put(RecordFact("message_overdue", facts.about(delivery, seconds=seconds)))
    if delivery.message.sender == MONITOR:
        return
    calling.escalate(
        desk,
        delivery.agent,
        "overdue",
        escalations.derived_id("overdue", delivery.message.message_id, delivery.agent, delivery.tells),
        f"{delivery.agent} acknowledged 1 message {seconds:.0f} s ago and has not completed it: 1 of 1 open (100%), "
        f"queue/{delivery.place.box}/processed/{delivery.place.name}:1",
        "Nothing was retried. Ask the agent, or answer for it with `ackd done` or `ackd defer`",
        delivery,
    )


def _told_off(desk: Desk, delivery: Delivery, why: str) -> None:
    """Its agent no longer has it."""
    if delivery.tells:
        desk.put(facts.work("worker_release", delivery, reason=why))


def _end(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    if delivery.state is S.COMPLETED:
        _completed(desk, delivery, happening, why)
    elif delivery.state is S.DEAD:
        _dead(desk, delivery)
        if delivery.wish is not None:  # its agent finished it while it was buried
            wish, delivery.wish = delivery.wish, None
            apply(desk, delivery, *wish)
            return
    else:
        _withdrawn(desk, delivery, why)
    close(desk, delivery)


def close(desk: Desk, delivery: Delivery) -> None:
    """Everything about it is on disk and in the log: let go."""
    if delivery.state in ENDED:
        end = "duplicate" if delivery.duplicate else delivery.state.value
        desk.put(ForgetMessage(delivery.agent, delivery.key, delivery.message, delivery.place, end))
    _drop_receipts(desk, delivery)
    desk.hush(delivery.key, *_CLOCKS)
    desk.book.close(delivery)


def _completed(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    if delivery.duplicate:
        desk.totals.duplicates += 1
        data = facts.about(delivery, of_state=delivery.by, file=str(delivery.place))
        desk.put(RecordFact("message_duplicate", data))
        return
    by_hand = happening in (H.VANISHED, H.LOST)
    by = delivery.by or (why or "file deleted by its agent")
    kept = delivery.place.folder is Folder.ARCHIVE
    desk.totals.completed += 1
    desk.totals.dead -= delivery.late
    desk.completed.remember(delivery.message.message_id, delivery.agent, delivery.message.digest, desk.now.wall)
    took = round(max(0.0, desk.now.wall - delivery.met_at), 3)
    where = str(delivery.place) if kept else None
    late = True if delivery.late else None
    desk.put(RecordFact("message_completed", facts.about(delivery, by=by, seconds=took, file=where, late=late)))
    if by_hand:
        calling.lived(desk, desk.book.agents[delivery.agent])
    if facts.is_task(delivery):
        _task_started(desk, delivery)
        desk.put(facts.work("task_complete", delivery))
    _told_off(desk, delivery, "completed")
    _close_escalation(desk, delivery)


def _close_escalation(desk: Desk, delivery: Delivery) -> None:
    """Someone dealt with it: completed the escalation itself, or answered it (a reply to the monitor)."""
    message = delivery.message
    ids = [message.message_id] if message.sender == MONITOR else []
    if delivery.agent == MONITOR and message.in_reply_to:
        ids.append(message.in_reply_to)
    for escalation_id in ids:
        closed = desk.escalations.close(escalation_id)
        if closed is not None:
            desk.fact(
                "escalation_closed",
                agent=closed.agent,
                cause=closed.cause,
                escalation_id=escalation_id,
                by=message.sender if delivery.agent == MONITOR else delivery.agent,
                counted=closed.counted,
            )


def _dead(desk: Desk, delivery: Delivery) -> None:
    desk.totals.dead += 1
    delivery.late = True
    sender = {"from": delivery.message.sender}
    data = facts.about(
        delivery, **sender, reason=delivery.reason, retry_count=delivery.retries, file=str(delivery.place)
    )
    desk.put(RecordFact("message_dead", data))
    if facts.is_task(delivery):
        desk.put(facts.work("task_failed", delivery, reason=delivery.reason))
    _told_off(desk, delivery, delivery.reason)


def _withdrawn(desk: Desk, delivery: Delivery, why: str) -> None:
    desk.totals.withdrawn += 1
    reason = why or "file deleted from the queue before its agent was told"
    desk.put(RecordFact("message_withdrawn", facts.about(delivery, reason=reason)))
    _told_off(desk, delivery, reason)


def _drop_receipts(desk: Desk, delivery: Delivery, *, keep_last: bool = False) -> None:
    kept = delivery.receipts[-1:] if keep_last else []
    for name in delivery.receipts[: len(delivery.receipts) - len(kept)]:
        desk.put(DropReceipt(delivery.agent, name))
    delivery.receipts = kept


def gone_silent(desk: Desk, delivery: Delivery, waited_s: float) -> None:
    """The end of the ladder: the message is dead, the agent down; the rest of its mail waits."""
    agent = desk.book.agents[delivery.agent]
    why = f"silent: told {delivery.tells} times and woken {agent.policy.rungs} times without an answer in {waited_s:.0f} s"
    delivery.remember(desk.now.wall, why)
    apply(desk, delivery, H.SILENT, why)
    calling.change(desk, agent, AgentHappening.FELL_SILENT, why)


def local_seconds(wall: float) -> str:
    """As ``date -Iseconds`` prints it."""
    return datetime.fromtimestamp(wall).astimezone().isoformat(timespec="seconds")


def precise(wall: float) -> str:
    """To the millisecond: a restart in the middle of a retry keeps its time."""
    return datetime.fromtimestamp(wall).astimezone().isoformat(timespec="milliseconds")


def one_line(text: str) -> str:
    """Fit for a header: no control characters, bounded."""
    return "".join(ch if ch.isprintable() else " " for ch in text)[:500].strip() or "unknown"
