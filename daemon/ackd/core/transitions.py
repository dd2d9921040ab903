"""The transitions of one message that is under way: for each act of the delivery table its effects, facts and timers.

``apply`` is the only way in which a message changes its state. How a message ends is in endings.py. A step that the
table does not have raises ``ImpossibleEvent`` before anything is changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from ackd.core import (
    agent_rules,
    alerts,
    delivery_facts,
    due_times,
    endings,
    escalations,
    headers,
    idle_time,
    message_facts,
    parts_told,
)
from ackd.core.delivery import IN_DEAD_LETTER, Act, Completion, Happening, State, Uptake, step
from ackd.core.effects import CallOff, ClaimMessage, ForgetMessage, RecordFact, TellAgent, WriteStatus
from ackd.core.escalations import Cause, Over
from ackd.core.events import Absence
from ackd.core.liveness import Vital
from ackd.core.message import MONITOR, Folder, Idled, Status
from ackd.core.message_facts import (
    message_acked,
    message_handed_back,
    message_overdue,
    message_requeued,
    message_retry,
    message_seen,
)
from ackd.core.policy import CompletesOn, completes_on
from ackd.core.pools import SERVING, Kept, PoolLineup, Setback, after_setback
from ackd.core.retry import Again, GiveUp, RetryDecision, decide_retry
from ackd.core.timers import TimerKind
from ackd.core.words import MessageEnd
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.state import Agent, Delivery, EngineState

H, S = Happening, State
# To ask an enum for a member takes Python 3.11 long: members that every message needs have names of their own.
_CLAIMED, _ACKED, _SEEN = Happening.CLAIMED, Happening.ACKED, Happening.SEEN
_PROCESSING_TIMER, _STATUS_TIMER, _ACK_TIMER = TimerKind.PROCESSING, TimerKind.STATUS, TimerKind.ACK
_UNSEEN, _SEEN_ONLY = Uptake.UNSEEN, Uptake.SEEN
_DEAD_FOLDER = Folder.DEAD
_REMIND_TIMER, _TASK_TIMER = TimerKind.REMIND, TimerKind.TASK

#: A message that is told for longer than this gets that written to its header. A quick handler costs no rewrite.
STATUS_AFTER_S: Final = 0.05
#: A move that the disk refused is asked for again after this.
DISK_RETRY_S: Final = 5.0
#: States in which a lost directory changes the end. A finished message stays finished, a dead one lies elsewhere.
UNDER_WAY: Final = frozenset({S.CLAIMING, S.BURYING, S.ANNULLING, S.RETURNING})
IN_HAND: Final = frozenset({S.PROCESSING, S.DELIVERED, S.ACKED})


def apply(state: EngineState, delivery: Delivery, happening: Happening, why: str = "") -> None:
    """Take one step of the table, and do what its cell says."""
    before = delivery.state
    after, act = step(before, happening)
    state.deliveries.set_state(delivery, after)
    if after is not before:
        state.timers.cancel_all(delivery.key)
        if delivery.due is not None:
            due_times.watch(state, delivery)
    state.offer_later(delivery.agent)
    _DO[act](state, delivery, happening, why)


def fail(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    """Count a failure of a message that is in its agent's hands. If it is not, the answer is late and changes
    nothing."""
    if delivery.state not in IN_HAND or (happening is H.NOT_TOLD and delivery.state is not S.PROCESSING):
        apply(state, delivery, happening, why)
        return
    delivery.remember(state.now.wall, f"attempt {delivery.tells}: {why}")
    policy = state.agents[delivery.agent].policy
    decision: RetryDecision = decide_retry(delivery.retries + 1, policy, state.rng)
    match decision:
        case GiveUp():
            apply(state, delivery, H.EXHAUSTED, why)
        case Again(delay_s):
            delivery.delay_s = delay_s
            apply(state, delivery, happening, why)
        case _:
            assert_never(decision)


def hinder(state: EngineState, delivery: Delivery, why: str) -> None:
    """Take a message back because the machine refused what the work needs. Nothing is counted, and nobody is told that
    the agent is away, because it is not."""
    if delivery.state in IN_HAND:
        agent_rules.park(state, state.agents[delivery.agent], why, hindered=True)
        apply(state, delivery, H.STOPPED, why)


def sweep(state: EngineState, delivery: Delivery, why: str) -> None:
    """Handle a file that is gone though nobody completed or removed it. While a move is under way, only its answer can
    say which came first, so the reason is kept until then."""
    if delivery.state in UNDER_WAY:
        delivery.lost_reason = why
    else:
        apply(state, delivery, H.SPOOL_LOST, why)


def line_up(state: EngineState, delivery: Delivery) -> None:
    agent, message = state.agents[delivery.agent], delivery.message
    entry = (delivery.key, message.priority, delivery.arrived_at, delivery.place.name)
    if isinstance(agent.line, PoolLineup):
        agent.line.add_for(message.needs, *entry)
    else:
        agent.line.add(*entry)
    state.offer_later(agent.name)


# --- claimed and told -------------------------------------------------------------------------------------------------
def _claim(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    if happening is _ACKED:
        delivery.pending_event = (happening, why)
    if delivery.held:
        state.end_hold(delivery)  # its agent has taken it without being told
    state.agents[delivery.agent].line.discard(delivery.key)
    state.emit(ClaimMessage(delivery.agent, delivery.key, delivery.message, delivery.place, delivery.stamp))


def _tell(state: EngineState, delivery: Delivery, happening: Happening, _why: str) -> None:
    if happening is _CLAIMED:
        if delivery.message.pool and (queue := state.pools.get(delivery.message.pool)) is not None:
            queue.refused = None
        state.record(message_facts.message_claimed(**delivery_facts.about(delivery), file=str(delivery.place)))
    if _apply_pending(state, delivery):
        return  # its agent has it already: no telling
    policy = state.agents[delivery.agent].policy
    delivery.tells += 1
    delivery.uptake, delivery.told, delivery.busy_told = _UNSEEN, False, False
    delivery.idled, delivery.waits = Idled(beside=delivery.idled.beside), None
    delivery.untyped, delivery.written_s = 0, 0.0
    state.start_timer(_PROCESSING_TIMER, delivery.key, policy.processing_timeout_s)
    order = (delivery.agent, delivery.key, delivery.message, delivery.place)
    state.emit(TellAgent(*order, attempt=delivery.tells, crashes=delivery.crashes))


def claim_acked(state: EngineState, delivery: Delivery) -> None:
    """Ask once more for the claim of a message that its agent has already; the disk had refused it."""
    if delivery.pending_event is not None:
        apply(state, delivery, *delivery.pending_event)


def _apply_pending(state: EngineState, delivery: Delivery) -> bool:
    if delivery.pending_event is None:
        return False
    pending, delivery.pending_event = delivery.pending_event, None
    apply(state, delivery, *pending)
    return True


def _await_ack(state: EngineState, delivery: Delivery, _happening: Happening, proof: str) -> None:
    agent = state.agents[delivery.agent]
    agent_rules.came_back(state, agent, "it could be told")
    delivery.told_at = delivery.first_told_at = delivery.clock_from = state.now.mono
    delivery.told_wall, delivery.opened_by_then = state.now.wall, state.deliveries.last_key
    idle_time.show(state, agent, None)  # what it does with it is still to be seen
    _record_told(state, delivery, proof)
    agent_rules.worker_told(state, agent, delivery)
    state.start_timer(_STATUS_TIMER, delivery.key, STATUS_AFTER_S)
    watch_silence(state, delivery, waited_s=0)


def _record_told(state: EngineState, delivery: Delivery, proof: str) -> None:
    if delivery.told:
        return  # a nudge's answer
    delivery.told = True
    state.record(message_facts.message_told(**delivery_facts.about(delivery), attempt=delivery.tells, proof=proof))
    if not state.agents[delivery.agent].policy.reminds:  # mail in an inbox is nobody's work until it is seen
        _assign(state, delivery)


def _assign(state: EngineState, delivery: Delivery) -> None:
    if delivery.assigned:
        return
    delivery.assigned = True
    state.emit(delivery_facts.work(message_facts.worker_assign, delivery))
    if delivery_facts.is_review(delivery):
        state.emit(delivery_facts.work(message_facts.review_start, delivery))


def watch_silence(state: EngineState, delivery: Delivery, waited_s: float) -> None:
    """Start the timer that notices silence: the one of the wake ladder, or the one of the inbox reminder."""
    policy = state.agents[delivery.agent].policy
    if policy.rungs is not None and not delivery.seen:
        state.start_timer(_ACK_TIMER, delivery.key, max(0.0, policy.ack_timeout_s - waited_s))
    if policy.reminds and not delivery.seen:
        state.start_timer(_REMIND_TIMER, delivery.key, max(0.0, policy.remind_after_s - waited_s))


def watch_return(state: EngineState, delivery: Delivery) -> None:
    """Start the timer for a handler that does not return. It starts late, because nearly all handlers return at
    once."""
    policy = state.agents[delivery.agent].policy
    if policy.unwatched:
        state.start_timer(_TASK_TIMER, delivery.key, max(0.0, policy.task_timeout_s - STATUS_AFTER_S))


def write_status(state: EngineState, delivery: Delivery, status: Status) -> None:
    words = headers.in_hand(status, state.now.wall, seen=delivery.seen, retries=delivery.retries, idled=delivery.idled)
    delivery.written_s = delivery.idled.idle_s
    because_of = tuple(delivery.receipts)
    state.emit(WriteStatus(delivery.agent, delivery.key, delivery.place, words, because_of=because_of))


# --- seen and started -------------------------------------------------------------------------------------------------
def _note(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    if happening is _SEEN:
        _see(state, delivery, why)
    elif happening is H.TOLD:
        _record_told(state, delivery, why)
    else:
        _rise(state, delivery)


def _see(state: EngineState, delivery: Delivery, evidence: str) -> None:
    agent = state.agents[delivery.agent]
    agent_rules.sign_of_life(state, agent)
    if delivery.uptake is not _UNSEEN:
        return
    delivery.uptake = _SEEN_ONLY
    state.timers.cancel(_ACK_TIMER, delivery.key)
    state.timers.cancel(_REMIND_TIMER, delivery.key)
    state.record(message_seen(**delivery_facts.about(delivery), evidence=evidence))
    _assign(state, delivery)
    endings.task_started(state, delivery)
    if is_enough(agent, delivery):
        apply(state, delivery, H.ENOUGH, f"seen: {evidence}")
        return
    _take(state, agent, delivery)
    keeps_it = agent.is_watched or agent.policy.reminds
    if keeps_it and delivery.state is S.DELIVERED and (_STATUS_TIMER, delivery.key) not in state.timers:
        write_status(state, delivery, Status.DELIVERED)  # a restart must not wake or remind an agent that has taken it


def is_enough(agent: Agent, delivery: Delivery) -> bool:
    """Return whether the message is completed by being seen."""
    return completes_on(delivery.message, agent.policy) is CompletesOn.SEEN


def _take(state: EngineState, agent: Agent, delivery: Delivery) -> None:
    """Have the agent watched for signs of life from now on, instead of waking it by its ladder."""
    delivery.taken_at = state.now.mono
    if delivery.busy_told:
        endings.over_with(state, delivery)
    if agent.ladder is not None and agent.ladder.key == delivery.key:
        agent.ladder = None
    if agent.is_watched:
        agent_rules.worker_began(state, agent, delivery)
        agent_rules.watch_liveness(state, agent)


def _start(state: EngineState, delivery: Delivery, _happening: Happening, by: str) -> None:
    """Note that the agent has the message.

    The fact is recorded before the header is written: after a crash in between, the acknowledgement is read again and
    recorded again. The other way round it would never be recorded.
    """
    agent = state.agents[delivery.agent]
    agent.line.discard(delivery.key)  # it may have been due for another telling
    agent_rules.sign_of_life(state, agent)
    if delivery.uptake is _UNSEEN:
        delivery.uptake = _SEEN_ONLY
    delivery.idled, delivery.clock_from = replace(delivery.idled, idle_s=0.0), state.now.mono
    _assign(state, delivery)
    state.emit(RecordFact(message_acked(**delivery_facts.about(delivery), by=by), lane=delivery.agent))
    if is_enough(agent, delivery):  # what acknowledged it is kept until its move is on disk
        apply(state, delivery, H.ENOUGH, f"seen: {by}")
        return
    state.start_timer(_TASK_TIMER, delivery.key, agent.policy.task_timeout_s)
    write_status(state, delivery, Status.ACKED)
    endings.task_started(state, delivery)
    _take(state, agent, delivery)
    endings.drop_receipts(state, delivery)


def _rise(state: EngineState, delivery: Delivery) -> None:
    """Begin anew with a message that came back from dead_letter/."""
    state.totals.dead -= 1
    delivery.reset_for_requeue(state.now.wall)
    parts_told.came(state, delivery)
    state.emit(
        RecordFact(message_requeued(**delivery_facts.about(delivery), file=str(delivery.place)), lane=delivery.agent)
    )
    endings.over_with(state, delivery)
    if not _apply_pending(state, delivery):
        endings.drop_receipts(state, delivery)
        line_up(state, delivery)


# --- again, later -----------------------------------------------------------------------------------------------------
def _retry(state: EngineState, delivery: Delivery, _happening: Happening, why: str) -> None:
    delivery.retries += 1
    died = state.agents[delivery.agent].vital is Vital.DOWN
    goes_back = _goes_back(state, delivery, Setback.DIED if died else Setback.FAILED)
    endings.released(state, delivery, why, WorkerState.FAILED)
    _record_retry(state, delivery, why, delivery.delay_s, counted=True)
    if goes_back:
        hand_back(state, delivery, why, delay_s=delivery.delay_s)
    else:
        state.start_timer(TimerKind.RETRY, delivery.key, delivery.delay_s)


def _record_retry(state: EngineState, delivery: Delivery, why: str, delay_s: float, *, counted: bool) -> None:
    """Write the header and record the fact of a retry.

    Old receipts are dropped first, because after a crash a stale ack must not answer for the next telling. The receipt
    that asked for the retry is dropped last: after a crash it is read again, and asks for a message that is already
    retrying. If the disk refuses the header, that receipt stays until there is one.
    """
    due = state.now.wall + delay_s
    asked_by = delivery.receipts[-1] if delivery.receipts else None
    endings.drop_receipts(state, delivery, keep=asked_by)
    words = headers.retrying(delivery, due)
    because_of = tuple(delivery.receipts)
    state.emit(WriteStatus(delivery.agent, delivery.key, delivery.place, words, ends_run=True, because_of=because_of))
    fact = message_retry(
        **delivery_facts.about(delivery),
        reason=why,
        counted=counted,
        retry_count=delivery.retries,
        retry_limit=state.agents[delivery.agent].policy.retry_limit,
        delay_s=round(delay_s, 3),
        next_retry_after=escalations.stamp(due),
    )
    state.emit(RecordFact(fact, lane=delivery.agent))
    endings.drop_receipts(state, delivery)


def _postpone(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    """Offer the message again without counting a failure: nobody was there, or ackd stopped the work itself. The header
    tells the next daemon."""
    agent = state.agents[delivery.agent]
    delivery.remember(state.now.wall, f"attempt {delivery.tells}: {why}")
    goes_back = _goes_back(state, delivery, Setback.AWAY if happening is H.AWAY else Setback.STOPPED)
    endings.released(state, delivery, why)
    delay_s = 0.0 if goes_back else agent_rules.parked_for(state, agent)
    _record_retry(state, delivery, why, delay_s, counted=False)
    at_work = agent.occupied is not None and agent.occupied.why is not Absence.STUCK
    if happening is H.AWAY and not at_work and not state.stopping:
        _tell_of_absence(state, delivery, why, goes_back=goes_back)
    if goes_back:
        hand_back(state, delivery, why)
    else:
        line_up(state, delivery)


# --- back to the pool -------------------------------------------------------------------------------------------------
def _goes_back(state: EngineState, delivery: Delivery, setback: Setback) -> bool:
    """Return whether a message that its holder did not complete goes back to its pool, and note who had it."""
    if not delivery.message.pool:
        return False
    agent = state.agents[delivery.agent]
    pool = state.pools.get(delivery.message.pool)
    is_member = pool is not None and agent.name in pool.members
    serves = is_member and agent.state in SERVING
    resumes = is_member and agent.policy.resumes
    kept = after_setback(setback, resumes=resumes, serves=serves, ackd_stops=state.stopping)
    if kept is Kept.GOES_BACK and setback is not Setback.AWAY:  # then it was never told
        _note_holder(delivery)
    return kept is Kept.GOES_BACK


def _note_holder(delivery: Delivery) -> bool:
    """Note who had the message: it goes to another one first, and its late word that it is done counts."""
    if not delivery.message.pool or delivery.agent in delivery.had_by:
        return False
    delivery.had_by = (*delivery.had_by, delivery.agent)
    return True


def hand_back(state: EngineState, delivery: Delivery, why: str, *, delay_s: float = 0.0) -> None:
    """Have a message that waits to be told again moved back to the queue of its pool."""
    delivery.not_before = state.now.mono + delay_s
    delivery.reason = why
    apply(state, delivery, H.HANDED_BACK, why)


def _hand_back_from(state: EngineState, delivery: Delivery, why: str) -> None:
    """Have a message moved back that was told before, and note in its header by whom."""
    if delivery.tells and _note_holder(delivery):
        words = headers.had_by(delivery)
        state.emit(WriteStatus(delivery.agent, delivery.key, delivery.place, words))
    hand_back(state, delivery, why)


def take_back(state: EngineState, agent: Agent, why: str, *, of: str | None = None) -> None:
    """Take messages of pools (``of``: only of this one) that wait to be told again away from a member that does not
    serve."""
    for key in list(agent.line.keys()):
        delivery = state.deliveries.get(key)
        if delivery is None or not delivery.message.pool or delivery.state is not S.RETRYING:
            continue
        if of in (None, delivery.message.pool):
            _hand_back_from(state, delivery, why)


def _return(state: EngineState, delivery: Delivery, _happening: Happening, _why: str) -> None:
    endings.ask_for_move(state, delivery)


def _rejoin(state: EngineState, delivery: Delivery, _happening: Happening, _why: str) -> None:
    """Line the message up in its pool, whose queue it lies in again. Its holder has nothing more to do with it."""
    holder, pool = delivery.agent, delivery.addressee
    over = state.escalations.settled(holder, delivery.message.message_id, Over.MESSAGE) if holder != pool else []
    alerts.record_over(state, over, f"{delivery.message.message_id} was given back to {pool}")
    fact = message_handed_back(
        **(delivery_facts.about(delivery) | {"pool": pool}),
        reason=delivery.reason or "it was not completed",
        file=str(delivery.place),
    )
    state.record(fact)  # at once: another member may be given it while the holder's lane is still at work
    state.emit(ForgetMessage(holder, delivery.key, delivery.message, delivery.place, MessageEnd.HANDED_BACK))
    delivery.reason, delivery.told_at = "", None
    delivery.uptake, delivery.told, delivery.busy_told = _UNSEEN, False, False
    state.deliveries.give(delivery, pool)
    if _apply_pending(state, delivery):
        return
    wait(state, delivery)


def wait(state: EngineState, delivery: Delivery) -> None:
    """Have a message in the queue of its pool wait for its turn, once it may be told again."""
    wait_s = delivery.not_before - state.now.mono
    if wait_s > 0:
        state.start_timer(TimerKind.RETRY, delivery.key, wait_s)
    else:
        line_up(state, delivery)


def _tell_of_absence(state: EngineState, delivery: Delivery, why: str, *, goes_back: bool) -> None:
    """Escalate that the agent cannot be told. Mail from ackd leads to no mail, but an escalation must reach somebody,
    and messages that wait behind it may be from others."""
    agent = state.agents[delivery.agent]
    if delivery.message.sender == MONITOR:
        if not goes_back:  # else another member of its pool gets it
            endings.pass_on(state, delivery, why)
        behind = (state.deliveries.get(key) for key in agent.line.keys())  # noqa: SIM118 - a Lineup is no dict
        delivery = next((d for d in behind if d is not None and d.message.sender != MONITOR), delivery)
    if agent.absence_told or delivery.message.sender == MONITOR:
        return
    agent.absence_told = True
    alerts.escalate(
        state,
        agent.name,
        Cause.AWAY,
        escalations.derived_id("away", delivery.message.message_id, agent.name, int(state.now.wall)),
        f"{agent.name} cannot be told: {why}. {agent_rules.counted_of_open(state, agent, len(agent.line) + 1)}, "
        f"first of all {delivery.place}",
        f"Mend it; ackd tries again by itself within {agent_rules.PARK_CAP_S:.0f} s. `ackd status` shows when",
        delivery,
    )


def _hold(state: EngineState, delivery: Delivery, _happening: Happening, error: str) -> None:
    """Put a message whose claim the disk refused back into the line, and park its agent.

    If its last word (done, refused) came meanwhile, no claim is needed, and that move is asked for instead. If its
    agent has acknowledged it, it does not wait for a place in the window: it is claimed as soon as the disk allows.
    """
    if delivery.message.pool:
        _hold_in_pool(state, delivery, error)
        return
    agent_rules.park(state, state.agents[delivery.agent], f"disk: {error}", hindered=True)
    if delivery.pending_event is not None and delivery.pending_event[0] is not H.ACKED:
        _apply_pending(state, delivery)
        return
    line_up(state, delivery)
    if delivery.pending_event is not None:
        state.start_timer(TimerKind.DISK, delivery.key, DISK_RETRY_S)


def _hold_in_pool(state: EngineState, delivery: Delivery, error: str) -> None:
    """Give a message whose claim the disk refused back to its pool, and let it wait. The member is not parked for it:
    it may be the file. If one after the other is refused, it is the disk, and the pool waits."""
    key, holder = delivery.key, delivery.agent
    state.emit(ForgetMessage(holder, key, delivery.message, delivery.place, MessageEnd.HANDED_BACK))
    state.deliveries.give(delivery, delivery.addressee)
    queue = state.agents[delivery.agent]
    if delivery.pending_event is not None and delivery.pending_event[0] is H.ACKED:
        delivery.pending_event = None  # who acknowledged it has it no more
    if queue.pool is not None:  # else it is a pool no longer
        if queue.pool.refused not in (None, key):
            agent_rules.park(state, queue, f"disk: {error}", hindered=True)
        queue.pool.refused = key
    if _apply_pending(state, delivery):
        return
    delivery.not_before = state.now.mono + DISK_RETRY_S
    wait(state, delivery)


# --- noticed ----------------------------------------------------------------------------------------------------------
def _warn(state: EngineState, delivery: Delivery, _happening: Happening, _why: str) -> None:
    seconds = state.agents[delivery.agent].policy.task_timeout_s
    state.record(message_overdue(**delivery_facts.about(delivery), seconds=seconds))
    if delivery.message.sender == MONITOR:
        return
    alerts.escalate(
        state,
        delivery.agent,
        Cause.OVERDUE,
        escalations.telling_id("overdue", delivery),
        f"{delivery.agent} {'acknowledged' if delivery.state is S.ACKED else 'was called with'} 1 message "
        f"{seconds:.0f} s ago and has not completed it: {delivery.place}",
        "Nothing was retried. Ask the agent, or answer for it with `ackd done` or `ackd defer`",
        delivery,
    )


# --- cancelled --------------------------------------------------------------------------------------------------------
def _call_off(state: EngineState, delivery: Delivery, _happening: Happening, _why: str) -> None:
    state.start_timer(TimerKind.CANCEL, delivery.key, state.agents[delivery.agent].policy.cancel_timeout_s)
    if state.recovering:
        state.to_call_off.append(delivery.key)
    else:
        tell_to_let_go(state, delivery)


def tell_to_let_go(state: EngineState, delivery: Delivery) -> None:
    why = delivery.cancellation.words if delivery.cancellation is not None else "cancelled"
    key, message, place = delivery.key, delivery.message, delivery.place
    state.emit(CallOff(delivery.agent, key, message, place, why, attempt=delivery.tells))


def _too_late(state: EngineState, delivery: Delivery, _happening: Happening, by: str) -> None:
    state.emit(RecordFact(message_facts.message_late(**delivery_facts.about(delivery), by=by), lane=delivery.agent))


def _end(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    endings.end(state, delivery, happening, why)
    if delivery.state in IN_DEAD_LETTER and _apply_pending(state, delivery) and delivery.state is S.FINISHING:
        return  # its agent finished it while it was buried
    endings.close(state, delivery)


# --- the cells --------------------------------------------------------------------------------------------------------
#: Event that leads to the archive → how the message is completed by it, if it is not dead yet.
_COMPLETIONS: Final = {
    H.DONE: Completion.DEALT_WITH,
    H.ENOUGH: Completion.BY_SIGHT,
    H.SENT_TWICE: Completion.DUPLICATE,
}


def _finish(state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    delivery.completion = Completion.LATE if delivery.place.folder is _DEAD_FOLDER else _COMPLETIONS[happening]
    if delivery.told:
        _assign(state, delivery)  # an inbox's agent may answer without a word before
    delivery.by = why
    endings.ask_for_move(state, delivery)


#: Pending events that a later one replaces, except that an ack does not replace "seen is enough".
_WEAK: Final = frozenset({H.ACKED, H.ENOUGH})
#: A cancellation that waits for a claim gives way to a completion: that came before the move.
_STRONGER: Final = frozenset({(H.CANCELLED, H.DONE), (H.RECALLED, H.DONE)})


def _remember(_state: EngineState, delivery: Delivery, happening: Happening, why: str) -> None:
    said = delivery.pending_event[0] if delivery.pending_event is not None else None
    if happening is H.CANCELLED and said is None and _is_recalled(delivery):
        happening = H.RECALLED
    if (
        said is None or (said in _WEAK and (said, happening) != (H.ENOUGH, H.ACKED)) or (said, happening) in _STRONGER
    ):  # of several last words the first counts
        delivery.pending_event = (happening, why)


def _is_recalled(delivery: Delivery) -> bool:
    """Return whether somebody cancels a message of which its agent knows nothing: it is claimed, and not told yet."""
    by_us = delivery.cancellation is None or delivery.cancellation.by == MONITOR
    return delivery.state is S.CLAIMING and not delivery.seen and not by_us


def _revive(state: EngineState, delivery: Delivery, _happening: Happening, _why: str) -> None:
    endings.ask_for_move(state, delivery)


def _again(state: EngineState, delivery: Delivery, _happening: Happening, _why: str) -> None:
    state.start_timer(TimerKind.DISK, delivery.key, DISK_RETRY_S)


def _nothing(_state: EngineState, _delivery: Delivery, _happening: Happening, _why: str) -> None:
    pass


#: A table, for a message takes six of these steps: a ``match`` asks for up to sixteen members of an enum at each, and
#: that takes Python 3.11 longer than what is done then. A test holds that no act is missing.
_DO: Final[dict[Act, Callable[[EngineState, Delivery, Happening, str], None]]] = {
    Act.NOTHING: _nothing,
    Act.NOTE: _note,
    Act.REMEMBER: _remember,
    Act.CLAIM: _claim,
    Act.TELL: _tell,
    Act.AWAIT: _await_ack,
    Act.START: _start,
    Act.RETRY: _retry,
    Act.POSTPONE: _postpone,
    Act.FINISH: _finish,
    Act.BURY: endings.bury,
    Act.RETURN: _return,
    Act.REJOIN: _rejoin,
    Act.REVIVE: _revive,
    Act.AGAIN: _again,
    Act.HOLD: _hold,
    Act.WARN: _warn,
    Act.CALL_OFF: _call_off,
    Act.ANNUL: endings.annul,
    Act.WITHDRAW: endings.withdraw,
    Act.TOO_LATE: _too_late,
    Act.END: _end,
}
