"""A long queue at start: how soon the first message is delivered, what it takes, and whether its length slows the rest.

The files were written just before and are in the page cache, for ackd and for the bare loop alike.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from tests.bench import bare, daemon, letters, pace
from tests.bench.figures import Figure, at_least, at_most
from tests.bench.race import BenchFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.acceptance.teams import Team
    from tests.bench.scale import Scale

PATIENCE_S = 300.0
MIB = 2**20


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    bare_s: list[float] = []
    first_s: list[float] = []
    peak: list[float] = []
    rates: dict[int, list[float]] = {scale.short_backlog: [], scale.backlog: []}
    for turn in range(scale.backlog_repetitions):
        for count, drained in rates.items():
            run = _Run(place / f"{count}-{turn}", scale.backlog_agents, count)
            drained.append(run.drained_per_s)
            tell(f"{count}: first after {run.first_s:.2f} s, bare {run.bare_s:.2f} s; {run.drained_per_s:.0f}/s")
            if count == scale.backlog:
                bare_s.append(run.bare_s)
                first_s.append(run.first_s)
                peak.append(run.peak_bytes / MIB)
    what = f"backlog of {scale.backlog} over {scale.backlog_agents} agents"
    short = tuple(rates[scale.short_backlog])
    return [
        Figure(
            "backlog", f"{what}: start → first delivery", "s",
            tuple(first_s), "list and read the header blocks", tuple(bare_s), at_most(3),
        ),
        Figure("backlog", f"{what}: peak memory", "MB", tuple(peak)),
        Figure(
            "backlog", f"{what}: drained", "/s",
            tuple(rates[scale.backlog]), f"with {scale.short_backlog}", short, at_least(0.8),
        ),
    ]  # fmt: skip


class _Run:
    """Fills the queues, reads them in a bare loop, then starts the daemon and waits until all are completed."""

    def __init__(self, place: Path, agents: int, count: int) -> None:
        names = [f"worker_{number}" for number in range(agents)]
        team = daemon.make_team(place, names, handler="note")
        _fill(team, names, count)
        self.bare_s = _timed_reading(team.root / "queue", count)
        started_at = time.monotonic()
        with daemon.serving(team, ready=False):
            self._drain(team, count)
            self.peak_bytes = daemon.memory_bytes(team.pid, "VmHWM")
        called = pace.read(daemon.notes_of(team)).values()
        self.first_s = min(called) / 1e9 - started_at
        shutil.rmtree(place)

    def _drain(self, team: Team, count: int) -> None:
        """From the log's first line, which stands there before recovery begins, to the last completion. Starting an
        interpreter costs the same with every backlog and is left out.
        """
        completions = daemon.Completions(team)
        began_at = completions.wait_for_start(PATIENCE_S)
        self.drained_per_s = count / (completions.wait(count, PATIENCE_S) - began_at)


def _fill(team: Team, names: list[str], count: int) -> None:
    for name in names:
        (team.root / "queue" / name).mkdir(parents=True)
    for number in range(count):
        name = names[number % len(names)]
        (team.root / "queue" / name / letters.name(number)).write_bytes(letters.letter(number, name))


def _timed_reading(queue: Path, count: int) -> float:
    started_at = time.monotonic()
    found = bare.read_headers(queue)
    took_s = time.monotonic() - started_at
    if found != count:
        raise BenchFailed(f"the bare loop read {found} of {count} headers")
    return took_s
