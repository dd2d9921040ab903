"""Mail that waited while nobody served: seen at a glance at start, read while its first messages are already delivered.

Owns the order of reading: within a queue the order in which it will be told, and queue after queue a few at a time, so
that nobody waits for the longest. What answers a message is read at once, because what it answers must not be told
again; and so is what a receipt names, because it may be finished or refused, and must not be told at all. Refuses to
know what a message is: a glance is the dialect's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.lineup import urgency
from ackd.core.message import Folder, Place, Priority
from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.adapters.spool import Spool

#: Files of one queue that are read before the next queue has its turn.
A_FEW: Final = 8


@dataclass
class Backlog:
    spool: Spool
    #: Names by queue directory, the next one last.
    _unread: dict[str, list[str]] = field(default_factory=dict, init=False)

    def __bool__(self) -> bool:
        return bool(self._unread)

    def count(self, box: str) -> int:
        return len(self._unread.get(box, ()))

    def by_agent(self, agent_of: Callable[[str], str]) -> Counter[str]:
        """How many are still to be read of each agent's, of those that have any."""
        counts: Counter[str] = Counter()
        for box, waiting in self._unread.items():
            counts[agent_of(box)] += len(waiting)
        return counts

    def look_at(self, box: str, aging_s: float, named: frozenset[bytes] = frozenset()) -> list[Place]:
        """Notes what waits there; returns what is to be read before anything is told: answers, and what bears one of
        the ids that are ``named``. Raises OSError."""
        urgent: list[Place] = []
        ordinary: list[tuple[int, float, str]] = []
        ranks = {priority: urgency(priority, 0.0, aging_s) for priority in Priority}
        for name, head, arrived_at in self.spool.waiting(box):
            priority, is_answer = ignite.glance(head) if head is not None else (Priority.NORMAL, True)
            if is_answer or (named and head is not None and ignite.glanced_id(head) in named):
                urgent.append(Place(box, Folder.QUEUE, name))
            else:
                rank, later_s = ranks[priority]
                ordinary.append((rank, arrived_at + later_s, name))
        if ordinary:
            ordinary.sort(reverse=True)
            self._unread[box] = [name for _, _, name in ordinary]
        return urgent

    def next_few(self) -> Iterator[list[Place]]:
        """Of each queue in turn, until all are through. What is handed out counts as read."""
        while self._unread:
            for box, waiting in list(self._unread.items()):
                few = [Place(box, Folder.QUEUE, waiting.pop()) for _ in range(min(A_FEW, len(waiting)))]
                if not waiting:
                    del self._unread[box]
                yield few
