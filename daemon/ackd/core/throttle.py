"""The pace at which one agent's progress is displayed: at most once in 2 s and five times in 10 s, the newest wins.

Every progress message is kept and logged, whatever is decided here (ignite-mime, "progress_update": the limits are the
display's). ``final: true`` is always shown, takes the place of whatever was held, and leaves the pace alone. Time is an
argument.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """The limits: ``burst`` in any ``window_s``, and never two within ``interval_s``. A limit's very end is outside
    it."""

    interval_s: float = 2
    burst: int = 5
    window_s: float = 10


@dataclass(frozen=True, slots=True)
class Show:
    """Display the item now."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the item, in place of the one that was kept before; its turn comes at ``until``."""

    until: float


ThrottleDecision: TypeAlias = Show | Hold

SEED_PACE: Final = Pace()


class Throttle:
    """The pace of one agent."""

    def __init__(self, pace: Pace = SEED_PACE) -> None:
        self._pace = pace
        self._shown: deque[float] = deque(maxlen=pace.burst)
        self._holding = False

    def decide(self, now: float, *, final: bool = False) -> ThrottleDecision:
        if final:
            self._holding = False
            return Show()
        free_at = self._free_at()
        if now < free_at:
            self._holding = True
            return Hold(free_at)
        self._note_shown(now)
        return Show()

    def due(self, now: float) -> bool:
        """Return whether the held item is to be displayed now; if so, it counts as displayed."""
        if not self._holding or now < self._free_at():
            return False
        self._note_shown(now)
        return True

    def _note_shown(self, now: float) -> None:
        self._shown.append(now)
        self._holding = False

    def _free_at(self) -> float:
        if not self._shown:
            return float("-inf")
        spaced = self._shown[-1] + self._pace.interval_s
        if len(self._shown) < self._pace.burst:
            return spaced
        return max(spaced, self._shown[0] + self._pace.window_s)


class ProgressDisplay(Generic[T]):
    """The throttles of all agents, and the newest item that each of them holds back."""

    def __init__(self, pace: Pace = SEED_PACE) -> None:
        self._pace = pace
        self._throttles: dict[str, Throttle] = {}
        self._held: dict[str, T] = {}

    def offer(self, agent: str, item: T, now: float, *, final: bool = False) -> T | None:
        """Return the item if it is to be displayed now; else None, and ``due`` returns it later unless a newer one
        came."""
        throttle = self._throttles.setdefault(agent, Throttle(self._pace))
        match throttle.decide(now, final=final):
            case Show():
                self._held.pop(agent, None)
                return item
            case Hold():
                self._held[agent] = item
                return None

    def due(self, now: float) -> list[T]:
        ready = [agent for agent in self._held if self._throttles[agent].due(now)]
        return [self._held.pop(agent) for agent in ready]
