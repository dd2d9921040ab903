"""The order in which one agent's waiting messages are offered.

Critical ones come first, by arrival; then the others by arrival plus ``aging_s`` per level below high, so that a low
one is as urgent as a high one that came two agings later, and nothing starves. The line holds keys, not messages. It
has no clock; the caller sees to it that an arrival is not in the future.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.message import Priority

if TYPE_CHECKING:
    from collections.abc import KeysView

_LEVEL: Final = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}

#: (0 critical or 1, urgent since, file name, key): tuples compare in the order that is wanted, without a method call.
_Entry: TypeAlias = tuple[int, float, str, int]

#: Below this, dead entries are not worth a rebuild.
_SMALL: Final = 64


def urgency(priority: Priority, arrived_at: float, aging_s: float) -> tuple[int, float]:
    """Return the order of a message: the smaller, the sooner."""
    if priority is Priority.CRITICAL:
        return 0, arrived_at
    return 1, arrived_at + _LEVEL[priority] * aging_s


class Lineup:
    """A heap whose deletions are lazy: an entry is alive while ``waiting`` holds that very tuple for its key."""

    __slots__ = ("_aging_s", "_heap", "waiting")

    def __init__(self, aging_s: float) -> None:
        self._aging_s = aging_s
        self._heap: list[_Entry] = []
        #: Entries that wait, by key. To check whether anything waits, look here: that takes no call.
        self.waiting: dict[int, _Entry] = {}

    def age_in(self, aging_s: float) -> None:
        """Place keys that come from now on by another aging."""
        self._aging_s = aging_s

    def __len__(self) -> int:
        return len(self.waiting)

    def __contains__(self, key: object) -> bool:
        return key in self.waiting

    def keys(self) -> KeysView[int]:
        """Return all that wait, in no particular order."""
        return self.waiting.keys()

    def add(self, key: int, priority: Priority, arrived_at: float, name: str) -> None:
        """Add a key. If it waits already, it is placed anew."""
        entry = (*urgency(priority, arrived_at, self._aging_s), name, key)
        self.waiting[key] = entry
        heapq.heappush(self._heap, entry)
        self._compact()

    def discard(self, key: int) -> None:
        if self.waiting.pop(key, None) is not None:
            self._compact()

    def in_order(self) -> list[int]:
        """Return all that wait, the next one first."""
        return [entry[3] for entry in sorted(self.waiting.values())]

    def peek(self) -> int | None:
        """Return the key of the next one; None if nothing waits."""
        while self._heap:
            entry = self._heap[0]
            if self.waiting.get(entry[3]) is entry:
                return entry[3]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> int | None:
        """Return the key of the next one and remove it."""
        key = self.peek()
        if key is not None:
            heapq.heappop(self._heap)
            del self.waiting[key]
        return key

    def _compact(self) -> None:
        # At least half of the heap is dead when it is rebuilt, so the cost per deletion stays constant.
        if len(self._heap) > 2 * len(self.waiting) + _SMALL:
            self._heap = list(self.waiting.values())
            heapq.heapify(self._heap)
