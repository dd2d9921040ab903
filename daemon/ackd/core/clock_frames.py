"""Wall times that were written down, read after the wall clock was set or the machine slept.

Two clocks: the wall clock, which a person, a time server or a laptop that wakes may set, and CLOCK_MONOTONIC, which
only grows. Their difference, a ``Frame``, stays what it is while both run (slewing moves both), and changes by exactly
what the wall clock was set by. So who notes the frame beside a time can move that time by as much, later, and goes by
the monotonic clock though it wrote wall time, which people and other programs read.

CLOCK_MONOTONIC stands still while the machine is suspended; CLOCK_BOOTTIME does not. For leases and heartbeats the
first is right: a lease's time is time in which its holder could work and renew it, silence is time in which a worker
could have spoken. A laptop that slept for a night had neither, and nobody else wanted the file meanwhile. By BOOTTIME
every lease would be over, and every worker stale, in the moment of waking.

A frame is of one boot; across boots there is only wall time, and whoever reads it limits what it believes. Pure.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
from typing import Final, NamedTuple

#: A smaller difference is the time between two readings, and changes nothing.
STEP_S: Final = 1.0


class Frame(NamedTuple):
    """``boot``: which boot (and time namespace) the monotonic clock is of. ``ahead_s``: wall minus monotonic."""

    boot: str
    ahead_s: float


def moved_s(written: Frame | None, now: Frame | None) -> float | None:
    """By how much a wall time that was written down is to be moved to mean now what it meant then; None: nobody can
    tell, for it was in another boot, or without a frame."""
    if written is None or now is None or written.boot != now.boot:
        return None
    moved = now.ahead_s - written.ahead_s
    return moved if abs(moved) >= STEP_S else 0.0


def write(frame: Frame) -> str:
    return f"{frame.boot}/{frame.ahead_s:.6f}"


def read(text: object) -> Frame | None:
    """None for what is no frame."""
    boot, _, ahead = text.rpartition("/") if isinstance(text, str) and len(text) <= 200 else ("", "", "")
    try:
        ahead_s = float(ahead)
    except ValueError:
        return None
    return Frame(boot, ahead_s) if boot and abs(ahead_s) < 1e12 else None
