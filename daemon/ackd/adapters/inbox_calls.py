"""Agents that fetch their mail themselves: a person, or a program that looks when it likes.

Telling one is putting the message where it looks. That is what is claimed, and no more: whether anyone has read it is a
receipt of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.events import NotTold, Told

if TYPE_CHECKING:
    from ackd.core.effects import NudgeAgent, TellAgent

PLACED = "placed in the inbox; nobody has read it yet"


class InboxEndpoint:
    def tell(self, order: TellAgent) -> Told:
        return Told(order.key, PLACED, attempt=order.attempt)

    async def nudge(self, order: NudgeAgent) -> NotTold:
        return NotTold(order.key, "an inbox has no ladder", attempt=order.attempt)

    async def stop(self, drain_s: float) -> None:
        """Nothing runs."""
