"""What happens to what lives behind an endpoint, a child or a pane: starts, deaths, prompts, heartbeats, hand-overs.

Owns what each of these means for the agent and for the work in its hands. Refuses to know how a life is kept (the
supervisor's) and how a sign of it is read (the endpoints').

Hand-over: a worker whose context is nearly full writes down where it stands; a fresh generation is told of the same
message and goes on from there, uncounted. One that writes nothing down within ``probe_timeout_s`` is replaced all the
same, and that counts as a failure: the work begins anew rather than never ending, and not for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from ackd.core import calling, events, facts, idling, silence, spells, workers
from ackd.core.acts import IN_HAND, apply, fail
from ackd.core.availability import QUIET, AgentHappening, AgentState
from ackd.core.delivery import Happening, State
from ackd.core.effects import AskCheckpoint, ProbeAgent, RecordFact, RenewAgent, RestartAgent
from ackd.core.escalations import derived_id, telling_id
from ackd.core.liveness import AskDecision, DisbelieveDecision, LookAgain, Pulse, decide
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk

H = Happening
_TOLD: Final = frozenset({State.DELIVERED, State.ACKED})

AboutLife: TypeAlias = (
    events.AgentStarted
    | events.AgentDied
    | events.AgentStuck
    | events.AgentReady
    | events.AgentShowed
    | events.AgentWaits
    | events.Reminded
    | events.NotProbed
    | events.WorkerSaid
    | events.WorkBlocked
    | events.CheckpointCame
    | events.NudgeAsked
)


def happened(desk: Desk, event: AboutLife) -> None:
    match event:
        case events.AgentStarted(name, detail):
            _started(desk, desk.book.agents[name], detail)
        case events.AgentDied(name):
            _died(desk, desk.book.agents[name], event)
        case events.AgentStuck(name, reason, until, new):
            calling.stuck(desk, desk.book.agents[name], reason, until, new=new)
        case events.AgentReady(name):
            calling.ready(desk, desk.book.agents[name])
        case events.AgentShowed(name, doing):
            idling.showed(desk, desk.book.agents[name], doing)
        case events.AgentWaits(name):
            idling.waits_for(desk, desk.book.agents[name], event)
        case events.Reminded():
            idling.reminded(desk, event)
        case events.NotProbed(key):
            _not_asked(desk, _in_hand(desk, key, event.attempt))
        case events.WorkerSaid():
            _said(desk, desk.book.agents[event.agent], event)
        case events.WorkBlocked(key, reason, blocker):
            _blocked(desk, _in_hand(desk, key, event.attempt), reason, blocker)
        case events.CheckpointCame(key, _, context_usage):
            _checkpoint(desk, _in_hand(desk, key, event.attempt), context_usage)
        case events.NudgeAsked(name):
            silence.nudge_by_hand(desk, desk.book.agents[name])
        case _:
            assert_never(event)


def _in_hand(desk: Desk, key: int, attempt: int) -> Delivery | None:
    """None: a late word, of an earlier generation or about what has ended."""
    delivery = desk.book.get(key)
    if delivery is None or delivery.state not in IN_HAND or attempt not in (0, delivery.tells):
        return None
    return delivery


# --- beginning and end ------------------------------------------------------------------------------------------------
def _started(desk: Desk, agent: Agent, detail: str) -> None:
    agent.detail, agent.generation = detail, agent.generation + 1
    agent.last_life = agent.asked_at = agent.context_usage = agent.reminding = None
    agent.unasked = False
    spells.show(desk, agent, None)
    calling.beat(desk, agent, Pulse.STARTED)
    workers.force(desk, agent, WorkerState.IDLE)
    if agent.state in (AgentState.PARKED, AgentState.DOWN) and agent.waits is None:
        calling.back(desk, agent, "it was started")
        desk.hush(agent.name, "unpark")
        calling.change(desk, agent, AgentHappening.LIVED)
    desk.touch(agent.name)


def _died(desk: Desk, agent: Agent, event: events.AgentDied) -> None:
    agent.detail, agent.waits, agent.reminding = "", None, None  # whatever it was at is over
    spells.show(desk, agent, None)
    agent.deaths += 0 if event.wanted else 1
    agent.absence_told = True  # who keeps it goes on trying, or it is told of below: not for each message once more
    calling.beat(desk, agent, Pulse.ENDED)
    if agent.worker is not WorkerState.IDLE:
        workers.force(desk, agent, WorkerState.FAILED)
    if event.again_in_s is not None:
        calling.park_for(desk, agent, event.again_in_s, event.why)
    else:
        calling.change(desk, agent, AgentHappening.FELL_SILENT, event.why)
        if not event.wanted:
            _tell_of_death(desk, agent, event.why)
    _take_back(desk, agent, event)
    desk.touch(agent.name)


def _take_back(desk: Desk, agent: Agent, event: events.AgentDied) -> None:
    """What it was told died with it. Mostly its endpoint has said so; not one that saw the next life only, or was
    started after the telling. What is being told waits for its answer: that may come from the next life."""
    for key in sorted(agent.window):
        delivery = desk.book.get(key)
        if delivery is not None and delivery.state in _TOLD:
            how = "was ended" if event.wanted else "died"
            _give_back(desk, delivery, f"its agent {how}: {event.why}", counted=not event.wanted)


def _tell_of_death(desk: Desk, agent: Agent, why: str) -> None:
    if agent.policy.restarts:
        action = f"Look at logs/{agent.name}.stderr.log, mend the cause, then `ackd agent start {agent.name}`"
    else:
        action = f"Open its pane again, or `ackd agent start {agent.name}` if ackd opened it; then ackd goes on"
    calling.escalate(
        desk,
        agent.name,
        "died",
        derived_id("died", agent.name, int(desk.now.wall)),
        f"{agent.name} is down: {why}. {calling.what_waits(agent)}",
        action,
    )


# --- signs of life ----------------------------------------------------------------------------------------------------
def look(desk: Desk, agent: Agent) -> None:
    """The clock of its life rang: is it still there?"""
    if agent.policy.shows:
        idling.look(desk, agent)
        return
    held, quiet_s = _taken(desk, agent), agent.policy.heartbeat_timeout_s
    if held is None or quiet_s is None:
        return
    woken = agent.ladder is not None or held.state is State.PROCESSING  # a telling under way has a clock of its own
    if agent.state not in QUIET or woken:  # someone knows, or it is being woken
        desk.alarm("life", agent.name, quiet_s)
        return
    answer_s = agent.policy.probe_timeout_s
    decision = decide(
        held.taken_at,
        agent.last_life,
        agent.asked_at,
        desk.now.mono,
        quiet_s,
        answer_s,
        unasked=agent.unasked,
        deaf_s=agent.policy.busy_timeout_s,
    )
    match decision:
        case LookAgain(at):
            desk.alarm_at("life", agent.name, at)
        case AskDecision(until):
            _ask(desk, agent, held, quiet_s)
            desk.alarm_at("life", agent.name, until)
        case DisbelieveDecision():
            asked = "could it be asked" if agent.unasked else "an answer to a status check"
            waited_s = max(quiet_s + answer_s, agent.policy.busy_timeout_s if agent.unasked else 0.0)
            why = f"no sign of life in {waited_s:.0f} s, nor {asked}"
            _disbelieve(desk, agent, held, why)
        case _:
            assert_never(decision)


def _taken(desk: Desk, agent: Agent) -> Delivery | None:
    """The oldest work that it has taken."""
    held = (desk.book.get(key) for key in sorted(agent.window))
    return next((d for d in held if d is not None and d.state in IN_HAND and d.seen), None)


def _ask(desk: Desk, agent: Agent, held: Delivery, quiet_s: float) -> None:
    calling.beat(desk, agent, Pulse.QUIET)
    agent.asked_at, agent.unasked = desk.now.mono, False
    text = f"Status check: are you still working on {held.message.task_id or held.message.message_id}?"
    desk.put(RecordFact("probe", facts.about(held, text=text, quiet_s=quiet_s)))
    order = (agent.name, held.key, held.message, held.place)
    desk.put(ProbeAgent(*order, text, attempt=held.tells))


def _not_asked(desk: Desk, held: Delivery | None) -> None:
    """A probe that could not be made is no probe: it is made again, until the agent has been deaf for too long."""
    if held is None:
        return
    agent = desk.book.agents[held.agent]
    if agent.asked_at is not None:
        agent.unasked = True


def _disbelieve(desk: Desk, agent: Agent, held: Delivery, why: str) -> None:
    calling.beat(desk, agent, Pulse.UNANSWERED)
    if not agent.policy.restarts:
        silence.wake_from_hanging(desk, held, why)
        calling.watch(desk, agent)  # for what else it has taken, should the ladder end without a sign
        return
    desk.put(RestartAgent(agent.name, why))
    for key in sorted(agent.window):
        delivery = desk.book.get(key)
        if delivery is not None and delivery.state in IN_HAND:
            fail(desk, delivery, H.FAILED, why)


# --- words ------------------------------------------------------------------------------------------------------------
def _said(desk: Desk, agent: Agent, event: events.WorkerSaid) -> None:
    """Alive in any case; what it says of its work counts if that is still its own."""
    calling.lived(desk, agent)
    if event.key is None:
        _said_of_itself(desk, agent, event)
        return
    delivery = _in_hand(desk, event.key, event.attempt)
    if delivery is None:
        return
    if not delivery.seen:
        apply(desk, delivery, H.SEEN, "its worker speaks of it")
    if event.state is not None:
        workers.walk(desk, agent, event.state, delivery)
    if event.progress is not None:
        desk.put(facts.worker_progress(delivery, event.progress))
    if event.context_usage is not None:
        _fills_up(desk, agent, delivery, event.context_usage)


def _said_of_itself(desk: Desk, agent: Agent, event: events.WorkerSaid) -> None:
    """Of no work in particular, as a screen does: how full it is concerns what it has taken."""
    held, usage = _taken(desk, agent), event.context_usage
    if usage is not None:
        agent.context_usage = usage
        if held is not None:
            _fills_up(desk, agent, held, usage)


def _blocked(desk: Desk, delivery: Delivery | None, reason: str, blocker: str | None) -> None:
    """To the blocker, if it is an agent: it may hold the key without knowing. Else to who leads."""
    if delivery is None:
        return
    agent = desk.book.agents[delivery.agent]
    calling.lived(desk, agent)
    workers.walk(desk, agent, WorkerState.BLOCKED, delivery)
    desk.put(RecordFact("work_blocked", facts.about(delivery, reason=reason, blocker=blocker)))
    asked = desk.agent_called(blocker) if blocker else None
    calling.escalate(
        desk,
        agent.name,
        "blocked",
        telling_id("blocked", delivery),
        f"{agent.name} is blocked: {reason}. 1 of 1 message waits for that (100%), {delivery.place}"
        + (f"; it names {blocker}" if blocker else ""),
        f"Clear what blocks it, or take the work back with `ackd defer {delivery.message.message_id}`",
        delivery,
        to=asked if asked != agent.name else None,
    )


# --- a full context ---------------------------------------------------------------------------------------------------
def _fills_up(desk: Desk, agent: Agent, delivery: Delivery, usage: float) -> None:
    agent.context_usage = usage
    if usage < agent.policy.context_threshold or agent.handing_over is not None:
        return
    _hand_over_begins(desk, agent, delivery, usage)
    order = (agent.name, delivery.key, delivery.message, delivery.place)
    desk.put(AskCheckpoint(*order, attempt=delivery.tells))
    desk.alarm("checkpoint", agent.name, agent.policy.probe_timeout_s)


def _hand_over_begins(desk: Desk, agent: Agent, delivery: Delivery, usage: float) -> None:
    agent.handing_over, agent.context_usage = delivery.key, usage
    threshold = agent.policy.context_threshold
    desk.put(RecordFact("context_threshold", facts.about(delivery, usage=round(usage, 3), threshold=threshold)))
    workers.walk(desk, agent, WorkerState.WAITING, delivery)


def _checkpoint(desk: Desk, delivery: Delivery | None, usage: float | None) -> None:
    """Also unasked: then it is kept for whoever comes next, and nothing else changes."""
    if delivery is None:
        return
    agent = desk.book.agents[delivery.agent]
    calling.lived(desk, agent)
    desk.put(RecordFact("checkpoint", facts.about(delivery)))
    if agent.handing_over is None and usage is not None and usage >= agent.policy.context_threshold:
        _hand_over_begins(desk, agent, delivery, usage)
    if agent.handing_over == delivery.key:
        hand_over(desk, agent, "a fresh worker goes on from its checkpoint")


def no_checkpoint(desk: Desk, agent: Agent) -> None:
    """The time for it is up."""
    hand_over(desk, agent, "no checkpoint came, a fresh worker begins with what is kept", counted=True)


def hand_over(desk: Desk, agent: Agent, how: str, *, counted: bool = False) -> None:
    key, agent.handing_over = agent.handing_over, None
    desk.hush(agent.name, "checkpoint")
    used = f"{agent.context_usage:.0%} of its context used" if agent.context_usage is not None else "context full"
    why, agent.context_usage = f"{used}: {how}", None
    delivery = desk.book.get(key) if key is not None else None
    if delivery is not None and delivery.state in IN_HAND:  # else it was finished meanwhile; the next finds room
        _give_back(desk, delivery, why, counted=counted)
    desk.put(RenewAgent(agent.name, why))


def _give_back(desk: Desk, delivery: Delivery, why: str, *, counted: bool) -> None:
    if counted:
        fail(desk, delivery, H.FAILED, why)
    else:
        apply(desk, delivery, H.STOPPED, why)
