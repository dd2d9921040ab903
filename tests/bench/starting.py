"""How long a command takes, against an interpreter that does nothing. The same interpreter: the console script's.

Compiled beforehand, as an installer leaves it. A send is measured twice: with its flushes, which are the disk's time,
and without.
"""

from __future__ import annotations

import os
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
    (place / "fast").mkdir()
    subprocess.run([ackd, "init"], cwd=place / "fast", check=True, stdout=subprocess.DEVNULL)
    unflushed = place / "fast" / "ackd.toml"
    unflushed.write_text(unflushed.read_text() + '\n[delivery]\ndurability = "process"\n')
    send = [ackd, "send", "user", "--body", "hello"]
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "`ackd send`": [*send, "--config", str(unflushed)],
        "`ackd send`, flushed": send,
        "`ackd --help`": [ackd, "--help"],
    }
    for command in commands.values():
        _timed_ms(command, place)
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(scale.starts):
        for name, command in commands.items():
            took[name].append(_timed_ms(command, place))
    nothing = tuple(took.pop("python"))
    tell(", ".join(f"{name} {sorted(values)[len(values) // 2]:.0f} ms" for name, values in took.items()))
    return [
        Figure("start-up", name, "ms", tuple(values), "`python -c pass`", nothing, at_most(factor))
        for (name, values), factor in zip(took.items(), (4, 4, 6), strict=True)
    ]


def _timed_ms(command: list[str], cwd: Path) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    subprocess.run(command, cwd=cwd, env=environment, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000
