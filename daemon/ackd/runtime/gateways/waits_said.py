"""Says to the engine what agents wait for, as one gateway knows it: all of an agent's waits, when they change.

Owns what was said last. Who waits for others is not idle (core/waits), and only gateways see leases, boards and
stories. Names that are no agent's are passed over. Cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackd.core.events import AgentWaits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.core.waits import Wait
    from ackd.ports import Post


@dataclass(eq=False)
class WaitsSaid:
    source: str
    post: Post
    _said: dict[str, tuple[Wait, ...]] = field(default_factory=dict, init=False)

    def say(self, waits: Iterable[tuple[str | None, Wait]]) -> None:
        """All that there are now: who waits, and for what."""
        found: dict[str, tuple[Wait, ...]] = {}
        for agent, wait in waits:
            if agent is not None and wait not in found.get(agent, ()):
                found[agent] = (*found.get(agent, ()), wait)
        for agent in sorted(found.keys() | self._said.keys()):
            if found.get(agent, ()) != self._said.get(agent, ()):
                self.post(AgentWaits(agent, self.source, found.get(agent, ())))
        self._said = found
