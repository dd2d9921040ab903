"""Mail that waited while nobody served: seen at a glance at start, read while its first messages are already delivered.

Owns the order of reading: within a queue the order in which it will be told, and queue after queue a few at a time, so
that nobody waits for the longest. What answers a message is read at once, because what it answers must not be told
again. Refuses to know what a message is: a glance is the dialect's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.lineup import urgency
from ackd.core.message import Folder, Place
from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.adapters.spool import Spool

#: Files of one queue that are read before the next queue has its turn.
A_FEW: Final = 8

_Waiting: TypeAlias = tuple[int, float, str]


@dataclass
class Backlog:
    spool: Spool
    #: By queue directory, the next one last.
    _unread: dict[str, list[_Waiting]] = field(default_factory=dict, init=False)

    def __bool__(self) -> bool:
        return bool(self._unread)

    def count(self, box: str) -> int:
        return len(self._unread.get(box, ()))

    def look_at(self, box: str, aging_s: float) -> list[Place]:
        """Notes what waits there; returns what is to be read before anything is told. Raises OSError."""
        urgent: list[Place] = []
        ordinary: list[_Waiting] = []
        for place, head in self.spool.waiting(box):
            if head is None:
                urgent.append(place)
                continue
            priority, is_answer = ignite.glance(head.data)
            if is_answer:
                urgent.append(place)
            else:
                ordinary.append((*urgency(priority, head.mtime, aging_s), place.name))
        if ordinary:
            ordinary.sort(reverse=True)
            self._unread[box] = ordinary
        return urgent

    def next_few(self) -> Iterator[list[Place]]:
        """Of each queue in turn, until all are through. What is handed out counts as read."""
        while self._unread:
            for box, waiting in list(self._unread.items()):
                few = [Place(box, Folder.QUEUE, waiting.pop()[2]) for _ in range(min(A_FEW, len(waiting)))]
                if not waiting:
                    del self._unread[box]
                yield few
