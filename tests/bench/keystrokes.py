"""From a message's file to the first key in the pane, and from `tmux send-keys` to the same, in turns.

ackd looks before it types: that is one call of tmux more than a bare one, besides all that makes a delivery.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.bench import daemon, inhabited
from tests.bench.figures import Figure, at_most

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.acceptance.teams import Team
    from tests.bench.scale import Scale

AGENT = "pane_0"
#: Of the length of what ackd types.
LINE = "x" * 240
#: The first of anything pays for cold caches: typed, and not counted.
WARM_UP = 2


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    inhabited.needs_tmux()
    start = f"exec {sys.executable} typed_to.py notes"
    tables = inhabited.tables_of_panes(1, start, "max_in_flight = 1000\nack_timeout_s = 86400\n")
    ours: list[float] = []
    bare: list[float] = []
    with inhabited.serving(inhabited.make_team(place, tables)) as team:
        inhabited.until_all_live(team, 1)
        pane = _bare_pane(place)
        for _ in range(scale.lines + WARM_UP):
            bare.append(_bare_ms(place, pane))
            ours.append(_ackd_ms(team))
    counted = tuple(ours[WARM_UP:]), tuple(bare[WARM_UP:])
    tell(", ".join(f"{sorted(values)[len(values) // 2]:.1f} ms" for values in counted))
    what = "renamed in → first key in the pane, p50"
    return [Figure("keystrokes", what, "ms", counted[0], "`tmux send-keys`", counted[1], at_most(3))]


def _ackd_ms(team: Team) -> float:
    notes = team.place / "notes"
    seen = len(inhabited.notes(notes))
    began = time.time_ns()
    message = team.post(AGENT)
    inhabited.wait_for(lambda: len(inhabited.notes(notes)) > seen, "a key in the pane")
    daemon.until(
        lambda: bool(team.facts("message_told", message=message)), team, "the line was proven", inhabited.PATIENCE_S
    )
    return (inhabited.notes(notes)[seen][1] - began) / 1e6


def _bare_pane(place: Path) -> str:
    """Another pane of the same server, with the same program."""
    command = ["new-window", "-d", "-P", "-F", "#{pane_id}", "-c", str(place), f"{sys.executable} typed_to.py bare"]
    pane = _tmux(place, *command).strip()
    inhabited.wait_for(lambda: _tmux(place, "capture-pane", "-p", "-t", pane).startswith(">"), "a bare pane")
    return pane


def _bare_ms(place: Path, pane: str) -> float:
    notes = place / "bare"
    seen = len(inhabited.notes(notes))
    began = time.time_ns()
    _tmux(place, "send-keys", "-t", pane, "-l", "--", LINE)
    inhabited.wait_for(lambda: len(inhabited.notes(notes)) > seen, "a key in the bare pane")
    _tmux(place, "send-keys", "-t", pane, "Enter")
    return (inhabited.notes(notes)[seen][1] - began) / 1e6


def _tmux(place: Path, *words: str) -> str:
    socket = str(inhabited.socket_of(place))
    return subprocess.run(["tmux", "-S", socket, *words], capture_output=True, text=True, check=True).stdout
