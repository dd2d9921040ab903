"""Waking whoever lives in a pane: the line, the line after an interrupt, the line after a reset.

Owns what is looked at before a key is pressed, and that one types at a time. Only what shows that it is ready, with an
empty input line, is typed into; rungs 2 and 3 interrupt one at work only if it is called hung; a prompt, a menu, a
limit, somebody's own words and whatever is not understood get no key on any rung. Refuses to know messages and agents:
lines are given. Fails by answering: ``Away`` for what is seen, ``NotSubmitted`` for what tmux says, OSError for a
machine that refuses us a child.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from ackd.adapters.tmux import TmuxFault
from ackd.core import faults
from ackd.core.events import Absence
from ackd.dialects.screen import Busy, InputLine, Unknown
from ackd.runtime.terminals.typist import LOOK_AGAIN_S, READY_AGAIN_S, NotSubmitted, Submitted, Typist
from ackd.runtime.terminals.watch import GONE
from ackd.runtime.terminals.words import Away, absence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.adapters.tmux import Tmux
    from ackd.dialects.screen import Profile
    from ackd.runtime.terminals.eye import Sight
    from ackd.runtime.terminals.typist import Typed

#: A screen that is not understood may be one that is being drawn.
DRAWN_WITHIN_S: Final = 1.5


class Looks(Protocol):
    """Which pane it is, and what it shows."""

    pane_id: str | None

    async def look(self) -> Sight: ...


class Note(Protocol):
    """Told of every typing: why, what came of it, and which keys were pressed before."""

    def __call__(self, why: str, typed: Typed, *keys: str) -> Awaitable[None]: ...


@dataclass(kw_only=True, eq=False)
class Rungs:
    tmux: Tmux
    profile: Profile
    eye: Looks
    ready_again_s: float = READY_AGAIN_S
    drawn_within_s: float = DRAWN_WITHIN_S
    #: How many are typing, or wait for their turn.
    typing: int = field(default=0, init=False)
    _moving: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.typist = Typist(tmux=self.tmux, profile=self.profile, look=self.eye.look, ready_again_s=self.ready_again_s)

    async def say(self, line: str, why: str, note: Note) -> Typed | Away | OSError:
        return await self.in_turn(partial(self._say, line, why, note))

    async def shake(
        self, rung: int, line: str, fresh: str, note: Note, *, hung: bool = False
    ) -> Typed | Away | OSError:
        """Rungs 2 and 3. ``fresh``: the line for one who has lost what it knew. ``hung``: interrupt its work."""
        return await self.in_turn(partial(self._shake, rung, line, fresh, note, hung=hung))

    async def tidy(self) -> None:
        """A line of ours that was left behind, as a prompt came up over it, is taken back."""

        async def take_back() -> Away:
            await self.typist.take_back()
            return Away(Absence.BUSY, "")

        await self.in_turn(take_back)

    async def in_turn(self, typing: Callable[[], Awaitable[Typed | Away]]) -> Typed | Away | OSError:
        """In this pane's turn, and with every condition as an answer."""
        self.typing += 1
        try:
            pane_id = self.eye.pane_id or (await self.eye.look()).pane.pane_id
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
        sight = await self._clear_sight()
        away = self.absence(sight, line)
        if away is not None:
            return away
        typed = await self.typist.submit(line, sight)
        await note(why, typed)
        return _as_absence(typed)

    async def _shake(self, rung: int, line: str, fresh: str, note: Note, *, hung: bool) -> Typed | Away:
        """An agent that hangs at work is interrupted; one that asks something never is."""
        sight = await self._clear_sight()
        away = self.absence(sight, line)
        if away is not None and not (hung and isinstance(sight.state, Busy)):
            return away
        sight, pressed = await self.typist.interrupt(sight, hung=hung)
        if (away := self.absence(sight, line)) is not None:
            await note(f"nudge {rung}", NotSubmitted(away.reason), *pressed)
            return away
        if rung == 2:
            typed = await self.typist.submit(line, sight)
            await note("nudge 2", typed, *pressed)
            if not (isinstance(typed, NotSubmitted) and typed.lost):
                return _as_absence(typed)
            sight = await self.eye.look()
        return await self._reset_and_type(rung, fresh, sight, note)

    async def _reset_and_type(self, rung: int, fresh: str, sight: Sight, note: Note) -> Typed | Away:
        """Also where Escape has made it deaf to text: only a reset mends that (FAILURES, claude-code #31739)."""
        if self.typist.standing(sight) is InputLine.OURS:
            await self.typist.take_back()
            sight = await self.eye.look()
        typed = await self.typist.reset(sight)
        if isinstance(typed, Submitted):
            typed = await self.typist.submit(fresh, await self.eye.look())
        await note(f"nudge {rung}", typed, self.profile.reset.type)
        return _as_absence(typed)

    # --- seeing
    async def _clear_sight(self) -> Sight:
        """A screen that is not understood is given a moment to be drawn."""
        sight, give_up_at = await self.eye.look(), anyio.current_time() + self.drawn_within_s
        first = sight.text
        while isinstance(sight.state, Unknown) and anyio.current_time() < give_up_at:
            await anyio.sleep(LOOK_AGAIN_S)
            sight = await self.eye.look()
        self._moving = sight.text != first
        return sight

    def absence(self, sight: Sight, line: str | None = None) -> Away | None:
        """What changes before our eyes is at work, whatever it looks like; no person need hear of that yet."""
        own = self.profile.line_prefix + line if line is not None else None
        away = absence(sight, self.typist.standing(sight, own))
        if away is not None and isinstance(sight.state, Unknown) and self._moving:
            return Away(Absence.BUSY, f"its screen changes: {sight.state.text}")
        return away


def _as_absence(typed: Typed) -> Typed | Away:
    """What its pane is used for instead is no failure of the message."""
    if isinstance(typed, NotSubmitted) and typed.absence is not None:
        return Away(typed.absence, typed.reason)
    return typed
