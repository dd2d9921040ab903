"""The time that an agent was idle, counted for each message that it holds.

Idle time begins when the screen shows an idle agent, and ends with a sign of life, with work, or with a screen that
shows neither. How much of it counts is decided by idleness.py; no time counts for a message whose agent waits for
others. Apart from screen_rules.py because every sign of life ends idle time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ackd.core.delivery import State
from ackd.core.idleness import Doing, counts
from ackd.core.waits import Waiting

if TYPE_CHECKING:
    from ackd.core.state import Agent, Delivery, EngineState

_TOLD: Final = frozenset({State.DELIVERED, State.ACKED})
_IDLE: Final = Doing.IDLE
#: Idle time counts unless the agent waits for others; in a circle of idle agents it counts again.
COUNTS: Final = frozenset({Waiting.NOT, Waiting.CIRCLE})


def taken(state: EngineState, agent: Agent) -> list[Delivery]:
    """Return the messages that the agent has taken and not finished, the oldest first."""
    held = (state.deliveries.get(key) for key in sorted(agent.window))
    return [each for each in held if each is not None and each.state in _TOLD and each.seen]


def show(state: EngineState, agent: Agent, doing: Doing | None) -> None:
    """Note what the agent is seen to do from now on."""
    if agent.doing is _IDLE:
        _add_to_sums(state, agent, by_life=False)
    agent.show(doing, state.now.mono)


def sign_of_life(state: EngineState, agent: Agent) -> None:
    """End the idle time so far: it begins anew from now on."""
    agent.busy_told = False
    if agent.doing is _IDLE:
        _add_to_sums(state, agent, by_life=True)
        agent.doing_since = state.now.mono


def skip(state: EngineState, agent: Agent) -> None:
    """Begin idle time anew: the agent was paused, parked or down, and somebody knows of that."""
    for delivery in taken(state, agent):
        delivery.clock_from = state.now.mono


def count(state: EngineState, agent: Agent) -> None:
    """Add the idle time up to now to the sums, which are about to be written."""
    if agent.doing is _IDLE:
        _add_to_sums(state, agent, by_life=False)


def idle_since(agent: Agent, delivery: Delivery) -> float:
    """Return since when (monotonic) the agent has been idle with this message. Only for an agent that is idle."""
    assert agent.doing is _IDLE
    return max(agent.doing_since, delivery.clock_from)


def idle_s(state: EngineState, agent: Agent, delivery: Delivery) -> float:
    """Return the idle time in all, including the time since it was last added to the sum."""
    return delivery.idled.idle_s + _uncounted_s(state, agent, delivery)


def _uncounted_s(state: EngineState, agent: Agent, delivery: Delivery) -> float:
    if agent.doing is not _IDLE or delivery.waiting not in COUNTS:
        return 0.0
    return max(0.0, state.now.mono - max(idle_since(agent, delivery), delivery.counted_to))


def _add_to_sums(state: EngineState, agent: Agent, *, by_life: bool) -> None:
    for delivery in taken(state, agent):
        idle_for_s = state.now.mono - idle_since(agent, delivery)
        if counts(idle_for_s, agent.policy.ack_timeout_s, by_life=by_life):
            total_s = idle_s(state, agent, delivery)
            delivery.idled = replace(delivery.idled, idle_s=total_s)
        delivery.counted_to = state.now.mono
