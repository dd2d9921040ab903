"""Wakes the agent in a pane: by the line, by the line after an interrupt, by the line after a reset.

Before a key is pressed the screen is looked at, and one caller types at a time. A line is typed only where the screen
shows that it is ready, with an empty input line. Rungs 2 and 3 interrupt an agent at work only if it is called hung. A
prompt, a menu, a limit, somebody's own words and a screen that is not understood get no key on any rung. Nothing is
raised: the answer is ``Away`` for what is seen, ``NotSubmitted`` for what tmux says, OSError for a machine that
refuses us a child.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from ackd.core import faults
from ackd.core.events import Absence
from ackd.endpoints.tmux.availability import Away, absence
from ackd.endpoints.tmux.client import TmuxFault
from ackd.endpoints.tmux.screen import Busy, InputLine, Unknown
from ackd.endpoints.tmux.typist import LOOK_AGAIN_S, READY_AGAIN_S, NotSubmitted, Submitted, Typist
from ackd.endpoints.tmux.watch import GONE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.endpoints.tmux.client import Tmux
    from ackd.endpoints.tmux.pane_finder import PaneView
    from ackd.endpoints.tmux.screen import Profile
    from ackd.endpoints.tmux.typist import Typed

#: How long a screen that is not understood may take to be drawn.
DRAWN_WITHIN_S: Final = 1.5


class PaneSource(Protocol):
    """Finds a pane, and looks at it."""

    pane_id: str | None

    async def look(self) -> PaneView: ...


class Note(Protocol):
    """Called after every typing: why, what came of it, and which keys were pressed before."""

    def __call__(self, why: str, typed: Typed, *keys: str) -> Awaitable[None]: ...


@dataclass(kw_only=True, eq=False)
class WakeLadder:
    tmux: Tmux
    profile: Profile
    finder: PaneSource
    ready_again_s: float = READY_AGAIN_S
    drawn_within_s: float = DRAWN_WITHIN_S
    #: The number of callers that type, or wait for their turn.
    typing: int = field(default=0, init=False)
    _moving: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.typist = Typist(
            tmux=self.tmux, profile=self.profile, look=self.finder.look, ready_again_s=self.ready_again_s
        )

    async def say(self, line: str, why: str, note: Note) -> Typed | Away | OSError:
        return await self.in_turn(partial(self._say, line, why, note))

    async def interrupt_or_reset(
        self, rung: int, line: str, fresh: str, note: Note, *, hung: bool = False
    ) -> Typed | Away | OSError:
        """Carry out rung 2 or 3. ``fresh``: the line for an agent that has lost its context. ``hung``: interrupt its
        work."""
        return await self.in_turn(partial(self._interrupt_or_reset, rung, line, fresh, note, hung=hung))

    async def take_back_unsent(self) -> None:
        """Take back a line of ours that was left behind when a prompt came up over it."""

        async def take_back() -> Away:
            await self.typist.take_back()
            return Away(Absence.BUSY, "")

        await self.in_turn(take_back)

    async def in_turn(self, typing: Callable[[], Awaitable[Typed | Away]]) -> Typed | Away | OSError:
        """Type when it is this caller's turn in the pane, and turn every condition into an answer."""
        self.typing += 1
        try:
            pane_id = self.finder.pane_id or (await self.finder.look()).pane.pane_id
            async with self.tmux.turn(pane_id):
                return await typing()
        except GONE as gone:
            return Away(Absence.GONE, str(gone))
        except TmuxFault as fault:
            return NotSubmitted(str(fault))
        except OSError as error:
            return error if faults.is_nobodys(error) else NotSubmitted(str(error))
        finally:
            self.typing -= 1

    # --- one at a time
    async def _say(self, line: str, why: str, note: Note) -> Typed | Away:
        view = await self._settled_view()
        away = self.absence(view, line)
        if away is not None:
            return away
        typed = await self.typist.submit(line, view)
        await note(why, typed)
        return _as_absence(typed)

    async def _interrupt_or_reset(self, rung: int, line: str, fresh: str, note: Note, *, hung: bool) -> Typed | Away:
        """Interrupt an agent that hangs at work, but never one that asks something; then type, or reset and type."""
        view = await self._settled_view()
        away = self.absence(view, line)
        if away is not None and not (hung and isinstance(view.state, Busy)):
            return away
        view, pressed = await self.typist.interrupt(view, hung=hung)
        if (away := self.absence(view, line)) is not None:
            await note(f"nudge {rung}", NotSubmitted(away.reason), *pressed)
            return away
        if rung == 2:
            typed = await self.typist.submit(line, view)
            await note("nudge 2", typed, *pressed)
            if not (isinstance(typed, NotSubmitted) and typed.lost):
                return _as_absence(typed)
            view = await self.finder.look()
        return await self._reset_and_type(rung, fresh, view, note)

    async def _reset_and_type(self, rung: int, fresh: str, view: PaneView, note: Note) -> Typed | Away:
        """Clear the context and type the fresh line; also where Escape has made the program deaf to text, which only a
        reset mends (FAILURES, claude-code #31739)."""
        if self.typist.standing(view) is InputLine.OURS:
            await self.typist.take_back()
            view = await self.finder.look()
        typed = await self.typist.reset(view)
        if isinstance(typed, Submitted):
            typed = await self.typist.submit(fresh, await self.finder.look())
        await note(f"nudge {rung}", typed, self.profile.reset.type)
        return _as_absence(typed)

    # --- looking
    async def _settled_view(self) -> PaneView:
        """Look; a screen that is not understood is given a moment to be drawn."""
        view, give_up_at = await self.finder.look(), anyio.current_time() + self.drawn_within_s
        first = view.text
        while isinstance(view.state, Unknown) and anyio.current_time() < give_up_at:
            await anyio.sleep(LOOK_AGAIN_S)
            view = await self.finder.look()
        self._moving = view.text != first
        return view

    def absence(self, view: PaneView, line: str | None = None) -> Away | None:
        """The reason why the agent cannot be told, or None. An agent whose screen changes while we look is at work,
        whatever the screen looks like, and no person need be told yet."""
        own = self.profile.line_prefix + line if line is not None else None
        away = absence(view, self.typist.standing(view, own))
        if away is not None and isinstance(view.state, Unknown) and self._moving:
            return Away(Absence.BUSY, f"its screen changes: {view.state.text}")
        return away


def _as_absence(typed: Typed) -> Typed | Away:
    """Turn a line that was not submitted because the pane is in other use into ``Away``: that is no failure."""
    if isinstance(typed, NotSubmitted) and typed.absence is not None:
        return Away(typed.absence, typed.reason)
    return typed
