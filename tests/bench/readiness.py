"""How soon a daemon is ready: from its start to READY=1, which says that it watches, and what waits is being delivered.

With nothing in the queues, and with many messages waiting there, beside an interpreter that imports the three libraries
that the daemon cannot do without. The agents are paused, so that each start finds the same.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ackd.storage.paused import Pause, Pauses
from tests.bench import daemon, letters
from tests.bench.figures import Figure, at_most
from tests.bench.race import BenchFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.acceptance.teams import Team
    from tests.bench.scale import Scale

IMPORTS = "import anyio, pydantic, structlog"
PATIENCE_S = 120.0


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    empty = daemon.make_team(place / "empty", [])
    waiting = _with_waiting(place / "waiting", scale)
    imports: list[float] = []
    took: dict[str, list[float]] = {"nothing in the queues": [], f"{scale.backlog} messages waiting": []}
    for turn in range(scale.readiness_starts + 1):
        measured = [_importing_ms(place), *(_ready_ms(team) for team in (empty, waiting))]
        if turn:  # the first finds nothing compiled, and no state
            imports.append(measured[0])
            for values, value in zip(took.values(), measured[1:], strict=True):
                values.append(value)
    limit = tuple(imports)
    tell(", ".join(f"{name} {_median(values):.0f} ms" for name, values in (("imports", imports), *took.items())))
    return [
        Figure(
            "readiness", f"start → READY, {name}", "ms", tuple(values), f"`python -c '{IMPORTS}'`", limit, at_most(2)
        )
        for name, values in took.items()
    ]


def _with_waiting(place: Path, scale: Scale) -> Team:
    names = [f"worker_{number}" for number in range(scale.backlog_agents)]
    team = daemon.make_team(place, names)
    for name in names:
        (team.root / "queue" / name).mkdir(parents=True)
    for number in range(scale.backlog):
        name = names[number % len(names)]
        (team.root / "queue" / name / letters.name(number)).write_bytes(letters.letter(number, name))
    (team.root / "state").mkdir(exist_ok=True)
    pauses = Pauses(team.root / "state")
    for name in names:
        pauses.add(name, Pause(at="2026-11-16T00:00:00Z", by="user"))
    return team


def _environment(team_env: dict[str, str]) -> dict[str, str]:
    """Compiled beforehand, as an installer leaves it."""
    return {name: value for name, value in team_env.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _importing_ms(cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], cwd=cwd, env=_environment(dict(os.environ)), check=True)
    return (time.perf_counter() - started) * 1000


def _ready_ms(team: Team) -> float:
    """Start the daemon, wait for READY=1, and stop it: the next start is none after a crash."""
    path = team.place / "notify"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(PATIENCE_S)
        environment = _environment(team.environment) | {"NOTIFY_SOCKET": str(path)}
        command = [str(Path(sys.executable).with_name("ackd")), "run", "--quiet"]
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=team.place, env=environment, stdout=subprocess.DEVNULL)
        try:
            while b"READY=1" not in manager.recv(4096):
                pass
            return (time.perf_counter() - started) * 1000
        except TimeoutError as error:
            raise BenchFailed(f"not ready within {PATIENCE_S:.0f} s") from error
        finally:
            process.terminate()
            process.wait()


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
