"""Wakes a worker in a pane that the caller names: the ladder for programs other than the daemon (``ackd.ack``).

The pane stays the same as long as one program lives in it. Its worker is not woken while a daemon serves the pane,
which wakes it itself, and while it is seen to be at work. The pane is not marked. The caller gives the lines, and
waits between the rungs. A problem with tmux or the pane is described in the answer; nothing is raised for it.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ackd.endpoints.tmux import screen
from ackd.endpoints.tmux.availability import Away
from ackd.endpoints.tmux.client import NoPane, TmuxFault, with_target
from ackd.endpoints.tmux.pane_finder import PaneView
from ackd.endpoints.tmux.screen import Busy
from ackd.endpoints.tmux.typist import NotSubmitted, Submitted
from ackd.endpoints.tmux.wake_ladder import WakeLadder
from ackd.storage import root_lock

if TYPE_CHECKING:
    from ackd.core.ports import Clock
    from ackd.endpoints.tmux.client import Pane, Tmux
    from ackd.endpoints.tmux.screen import Profile
    from ackd.endpoints.tmux.typist import Typed


@dataclass(kw_only=True, eq=False)
class NamedPane:
    """A pane by id or target, looked up once: another program at the same place is not the one that was named."""

    tmux: Tmux
    profile: Profile
    clock: Clock
    target: str
    pane_id: str | None = field(default=None, init=False)
    _pid: int = field(default=0, init=False)

    async def look(self) -> PaneView:
        if self.pane_id is None:
            pane = with_target(await self.tmux.panes(), self.target)
            self.pane_id, self._pid = pane.pane_id, pane.pid
        shot = await self.tmux.look(self.pane_id)
        if shot.pane.dead or shot.pane.pid != self._pid:
            raise NoPane(f"{self.target} that lives: what ran in it has ended")
        reading = screen.read(shot.text, self.profile, self.clock.now().wall, shot.pane.command)
        return PaneView(shot.pane, shot.text, reading)


@dataclass(kw_only=True, eq=False)
class StandaloneWake:
    tmux: Tmux
    profile: Profile
    clock: Clock
    target: str
    drawn_within_s: float = 1.5
    _pane: NamedPane = field(init=False)
    _ladder: WakeLadder = field(init=False)
    _before: bytes = field(default=b"", init=False)
    _keys: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._pane = NamedPane(tmux=self.tmux, profile=self.profile, clock=self.clock, target=self.target)
        self._ladder = WakeLadder(
            tmux=self.tmux, profile=self.profile, finder=self._pane, drawn_within_s=self.drawn_within_s
        )

    async def note_screen(self) -> None:
        """Note what the pane shows now: what is different at the next rung is the worker's own doing."""
        with contextlib.suppress(TmuxFault, OSError):
            self._before = _digest(await self._pane.look())

    async def climb(self, rung: int, line: str, fresh: str) -> str:
        """Wake the worker, and say what came of it. Rung 1: the line; 2: an interrupt and the line; 3: a reset and the
        fresh line."""
        try:
            view = await self._pane.look()
        except (TmuxFault, OSError) as failure:
            return f"nothing typed: {failure}"
        if (reason := self._reason_not_to_wake(view)) is not None:
            return f"nothing typed: {reason}"
        self._keys = []
        if rung == 1:
            answer = await self._ladder.say(line, "nudge 1", self._note)
        else:
            # The caller decides how long to wait between rungs. A worker that is still busy, and has not changed a row
            # of its screen since the last rung, is taken for hung.
            answer = await self._ladder.interrupt_or_reset(rung, line, fresh, self._note, hung=True)
        return self._said(answer)

    def _reason_not_to_wake(self, view: PaneView) -> str | None:
        if (root := _served(view.pane)) is not None:
            return f"the daemon of {root} serves this pane, and wakes who lives in it"
        if isinstance(view.state, Busy) and self._before and _digest(view) != self._before:
            return f"it is at work: {view.state.text}"
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
    except OSError:  # we may not read it, so it is another user's daemon
        return root


def _digest(view: PaneView) -> bytes:
    return hashlib.blake2b(view.text.encode(errors="replace"), digest_size=16).digest()
