"""How agents are treated: parked, believed alive, told on.

Turns what happens to an agent into its state, facts and escalations. Refuses to know what becomes of a message
(acts.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core import availability, escalations
from ackd.core.availability import QUIET, AgentHappening, AgentState
from ackd.core.effects import RecordFact, SendMessage
from ackd.core.escalations import OpenEscalation
from ackd.core.message import USER

if TYPE_CHECKING:
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk

PARK_BASE_S = 5.0
PARK_CAP_S = 300.0


def change(desk: Desk, agent: Agent, happening: AgentHappening, reason: str = "", until: float | None = None) -> None:
    """Apply the table; a change that is more than the breath of work gets its line."""
    before = agent.state
    agent.state = availability.step(before, happening)
    if agent.state is before:
        return
    agent.reason, agent.until = ("", None) if agent.state in QUIET else (reason, until)
    agent.hindered = False
    if not {agent.state, before} <= QUIET:
        at = escalations.stamp(until) if agent.until is not None and until is not None else None
        desk.fact("agent_state", agent=agent.name, state=agent.state.value, reason=agent.reason or None, until=at)


def lived(desk: Desk, agent: Agent) -> None:
    """Anything an agent does is a sign of life: it ends its ladder, and its being down or parked."""
    agent.last_life = desk.now.mono
    agent.ladder = None
    agent.reminded = False
    if agent.state in (AgentState.DOWN, AgentState.PARKED):
        agent.came_back()
        change(desk, agent, AgentHappening.LIVED)
    desk.touch(agent.name)


def resume(desk: Desk, agent: Agent) -> None:
    """A person says it is fit: whatever was held against it is forgotten."""
    agent.came_back()
    agent.ladder = None
    change(desk, agent, AgentHappening.RESUMED)
    desk.touch(agent.name)


def park(desk: Desk, agent: Agent, reason: str, *, hindered: bool = False) -> float:
    """Nobody to tell, or the machine refuses (``hindered``): wait, longer each time in a row, and try again by itself.

    Returns the seconds until then. Several messages that come back from one absence are one park.
    """
    if agent.state is AgentState.PARKED:
        return parked_for(desk, agent)
    wait_s = min(PARK_CAP_S, PARK_BASE_S * 2.0 ** min(agent.parks, 16))
    agent.parks += 1
    change(desk, agent, AgentHappening.WENT_AWAY, reason, desk.now.wall + wait_s)
    agent.hindered = hindered
    desk.alarm("unpark", agent.name, wait_s)
    return wait_s


def parked_for(desk: Desk, agent: Agent) -> float:
    """Seconds that a park still lasts, by the clock that cannot jump; 0 if there is none."""
    until = desk.alarms.at(("unpark", agent.name)) if agent.state is AgentState.PARKED else None
    return max(0.0, until - desk.now.mono) if until is not None else 0.0


def relieve(desk: Desk) -> None:
    """The machine is well again: agents that waited for that, and moves that it refused, go on at once."""
    for agent in desk.book.agents.values():
        if agent.hindered:
            agent.parks = 0
            desk.hush(agent.name, "unpark")
            change(desk, agent, AgentHappening.PARK_ENDED)
            desk.touch(agent.name)
    for delivery in desk.book:
        if ("disk", delivery.key) in desk.alarms:
            desk.alarm("disk", delivery.key, 0)


def target(desk: Desk, about: str) -> str:
    """Who is told about an agent: ``escalate_to``, unless that is the one it is about, or nobody answers there."""
    leader = desk.agent_called(desk.policy.escalate_to)
    if leader is None or leader == about:
        return USER
    return leader if desk.book.agents[leader].state in QUIET else USER


def escalate(
    desk: Desk,
    agent: str,
    cause: str,
    escalation_id: str,
    summary: str,
    action: str,
    delivery: Delivery | None = None,
    to: str | None = None,
) -> None:
    """Tell someone, once per agent and cause while it is open. A person's inbox also rings (``on_escalation``)."""
    existing = desk.escalations.counted(agent, cause)
    if existing is None:
        to = to or target(desk, agent)
        draft = escalations.escalation(escalation_id, to, agent, cause, summary, action, delivery, desk.now.wall)
        existing = OpenEscalation(escalation_id, agent, cause, to, desk.now.wall)
        desk.escalations.open(existing)
        desk.put(SendMessage(agent, draft, notify=desk.book.agents[to].policy.reminds))
    data: dict[str, object] = {"agent": agent, "cause": cause, "to": existing.to}
    data |= {"escalation_id": existing.escalation_id, "counted": existing.counted}
    if delivery is not None:
        data["message_id"] = delivery.message.message_id
    desk.put(RecordFact("escalation", data, lane=agent))
