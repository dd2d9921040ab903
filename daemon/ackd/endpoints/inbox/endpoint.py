"""Agents that fetch their mail themselves: a person, or a program that looks when it likes.

Such an agent is told by putting the message where it looks. ``Told`` claims that and no more: reading it is reported by
a receipt of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.events import NotTold, Told
from ackd.core.ports import Endpoint

if TYPE_CHECKING:
    from ackd.core.effects import NudgeAgent, TellAgent

PLACED = "placed in the inbox; nobody has read it yet"


class InboxEndpoint(Endpoint):
    def tell(self, order: TellAgent) -> Told:
        return Told(order.key, PLACED, attempt=order.attempt)

    async def nudge(self, order: NudgeAgent) -> NotTold:
        return NotTold(order.key, "an inbox has no ladder", attempt=order.attempt)

    async def stop(self, drain_s: float) -> None:
        """Do nothing: an inbox has nothing that runs."""
