"""Waiting for what only the kernel or another process knows: until it is so, with an end to it."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

#: How long a thing that must happen may take on a machine that has other things to do: a bound for what hangs, and no
#: measure. Nothing waits that long unless it fails.
PATIENCE_S = 60.0


def crowd() -> float:
    """How many times longer than on an idle machine a program may take to show a sign of life, by how many wait for a
    processor: up to thrice. For time-outs that a test must sit out, and that must not fit in before that sign."""
    return min(3.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


async def until(true: Callable[[], object], what: str = "it", deadline_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end, f"{what} never came true"
        await anyio.sleep(0.005)


class Stopwatch:
    """Seconds since it was made, without those in which anything on this machine had to wait for a CPU: what a thing
    takes by itself, however much else is going on. Where the kernel does not tell (PSI), all of them."""

    def __init__(self) -> None:
        self._began, self._hindered = time.monotonic(), _hindered_s()

    def unhindered_s(self) -> float:
        return time.monotonic() - self._began - self.hindered_s()

    def hindered_s(self) -> float:
        return _hindered_s() - self._hindered


def _hindered_s() -> float:
    try:
        said = Path("/proc/pressure/cpu").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^some .*total=(\d+)", said)
    return int(found[1]) / 1_000_000 if found else 0.0
