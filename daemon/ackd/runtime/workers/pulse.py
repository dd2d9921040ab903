"""Signs of life of a worker, read from outside: words on either pipe, or CPU time of all that belongs to it.

Owns what was there when it was asked last. A worker that is dead has none, whoever speaks in its place; one that is
stopped uses no time. Quick, and never fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ackd.adapters.child import Life
    from ackd.adapters.process_tree import ProcessTable

#: Less CPU time than that may be a timer that ticks in a worker that hangs.
SIGN_CPU_S: Final = 0.05


@dataclass(eq=False)
class Pulse:
    table: ProcessTable
    _of: Life | None = field(default=None, init=False)
    _heard_bytes: int = field(default=0, init=False)
    _cpu_s: float = field(default=0.0, init=False)

    def take(self, life: Life | None) -> str | None:
        """What there was of it since this was asked last."""
        if life is None or not life.alive:
            return None
        if life is not self._of:
            self._of, self._heard_bytes, self._cpu_s = life, 0, 0.0
        words, used_s = self._words(life), self._used_s(life)
        if words:
            return f"{words} bytes of output"
        return f"{used_s:.2f} s of CPU time" if used_s else None

    def _words(self, life: Life) -> int:
        before, self._heard_bytes = self._heard_bytes, life.heard_bytes
        return self._heard_bytes - before

    def _used_s(self, life: Life) -> float:
        """Little by little does not add up: a worker that hangs may tick on."""
        before, self._cpu_s = self._cpu_s, self.table.cpu_s(life.pid, life.mark)
        used_s = self._cpu_s - before
        return used_s if used_s >= SIGN_CPU_S else 0.0
