"""The bare spool loop once more, in C (``spool.c``): the limit of files and flushes, whatever language they are moved by.

It says how far a queue of one file for each message could get at all beside one that keeps them in its memory.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import letters, race

if TYPE_CHECKING:
    from tests.bench.scale import Scale

SOURCE = Path(__file__).with_name("spool.c")


def why_not() -> str:
    """Empty: it can run."""
    return "" if shutil.which("cc") else "a C compiler (cc) is not installed"


def throughput(place: Path, scale: Scale, *, flush: bool) -> float:
    """Messages per second. ``BenchFailed`` if it lost one, or could not be built."""
    place.mkdir(parents=True)
    program = place / "spool"
    _run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE), "-lpthread"])
    spool = place / "spooled"
    spool.mkdir()
    size = len(letters.letter(0))
    numbers = [str(number) for number in (scale.messages, scale.senders, size)]
    seconds = float(_run([str(program), str(spool), *numbers, "flush" if flush else "none"]))
    arrived = sum(1 for _ in (spool / "archive").iterdir())
    if arrived != scale.messages:
        raise race.BenchFailed(f"the loop in C archived {arrived} of {scale.messages} messages")
    return scale.messages / seconds


def _run(command: list[str]) -> str:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=race.PATIENCE_S)
    if ended.returncode:
        raise race.BenchFailed(f"{Path(command[0]).name}: exit {ended.returncode}: {ended.stderr[-500:]}")
    return ended.stdout
