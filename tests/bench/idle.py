"""A daemon with nothing to do, watching many queues: what it takes meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.bench import daemon
from tests.bench.figures import Figure, at_most

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.scale import Scale

MIB = 2**20


def idle_cost(pid: int, seconds: float) -> tuple[float, float]:
    """Percent of a core over so long, and megabytes at the end of it."""
    before_s, started_at = daemon.cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    percent = 100 * (daemon.cpu_s(pid) - before_s) / (time.monotonic() - started_at)
    return percent, daemon.memory_bytes(pid, "VmRSS") / MIB


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    names = [f"worker_{number}" for number in range(scale.idle_agents)]
    team = daemon.make_team(place, names)
    with daemon.serving(team):
        percent, memory = idle_cost(team.pid, scale.idle_s)
    tell(f"{percent:.2f} % of a core, {memory:.0f} MB")
    what = f"idle, {scale.idle_agents} queues watched, {scale.idle_s:.0f} s"
    return [
        Figure("idle", f"{what}: processor", "% of a core", (percent,), target=at_most(0.3)),
        Figure("idle", f"{what}: memory", "MB", (memory,), target=at_most(60)),
    ]
