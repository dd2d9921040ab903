"""The processes that live in a pane we started: waiting for their end, and ending them.

Everything started in such a pane carries ``ACKD_LIFE`` in its environment, so it is found whichever group or session it
fled to; what means to stay starts with ``env -u ACKD_LIFE setsid …``. What was started with an emptied environment is
found by its session, which tmux makes for each pane, for as long as the pane's own process lives: there are agents that
a closed pane does not end (Gemini CLI ignores the hang-up). ``system.process_tree`` finds, holds and ends them.

Nothing here fails: a process that is gone, or another user's, is not of the pane, and one that no KILL ends is left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from ackd.system import process_tree

LIFE_VARIABLE: Final = "ACKD_LIFE"


class Leader:
    """The process that tmux made the pane for, held by a pidfd: while it lives, its pid is also its session's."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1

    def session(self) -> int | None:
        """The session; None if the process is dead, and its number may be another's by now."""
        return None if self._pidfd < 0 or process_tree.is_dead(self._pidfd) else self._pid

    async def ended(self) -> None:
        """Wait for its end; return at once if there was no such process."""
        if self._pidfd >= 0:
            await process_tree.died(self._pidfd)

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


@dataclass(frozen=True, slots=True)
class PaneProcesses:
    life: str
    leader: Leader | None = None

    async def end(self, timeout_s: float) -> None:
        """Send TERM to each process once, and KILL after ``timeout_s``, until none is found any more."""
        session = self.leader.session if self.leader is not None else lambda: None
        await process_tree.end_tree(process_tree.ProcessTree(self._mark, session), timeout_s)

    def living(self) -> list[int]:
        """The pids of the pane's processes. A zombie's environment is empty, so the dead are not counted."""
        held = process_tree.find_processes(self._mark)
        process_tree.close_all(held)
        return sorted(held)

    @property
    def _mark(self) -> str:
        return f"{LIFE_VARIABLE}={self.life}"
