"""One message at a time, evenly in time, and how long each took: the sender writes down when, the handler too.

Both read the monotonic clock, which is one for all processes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PER_S = 50
#: The first of anything pays for imports and cold caches: sent, and not counted.
WARM_UP = 20


def paced(notes: Path, count: int, opened: Callable[[], Callable[[int], None]], ready: Callable[[], object]) -> None:
    """Calls what ``opened`` gives with 0, 1, 2 …; writes down the moment before each call."""
    put = opened()
    at = []
    ready()
    start = time.monotonic()
    for number in range(count + WARM_UP):
        time.sleep(max(0.0, start + number / PER_S - time.monotonic()))
        at.append(time.monotonic_ns())
        put(number)
    notes.write_text("".join(f"{number} {when}\n" for number, when in enumerate(at)))


def note(notes: Path, key: str | int) -> None:
    at = time.monotonic_ns()
    with notes.open("a") as file:
        file.write(f"{key} {at}\n")


def read(notes: Path) -> dict[str, int]:
    """Nanoseconds by key."""
    return {key: int(at) for key, at in (line.split() for line in notes.read_text().splitlines())}


def waits_ms(sent: Mapping[str, int], called: Mapping[str, int]) -> list[float]:
    """Of all that were sent after the warm-up. One that was never called for is a KeyError: nothing is left out."""
    return [(called[number] - at) / 1e6 for number, at in sent.items() if int(number) >= WARM_UP]
