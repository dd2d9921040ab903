"""What may pass a full window: what an agent waits for, or need only look at.

Owns which mail that is, and when: an agent that waits at its prompt for an answer must get it, though its window is
full of what it waits with. Only for an agent whose screen says what it does, while that shows that it waits for a line
and nothing is typed there, and one at a time; never for a command or a child. Cannot fail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ackd.core.acts import apply
from ackd.core.availability import AgentState
from ackd.core.completion import completes_on
from ackd.core.delivery import Happening, State
from ackd.core.idleness import Doing
from ackd.core.policy import CompletesOn
from ackd.core.words import REPORT_TYPES

if TYPE_CHECKING:
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk

_SETTLED: Final = frozenset({State.DELIVERED, State.ACKED})
#: Somebody stands still until these are answered.
_URGENT_TYPES: Final = frozenset({"escalation", "permission_request"})


def offer(desk: Desk, agent: Agent) -> None:
    """Offer the first that may pass, if any may."""
    if desk.stopping or not agent.line.waiting or not _can_hear(desk, agent):
        return
    for key in agent.line.in_order():
        delivery = desk.book.get(key)
        if delivery is not None and may_pass(delivery, agent):
            agent.line.discard(key)
            delivery.idled = replace(delivery.idled, beside=True)
            apply(desk, delivery, Happening.OFFERED)
            return


def may_pass(delivery: Delivery, agent: Agent) -> bool:
    message = delivery.message
    return (
        delivery.is_answer
        or message.type in REPORT_TYPES
        or message.type in _URGENT_TYPES
        or completes_on(message, agent.policy) is CompletesOn.SEEN
    )


def _can_hear(desk: Desk, agent: Agent) -> bool:
    """Ready and empty, and nothing is on its way to it: what was told last has been taken."""
    if not agent.policy.shows or agent.doing is not Doing.IDLE or agent.state is not AgentState.BUSY:
        return False
    if agent.reminding is not None or agent.ladder is not None:
        return False
    in_hand = (desk.book.get(key) for key in agent.window)
    return all(each is None or (each.state in _SETTLED and each.seen) for each in in_hand)


def is_answer(desk: Desk, delivery: Delivery) -> bool:
    """Whether it answers a message of its recipient's own. What that message was may be long forgotten; then its own
    word counts, for nobody else would be answered here."""
    asked = delivery.message.in_reply_to
    if asked is None:
        return False
    sender = desk.agent_called(delivery.message.sender)
    known = desk.book.of_id(asked, sender) if sender is not None else []
    return not known or any(desk.agent_called(each.message.sender) == delivery.agent for each in known)
