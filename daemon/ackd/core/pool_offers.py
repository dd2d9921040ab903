"""Gives the messages of pools to their members, and notices a pool that nobody serves.

The rules are in pools.py. A member is looked at when something about it has changed (``note_member``), so that a pool
of hundreds costs no more for each message than one of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core import agent_rules, alerts, deadlines, escalations
from ackd.core.availability import AgentState
from ackd.core.delivery import Happening
from ackd.core.escalations import Cause
from ackd.core.pools import NO_LABELS, SERVING, Candidate, PoolLineup, Wish, choose, is_served
from ackd.core.timers import TimerKind
from ackd.core.transitions import apply, take_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.core.pools import Pool
    from ackd.core.state import Agent, Delivery, EngineState


def note_member(state: EngineState, agent: Agent) -> None:
    """Note whether a member of pools has room, and have those pools offer what waits."""
    if agent.state not in SERVING and agent.line.waiting and not state.stopping:
        take_back(state, agent, f"{agent.name} is {agent.state.value}")
    has_room = agent.state is AgentState.AVAILABLE and agent.has_room and not agent.line.waiting
    for name in agent.pools:
        pool, queue = state.pools[name], state.agents[name]
        if not has_room:
            pool.free.pop(agent.name, None)
        elif agent.name not in pool.free:
            pool.free[agent.name] = state.now.mono
        if queue.line.waiting:
            state.offer_later(name)


def offer(state: EngineState, queue: Agent, most: int) -> None:
    """Give waiting messages to members that may take them, ``most`` at a time; the rest follow by a timer."""
    line, pool, given = queue.line, queue.pool, 0
    assert isinstance(line, PoolLineup)
    assert pool is not None
    if (TimerKind.OFFER, queue.name) in state.timers:
        return  # it brings the rest
    while line.waiting and pool.free and state.takes_up and queue.state is AgentState.AVAILABLE:
        if given == most:
            state.start_timer(TimerKind.OFFER, queue.name, 0)
            break
        if not _give_one(state, line, pool):
            break
        given += 1
    _watch(state, queue, line, pool)


def _give_one(state: EngineState, line: PoolLineup, pool: Pool) -> bool:
    """Give away the most urgent message that some member may take now. Returns False if there is none."""
    members = [_candidate(state.agents[name], since) for name, since in pool.free.items()]
    for key in line.heads():
        delivery = state.deliveries.get(key)
        if delivery is None or deadlines.expire_instead(state, delivery, delivery.agent):
            line.discard(key)
            return True
        to = choose(members, _wish(delivery))
        if to is not None and (other := _more_urgent(state, line.waiting[key], to, pool)) is not None:
            return _give_one(state, *other)
        if to is not None and deadlines.expire_instead(state, delivery, to):
            return True
        if to is not None:
            state.deliveries.give(delivery, to)
            apply(state, delivery, Happening.OFFERED)
            member = state.agents[to]
            pool.free[to] = state.now.mono
            if not member.has_room:
                agent_rules.change_state(state, member, agent_rules.FILLED)
            note_member(state, member)
            return True
    return False


def _more_urgent(
    state: EngineState, entry: tuple[int, float, str, int], member: str, pool: Pool
) -> tuple[PoolLineup, Pool] | None:
    """Return another pool of the member in which something more urgent waits that it may take: an agent that serves two
    pools must not starve one of them."""
    if len(state.agents[member].pools) == 1:
        return None  # nearly always
    for name in state.agents[member].pools:
        queue, other = state.agents[name], state.pools[name]
        if other is pool or queue.state is not AgentState.AVAILABLE or not isinstance(queue.line, PoolLineup):
            continue
        for key in queue.line.heads():
            waiting = state.deliveries.get(key)
            needs = waiting.message.needs if waiting is not None else NO_LABELS
            if queue.line.waiting[key] < entry and needs <= state.agents[member].labels:
                return queue.line, other
    return None


def _wish(delivery: Delivery) -> Wish:
    return Wish(delivery.message.needs, delivery.message.prefers, delivery.had_by)


def _candidate(agent: Agent, free_since: float) -> Candidate:
    return Candidate(
        agent.name,
        agent.state,
        agent.labels,
        has_room=agent.has_room,
        own_mail_waits=bool(agent.line.waiting),
        in_hand=len(agent.window),
        free_since=free_since,
    )


# --- nobody serves it -------------------------------------------------------------------------------------------------
def _watch(state: EngineState, queue: Agent, line: PoolLineup, pool: Pool) -> None:
    """Start or end the clock of a pool in whose queue messages wait that no member takes, now or when it has room."""
    timer = (TimerKind.POOL, queue.name)
    if _unserved(state, line, pool):
        if timer not in state.timers and state.escalations.of(queue.name, Cause.UNSERVED) is None:
            state.start_timer(*timer, pool.timeout_s)
        return
    state.timers.cancel(*timer)
    known = state.escalations.of(queue.name, Cause.UNSERVED)
    if known is not None:
        state.escalations.close(known.escalation_id)
        alerts.record_over(state, [known], "its mail is served again")


def _unserved(state: EngineState, line: PoolLineup, pool: Pool) -> int:
    """Count the waiting messages that no member takes."""
    if not line.waiting or (pool.free and not line.has_needs):
        return 0
    return sum(number for needs, number in line.needs() if not is_served(_members(state, pool), needs))


def _members(state: EngineState, pool: Pool) -> Iterator[Candidate]:
    return (_candidate(state.agents[name], 0.0) for name in pool.members if name in state.agents)


def nobody_serves(state: EngineState, queue: Agent) -> None:
    """Tell somebody of a pool that nobody has served for its time."""
    line, pool = queue.line, queue.pool
    assert isinstance(line, PoolLineup)
    assert pool is not None
    waiting = _unserved(state, line, pool)
    if not waiting:
        return
    counted = "1 message waits" if waiting == 1 else f"{waiting} messages wait"
    alerts.escalate(
        state,
        queue.name,
        Cause.UNSERVED,
        escalations.derived_id("unserved", queue.name, int(state.now.wall)),
        f"{counted} in queue/{queue.name}/, and for {pool.timeout_s:.0f} s no member of the pool could take any of "
        f"them: {_why(state, pool)}",
        f"Mend a member, or name another one in [pools.{queue.name}]. `ackd status` shows how each is",
    )


def _why(state: EngineState, pool: Pool) -> str:
    if not pool.members:
        return "it has no members"
    known = ((name, state.agents.get(name)) for name in pool.members)
    states = [f"{name} {agent.state.value if agent is not None else 'unknown'}" for name, agent in known]
    more = f", and {len(states) - 8} more" if len(states) > 8 else ""
    return ", ".join(states[:8]) + more
