"""What is done about an agent that was told and stays silent: waking it rung by rung, and the end of that.

Owns the climb; when to climb is decided in ladder.py. The ladder acts on the agent, one message at a time, and never on
one that shows signs of life: that one is left in peace, and someone is told. Refuses to know what a rung does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ackd.core import calling, facts, trouble
from ackd.core.acts import apply
from ackd.core.availability import QUIET, AgentHappening
from ackd.core.delivery import Happening, State
from ackd.core.effects import NudgeAgent, RecordFact
from ackd.core.idleness import Doing
from ackd.core.ladder import ClimbDecision, EndDecision, Ladder, WaitDecision, decide
from ackd.core.liveness import Pulse
from ackd.core.message import MONITOR

if TYPE_CHECKING:
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk

H, S = Happening, State

#: Where an agent that took its work and then hangs begins: to repeat the line would tell it what it knows.
HANGING_RUNG = 2


def heard_nothing(desk: Desk, delivery: Delivery) -> None:
    """The time for an acknowledgement is up."""
    agent = desk.book.agents[delivery.agent]
    policy, told_at = agent.policy, delivery.told_at if delivery.told_at is not None else desk.now.mono
    if policy.rungs is None or (_is_taken(delivery) and not _stands_on_ladder(agent, delivery)):
        return
    if agent.state not in QUIET:  # down, paused or away: someone knows, and nudging helps nobody
        desk.alarm("ack", delivery.key, policy.ack_timeout_s)
        return
    if agent.doing is Doing.BUSY and not (agent.ladder is not None and agent.ladder.hung):
        desk.alarm("ack", delivery.key, policy.ack_timeout_s)  # busy is neither life nor silence: no rung
        _tell_of_busy(desk, agent, delivery)
        return
    now, at_work = desk.now.mono, _works_on_another(desk, agent, delivery)
    decision = decide(
        agent.ladder, delivery.key, policy.rungs, told_at, agent.last_life, now, policy.ack_timeout_s, at_work=at_work
    )
    match decision:
        case WaitDecision(until):
            desk.alarm_at("ack", delivery.key, until)
            _tell_of_busy(desk, agent, delivery)
        case ClimbDecision(ladder):
            _climb(desk, agent, delivery, ladder, f"silent for {policy.ack_timeout_s:.0f} s")
        case EndDecision(woken):
            _give_up(desk, delivery, woken)
        case _:
            assert_never(decision)


def wake_from_hanging(desk: Desk, delivery: Delivery, why: str) -> None:
    """It has the message and shows no life since: its ladder, without the first rung."""
    agent = desk.book.agents[delivery.agent]
    first = min(HANGING_RUNG, agent.policy.rungs or 0)
    if first:
        _climb(desk, agent, delivery, Ladder(delivery.key, first, skipped=first - 1, hung=True), why)
    else:
        delivery.remember(desk.now.wall, why)
        _give_up(desk, delivery, 0)


def nudge_by_hand(desk: Desk, agent: Agent) -> None:
    """A person says so: the line again, once, whatever the clocks say."""
    told = (desk.book.get(key) for key in sorted(agent.window))
    delivery = next((d for d in told if d is not None and d.state in (S.DELIVERED, S.ACKED)), None)
    if delivery is None or agent.policy.rungs is None:
        why = "it has no message in hand" if agent.policy.rungs is not None else "its endpoint has no ladder"
        desk.fact("agent_request", agent=agent.name, request="nudge", answer=f"not nudged: {why}")
        return
    desk.put(RecordFact("nudge", facts.about(delivery, rung=0, by="hand")))
    order = (agent.name, delivery.key, delivery.message, delivery.place)
    desk.put(NudgeAgent(*order, rung=0, attempt=delivery.tells))


def _is_taken(delivery: Delivery) -> bool:
    return delivery.seen or delivery.state is S.ACKED


def _stands_on_ladder(agent: Agent, delivery: Delivery) -> bool:
    return agent.ladder is not None and agent.ladder.key == delivery.key


def is_held_up(desk: Desk, agent: Agent) -> bool:
    """Its ladder stands still: a higher rung would interrupt acknowledged work of another message, so it waits."""
    held = desk.book.get(agent.ladder.key) if agent.ladder is not None else None
    if agent.ladder is None or agent.ladder.rung < 1 or held is None:
        return False
    return _works_on_another(desk, agent, held)


def _works_on_another(desk: Desk, agent: Agent, delivery: Delivery) -> bool:
    others = (desk.book.get(key) for key in agent.window if key != delivery.key)
    return any(other is not None and other.state is S.ACKED for other in others)


def _climb(desk: Desk, agent: Agent, delivery: Delivery, ladder: Ladder, why: str) -> None:
    agent.ladder, delivery.told_at = ladder, desk.now.mono
    delivery.remember(desk.now.wall, f"{why}: rung {ladder.rung}")
    desk.alarm("ack", delivery.key, agent.policy.ack_timeout_s)
    desk.put(RecordFact("nudge", facts.about(delivery, rung=ladder.rung)))
    order = (agent.name, delivery.key, delivery.message, delivery.place)
    rung = agent.policy.ladder[ladder.rung - 1]
    desk.put(NudgeAgent(*order, rung, attempt=delivery.tells, hung=ladder.hung))


def _give_up(desk: Desk, delivery: Delivery, woken: int) -> None:
    """The end of the ladder: the message is dead, the agent down; the rest of its mail waits."""
    agent = desk.book.agents[delivery.agent]
    taken = _is_taken(delivery)
    waited_s = (woken if taken else woken + 1) * agent.policy.ack_timeout_s
    what = "it took its message, showed no life, was" if taken else "told once and"
    why = f"silent: {what} woken {woken} times without an answer in {waited_s:.0f} s"
    delivery.remember(desk.now.wall, why)
    calling.beat(desk, agent, Pulse.ENDED)
    calling.change(desk, agent, AgentHappening.FELL_SILENT, why)
    apply(desk, delivery, H.SILENT, why)


def _tell_of_busy(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """It lives, and does not take the message: left in peace, but not in silence."""
    waited_s = desk.now.mono - delivery.first_told_at
    if delivery.busy_told or waited_s < agent.policy.busy_timeout_s:
        return
    delivery.busy_told = True
    desk.put(RecordFact("message_overdue", facts.about(delivery, seconds=round(waited_s))))
    if delivery.message.sender == MONITOR:
        return
    trouble.tell(
        desk,
        "busy",
        f"{agent.name} {delivery.message.message_id}",
        f"{agent.name} shows signs of life and has not taken 1 message in {waited_s:.0f} s: 1 of 1 told (100%), "
        f"{delivery.place}",
        "Nothing was interrupted. Look at what it does, or `ackd defer` the message",
        agent=agent.name,
    )
