"""Messages that may be told though the agent's window is full: those that it waits for, or need only look at.

An agent that waits at its prompt for an answer must get it, though its window is full of the work that it waits with.
This holds only for an agent whose screen says what it does, while it waits for a line and nothing is typed there, and
for one message at a time; never for a command or a child process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ackd.core import deadlines
from ackd.core.availability import AgentState
from ackd.core.delivery import Happening, State
from ackd.core.idleness import Doing
from ackd.core.policy import CompletesOn, completes_on
from ackd.core.transitions import apply
from ackd.core.words import REPORT_TYPES

if TYPE_CHECKING:
    from ackd.core.state import Agent, Delivery, EngineState

_SETTLED: Final = frozenset({State.DELIVERED, State.ACKED})
#: Types whose sender cannot go on until they are answered.
_URGENT_TYPES: Final = frozenset({"escalation", "permission_request"})


def offer(state: EngineState, agent: Agent) -> None:
    """Offer the first message that may pass, if there is one."""
    if not state.takes_up or not agent.line.waiting or not _can_hear(state, agent):
        return
    for key in agent.line.in_order():
        delivery = state.deliveries.get(key)
        if delivery is not None and may_pass(delivery, agent):
            agent.line.discard(key)
            if deadlines.expire_instead(state, delivery, agent.name):
                continue
            delivery.idled = replace(delivery.idled, beside=True)
            apply(state, delivery, Happening.OFFERED)
            return


def may_pass(delivery: Delivery, agent: Agent) -> bool:
    message = delivery.message
    return (
        delivery.is_answer
        or message.type in REPORT_TYPES
        or message.type in _URGENT_TYPES
        or completes_on(message, agent.policy) is CompletesOn.SEEN
    )


def _can_hear(state: EngineState, agent: Agent) -> bool:
    """Return whether the agent is idle with an empty line, has taken what it was told last, and is told nothing just
    now."""
    if agent.becomes is not None:
        return False
    if not agent.policy.shows or agent.doing is not Doing.IDLE or agent.state is not AgentState.BUSY:
        return False
    if agent.reminding is not None or agent.ladder is not None:
        return False
    in_hand = (state.deliveries.get(key) for key in agent.window)
    return all(each is None or (each.state in _SETTLED and each.seen) for each in in_hand)


def is_answer(state: EngineState, delivery: Delivery) -> bool:
    """Return whether the message answers one that its recipient sent.

    That one may be long forgotten; then the header is believed, for nobody else would be answered here.
    """
    asked = delivery.message.in_reply_to
    if asked is None:
        return False
    sender = state.agent_called(delivery.message.sender)
    known = state.deliveries.of_id(asked, sender) if sender is not None else []
    return not known or any(state.agent_called(each.message.sender) == delivery.agent for each in known)
