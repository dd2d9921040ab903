"""Looking for signs of life from outside, so that no agent need spend a turn on showing one.

Owns how often an endpoint is asked for its pulse: four times in the shortest time after which its silence has
consequences (``heartbeat_timeout_s``; of a pane ``ack_timeout_s`` and ``hung_after_s``), and only while it holds work.
Refuses to know what a sign is (endpoints) and what its absence means (core/liveness, core/idling).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core.events import SignOfLife

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.book import Agent, Book
    from ackd.ports import Inhabited, Post

#: However short or long the timeouts are.
LEAST_S: Final = 0.1
MOST_S: Final = 60.0


@dataclass
class Pulses:
    book: Book
    #: An agent's endpoint, if something lives behind it.
    inhabited: Callable[[str], Inhabited | None]
    post: Post

    async def run(self) -> None:
        while True:
            await anyio.sleep(self._every_s())
            self.look()

    def look(self) -> None:
        for agent in self.book.agents.values():
            inhabited = self.inhabited(agent.name) if agent.window and agent.is_watched else None
            if inhabited is not None and (sign := inhabited.pulse()) is not None:
                self.post(SignOfLife(agent.name, sign))

    def _every_s(self) -> float:
        shortest = min(map(_timeout_s, self.book.agents.values()), default=4 * MOST_S)
        return min(MOST_S, max(LEAST_S, shortest / 4))


def _timeout_s(agent: Agent) -> float:
    """The shortest time without a sign that anything follows from."""
    policy = agent.policy
    if policy.heartbeat_timeout_s is None:
        return 4 * MOST_S
    if not policy.shows:
        return policy.heartbeat_timeout_s
    return min(policy.ack_timeout_s, policy.hung_after_s or policy.ack_timeout_s)
