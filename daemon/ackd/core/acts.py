"""What is done in each cell of the delivery table: effects, facts and clocks for one message on its way.

``apply`` is the only way a message changes its state. How it ends is in endings.py. Refuses to know where an event came
from; a step that the table does not have raises before anything is changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from ackd.core import calling, completion, endings, escalations, facts, headers, spells, workers
from ackd.core.delivery import Act, Happening, State, step
from ackd.core.effects import ClaimMessage, RecordFact, TellAgent, WriteStatus
from ackd.core.events import Absence
from ackd.core.message import MONITOR, Idled
from ackd.core.policy import CompletesOn
from ackd.core.retry import Again, GiveUp, RetryDecision
from ackd.core.retry import decide as decide_retry
from ackd.core.waits import Waiting
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk

H, S = Happening, State
_CLAIMED, _ACKED, _SEEN = Happening.CLAIMED, Happening.ACKED, Happening.SEEN

#: A state that lasts longer is worth writing to the header; a handler that is through at once costs no rewrite.
STATUS_AFTER_S: Final = 0.05
#: A move that the disk refused is asked for again after this.
DISK_RETRY_S: Final = 5.0
#: Moves that a lost directory turns into another end. (A finished message stays finished; a dead one lies elsewhere.)
UNDER_WAY: Final = frozenset({S.CLAIMING, S.BURYING})
IN_HAND: Final = frozenset({S.PROCESSING, S.DELIVERED, S.ACKED})


def apply(desk: Desk, delivery: Delivery, happening: Happening, why: str = "") -> None:
    """Take one step of the table and do what its cell says."""
    before = delivery.state
    after, act = step(before, happening)
    desk.book.set_state(delivery, after)
    if after is not before:
        desk.hush_all(delivery.key)
    desk.touch(delivery.agent)
    _DO[act](desk, delivery, happening, why)


def fail(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    """A failure that counts, if the message is in its agent's hands; else the answer is late and changes nothing."""
    if delivery.state not in IN_HAND or (happening is H.NOT_TOLD and delivery.state is not S.PROCESSING):
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


def hinder(desk: Desk, delivery: Delivery, why: str) -> None:
    """The machine refused what the work takes. Uncounted, and nobody is told that the agent is away: it is not."""
    if delivery.state in IN_HAND:
        calling.park(desk, desk.book.agents[delivery.agent], why, hindered=True)
        apply(desk, delivery, H.STOPPED, why)


def sweep(desk: Desk, delivery: Delivery, why: str) -> None:
    """Its file is gone by nobody's word. While a move is under way, only its answer knows which was first."""
    if delivery.state in UNDER_WAY:
        delivery.swept = why
    else:
        apply(desk, delivery, H.SPOOL_LOST, why)


def line_up(desk: Desk, delivery: Delivery) -> None:
    agent = desk.book.agents[delivery.agent]
    agent.line.add(delivery.key, delivery.message.priority, delivery.arrived_at, delivery.place.name)
    desk.touch(agent.name)


# --- claimed and told -------------------------------------------------------------------------------------------------
def _claim(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    if happening is _ACKED:
        delivery.wish = (happening, why)
    if delivery.held:
        desk.unhold(delivery)  # its agent has taken it by itself
    desk.book.agents[delivery.agent].line.discard(delivery.key)
    desk.put(ClaimMessage(delivery.agent, delivery.key, delivery.message, delivery.place, delivery.stamp))


def _tell(desk: Desk, delivery: Delivery, happening: Happening, _why: str) -> None:
    if happening is _CLAIMED:
        desk.put(RecordFact("message_claimed", facts.about(delivery, file=str(delivery.place))))
    if _grant_wish(desk, delivery):
        return  # its agent has it already: no telling
    policy = desk.book.agents[delivery.agent].policy
    delivery.tells += 1
    delivery.seen = delivery.started = delivery.told = delivery.busy_told = False
    delivery.idled, delivery.waiting, delivery.waits_for = Idled(beside=delivery.idled.beside), Waiting.NOT, ()
    delivery.untyped, delivery.written_s = 0, 0.0
    desk.alarm("processing", delivery.key, policy.processing_timeout_s)
    order = (delivery.agent, delivery.key, delivery.message, delivery.place)
    desk.put(TellAgent(*order, attempt=delivery.tells, crashes=delivery.crashes))


def claim_acked(desk: Desk, delivery: Delivery) -> None:
    """Asked for again: the disk refused it, and its agent has it."""
    if delivery.wish is not None:
        apply(desk, delivery, *delivery.wish)


def _grant_wish(desk: Desk, delivery: Delivery) -> bool:
    if delivery.wish is None:
        return False
    wish, delivery.wish = delivery.wish, None
    apply(desk, delivery, *wish)
    return True


def _await_ack(desk: Desk, delivery: Delivery, _happening: Happening, proof: str) -> None:
    agent = desk.book.agents[delivery.agent]
    calling.back(desk, agent, "it could be told")
    delivery.told_at = delivery.first_told_at = delivery.clock_from = delivery.moved_at = desk.now.mono
    delivery.told_wall, delivery.opened_by_then = desk.now.wall, desk.book.last_key
    spells.show(desk, agent, None)  # what it does with it is still to be seen
    _record_told(desk, delivery, proof)
    workers.assigned(desk, agent, delivery)
    desk.alarm("status", delivery.key, STATUS_AFTER_S)
    watch_silence(desk, delivery, waited_s=0)


def _record_told(desk: Desk, delivery: Delivery, proof: str) -> None:
    if delivery.told:
        return  # a nudge's answer
    delivery.told = True
    desk.put(RecordFact("message_told", facts.about(delivery, attempt=delivery.tells, proof=proof)))
    if not desk.book.agents[delivery.agent].policy.reminds:  # what lies in an inbox is nobody's work until it is seen
        _assign(desk, delivery)


def _assign(desk: Desk, delivery: Delivery) -> None:
    if delivery.assigned:
        return
    delivery.assigned = True
    desk.put(facts.work("worker_assign", delivery))
    if facts.is_review(delivery):
        desk.put(facts.work("review_start", delivery))


def watch_silence(desk: Desk, delivery: Delivery, waited_s: float) -> None:
    """Start the clock that notices silence: the ladder's, or the inbox's reminder."""
    policy = desk.book.agents[delivery.agent].policy
    if policy.rungs is not None and not delivery.seen:
        desk.alarm("ack", delivery.key, max(0.0, policy.ack_timeout_s - waited_s))
    if policy.reminds and not delivery.seen:
        desk.alarm("remind", delivery.key, max(0.0, policy.remind_after_s - waited_s))


def watch_return(desk: Desk, delivery: Delivery) -> None:
    """Not from the telling on: nearly all are through before."""
    policy = desk.book.agents[delivery.agent].policy
    if policy.unwatched:
        desk.alarm("task", delivery.key, max(0.0, policy.task_timeout_s - STATUS_AFTER_S))


def write_status(desk: Desk, delivery: Delivery, status: str) -> None:
    words = headers.in_hand(status, desk.now.wall, seen=delivery.seen, retries=delivery.retries, idled=delivery.idled)
    delivery.written_s = delivery.idled.idle_s
    because_of = tuple(delivery.receipts)
    desk.put(WriteStatus(delivery.agent, delivery.key, delivery.place, words, because_of=because_of))


# --- seen and started -------------------------------------------------------------------------------------------------
def _note(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    if happening is _SEEN:
        _see(desk, delivery, why)
    elif happening is H.TOLD:
        _record_told(desk, delivery, why)
    else:
        _rise(desk, delivery)


def _see(desk: Desk, delivery: Delivery, evidence: str) -> None:
    agent = desk.book.agents[delivery.agent]
    calling.lived(desk, agent)
    if delivery.seen:
        return
    delivery.seen = True
    desk.hush(delivery.key, "ack", "remind")
    desk.put(RecordFact("message_seen", facts.about(delivery, evidence=evidence)))
    _assign(desk, delivery)
    endings.task_started(desk, delivery)
    if is_enough(agent, delivery):
        apply(desk, delivery, H.ENOUGH, f"seen: {evidence}")
        return
    _take(desk, agent, delivery)
    if agent.is_watched and delivery.state is S.DELIVERED and ("status", delivery.key) not in desk.alarms:
        write_status(desk, delivery, "delivered")  # a restart must not wake who has taken it


def is_enough(agent: Agent, delivery: Delivery) -> bool:
    """Whether that it was seen completes it."""
    return completion.completes_on(delivery.message, agent.policy) is CompletesOn.SEEN


def _take(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """From now on liveness watches, not the ladder."""
    delivery.taken_at = desk.now.mono
    if delivery.busy_told:
        endings.over_with(desk, delivery)
    if agent.ladder is not None and agent.ladder.key == delivery.key:
        agent.ladder = None
    if agent.is_watched:
        workers.begun(desk, agent, delivery)
        calling.watch(desk, agent)


def _start(desk: Desk, delivery: Delivery, _happening: Happening, by: str) -> None:
    """The line before the header, for whoever waits for it: if we die in between, what acknowledged it is heard again,
    and said again. The other way round it would be said never."""
    agent = desk.book.agents[delivery.agent]
    agent.line.discard(delivery.key)  # it may have been due for another telling
    calling.lived(desk, agent)
    delivery.seen = True
    delivery.idled, delivery.clock_from = replace(delivery.idled, idle_s=0.0), desk.now.mono
    _assign(desk, delivery)
    desk.put(RecordFact("message_acked", facts.about(delivery, by=by), lane=delivery.agent))
    if is_enough(agent, delivery):  # what acknowledged it is kept until its move is on disk
        apply(desk, delivery, H.ENOUGH, f"seen: {by}")
        return
    desk.alarm("task", delivery.key, agent.policy.task_timeout_s)
    write_status(desk, delivery, "acked")
    endings.task_started(desk, delivery)
    _take(desk, agent, delivery)
    endings.drop_receipts(desk, delivery)


def _rise(desk: Desk, delivery: Delivery) -> None:
    """Back from the dead, with a clean slate."""
    desk.totals.dead -= delivery.late
    delivery.live_again(desk.now.wall)
    desk.put(RecordFact("message_requeued", facts.about(delivery, file=str(delivery.place)), lane=delivery.agent))
    endings.over_with(desk, delivery)
    if not _grant_wish(desk, delivery):
        endings.drop_receipts(desk, delivery)
        line_up(desk, delivery)


# --- again, later -----------------------------------------------------------------------------------------------------
def _retry(desk: Desk, delivery: Delivery, _happening: Happening, why: str) -> None:
    delivery.retries += 1
    endings.released(desk, delivery, why, WorkerState.FAILED)
    _record_retry(desk, delivery, why, delivery.delay_s, counted=True)
    desk.alarm("retry", delivery.key, delivery.delay_s)


def _record_retry(desk: Desk, delivery: Delivery, why: str, delay_s: float, *, counted: bool) -> None:
    """Old acks go first: after a crash a stale one must not answer for the next telling. What asked for the retry goes
    last: after a crash it is heard again, and asks a message that is already retrying. If the disk refuses the header
    it stays until there is one."""
    due = desk.now.wall + delay_s
    asked_by = delivery.receipts[-1] if delivery.receipts else None
    endings.drop_receipts(desk, delivery, keep=asked_by)
    words = headers.retrying(delivery, due)
    because_of = tuple(delivery.receipts)
    desk.put(WriteStatus(delivery.agent, delivery.key, delivery.place, words, ends_run=True, because_of=because_of))
    data = facts.about(
        delivery,
        reason=why,
        counted=counted,
        retry_count=delivery.retries,
        retry_limit=desk.book.agents[delivery.agent].policy.retry_limit,
        delay_s=round(delay_s, 3),
        next_retry_after=escalations.stamp(due),
    )
    desk.put(RecordFact("message_retry", data, lane=delivery.agent))
    endings.drop_receipts(desk, delivery)


def _postpone(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    """Uncounted: nobody was there, or we stopped it ourselves. Written down for the next daemon to find."""
    agent = desk.book.agents[delivery.agent]
    delivery.remember(desk.now.wall, f"attempt {delivery.tells}: {why}")
    endings.released(desk, delivery, why)
    _record_retry(desk, delivery, why, calling.parked_for(desk, agent), counted=False)
    if happening is H.AWAY and agent.waits not in (Absence.BUSY, Absence.TAKEN) and not desk.stopping:
        _tell_of_absence(desk, delivery, why)
    line_up(desk, delivery)


def _tell_of_absence(desk: Desk, delivery: Delivery, why: str) -> None:
    """Mail of ours never breeds mail, but someone must read an escalation, and what waits behind it is not ours."""
    agent = desk.book.agents[delivery.agent]
    if delivery.message.sender == MONITOR:
        endings.pass_on(desk, delivery, why)
        behind = (desk.book.get(key) for key in agent.line.keys())  # noqa: SIM118 - a Lineup is no dict
        delivery = next((d for d in behind if d is not None and d.message.sender != MONITOR), delivery)
    if agent.absence_told or delivery.message.sender == MONITOR:
        return
    agent.absence_told = True
    waiting = len(agent.line) + 1
    calling.escalate(
        desk,
        agent.name,
        "away",
        escalations.derived_id("away", delivery.message.message_id, agent.name, int(desk.now.wall)),
        f"{agent.name} cannot be told: {why}. {waiting} of its {waiting} messages wait (100%), first of all "
        f"{delivery.place}",
        f"Mend it; ackd tries again by itself within {calling.PARK_CAP_S:.0f} s. `ackd status` shows when",
        delivery,
    )


def _hold(desk: Desk, delivery: Delivery, _happening: Happening, error: str) -> None:
    """The claim failed. A last word that came meanwhile needs no claim; its move is asked for again by itself. Nor does
    one that its agent has already wait for a place in its window: it is claimed as soon as the disk lets us."""
    calling.park(desk, desk.book.agents[delivery.agent], f"disk: {error}", hindered=True)
    if delivery.wish is not None and delivery.wish[0] is not H.ACKED:
        _grant_wish(desk, delivery)
        return
    line_up(desk, delivery)
    if delivery.wish is not None:
        desk.alarm("disk", delivery.key, DISK_RETRY_S)


# --- noticed ----------------------------------------------------------------------------------------------------------
def _warn(desk: Desk, delivery: Delivery, _happening: Happening, _why: str) -> None:
    seconds = desk.book.agents[delivery.agent].policy.task_timeout_s
    desk.put(RecordFact("message_overdue", facts.about(delivery, seconds=seconds)))
    if delivery.message.sender == MONITOR:
        return
    calling.escalate(
        desk,
        delivery.agent,
        "overdue",
        escalations.telling_id("overdue", delivery),
        f"{delivery.agent} {'acknowledged' if delivery.state is S.ACKED else 'was called with'} 1 message "
        f"{seconds:.0f} s ago and has not completed it: 1 of 1 open (100%), {delivery.place}",
        "Nothing was retried. Ask the agent, or answer for it with `ackd done` or `ackd defer`",
        delivery,
    )


def _end(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    endings.end(desk, delivery, happening, why)
    if delivery.state is S.DEAD and _grant_wish(desk, delivery):
        return  # its agent finished it while it was buried
    endings.close(desk, delivery)


# --- the cells --------------------------------------------------------------------------------------------------------
def _finish(desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    delivery.only_seen = happening is H.ENOUGH
    if delivery.told:
        _assign(desk, delivery)  # an inbox's agent may answer without a word before
    delivery.by = why
    endings.ask_for_move(desk, delivery)


#: Words that a stronger one may replace. Among themselves the later counts, but for an ack of what was seen enough.
_WEAK: Final = frozenset({H.ACKED, H.ENOUGH})


def _remember(_desk: Desk, delivery: Delivery, happening: Happening, why: str) -> None:
    said = delivery.wish[0] if delivery.wish is not None else None
    if said is None or (said in _WEAK and (said, happening) != (H.ENOUGH, H.ACKED)):  # the first last word stands
        delivery.wish = (happening, why)


def _revive(desk: Desk, delivery: Delivery, _happening: Happening, _why: str) -> None:
    endings.ask_for_move(desk, delivery)


def _again(desk: Desk, delivery: Delivery, _happening: Happening, _why: str) -> None:
    desk.alarm("disk", delivery.key, DISK_RETRY_S)


def _nothing(_desk: Desk, _delivery: Delivery, _happening: Happening, _why: str) -> None:
    pass


#: A table, for a message takes six of these steps: a ``match`` asks for up to sixteen members of an enum at each, and
#: that takes Python 3.11 longer than what is done then. A test holds that no act is missing.
_DO: Final[dict[Act, Callable[[Desk, Delivery, Happening, str], None]]] = {
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
    Act.REVIVE: _revive,
    Act.AGAIN: _again,
    Act.HOLD: _hold,
    Act.WARN: _warn,
    Act.END: _end,
}
