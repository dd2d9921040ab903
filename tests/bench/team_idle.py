"""A daemon whose agents live, as children and in panes, and have nothing to do: what it takes meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.bench import inhabited
from tests.bench.figures import Figure, at_most
from tests.bench.idle import idle_cost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.scale import Scale

#: An input line, by what every machine has.
PANE = "while printf '> ' && read -r line; do :; done"


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    inhabited.needs_tmux()
    workers, panes = scale.team_workers, scale.team_panes
    tables = inhabited.tables_of_workers(workers) + inhabited.tables_of_panes(panes, PANE)
    with inhabited.serving(inhabited.make_team(place, tables)) as team:
        inhabited.until_all_live(team, workers + panes)
        time.sleep(1)  # what starting has left to do
        percent, memory = idle_cost(team.pid, scale.idle_s)
    tell(f"{percent:.2f} % of a core, {memory:.0f} MB")
    what = f"idle, {workers} children and {panes} panes alive, {scale.idle_s:.0f} s"
    return [
        Figure("team-idle", f"{what}: processor", "% of a core", (percent,), target=at_most(1)),
        Figure("team-idle", f"{what}: memory of the daemon", "MB", (memory,), target=at_most(80)),
    ]
