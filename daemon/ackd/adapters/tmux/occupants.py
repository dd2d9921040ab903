"""The processes that live in a pane we started: waiting for their end, and ending them.

Everything started in such a pane carries ``ACKD_LIFE`` in its environment, so it is found whichever group or session it
fled to; what means to stay starts with ``env -u ACKD_LIFE setsid …``. What was started with an emptied environment is
found by its session, which tmux makes for each pane, for as long as the pane's own process lives: there are agents that
a closed pane does not end (Gemini CLI ignores the hang-up). How they are found, held and ended is the room below
(``processes``).

Refuses to know tmux. Fails quietly: what is gone, or another user's, is not of the pane, and what no KILL ends is left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from ackd import processes
from ackd.processes import belongings

LIFE_VARIABLE: Final = "ACKD_LIFE"


class Leader:
    """The process that tmux made the pane for, held from the start: while it lives, its number is its session's."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1

    def session(self) -> int | None:
        """None: its number may be someone else's by now."""
        return None if self._pidfd < 0 or belongings.is_dead(self._pidfd) else self._pid

    async def ended(self) -> None:
        """Returns at once if there was none of that number."""
        if self._pidfd >= 0:
            await processes.died(self._pidfd)

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


@dataclass(frozen=True, slots=True)
class Occupants:
    life: str
    leader: Leader | None = None

    async def end(self, timeout_s: float) -> None:
        """TERM to each once, after ``timeout_s`` KILL, until none is found any more."""
        session = self.leader.session if self.leader is not None else lambda: None
        await processes.clear_away(processes.Brood(self._mark, session), timeout_s)

    def living(self) -> list[int]:
        """A zombie's environment is empty: the dead are not counted."""
        held = belongings.belongings(self._mark)
        belongings.close_all(held)
        return sorted(held)

    @property
    def _mark(self) -> str:
        return f"{LIFE_VARIABLE}={self.life}"
