"""How much CPU time all that belongs to a child, or a pane, has used: a sign of life that costs it nothing.

One look at /proc serves every child that is asked about shortly after. What belongs to one is its session, whatever
carries its mark, and what these have started. Owns that look. Refuses to judge what a number means. Never fails: what
is gone, or cannot be read, has used nothing.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Final

from ackd.processes import CHILD_MARK

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
MAX_AGE_S: Final = 2.0
_MARK: Final = f"{CHILD_MARK}=".encode()


@dataclass(frozen=True, slots=True)
class _Seen:
    """``ticks`` of its own and of its children that it has waited for: a total that does not fall when one ends."""

    parent: int
    session: int
    start_ticks: int
    ticks: int
    mark: str


@dataclass(eq=False)
class ProcessTable:
    max_age_s: float = MAX_AGE_S
    _seen: dict[int, _Seen] = field(default_factory=dict, init=False)
    #: When what is said was so: it may be up to ``max_age_s`` old.
    looked_at: float = field(default=float("-inf"), init=False)

    def cpu_s(self, session: int, mark: str = "") -> float:
        return sum(self._seen[pid].ticks for pid in self._members(session, mark)) / _TICKS_PER_S

    def started_since(self, session: int, boot_s: float) -> list[int]:
        """Those that were started since then, in seconds since the machine's boot, the oldest first."""
        young = [pid for pid in self._members(session, "") if self._seen[pid].start_ticks >= boot_s * _TICKS_PER_S]
        return sorted(young, key=lambda pid: (self._seen[pid].start_ticks, pid))

    def _members(self, session: int, mark: str) -> set[int]:
        if time.monotonic() - self.looked_at >= self.max_age_s:
            self._look()
        members = {pid for pid, one in self._seen.items() if one.session == session or (mark and one.mark == mark)}
        grown = True
        while grown:
            more = {pid for pid, one in self._seen.items() if one.parent in members} - members
            members |= more
            grown = bool(more)
        return members

    def _look(self) -> None:
        """A mark is inherited and does not change: it is read once for each process."""
        found: dict[int, _Seen] = {}
        with os.scandir("/proc") as entries:
            pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
        for pid in pids:
            one = self._read(pid)
            if one is not None:
                found[pid] = one
        self._seen, self.looked_at = found, time.monotonic()

    def _read(self, pid: int) -> _Seen | None:
        stat = _content(f"/proc/{pid}/stat")
        try:
            fields = stat.rpartition(b")")[2].split()
            parent, session, start = int(fields[1]), int(fields[3]), int(fields[19])
            ticks = sum(int(ticks) for ticks in fields[11:15])
        except (ValueError, IndexError):
            return None  # gone
        before = self._seen.get(pid)
        known = before is not None and before.start_ticks == start
        return _Seen(parent, session, start, ticks, before.mark if known and before else _mark(pid))


def _mark(pid: int) -> str:
    entries = _content(f"/proc/{pid}/environ").split(b"\0")
    return next((entry[len(_MARK) :].decode("ascii", "replace") for entry in entries if entry.startswith(_MARK)), "")


def _content(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 256 * 1024)
    except OSError:
        return b""
    finally:
        os.close(fd)
