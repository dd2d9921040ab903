"""Who a process is, so that it is known again: a number alone may be someone else's by now.

Owns pid + start time, the boot they count in, and the mark that children bear. Fails with OSError, ValueError or
IndexError for what cannot be read: the process is gone, or the text is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

#: In the environment of a child that we keep alive, and of all that it starts: which life of which child that is.
CHILD_MARK: Final = "ACKD_CHILD"


@dataclass(frozen=True, slots=True)
class Identity:
    """``start_ticks`` count from the boot: they mean something in that boot only."""

    pid: int
    start_ticks: int


def identity_of(pid: int) -> Identity:
    return parse_stat(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))


def parse_stat(line: str) -> Identity:
    """Of a /proc/PID/stat line: the name in brackets may hold anything, so fields are counted from its end."""
    return Identity(int(line.split(" ", 1)[0]), int(line.rpartition(")")[2].split()[19]))


@cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
