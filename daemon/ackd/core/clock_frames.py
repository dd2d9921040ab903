"""Wall times that were written down, and are read after the wall clock was set or the machine slept.

There are two clocks: the wall clock, which a person, a time server or a laptop that wakes may set, and CLOCK_MONOTONIC,
which only grows. Their difference, a ``Frame``, stays the same while both run (slewing moves both), and changes by
exactly what the wall clock was set by. Whoever writes the frame beside a time can later move that time by as much. So a
time goes by the monotonic clock though it is written as wall time, which people and other programs read.

CLOCK_MONOTONIC stands still while the machine is suspended; CLOCK_BOOTTIME does not. For leases and heartbeats the
first is right: a lease's time is time in which its holder could work and renew it, silence is time in which a worker
could have spoken. A laptop that slept for a night had neither, and nobody else wanted the file meanwhile. By BOOTTIME
every lease would be over, and every worker stale, in the moment of waking.

A frame belongs to one boot. Across boots there is only wall time, and whoever reads it limits what it believes. Pure.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
from typing import Final, NamedTuple

#: A smaller difference is the time between two readings, and changes nothing.
STEP_S: Final = 1.0


class Frame(NamedTuple):
    """The state of the two clocks. ``boot``: the boot (and time namespace) of the monotonic clock. ``ahead_s``: wall
    minus monotonic."""

    boot: str
    ahead_s: float


def moved_s(written: Frame | None, now: Frame | None) -> float | None:
    """Return by how many seconds a written wall time must be moved to mean now what it meant then. None: nobody can
    tell, because it is from another boot or has no frame."""
    if written is None or now is None or written.boot != now.boot:
        return None
    moved = now.ahead_s - written.ahead_s
    return moved if abs(moved) >= STEP_S else 0.0


def write(frame: Frame) -> str:
    return f"{frame.boot}/{frame.ahead_s:.6f}"


def read(text: object) -> Frame | None:
    """Parse a frame; None for any other text."""
    boot, _, ahead = text.rpartition("/") if isinstance(text, str) and len(text) <= 200 else ("", "", "")
    try:
        ahead_s = float(ahead)
    except ValueError:
        return None
    return Frame(boot, ahead_s) if boot and abs(ahead_s) < 1e12 else None
