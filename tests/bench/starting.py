"""How long a command takes, against an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.row import Row

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 10


def _timed(command: list[str], cwd: Path) -> float:
    started = time.perf_counter()
    for _ in range(RUNS):
        subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) / RUNS


def rows(place: Path, median_s: Callable[[Callable[[], float]], float]) -> list[Row]:
    place.mkdir()
    ackd = str(Path(sys.executable).with_name("ackd"))
    subprocess.run([ackd, "init"], cwd=place, check=True, stdout=subprocess.DEVNULL)
    nothing = median_s(lambda: _timed([sys.executable, "-c", "pass"], place))
    found = []
    for what, words in (
        ("`ackd send`, start to flushed", ["send", "user", "--body", "hello"]),
        ("`ackd --help`", ["--help"]),
    ):
        ours = median_s(lambda words=words: _timed([ackd, *words], place))  # type: ignore[misc]
        found.append(Row(what, f"{ours * 1000:.0f} ms", f"{nothing * 1000:.0f} ms `python -c pass`", ours / nothing))
    return found
