"""From the death of a child to the first thing that its successor does, without the wait that is its due.

Beside it: a bare start of the same program, to the first thing that it does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from tests.bench import inhabited
from tests.bench.figures import Figure, at_most

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.acceptance.teams import Team
    from tests.bench.scale import Scale


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    beyond: list[float] = []
    bare: list[float] = []
    team = inhabited.make_team(place, inhabited.tables_of_starters(scale.crashes))
    with inhabited.serving(team):
        notes = place / "notes"
        inhabited.wait_for(lambda: len(inhabited.notes(notes)) >= scale.crashes, "all children started")
        pids = {agent: pid for agent, _, pid in inhabited.notes(notes)}
        for number, (agent, pid) in enumerate(pids.items()):
            bare.append(_bare_ms(place, number))
            beyond.append(_beyond_ms(team, agent, pid))
    tell(f"{sorted(beyond)[len(beyond) // 2]:.0f} ms beyond the wait, bare {sorted(bare)[len(bare) // 2]:.0f} ms")
    what = "a child is killed → the next one's first act, beyond the restart's wait"
    return [Figure("crashes", what, "ms", tuple(beyond), "a bare start", tuple(bare), at_most(5))]


def _beyond_ms(team: Team, agent: str, pid: int) -> float:
    """The wait is the one in the log: it is drawn anew for every death."""
    notes = team.place / "notes"
    killed_at = time.time_ns()
    os.kill(pid, signal.SIGKILL)
    inhabited.wait_for(lambda: len(_lives(notes, agent)) >= 2, f"{agent} was started again")
    (wait_s,) = [fact["in_s"] for fact in team.facts("child_restart", agent=agent)]
    return (_lives(notes, agent)[1] - killed_at) / 1e6 - 1000 * float(wait_s)


def _lives(notes: Path, agent: str) -> list[int]:
    return [at for who, at, _ in inhabited.notes(notes) if who == agent]


def _bare_ms(place: Path, number: int) -> float:
    notes = place / "bare"
    began = time.time_ns()
    with subprocess.Popen(["./starter.sh", str(number), "bare"], cwd=place) as child:
        inhabited.wait_for(lambda: bool(_lives(notes, str(number))), "a bare child started")
        child.kill()
    return (_lives(notes, str(number))[0] - began) / 1e6
