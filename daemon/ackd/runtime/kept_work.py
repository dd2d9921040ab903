"""Where work stands is kept for as long as its message is open, and no longer.

Owns when a checkpoint goes: with its message's end, whichever way it was said and whatever the agent's endpoint, and at
a start those whose message ended with a crash. Not with the end of a duplicate, whose twin is still in hand. Refuses to
know what stands in one (adapters/checkpoints). Cannot fail: what a disk does not let go of is met by the next start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Container

    from ackd.adapters.checkpoints import Checkpoints
    from ackd.core.book import Book


@dataclass(frozen=True, slots=True)
class KeptWork:
    store: Checkpoints
    book: Book

    def ended(self, agent: str, message_id: str) -> None:
        if not self.book.of_id(message_id, agent):
            self.store.forget(agent, message_id)

    async def clear(self, unread: Container[str]) -> None:
        """Once every message has been met, but for those that cannot be read yet: of what is open, nothing is lost."""
        for agent, message_id in await in_thread(lambda: list(self.store.kept())):
            if message_id not in unread:
                self.ended(agent, message_id)
