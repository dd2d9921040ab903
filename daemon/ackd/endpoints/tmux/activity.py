"""Judges by screen and processes what an agent in a pane is doing, and posts it to the engine when it changes.

An agent is idle if it is ready with an empty input line, busy if its screen says so, and otherwise unclear. While an
agent is busy, its busy rows are no sign of life; other rows, CPU time and a child that its turn started are. A build
that runs for ten minutes without a word on the screen is at work. A little CPU time does not count: an interactive
program that waits for a line draws, blinks and ticks, and a hung one continues to do that.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.events import AgentShowed
from ackd.core.idleness import Doing
from ackd.endpoints.tmux.screen import Busy, Ready, Unknown, steady
from ackd.system.process_tree import SIGN_CPU_S

if TYPE_CHECKING:
    from ackd.core.ports import Post
    from ackd.endpoints.tmux.pane_finder import PaneFinder, PaneView
    from ackd.system.process_tree import ProcessTable

#: After this many looks in a row that tmux does not answer, the agent's activity is posted as unknown.
_BLIND_LOOKS: Final = 5


@dataclass(kw_only=True, eq=False)
class PaneActivity:
    agent: str
    finder: PaneFinder
    post: Post
    cpu: CpuActivity
    _shown: Doing | None = field(default=None, init=False)
    _busy_since: float = field(default=0.0, init=False)  # on the boot clock, like the start times of processes
    _steady: bytes = field(default=b"", init=False)
    _blind: int = field(default=0, init=False)

    @property
    def is_busy(self) -> bool:
        return self._shown is Doing.BUSY

    def show_again(self) -> None:
        """Called when the agent was told something: what it shows next is posted, even if it is the same as before."""
        self._shown = None

    def saw(self, view: PaneView) -> None:
        """Take this view as the one to compare with: what we have just typed is no sign of life."""
        self._steady = self._digest(view)

    def stirred(self, view: PaneView) -> bool:
        """Tell whether rows have changed that only change when something is done."""
        before, self._steady = self._steady, self._digest(view)
        return bool(before) and self._steady != before

    def show(self, view: PaneView, *, can_be_told: bool, changed: bool) -> None:
        """Post what the agent is doing, if that is new. ``can_be_told``: nothing but its state keeps a line from it.
        ``changed``: the screen has changed since the last look; an agent whose screen is not understood, but changes,
        is at work."""
        self._blind = 0
        if isinstance(view.state, Busy) or (isinstance(view.state, Unknown) and changed):
            doing = Doing.BUSY
        else:
            doing = Doing.IDLE if can_be_told and view.reading.is_idle else Doing.UNCLEAR
        self._say(doing, getattr(view.state, "text", ""))

    def is_blind(self, why: str) -> None:
        """Called when tmux or the machine refused a look. That says nothing about the agent, until it happens often."""
        self._blind += 1
        if self._blind >= _BLIND_LOOKS:
            self._say(Doing.UNCLEAR, why)

    def child(self, pane_pid: int) -> str | None:
        """A child that was started since the agent went to work and still runs: a sign of life."""
        if not self.is_busy:
            return None
        return self.cpu.child_since(pane_pid, self._busy_since)

    def _say(self, doing: Doing, evidence: str) -> None:
        if doing is self._shown:
            return
        if doing is Doing.BUSY:
            self._busy_since = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._shown = doing
        self.post(AgentShowed(self.agent, doing, evidence))

    def _digest(self, view: PaneView) -> bytes:
        known = isinstance(view.state, Busy | Ready)
        text = steady(view.text, self.finder.profile) if known else view.text
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


# --- CPU time ---------------------------------------------------------------------------------------------------------
#: The share of one core, since the last call, that is a sign of life.
SIGN_SHARE: Final = 0.05
#: The same while it shows that it is busy: the spinner of Claude Code and Gemini takes up to a tenth of a core even
#: when they hang.
BUSY_SHARE: Final = 0.25


@dataclass(eq=False)
class CpuActivity:
    table: ProcessTable
    _of: int = field(default=0, init=False)
    _cpu_s: float = field(default=0.0, init=False)
    _looked_at: float = field(default=0.0, init=False)

    def take(self, pane_pid: int, *, busy: bool = False) -> str | None:
        """CPU time used since the last call for the same pane, if it is a sign of life. Quick, and never fails.
        ``busy``: the screen shows that the agent is busy."""
        share = BUSY_SHARE if busy else SIGN_SHARE
        cpu_s, looked_at = self.table.cpu_s(pane_pid), self.table.looked_at
        known, used_s, within_s = pane_pid == self._of, cpu_s - self._cpu_s, looked_at - self._looked_at
        self._of, self._cpu_s, self._looked_at = pane_pid, cpu_s, looked_at
        return f"{used_s:.2f} s of CPU time" if known and used_s >= max(SIGN_CPU_S, share * within_s) else None

    def child_since(self, pane_pid: int, boot_s: float) -> str | None:
        """A process below the pane that was started since then (seconds since the machine's boot) and lives."""
        young = self.table.started_since(pane_pid, boot_s)
        return f"a child is at work: pid {young[0]}" if young else None
