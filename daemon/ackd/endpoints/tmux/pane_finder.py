"""Finds an agent's pane and reads what it shows.

A pane that was found is remembered by its id and marked as ours, because programs change their titles, and targets move
when a pane before them closes. So another agent's pane is never taken for the one that was there. Fails with the
conditions of ``endpoints.tmux.client``; a pane that bears another agent's mark is ``NoPane``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackd.endpoints.tmux import screen
from ackd.endpoints.tmux.client import AmbiguousPane, NoPane, NoServer, with_target, with_title

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.ports import Clock
    from ackd.endpoints.tmux.client import Pane, Tmux
    from ackd.endpoints.tmux.screen import Profile, Reading, State


@dataclass(frozen=True, slots=True)
class PaneView:
    """A pane, the text on its screen at one moment, and what that text says."""

    pane: Pane
    text: str
    reading: Reading

    @property
    def state(self) -> State:
        return self.reading.state


@dataclass(kw_only=True, eq=False)
class PaneFinder:
    """``owner`` is the mark: the agent's name, and what tells its team from others on the same server.

    ``found`` is called with each pane that is taken up, and with how it was found.
    """

    tmux: Tmux
    profile: Profile
    clock: Clock
    owner: str
    target: str | None = None
    title: str | None = None
    found: Callable[[Pane, str], None] = lambda _pane, _how: None
    pane_id: str | None = field(default=None, init=False)

    async def look(self) -> PaneView:
        """Look at the known pane; if that is gone, find one and look at it."""
        if self.pane_id is not None:
            try:
                return await self._view(self.pane_id)
            except (NoPane, NoServer):
                self.pane_id = None
        pane = await self._find()
        self.pane_id = pane.pane_id
        return await self._view(pane.pane_id)

    async def _view(self, pane_id: str) -> PaneView:
        shot = await self.tmux.look(pane_id)
        if shot.pane.dead:
            raise NoPane(f"{pane_id} that lives: what ran in it has ended")
        if shot.pane.agent != self.owner:  # another server gives the same ids to other panes
            raise NoPane(f"{pane_id} of {self.owner}")
        reading = screen.read(shot.text, self.profile, self.clock.now().wall, shot.pane.command)
        return PaneView(shot.pane, shot.text, reading)

    async def _find(self) -> Pane:
        """Find the pane by the config's target or title first, then by our mark: the title may have changed since, or
        the target may be another agent's pane by now."""
        panes = [pane for pane in await self.tmux.panes() if pane.agent in {"", self.owner}]
        pane, how = self._named(panes) or self._marked(panes)
        if pane.agent != self.owner:
            await self.tmux.mark(pane.pane_id, self.owner)
        self.found(pane, how)
        return pane

    def _named(self, panes: list[Pane]) -> tuple[Pane, str] | None:
        for wanted, chosen, how in ((self.target, with_target, "target"), (self.title, with_title, "title")):
            if wanted is not None:
                try:
                    return chosen([pane for pane in panes if not pane.dead], wanted), how
                except NoPane:
                    continue
        return None

    def _marked(self, panes: list[Pane]) -> tuple[Pane, str]:
        ours = [pane for pane in panes if pane.agent == self.owner and not pane.dead]
        if len(ours) > 1:
            raise AmbiguousPane(f"marked as {self.owner}'s", tuple(pane.pane_id for pane in ours))
        if not ours:
            raise NoPane(self._wanted())
        return ours[0], "mark"

    def _wanted(self) -> str:
        named = [name for name in (self.target, f"titled {self.title!r}" if self.title else None) if name]
        return " or ".join(named) or f"of {self.owner}"
