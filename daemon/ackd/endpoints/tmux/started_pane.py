"""A pane that ackd starts (``start = "…"``), for the supervisor to keep alive.

The command runs in a window of its own, and everything that it has started belongs to it. A pane outlives the daemon,
so one that bears our mark is taken up again instead of starting a second agent beside it. Starting fails with
``CannotStart``, after which nothing of it is left; ``exited`` also returns when a person closes the pane.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core.errors import CannotStart
from ackd.core.ports import Exit
from ackd.endpoints.tmux.client import LIFE_VARIABLE, Leader, NoPane, NoServer, PaneProcesses, TmuxFault
from ackd.endpoints.tmux.screen import Shell, Unknown
from ackd.endpoints.tmux.screen.rows import foot, for_people, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ackd.config.live import LiveConfig
    from ackd.endpoints.tmux.client import Pane, Tmux
    from ackd.endpoints.tmux.pane_finder import PaneFinder

_LOOK_EVERY_S: Final = 0.2
_LAST_ROWS: Final = 3


@dataclass(kw_only=True, eq=False)
class StartedPane:
    """``finder`` is the endpoint's: it is given the id of the pane that was started."""

    agent: str
    tmux: Tmux
    finder: PaneFinder
    command: str
    cwd: Path
    env: Mapping[str, str]
    config: LiveConfig
    session: str = "ackd"
    start_timeout_s: float = 30.0
    closed_check_s: float = 5.0
    _pane: Pane | None = field(default=None, init=False)
    _leader: Leader | None = field(default=None, init=False)

    @property
    def outlives_us(self) -> bool:
        return True

    async def start(self) -> str:
        try:
            self._pane = await self._taken_up() or await self._started()
            self._leader = Leader(self._pane.pid)
            self.finder.pane_id = self._pane.pane_id
            await self._until_it_shows_something(self._pane)
        except (TmuxFault, OSError) as error:
            await self._clear_away()
            raise CannotStart(f"{self.command}: {error}") from error
        return f"pane {self._pane.pane_id}"

    async def exited(self) -> Exit:
        pane, leader = self._pane, self._leader
        assert pane is not None, "not started"
        assert leader is not None
        async with anyio.create_task_group() as group:
            group.start_soon(self._dead, leader, group.cancel_scope, name=f"end of {pane.pane_id}")
            group.start_soon(self._closed, pane, group.cancel_scope, name=f"closing of {pane.pane_id}")
        end = await self._how_it_ended(pane)
        await PaneProcesses(pane.life, leader).end(self.config.now.daemon.stop_timeout_s)
        await self.tmux.kill(pane.pane_id)
        leader.close()
        return end

    async def stop(self, timeout_s: float) -> None:
        if self._pane is not None:
            await PaneProcesses(self._pane.life, self._leader).end(timeout_s)
            await self.tmux.kill(self._pane.pane_id)

    # --- starting
    async def _taken_up(self) -> Pane | None:
        ours = [pane for pane in await self.tmux.panes() if pane.agent == self.finder.owner and pane.life]
        for dead in [pane for pane in ours if pane.dead]:
            await self.tmux.kill(dead.pane_id)
        return next((pane for pane in ours if not pane.dead), None)

    async def _started(self) -> Pane:
        if not self.cwd.is_dir():
            raise NotADirectoryError(f"no working directory {self.cwd}")
        life = secrets.token_hex(8)
        return await self.tmux.start(
            session=self.session,
            window=self.agent,
            command=self.command,
            cwd=self.cwd,
            env={**self.env, LIFE_VARIABLE: life},
            agent=self.finder.owner,
            life=life,
        )

    async def _until_it_shows_something(self, pane: Pane) -> None:
        """Wait until the screen is understood. A prompt counts too: telling it then says why it cannot be told."""
        with anyio.move_on_after(self.start_timeout_s):
            while isinstance((await self._state(pane)), Unknown | Shell):  # noqa: ASYNC110 - tmux is asked
                await anyio.sleep(_LOOK_EVERY_S)

    async def _state(self, pane: Pane) -> object:
        try:
            return (await self.finder.look()).state
        except NoPane:
            raise NoPane(f"{pane.pane_id} any more: {(await self._how_it_ended(pane)).why}") from None

    async def _clear_away(self) -> None:
        pane, leader = self._pane, self._leader
        self._pane = self._leader = self.finder.pane_id = None
        if pane is not None:
            with anyio.CancelScope(shield=True):
                await PaneProcesses(pane.life, leader).end(self.config.now.daemon.stop_timeout_s)
                await self.tmux.kill(pane.pane_id)
        if leader is not None:
            leader.close()

    # --- ending
    async def _dead(self, leader: Leader, over: anyio.CancelScope) -> None:
        await leader.ended()
        over.cancel()

    async def _closed(self, pane: Pane, over: anyio.CancelScope) -> None:
        """Notice that the pane was closed: a program that ignores the hang-up lives on without it."""
        while not over.cancel_called:
            await anyio.sleep(self.closed_check_s)
            try:
                await self.tmux.look(pane.pane_id)
            except (NoPane, NoServer):
                over.cancel()
            except (TmuxFault, OSError):  # tmux or the machine has trouble: the next look will tell
                continue

    async def _how_it_ended(self, pane: Pane) -> Exit:
        try:
            last = await self.tmux.look(pane.pane_id, rows_back=_LAST_ROWS)
        except (TmuxFault, OSError):
            return Exit("its pane was closed")
        rows = [row for row in rows_of(last.text) if not row.startswith("Pane is dead")]
        words = for_people(foot(rows, _LAST_ROWS))
        code = last.pane.dead_status
        said = f"exit {code}" if code is not None else "it ended"
        return Exit(f"{said}: {words}" if words else said, code)
