"""Agents that join, and agents whose policy, pool or endpoint becomes another while the daemon runs.

Numbers, labels and the members of a pool hold from the next decision on; a clock that runs already keeps its time.
Another endpoint has to wait: messages in the hands of the old one are its own until they have ended, been given back or
gone to dead_letter/. Until then the agent is offered nothing (``Agent.has_room``), so its window empties, and its mail
stays in the queue. Then the endpoint is replaced, and whatever was known of the old one is forgotten. An agent that is
no longer in the config becomes an inbox in this way: its queue directory is still there, as it would be after a
restart.

Mail that lies in an inbox and that nobody has read is in nobody's hands: it is taken back at once, for the new
endpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import agent_rules
from ackd.core.agent_facts import endpoint_replaced
from ackd.core.availability import AgentHappening, AgentState
from ackd.core.delivery import Happening, State
from ackd.core.effects import ReplaceEndpoint
from ackd.core.lineup import Lineup
from ackd.core.liveness import Vital
from ackd.core.pools import Pool, PoolLineup
from ackd.core.state import Agent
from ackd.core.timers import TimerKind
from ackd.core.transitions import apply, hand_back, line_up, take_back
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    from ackd.core.events import AgentJoined
    from ackd.core.policy import EnginePolicy
    from ackd.core.state import EngineState

#: What ends the states that the old endpoint had brought about. A full window is one: it is empty now.
_OVER: Final = {
    AgentState.BUSY: AgentHappening.DRAINED,
    AgentState.PARKED: AgentHappening.LIVED,
    AgentState.DOWN: AgentHappening.LIVED,
}
_OF_ENDPOINT: Final = (TimerKind.PARK, TimerKind.LIVENESS, TimerKind.CHECKPOINT)


def joined(state: EngineState, event: AgentJoined) -> None:
    known = state.agents.get(event.agent)
    if known is None:
        pool = Pool(event.agent, event.members, event.pool_timeout_s) if event.members is not None else None
        state.add_agent(Agent(event.agent, event.policy, event.endpoint, labels=event.labels, pool=pool))
    elif event.replaced or known.becomes is not None:
        known.becomes = event
    else:
        _adopt(state, known, event)


def team_changed(state: EngineState, policy: EnginePolicy) -> None:
    """Put the team-wide policy in force. What was counted and remembered so far stays."""
    state.policy = policy
    state.completed.keep_for(policy.dedup_window_s)
    state.loops.limit_to(policy.loop_limit)
    state.chains.limit_to(policy.loop_limit)


def replace_if_free(state: EngineState, agent: Agent) -> None:
    """Replace the endpoint of an agent that has nothing in hand any more."""
    if agent.policy.reminds:
        _take_unread_back(state, agent)
    if agent.window or agent.becomes is None:
        return
    event, agent.becomes = agent.becomes, None
    before, agent.endpoint = agent.endpoint, event.endpoint
    state.record(endpoint_replaced(agent=agent.name, before=before, endpoint=event.endpoint))
    state.emit(ReplaceEndpoint(agent.name))
    _forget_endpoint(state, agent)
    _adopt(state, agent, event)


def _take_unread_back(state: EngineState, agent: Agent) -> None:
    for key in sorted(agent.window):
        delivery = state.deliveries.get(key)
        if delivery is not None and delivery.state is State.DELIVERED and not delivery.seen:
            apply(state, delivery, Happening.STOPPED, "its agent gets another endpoint, and nobody had read it")


def _forget_endpoint(state: EngineState, agent: Agent) -> None:
    """Forget what was known of the process, pane or absence behind the old endpoint. A pause is a person's, and
    stays."""
    for kind in _OF_ENDPOINT:
        state.timers.cancel(kind, agent.name)
    agent_rules.came_back(state, agent, "it has another endpoint")
    if (over := _OVER.get(agent.state)) is not None:
        agent_rules.change_state(state, agent, over)
    agent.ladder = agent.last_life = agent.asked = agent.context_usage = agent.handing_over = None
    agent.doing = agent.reminding = None
    agent.vital, agent.worker, agent.detail = Vital.UNSEEN, WorkerState.IDLE, ""
    agent.generation = agent.deaths = 0
    agent.reminded = agent.busy_told = False


def _adopt(state: EngineState, agent: Agent, event: AgentJoined) -> None:
    agent.policy, agent.endpoint, agent.labels = event.policy, event.endpoint, event.labels
    agent.line.age_in(event.policy.aging_s)
    if event.members is None:
        if agent.pool is not None:
            _end_pool(state, agent)
    elif agent.pool is None:
        _begin_pool(state, agent, Pool(agent.name, event.members, event.pool_timeout_s))
    else:
        agent.pool.timeout_s = event.pool_timeout_s
        _set_members(state, agent.pool, event.members)


# --- pools ------------------------------------------------------------------------------------------------------------
def _begin_pool(state: EngineState, agent: Agent, pool: Pool) -> None:
    agent.pool, state.pools[agent.name] = pool, pool
    _line_up_anew(state, agent, PoolLineup(agent.policy.aging_s))
    for delivery in state.deliveries:
        # It lies in the processed/ of the pool itself, where nobody works on it: its members take from the queue.
        if delivery.agent == agent.name and delivery.state is State.RETRYING:
            at = state.timers.at(TimerKind.RETRY, delivery.key)
            agent.line.discard(delivery.key)
            wait_s = 0.0 if at is None else max(0.0, at - state.now.mono)
            hand_back(state, delivery, f"{agent.name} is a pool now", delay_s=wait_s)
    members, pool.members = pool.members, ()
    _set_members(state, pool, members)


def _end_pool(state: EngineState, agent: Agent) -> None:
    """Make a pool an agent like any other. What its members have in hand they may finish; what they give back lies in
    its queue again."""
    assert agent.pool is not None
    _set_members(state, agent.pool, ())
    state.timers.cancel(TimerKind.POOL, agent.name)
    agent.pool = None
    del state.pools[agent.name]
    _line_up_anew(state, agent, Lineup(agent.policy.aging_s))


def _line_up_anew(state: EngineState, agent: Agent, line: Lineup) -> None:
    before, agent.line = agent.line, line
    for key in sorted(before.keys()):
        delivery = state.deliveries.get(key)
        if delivery is not None:
            line_up(state, delivery)


def _set_members(state: EngineState, pool: Pool, members: tuple[str, ...]) -> None:
    """Change who serves the pool. Whoever serves it no longer finishes what it has in hand; what waits there to be told
    again goes back."""
    before, pool.members = pool.members, members
    for name in before:
        if name not in members and (member := state.agents.get(name)) is not None:
            member.pools = tuple(one for one in member.pools if one != pool.name)
            pool.free.pop(name, None)
            take_back(state, member, f"{name} serves {pool.name} no longer", of=pool.name)
            state.offer_later(name)
    for name in members:
        if name not in before and (member := state.agents.get(name)) is not None:
            member.serve(pool.name)
            state.offer_later(name)
    state.offer_later(pool.name)
