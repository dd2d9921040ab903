"""Events of whatever lives behind an endpoint, a child process or a pane: starts, deaths, prompts, heartbeats,
hand-overs.

Each event is turned into changes of the agent (agent_rules.py) and of the messages in its hands (transitions.py). How a
process is kept alive is the supervisor's matter, and how signs of life are read is the endpoints'.

Hand-over: a worker whose context is nearly full writes down where it stands, and a fresh generation is told the same
message and goes on from there; nothing is counted. A worker that writes nothing down within ``probe_timeout_s`` is
replaced all the same, and that counts as a failure, so that the work begins anew, but not for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from ackd.core import agent_rules, alerts, delivery_facts, events, idle_time, screen_rules, silence
from ackd.core.agent_facts import checkpoint, context_threshold, probe, work_blocked
from ackd.core.availability import QUIET, AgentHappening, AgentState
from ackd.core.delivery import Happening, State
from ackd.core.effects import AskCheckpoint, ProbeAgent, RenewAgent, RestartAgent
from ackd.core.escalations import Cause, derived_id, telling_id
from ackd.core.liveness import AskDecision, Asked, DisbelieveDecision, LookAgain, Pulse, decide_liveness
from ackd.core.timers import TimerKind
from ackd.core.transitions import IN_HAND, apply, fail
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    from ackd.core.state import Agent, Delivery, EngineState

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


def happened(state: EngineState, event: AboutLife) -> None:
    match event:
        case events.AgentStarted(name, detail):
            _started(state, state.agents[name], detail)
        case events.AgentDied(name):
            _died(state, state.agents[name], event)
        case events.AgentStuck(name, reason, until, new):
            agent_rules.stuck(state, state.agents[name], reason, until, new=new)
        case events.AgentReady(name):
            agent_rules.ready(state, state.agents[name])
        case events.AgentShowed(name, doing):
            screen_rules.showed(state, state.agents[name], doing)
        case events.AgentWaits(name):
            screen_rules.waits_for(state, state.agents[name], event)
        case events.Reminded():
            screen_rules.reminded(state, event)
        case events.NotProbed(key):
            _not_asked(state, _in_hand(state, key, event.attempt))
        case events.WorkerSaid():
            _said(state, state.agents[event.agent], event)
        case events.WorkBlocked(key, reason, blocker):
            _blocked(state, _in_hand(state, key, event.attempt), reason, blocker)
        case events.CheckpointCame(key, _, context_usage):
            _checkpoint(state, _in_hand(state, key, event.attempt), context_usage)
        case events.NudgeAsked(name):
            silence.nudge_by_hand(state, state.agents[name])
        case _:
            assert_never(event)


def _in_hand(state: EngineState, key: int, attempt: int) -> Delivery | None:
    """Return the message if it is in its agent's hands; None for a late word, of an earlier attempt or about a message
    that has ended."""
    delivery = state.deliveries.get(key)
    if delivery is None or delivery.state not in IN_HAND or attempt not in (0, delivery.tells):
        return None
    return delivery


# --- beginning and end ------------------------------------------------------------------------------------------------
def _started(state: EngineState, agent: Agent, detail: str) -> None:
    agent.detail, agent.generation = detail, agent.generation + 1
    agent.last_life = agent.asked = agent.context_usage = agent.reminding = None
    idle_time.show(state, agent, None)
    agent_rules.note_pulse(state, agent, Pulse.STARTED)
    agent_rules.force_worker(state, agent, WorkerState.IDLE)
    if agent.state in (AgentState.PARKED, AgentState.DOWN) and agent.occupied is None:
        agent_rules.came_back(state, agent, "it was started")
        state.timers.cancel(TimerKind.PARK, agent.name)
        agent_rules.change_state(state, agent, AgentHappening.LIVED)
    state.offer_later(agent.name)


def _died(state: EngineState, agent: Agent, event: events.AgentDied) -> None:
    agent.detail, agent.occupied, agent.reminding = "", None, None  # whatever it was doing is over
    idle_time.show(state, agent, None)
    agent.deaths += 0 if event.wanted else 1
    agent.absence_told = True  # its supervisor tries again, or it is escalated below: not for each message
    agent_rules.note_pulse(state, agent, Pulse.ENDED)
    if agent.worker is not WorkerState.IDLE:
        agent_rules.force_worker(state, agent, WorkerState.FAILED)
    if event.again_in_s is not None:
        agent_rules.park_for(state, agent, event.again_in_s, event.why)
    else:
        agent_rules.change_state(state, agent, AgentHappening.FELL_SILENT, event.why)
        if not event.wanted:
            _tell_of_death(state, agent, event.why)
    _take_back(state, agent, event)
    state.offer_later(agent.name)


def _take_back(state: EngineState, agent: Agent, event: events.AgentDied) -> None:
    """Take back what the agent was told, because that died with it.

    Mostly its endpoint has said so already, but not an endpoint that saw only the next life, or that was started after
    the telling. A message that is just being told waits for its answer, which may come from the next life.
    """
    for key in sorted(agent.window):
        delivery = state.deliveries.get(key)
        if delivery is not None and delivery.state in _TOLD:
            how = "was ended" if event.wanted else "died"
            _give_back(state, delivery, f"its agent {how}: {event.why}", counted=not event.wanted)


def _tell_of_death(state: EngineState, agent: Agent, why: str) -> None:
    if agent.policy.restarts:
        action = f"Look at logs/{agent.name}.stderr.log, mend the cause, then `ackd agent start {agent.name}`"
    else:
        action = f"Open its pane again, or `ackd agent start {agent.name}` if ackd opened it; then ackd goes on"
    alerts.escalate(
        state,
        agent.name,
        Cause.DIED,
        derived_id("died", agent.name, int(state.now.wall)),
        f"{agent.name} is down: {why}. {agent_rules.what_waits(state, agent)}",
        action,
    )


# --- signs of life ----------------------------------------------------------------------------------------------------
def look(state: EngineState, agent: Agent) -> None:
    """Check whether the agent is still alive: its liveness timer is due."""
    if agent.policy.shows:
        screen_rules.look(state, agent)
        return
    held, quiet_s = _taken(state, agent), agent.policy.heartbeat_timeout_s
    if held is None or quiet_s is None:
        return
    woken = agent.ladder is not None or held.state is State.PROCESSING  # a telling under way has a timer of its own
    if agent.state not in QUIET or woken:  # someone knows, or it is being woken
        state.start_timer(TimerKind.LIVENESS, agent.name, quiet_s)
        return
    answer_s = agent.policy.probe_timeout_s
    decision = decide_liveness(
        held.taken_at,
        agent.last_life,
        agent.asked,
        state.now.mono,
        quiet_s,
        answer_s,
        deaf_s=agent.policy.busy_timeout_s,
    )
    match decision:
        case LookAgain(at):
            state.timers.start(TimerKind.LIVENESS, agent.name, at)
        case AskDecision(until):
            _ask(state, agent, held, quiet_s)
            state.timers.start(TimerKind.LIVENESS, agent.name, until)
        case DisbelieveDecision():
            is_deaf = agent.asked is not None and not agent.asked.made
            what = "could it be asked" if is_deaf else "an answer to a status check"
            waited_s = max(quiet_s + answer_s, agent.policy.busy_timeout_s if is_deaf else 0.0)
            why = f"no sign of life in {waited_s:.0f} s, nor {what}"
            _disbelieve(state, agent, held, why)
        case _:
            assert_never(decision)


def _taken(state: EngineState, agent: Agent) -> Delivery | None:
    """Return the oldest message that the agent has taken."""
    held = (state.deliveries.get(key) for key in sorted(agent.window))
    return next((d for d in held if d is not None and d.state in IN_HAND and d.seen), None)


def _ask(state: EngineState, agent: Agent, held: Delivery, quiet_s: float) -> None:
    agent_rules.note_pulse(state, agent, Pulse.QUIET)
    agent.asked = Asked(state.now.mono)
    text = f"Status check: are you still working on {held.message.task_id or held.message.message_id}?"
    state.record(probe(**delivery_facts.about(held), text=text, quiet_s=quiet_s))
    state.emit(ProbeAgent(agent.name, held.key, held.message, held.place, text, attempt=held.tells))


def _not_asked(state: EngineState, held: Delivery | None) -> None:
    """Note that a status check could not be made. It is made again, until the agent could not be asked for too long."""
    if held is None:
        return
    agent = state.agents[held.agent]
    if agent.asked is not None:
        agent.asked = Asked(agent.asked.at, made=False)


def _disbelieve(state: EngineState, agent: Agent, held: Delivery, why: str) -> None:
    agent_rules.note_pulse(state, agent, Pulse.UNANSWERED)
    if not agent.policy.restarts:
        silence.wake_from_hanging(state, held, why)
        agent_rules.watch_liveness(state, agent)  # for its other messages, should the ladder end without a sign of life
        return
    state.emit(RestartAgent(agent.name, why))
    for key in sorted(agent.window):
        delivery = state.deliveries.get(key)
        if delivery is not None and delivery.state in IN_HAND:
            fail(state, delivery, H.FAILED, why)


# --- words ------------------------------------------------------------------------------------------------------------
def _said(state: EngineState, agent: Agent, event: events.WorkerSaid) -> None:
    """Note a sign of life. What the worker says of its message counts only if that is still in its hands."""
    agent_rules.sign_of_life(state, agent)
    if event.key is None:
        _said_of_itself(state, agent, event)
        return
    delivery = _in_hand(state, event.key, event.attempt)
    if delivery is None:
        return
    if not delivery.seen:
        apply(state, delivery, H.SEEN, "its worker speaks of it")
    if event.state is not None:
        agent_rules.walk_worker(state, agent, event.state, delivery)
    if event.progress is not None:
        state.emit(delivery_facts.worker_progress(delivery, event.progress))
    if event.context_usage is not None:
        _fills_up(state, agent, delivery, event.context_usage)


def _said_of_itself(state: EngineState, agent: Agent, event: events.WorkerSaid) -> None:
    """Note what a screen shows of the worker itself: how full its context is, which concerns the message that it has
    taken."""
    held, usage = _taken(state, agent), event.context_usage
    if usage is not None:
        agent.context_usage = usage
        if held is not None:
            _fills_up(state, agent, held, usage)


def _blocked(state: EngineState, delivery: Delivery | None, reason: str, blocker: str | None) -> None:
    """Escalate to the blocker, if that is an agent: it may be able to help without knowing of it. Else to the
    leader."""
    if delivery is None:
        return
    agent = state.agents[delivery.agent]
    agent_rules.sign_of_life(state, agent)
    agent_rules.walk_worker(state, agent, WorkerState.BLOCKED, delivery)
    state.record(work_blocked(**delivery_facts.about(delivery), reason=reason, blocker=blocker))
    asked = state.agent_called(blocker) if blocker else None
    alerts.escalate(
        state,
        agent.name,
        Cause.BLOCKED,
        telling_id("blocked", delivery),
        f"{agent.name} is blocked: {reason}. 1 message waits for that, {delivery.place}"
        + (f"; it names {blocker}" if blocker else ""),
        f"Clear what blocks it, or take the work back with `ackd defer {delivery.message.message_id}`",
        delivery,
        to=asked if asked != agent.name else None,
    )


# --- a full context ---------------------------------------------------------------------------------------------------
def _fills_up(state: EngineState, agent: Agent, delivery: Delivery, usage: float) -> None:
    agent.context_usage = usage
    if usage < agent.policy.context_threshold or agent.handing_over is not None:
        return
    _hand_over_begins(state, agent, delivery, usage)
    order = (agent.name, delivery.key, delivery.message, delivery.place)
    state.emit(AskCheckpoint(*order, attempt=delivery.tells))
    state.start_timer(TimerKind.CHECKPOINT, agent.name, agent.policy.probe_timeout_s)


def _hand_over_begins(state: EngineState, agent: Agent, delivery: Delivery, usage: float) -> None:
    agent.handing_over, agent.context_usage = delivery.key, usage
    threshold = agent.policy.context_threshold
    state.record(context_threshold(**delivery_facts.about(delivery), usage=round(usage, 3), threshold=threshold))
    agent_rules.walk_worker(state, agent, WorkerState.WAITING, delivery)


def _checkpoint(state: EngineState, delivery: Delivery | None, usage: float | None) -> None:
    """Note a checkpoint. If it was not asked for, it is kept for the next generation and nothing else changes."""
    if delivery is None:
        return
    agent = state.agents[delivery.agent]
    agent_rules.sign_of_life(state, agent)
    state.record(checkpoint(**delivery_facts.about(delivery)))
    if agent.handing_over is None and usage is not None and usage >= agent.policy.context_threshold:
        _hand_over_begins(state, agent, delivery, usage)
    if agent.handing_over == delivery.key:
        hand_over(state, agent, "a fresh worker goes on from its checkpoint")


def no_checkpoint(state: EngineState, agent: Agent) -> None:
    """Hand over without a checkpoint: the time for it is up."""
    hand_over(state, agent, "no checkpoint came, a fresh worker begins with what is kept", counted=True)


def hand_over(state: EngineState, agent: Agent, how: str, *, counted: bool = False) -> None:
    key, agent.handing_over = agent.handing_over, None
    state.timers.cancel(TimerKind.CHECKPOINT, agent.name)
    used = f"{agent.context_usage:.0%} of its context used" if agent.context_usage is not None else "context full"
    why, agent.context_usage = f"{used}: {how}", None
    delivery = state.deliveries.get(key) if key is not None else None
    if delivery is not None and delivery.state in IN_HAND:  # else it was finished meanwhile
        _give_back(state, delivery, why, counted=counted)
    state.emit(RenewAgent(agent.name, why))


def _give_back(state: EngineState, delivery: Delivery, why: str, *, counted: bool) -> None:
    if counted:
        fail(state, delivery, H.FAILED, why)
    else:
        apply(state, delivery, H.STOPPED, why)
