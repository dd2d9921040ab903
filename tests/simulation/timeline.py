"""Virtual time: what will happen when, in the world around the daemon.

Owns the two clocks and the order of what is to come. A moment costs nothing until something happens in it: time jumps
from one happening to the next. The wall clock may be set, as on any machine; the monotonic one only grows.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from ackd.core.events import Now

if TYPE_CHECKING:
    from collections.abc import Callable

START_MONO: Final = 1_000.0
START_WALL: Final = 1_763_254_800.0


class Timeline:
    def __init__(self) -> None:
        self.mono = START_MONO
        self.skew = START_WALL - START_MONO
        self._to_come: list[tuple[float, int, Callable[[], None]]] = []
        self._planned = 0

    @property
    def wall(self) -> float:
        return self.mono + self.skew

    @property
    def hours(self) -> float:
        return (self.mono - START_MONO) / 3600

    def now(self) -> Now:
        """``ports.Clock``. Looking at it takes a moment, too: no two readings are the same."""
        self.mono += 1e-6
        return Now(self.mono, self.wall)

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._planned += 1
        heapq.heappush(self._to_come, (self.mono + max(delay_s, 0.0), self._planned, act))

    def next_at(self) -> float:
        return self._to_come[0][0] if self._to_come else float("inf")

    def step(self) -> None:
        """To the next happening, and let it happen."""
        at, _, act = heapq.heappop(self._to_come)
        self.mono = max(self.mono, at)
        act()
