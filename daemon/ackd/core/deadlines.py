"""What falls due, and when.

Owns the moments (monotonic seconds) at which somebody wants to be told; one per key. Refuses to know what a key means
and what time it is. Cannot fail: disarming what is not armed is no error, because a deadline may have come first.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

#: Below this, dead entries are not worth a rebuild.
_SMALL: Final = 64


class Deadlines(Generic[K]):
    """A heap whose deletions are lazy: an entry is alive while ``_alive`` holds that very tuple for its key."""

    __slots__ = ("_alive", "_armed_so_far", "_heap")

    def __init__(self) -> None:
        #: (at, order of arming, key): the number settles ties, so that keys of different shapes are never compared.
        self._heap: list[tuple[float, int, K]] = []
        self._alive: dict[K, tuple[float, int, K]] = {}
        self._armed_so_far = 0

    def __len__(self) -> int:
        return len(self._alive)

    def __contains__(self, key: object) -> bool:
        return key in self._alive

    def arm(self, key: K, at_mono: float) -> None:
        """Replaces the key's deadline if it has one."""
        self._armed_so_far += 1
        entry = (at_mono, self._armed_so_far, key)
        self._alive[key] = entry
        heapq.heappush(self._heap, entry)
        self._compact()

    def disarm(self, key: K) -> None:
        if self._alive.pop(key, None) is not None:
            self._compact()

    def at(self, key: K) -> float | None:
        entry = self._alive.get(key)
        return entry[0] if entry is not None else None

    def due(self, now_mono: float) -> list[K]:
        """Those up to and including now, earliest first; they are no longer armed."""
        keys: list[K] = []
        while (at := self.next()) is not None and at <= now_mono:
            key = heapq.heappop(self._heap)[2]
            del self._alive[key]
            keys.append(key)
        return keys

    def next(self) -> float | None:
        """The moment of the earliest; None if nothing is armed."""
        while self._heap:
            entry = self._heap[0]
            if self._alive.get(entry[2]) is entry:
                return entry[0]
            heapq.heappop(self._heap)
        return None

    def _compact(self) -> None:
        # At least half of the heap is dead when it is rebuilt, so the cost per deletion stays constant.
        if len(self._heap) > 2 * len(self._alive) + _SMALL:
            self._heap = list(self._alive.values())
            heapq.heapify(self._heap)
