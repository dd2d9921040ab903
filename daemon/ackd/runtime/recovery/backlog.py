"""Mail that waited while no daemon ran: glanced at at the start, and read while its first messages are delivered.

A queue is read in the order of delivery, and the queues take turns, a few files at a time, so that no agent waits for
the longest queue. A message that answers another is read at once, because the one that it answers must not be delivered
again. So is a message that a receipt names, because it may be finished or refused, and must not be delivered at all.
The glance itself is the message format's (``ignite.glance``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.lineup import urgency
from ackd.core.message import Folder, Place, Priority
from ackd.formats import ignite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.storage.spool import Spool

#: Files of one queue that are read before the next queue has its turn.
A_FEW: Final = 8


@dataclass
class Backlog:
    spool: Spool
    #: File names by queue directory, the next one to be read last.
    _unread: dict[str, list[str]] = field(default_factory=dict, init=False)

    def __bool__(self) -> bool:
        return bool(self._unread)

    def count(self, box: str) -> int:
        return len(self._unread.get(box, ()))

    def by_agent(self, agent_of: Callable[[str], str]) -> Counter[str]:
        """Return the number of unread messages of each agent that has any."""
        counts: Counter[str] = Counter()
        for box, waiting in self._unread.items():
            counts[agent_of(box)] += len(waiting)
        return counts

    def look_at(self, box: str, aging_s: float, named: frozenset[bytes] = frozenset()) -> list[Place]:
        """Note the files that wait in a queue. Returns those that must be read before anything is delivered: answers,
        and messages with one of the ids in ``named``. Raises OSError."""
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
        """Yield a few places of each queue in turn, until none is left. They count as read once they are yielded."""
        while self._unread:
            for box, waiting in list(self._unread.items()):
                few = [Place(box, Folder.QUEUE, waiting.pop()) for _ in range(min(A_FEW, len(waiting)))]
                if not waiting:
                    del self._unread[box]
                yield few
