"""Finds an agent's pane and reads what it shows.

Owns which pane is whose. A pane that was found is remembered by its id and marked as ours, for programs change their
titles and targets move when a pane before them closes: another agent's pane is never taken for the one that was there.
Refuses to type. Fails with the conditions of ``adapters.tmux``; a pane that another agent's mark is on is ``NoPane``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackd.adapters.tmux import AmbiguousPane, NoPane, NoServer, with_target, with_title
from ackd.dialects import screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.adapters.tmux import Pane, Tmux
    from ackd.dialects.screen import Profile, Reading, State
    from ackd.ports import Clock


@dataclass(frozen=True, slots=True)
class Sight:
    pane: Pane
    text: str
    reading: Reading

    @property
    def state(self) -> State:
        return self.reading.state


@dataclass(kw_only=True, eq=False)
class Eye:
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

    async def look(self) -> Sight:
        """At the pane we know; if that is gone, at one that is found now."""
        if self.pane_id is not None:
            try:
                return await self._sight(self.pane_id)
            except (NoPane, NoServer):
                self.pane_id = None
        pane = await self._find()
        self.pane_id = pane.pane_id
        return await self._sight(pane.pane_id)

    async def _sight(self, pane_id: str) -> Sight:
        shot = await self.tmux.look(pane_id)
        if shot.pane.dead:
            raise NoPane(f"{pane_id} that lives: what ran in it has ended")
        if shot.pane.agent != self.owner:  # another server gives the same ids to other panes
            raise NoPane(f"{pane_id} of {self.owner}")
        reading = screen.read(shot.text, self.profile, self.clock.now().wall, shot.pane.command)
        return Sight(shot.pane, shot.text, reading)

    async def _find(self) -> Pane:
        """By the config's words first, then by our mark: the words may have been changed since, or be another's now."""
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
