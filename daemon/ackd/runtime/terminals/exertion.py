"""Whether something works behind a pane, read from outside: the CPU time of all that was started in it.

A build that runs for ten minutes without a word on the screen is at work. Owns what was used when it was asked last.
Refuses little: an interactive program that waits for a line draws, blinks and ticks, and a hung one goes on with that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ackd.adapters.process_tree import ProcessTable

#: As a share of one core since it was asked last.
SIGN_SHARE: Final = 0.05
#: While it shows that it is busy: what turns costs Claude Code and Gemini up to a tenth of a core, though they hang.
BUSY_SHARE: Final = 0.25
#: And not less than this: clocks of the kernel tick a hundred times a second.
SIGN_CPU_S: Final = 0.05


@dataclass(eq=False)
class Exertion:
    table: ProcessTable
    _of: int = field(default=0, init=False)
    _cpu_s: float = field(default=0.0, init=False)
    _looked_at: float = field(default=0.0, init=False)

    def take(self, pane_pid: int, *, busy: bool = False) -> str | None:
        """What was used since this was asked last of the same pane. Quick, and never fails. ``busy``: it shows so."""
        share = BUSY_SHARE if busy else SIGN_SHARE
        cpu_s, looked_at = self.table.cpu_s(pane_pid), self.table.looked_at
        known, used_s, within_s = pane_pid == self._of, cpu_s - self._cpu_s, looked_at - self._looked_at
        self._of, self._cpu_s, self._looked_at = pane_pid, cpu_s, looked_at
        return f"{used_s:.2f} s of CPU time" if known and used_s >= max(SIGN_CPU_S, share * within_s) else None

    def child_since(self, pane_pid: int, boot_s: float) -> str | None:
        """A process below the pane that was started since then (seconds since the machine's boot) and lives."""
        young = self.table.started_since(pane_pid, boot_s)
        return f"a child is at work: pid {young[0]}" if young else None
