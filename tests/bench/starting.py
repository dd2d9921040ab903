"""How long a command takes, against an interpreter that does nothing. The same interpreter: the console script's."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.figures import Figure, at_most

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.scale import Scale


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    place.mkdir()
    ackd = str(Path(sys.executable).with_name("ackd"))
    subprocess.run([ackd, "init"], cwd=place, check=True, stdout=subprocess.DEVNULL)
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "`ackd send`, start to flushed": [ackd, "send", "user", "--body", "hello"],
        "`ackd --help`": [ackd, "--help"],
    }
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(scale.starts):
        for name, command in commands.items():
            took[name].append(_timed_ms(command, place))
    nothing = tuple(took.pop("python"))
    tell(", ".join(f"{name} {sorted(values)[len(values) // 2]:.0f} ms" for name, values in took.items()))
    return [
        Figure("start-up", name, "ms", tuple(values), "`python -c pass`", nothing, at_most(factor))
        for (name, values), factor in zip(took.items(), (4, 6), strict=True)
    ]


def _timed_ms(command: list[str], cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000
