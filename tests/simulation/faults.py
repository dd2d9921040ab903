"""What goes wrong in one run, drawn from its seed.

A swarm: each kind of trouble is off in about half of the runs and has a rate of its own in the others, so that no kind
always hides another. ``Fate`` is what the kernel asks before each change that the daemon makes.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tests.simulation.memory_disk import error

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_NEEDS_ROOM = frozenset({"write", "create", "mkdir"})


class Crash(BaseException):
    """``kill -9`` or a power cut, in the middle of whatever the daemon does. No handler of ours may catch it."""


@dataclass
class Swarm:
    """Chances for each occasion, except where the name says seconds or hours."""

    hint_lost: float = 0.0
    hint_twice: float = 0.0
    hint_late: float = 0.0
    overflow: float = 0.0
    watch_fails: float = 0.0
    io_error: float = 0.0
    short_write: float = 0.0
    slow_flush: float = 0.0
    crash_at_call: float = 0.0
    crash_at_effect: float = 0.0
    power_cut: float = 0.0  # of a crash
    stops_an_hour: float = 0.0
    full_disk_an_hour: float = 0.0
    jumps_an_hour: float = 0.0
    boxes_lost_an_hour: float = 0.0
    deletions_an_hour: float = 0.0
    requests_an_hour: float = 0.0
    away: float = 0.0
    not_told: float = 0.0
    odd_letters: float = 0.0
    odd_agents: float = 0.0
    early_words: float = 0.0
    cancels_an_hour: float = 0.0
    timed_letters: float = 0.0  # which expire, or have a deadline

    def calm(self) -> None:
        for one in fields(self):
            setattr(self, one.name, 0.0)


#: The highest rate of each; one that is drawn lies anywhere up to it, mostly well below.
_WORST = Swarm(
    hint_lost=1.0,
    hint_twice=0.5,
    hint_late=0.5,
    overflow=0.02,
    watch_fails=0.002,
    io_error=0.05,
    short_write=0.2,
    slow_flush=0.3,
    crash_at_call=0.004,
    crash_at_effect=0.01,
    power_cut=1.0,
    stops_an_hour=1.0,
    full_disk_an_hour=0.5,
    jumps_an_hour=0.3,
    boxes_lost_an_hour=0.3,
    deletions_an_hour=1.0,
    requests_an_hour=4.0,
    away=0.6,
    not_told=0.4,
    odd_letters=0.6,
    odd_agents=1.0,
    early_words=0.4,
    cancels_an_hour=6.0,
    timed_letters=0.5,
)


def draw(rng: random.Random) -> Swarm:
    swarm = Swarm()
    for one in fields(Swarm):
        if rng.random() < 0.5:
            setattr(swarm, one.name, getattr(_WORST, one.name) * rng.random() ** 2)
    return swarm


class Fate:
    """Decides over each change the daemon makes. ``crash`` does not return while the daemon lives."""

    def __init__(
        self, rng: random.Random, swarm: Swarm, crash: Callable[[str], None], trace: Callable[[str], None]
    ) -> None:
        self._rng = rng
        self._swarm = swarm
        self._crash = crash
        self._trace = trace
        self.disk_full = False
        self.dead = False
        self.refused = 0

    def before(self, call: str, path: str) -> None:
        if self.dead:
            raise Crash
        self._trace(f"{call} {path}")
        if self.disk_full and call in _NEEDS_ROOM:
            self._refuse(errno.ENOSPC, path)
        chance = self._rng.random()
        if chance < self._swarm.io_error:
            self._refuse(errno.EIO, path)
        if chance > 1 - self._swarm.crash_at_call:
            self._crash(f"before {call} {path}")

    def after(self, call: str, path: str) -> None:
        if self._rng.random() < self._swarm.crash_at_call:
            self._crash(f"after {call} {path}")

    def between_effects(self, effect: str) -> None:
        if self.dead:
            raise Crash
        if self._rng.random() < self._swarm.crash_at_effect:
            self._crash(f"before {effect}")

    def part_of(self, size: int) -> int:
        if size > 1 and self._rng.random() < self._swarm.short_write:
            return self._rng.randint(1, size)
        return size

    def thread_delay_s(self) -> float:
        if self._rng.random() < self._swarm.slow_flush:
            return self._rng.expovariate(1 / 3)
        return self._rng.uniform(0.0002, 0.005)

    def _refuse(self, code: int, path: str) -> None:
        self.refused += 1
        self._trace(f"  refused: {errno.errorcode[code]}")
        raise error(code, path)
