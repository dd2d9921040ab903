"""Waking a worker in a pane that somebody names: the ladder for whoever is not the daemon.

Owns which pane that is, for as long as one program lives in it, and when its worker is left in peace: while a daemon
serves the pane, which wakes it itself, and while it is seen to be at work. It marks nothing: the pane stays whosever it
was. Refuses to know tasks and time: lines are given, and whoever calls waits between the rungs. Fails by its answer, in
words; nothing is raised for what is wrong with tmux or the pane.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ackd.adapters import root_lock
from ackd.adapters.tmux import NoPane, TmuxFault, with_target
from ackd.dialects import screen
from ackd.dialects.screen import Busy
from ackd.runtime.terminals.eye import Sight
from ackd.runtime.terminals.rungs import Rungs
from ackd.runtime.terminals.typist import NotSubmitted, Submitted
from ackd.runtime.terminals.words import Away

if TYPE_CHECKING:
    from ackd.adapters.tmux import Pane, Tmux
    from ackd.dialects.screen import Profile
    from ackd.ports import Clock
    from ackd.runtime.terminals.typist import Typed


@dataclass(kw_only=True, eq=False)
class NamedPane:
    """By id or target. Taken up once: another program at the same place is not who was named."""

    tmux: Tmux
    profile: Profile
    clock: Clock
    target: str
    pane_id: str | None = field(default=None, init=False)
    _pid: int = field(default=0, init=False)

    async def look(self) -> Sight:
        if self.pane_id is None:
            pane = with_target(await self.tmux.panes(), self.target)
            self.pane_id, self._pid = pane.pane_id, pane.pid
        shot = await self.tmux.look(self.pane_id)
        if shot.pane.dead or shot.pane.pid != self._pid:
            raise NoPane(f"{self.target} that lives: what ran in it has ended")
        reading = screen.read(shot.text, self.profile, self.clock.now().wall, shot.pane.command)
        return Sight(shot.pane, shot.text, reading)


@dataclass(kw_only=True, eq=False)
class Summons:
    tmux: Tmux
    profile: Profile
    clock: Clock
    target: str
    drawn_within_s: float = 1.5
    _pane: NamedPane = field(init=False)
    _rungs: Rungs = field(init=False)
    _before: bytes = field(default=b"", init=False)
    _keys: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._pane = NamedPane(tmux=self.tmux, profile=self.profile, clock=self.clock, target=self.target)
        self._rungs = Rungs(tmux=self.tmux, profile=self.profile, eye=self._pane, drawn_within_s=self.drawn_within_s)

    async def regard(self) -> None:
        """What it shows now: what is different at the next rung is its own doing."""
        with contextlib.suppress(TmuxFault, OSError):
            self._before = _digest(await self._pane.look())

    async def climb(self, rung: int, line: str, fresh: str) -> str:
        """What came of it. Rung 1: the line; 2: an interrupt and the line; 3: a reset and the fresh line."""
        try:
            sight = await self._pane.look()
        except (TmuxFault, OSError) as failure:
            return f"nothing typed: {failure}"
        if (reason := self._left_in_peace(sight)) is not None:
            return f"nothing typed: {reason}"
        self._keys = []
        if rung == 1:
            answer = await self._rungs.say(line, "nudge 1", self._note)
        else:
            # Who asks has set its pace; one that is busy still has not changed a row of its screen since the last rung.
            answer = await self._rungs.shake(rung, line, fresh, self._note, hung=True)
        return self._said(answer)

    def _left_in_peace(self, sight: Sight) -> str | None:
        if (root := _served(sight.pane)) is not None:
            return f"the daemon of {root} serves this pane, and wakes who lives in it"
        if isinstance(sight.state, Busy) and self._before and _digest(sight) != self._before:
            return f"it is at work: {sight.state.text}"
        return None

    def _said(self, answer: Typed | Away | OSError) -> str:
        pressed = f" (keys: {', '.join(self._keys)})" if self._keys else ""
        match answer:
            case Submitted(proof):
                return f"{proof}{pressed}"
            case Away(_, reason) | NotSubmitted(reason):
                return f"not told{pressed}: {reason}"
            case _:
                return f"not told{pressed}: {answer}"

    async def _note(self, why: str, typed: Typed, *keys: str) -> None:  # noqa: ARG002 - a rung types once
        self._keys = [*keys, *typed.keys]


def _served(pane: Pane) -> str | None:
    """The root of the running daemon whose agent's mark (``<root>:<agent>``) is on the pane."""
    root, _, agent = pane.agent.rpartition(":")
    if not (agent and root.startswith("/")):
        return None
    try:
        return root if root_lock.holder(Path(root) / "run") is not None else None
    except OSError:  # not ours to read: somebody's, then
        return root


def _digest(sight: Sight) -> bytes:
    return hashlib.blake2b(sight.text.encode(errors="replace"), digest_size=16).digest()
