"""The processes that live in a pane we started: waiting for their end, and ending them.

Everything started in such a pane carries ``ACKD_LIFE`` in its environment, so it is found whichever group or session it
fled to; what means to stay starts with ``env -u ACKD_LIFE setsid …``. How they are found, held and ended is the room
below (``processes``).

Refuses to know tmux, and whose group or session it is: these are tmux's and the shell's. Fails quietly: what is gone,
or another user's, is not of the pane, and what no KILL ends is left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from ackd import processes
from ackd.processes import belongings

LIFE_VARIABLE: Final = "ACKD_LIFE"


@dataclass(frozen=True, slots=True)
class Occupants:
    life: str

    async def end(self, timeout_s: float) -> None:
        """TERM to each once, after ``timeout_s`` KILL, until none is found any more."""
        await processes.clear_away(processes.Brood(self._mark), timeout_s)

    def living(self) -> list[int]:
        """A zombie's environment is empty: the dead are not counted."""
        held = belongings.belongings(self._mark)
        belongings.close_all(held)
        return sorted(held)

    @property
    def _mark(self) -> str:
        return f"{LIFE_VARIABLE}={self.life}"


async def ended(pid: int) -> None:
    """Wait for the death of a process, by pidfd. Returns at once if there is none of that number."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await processes.died(pidfd)
    finally:
        os.close(pidfd)
