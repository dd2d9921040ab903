"""What an agent's pane shows that it is doing, said to the engine when that changes, and what is a sign of life in it.

Owns what was said last. Idle is ready with an empty input line, busy what its screen says is busy, all else is unclear.
While it is busy its busy rows are no sign of life; other rows, processor time and a child that its turn started are.
Refuses to look and to type.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.events import AgentShowed
from ackd.core.idleness import Doing
from ackd.dialects.screen import Busy, Ready, Unknown, steady

if TYPE_CHECKING:
    from ackd.ports import Post
    from ackd.runtime.terminals.exertion import Exertion
    from ackd.runtime.terminals.eye import Eye, Sight

#: So many looks in a row that tmux does not answer say that nobody knows what it does.
_BLIND_LOOKS: Final = 5


@dataclass(kw_only=True, eq=False)
class Doings:
    agent: str
    eye: Eye
    post: Post
    exertion: Exertion
    _shown: Doing | None = field(default=None, init=False)
    _busy_since: float = field(default=0.0, init=False)  # of the boot clock, as starts of processes are
    _steady: bytes = field(default=b"", init=False)
    _blind: int = field(default=0, init=False)

    @property
    def is_busy(self) -> bool:
        return self._shown is Doing.BUSY

    def anew(self) -> None:
        """It was told something: whatever it shows next is said, though it be the same."""
        self._shown = None

    def saw(self, sight: Sight) -> None:
        """What we have just typed is no sign of life."""
        self._steady = self._digest(sight)

    def stirred(self, sight: Sight) -> bool:
        """Whether rows have changed that only change when something is done."""
        before, self._steady = self._steady, self._digest(sight)
        return bool(before) and self._steady != before

    def show(self, sight: Sight, *, can_be_told: bool, changed: bool) -> None:
        """``can_be_told``: nothing but its state keeps a line from it. ``changed``: its screen did since the last look,
        and what is not understood and changes is at work."""
        self._blind = 0
        if isinstance(sight.state, Busy) or (isinstance(sight.state, Unknown) and changed):
            doing = Doing.BUSY
        else:
            doing = Doing.IDLE if can_be_told and sight.reading.is_idle else Doing.UNCLEAR
        self._say(doing, getattr(sight.state, "text", ""))

    def is_blind(self, why: str) -> None:
        """A hard moment of tmux or the machine says nothing about the agent; many of them say that nobody sees it."""
        self._blind += 1
        if self._blind >= _BLIND_LOOKS:
            self._say(Doing.UNCLEAR, why)

    def child(self, pane_pid: int) -> str | None:
        """A child that was started since it went to work and is not through: a sign of life."""
        if not self.is_busy:
            return None
        return self.exertion.child_since(pane_pid, self._busy_since)

    def _say(self, doing: Doing, evidence: str) -> None:
        if doing is self._shown:
            return
        if doing is Doing.BUSY:
            self._busy_since = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._shown = doing
        self.post(AgentShowed(self.agent, doing, evidence))

    def _digest(self, sight: Sight) -> bytes:
        known = isinstance(sight.state, Busy | Ready)
        text = steady(sight.text, self.eye.profile) if known else sight.text
        return hashlib.blake2b(text.encode(), digest_size=16).digest()
