"""Waking an agent that was told and stays silent, rung by rung, and giving it up at the end.

When to climb is decided in ladder.py, what a rung does by the endpoint. The ladder is the agent's, for one message at a
time. An agent that shows signs of life is never woken: it is left in peace, and someone is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ackd.core import agent_rules, alerts, delivery_facts
from ackd.core.agent_facts import agent_request, nudge
from ackd.core.availability import QUIET, AgentHappening
from ackd.core.delivery import Happening, State
from ackd.core.effects import NudgeAgent
from ackd.core.idleness import Doing
from ackd.core.ladder import ClimbDecision, EndDecision, Ladder, WaitDecision, decide_rung
from ackd.core.liveness import Pulse
from ackd.core.message import MONITOR
from ackd.core.message_facts import message_overdue
from ackd.core.timers import TimerKind
from ackd.core.transitions import apply, fail

if TYPE_CHECKING:
    from ackd.core.state import Agent, Delivery, EngineState

H, S = Happening, State

#: The first rung for an agent that took its message and then hangs: to type the line again would tell it nothing new.
HANGING_RUNG = 2


def ack_timed_out(state: EngineState, delivery: Delivery) -> None:
    """Wake the agent, wait longer or give up: the time for an acknowledgement is up."""
    agent = state.agents[delivery.agent]
    policy, told_at = agent.policy, delivery.told_at if delivery.told_at is not None else state.now.mono
    if policy.rungs is None or (_is_taken(delivery) and not _stands_on_ladder(agent, delivery)):
        return
    if agent.state not in QUIET and delivery.message.pool and not _is_taken(delivery):
        apply(state, delivery, H.STOPPED, f"told and not seen, and {agent.name} is {agent.state.value}")
        return
    if agent.state not in QUIET:  # down, paused or away: someone knows, and waking it does not help
        state.start_timer(TimerKind.ACK, delivery.key, policy.ack_timeout_s)
        return
    if agent.doing is Doing.BUSY and not (agent.ladder is not None and agent.ladder.hung):
        state.start_timer(
            TimerKind.ACK, delivery.key, policy.ack_timeout_s
        )  # to show busy is neither a sign of life nor silence
        _tell_of_busy(state, agent, delivery)
        return
    now, at_work = state.now.mono, _works_on_another(state, agent, delivery)
    decision = decide_rung(
        agent.ladder, delivery.key, policy.rungs, told_at, agent.last_life, now, policy.ack_timeout_s, at_work=at_work
    )
    match decision:
        case WaitDecision(until):
            state.timers.start(TimerKind.ACK, delivery.key, until)
            _tell_of_busy(state, agent, delivery)
        case ClimbDecision(ladder):
            _climb(state, agent, delivery, ladder, f"silent for {policy.ack_timeout_s:.0f} s")
        case EndDecision(woken):
            _give_up(state, delivery, woken)
        case _:
            assert_never(decision)


def wake_from_hanging(state: EngineState, delivery: Delivery, why: str) -> None:
    """Begin the ladder above its first rung for an agent that has the message and shows no life since."""
    agent = state.agents[delivery.agent]
    first = min(HANGING_RUNG, agent.policy.rungs or 0)
    if first:
        _climb(state, agent, delivery, Ladder(delivery.key, first, skipped=first - 1, hung=True), why)
    else:
        delivery.remember(state.now.wall, why)
        _give_up(state, delivery, 0)


def nudge_by_hand(state: EngineState, agent: Agent) -> None:
    """Type the line once more because a person asks for it, whatever the timers say."""
    told = (state.deliveries.get(key) for key in sorted(agent.window))
    delivery = next((d for d in told if d is not None and d.state in (S.DELIVERED, S.ACKED)), None)
    if delivery is None or agent.policy.rungs is None:
        why = "it has no message in hand" if agent.policy.rungs is not None else "its endpoint has no ladder"
        state.record(agent_request(agent=agent.name, request="nudge", answer=f"not nudged: {why}"))
        return
    state.record(nudge(**delivery_facts.about(delivery), rung=0, by="hand"))
    order = (agent.name, delivery.key, delivery.message, delivery.place)
    state.emit(NudgeAgent(*order, rung=0, attempt=delivery.tells))


def _is_taken(delivery: Delivery) -> bool:
    return delivery.seen or delivery.state is S.ACKED


def _stands_on_ladder(agent: Agent, delivery: Delivery) -> bool:
    return agent.ladder is not None and agent.ladder.key == delivery.key


def is_held_up(state: EngineState, agent: Agent) -> bool:
    """Return whether the ladder waits because a higher rung would interrupt acknowledged work on another message."""
    held = state.deliveries.get(agent.ladder.key) if agent.ladder is not None else None
    if agent.ladder is None or agent.ladder.rung < 1 or held is None:
        return False
    return _works_on_another(state, agent, held)


def _works_on_another(state: EngineState, agent: Agent, delivery: Delivery) -> bool:
    others = (state.deliveries.get(key) for key in agent.window if key != delivery.key)
    return any(other is not None and other.state is S.ACKED for other in others)


def _climb(state: EngineState, agent: Agent, delivery: Delivery, ladder: Ladder, why: str) -> None:
    agent.ladder, delivery.told_at = ladder, state.now.mono
    delivery.remember(state.now.wall, f"{why}: rung {ladder.rung}")
    state.start_timer(TimerKind.ACK, delivery.key, agent.policy.ack_timeout_s)
    state.record(nudge(**delivery_facts.about(delivery), rung=ladder.rung))
    order = NudgeAgent(
        lane=agent.name,
        key=delivery.key,
        message=delivery.message,
        place=delivery.place,
        rung=agent.policy.ladder[ladder.rung - 1],
        attempt=delivery.tells,
        hung=ladder.hung,
    )
    state.emit(order)


def _give_up(state: EngineState, delivery: Delivery, woken: int) -> None:
    """End the ladder: the message is dead and the agent down; the rest of its mail waits."""
    agent = state.agents[delivery.agent]
    taken = _is_taken(delivery)
    waited_s = (woken if taken else woken + 1) * agent.policy.ack_timeout_s
    what = "it took its message, showed no life, was" if taken else "told once and"
    why = f"silent: {what} woken {woken} times without an answer in {waited_s:.0f} s"
    delivery.remember(state.now.wall, why)
    agent_rules.note_pulse(state, agent, Pulse.ENDED)
    agent_rules.change_state(state, agent, AgentHappening.FELL_SILENT, why)
    if delivery.message.pool and not taken:
        fail(state, delivery, H.FAILED, why)  # nobody has begun it: another member of its pool may
    else:
        apply(state, delivery, H.SILENT, why)


def _tell_of_busy(state: EngineState, agent: Agent, delivery: Delivery) -> None:
    """Notify somebody of an agent that lives and does not take the message."""
    waited_s = state.now.mono - delivery.first_told_at
    if delivery.busy_told or waited_s < agent.policy.busy_timeout_s:
        return
    delivery.busy_told = True
    state.record(message_overdue(**delivery_facts.about(delivery), seconds=round(waited_s)))
    if delivery.message.sender == MONITOR:
        return
    alerts.notify(
        state,
        "busy",
        f"{agent.name} {delivery.message.message_id}",
        f"{agent.name} shows signs of life and has not taken 1 message in {waited_s:.0f} s: {delivery.place}",
        "Nothing was interrupted. Look at what it does, or `ackd defer` the message",
        agent=agent.name,
    )
