"""Very many agents: the first start of their team until a message is delivered, and `ackd status`, by the agent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import daemon, letters, pace
from tests.bench.figures import Figure, at_most

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.acceptance.teams import Team
    from tests.bench.scale import Scale

PATIENCE_S = 600.0
#: Of the cost by the agent, beside a tenth of the agents.
AT_MOST = 3
_STATUSES = 3


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    starts: dict[int, list[float]] = {scale.small_crowd: [], scale.crowd: []}
    statuses: dict[int, list[float]] = {scale.small_crowd: [], scale.crowd: []}
    for turn in range(scale.crowd_repetitions):
        for agents in (scale.small_crowd, scale.crowd):
            start_s, status_s = _run(place / f"{agents}-{turn}", agents)
            tell(f"{agents} agents: first delivery after {start_s:.1f} s; status {min(status_s):.2f} s")
            starts[agents].append(1000 * start_s / agents)
            statuses[agents] += [1000 * took_s / agents for took_s in status_s]
    what, beside = f"{scale.crowd:,} agents", f"with {scale.small_crowd:,}"
    return [
        Figure(
            "crowd", f"{what}: {name}, by the agent", "ms",
            tuple(took[scale.crowd]), beside, tuple(took[scale.small_crowd]), at_most(AT_MOST),
        )
        for name, took in (("first start → first delivery", starts), ("`ackd status`", statuses))
    ]  # fmt: skip


def _run(place: Path, agents: int) -> tuple[float, list[float]]:
    """Start a team whose directories are not there yet, with one message that waits; then ask for its status."""
    team = daemon.make_team(place, [f"worker_{number}" for number in range(agents)], handler="note")
    box = team.root / "queue" / "worker_0"
    box.mkdir(parents=True)
    (box / letters.name(0)).write_bytes(letters.letter(0, "worker_0"))
    started_ns = time.monotonic_ns()
    with daemon.serving(team, ready=False):
        daemon.until(lambda: _noted(team), team, "the message is delivered", PATIENCE_S)
        daemon.until(lambda: team.status_pid() == team.pid, team, "the daemon is ready", PATIENCE_S)
        status_s = [_status_s(place) for _ in range(_STATUSES)]
    (called_ns,) = pace.read(daemon.notes_of(team)).values()
    shutil.rmtree(place)
    return (called_ns - started_ns) / 1e9, status_s


def _noted(team: Team) -> bool:
    try:
        return daemon.notes_of(team).stat().st_size > 0
    except FileNotFoundError:
        return False


def _status_s(place: Path) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ackd = str(Path(sys.executable).with_name("ackd"))
    started = time.perf_counter()
    subprocess.run([ackd, "status"], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started
