"""Types one line into a pane and proves that it was submitted.

Owns the order of key events: the text, literally, into an input line that is seen to be empty; a look, until it stands
there; only then Enter, as a key event of its own; a look, until it is gone; Enter again while it is not. What could not
be submitted is taken back, so that no line of ours waits for somebody else's Enter. Before every key is a look, and
``dialects.screen.allowed`` says whether that key may be pressed then; between the two nothing is awaited but tmux.

Refuses to decide whether to type: whoever calls holds the pane's turn. Answers by values; the conditions of
``adapters.tmux`` pass through.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

from ackd.core.events import Absence
from ackd.dialects.screen import (
    UNMARKED,
    Busy,
    InputLine,
    Key,
    Limit,
    Mark,
    Menu,
    Prompt,
    Ready,
    Shell,
    Unknown,
    allowed,
    answered,
    compact,
    mark,
    transcript,
    whose,
)
from ackd.dialects.screen.profile import RAW_KEYS
from ackd.dialects.screen.rows import foot, rows_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.adapters.tmux import Tmux
    from ackd.dialects.screen import Profile, State
    from ackd.dialects.screen.profile import Keys
    from ackd.runtime.terminals.eye import Sight

LOOK_AGAIN_S: Final = 0.1
#: Between the letters of a command that is typed key by key: fast enough for us, too slow for a paste.
_LETTER_S: Final = 0.03
#: How long a key that interrupts is given before the next one.
_HEEDED_S: Final = 1.0
#: How often backspaces are tried.
_TAKE_BACK_TRIES: Final = 3
#: A line whose beginning hides the mark of the input line is known by so much of its end, in the last rows.
_TAIL: Final = 16
_TAIL_ROWS: Final = 8
#: How long an agent may take from a key that interrupts or resets it until it is ready.
READY_AGAIN_S: Final = 15.0
_OURS: Final = frozenset({InputLine.OURS, InputLine.PART})

SOMEONES_WORDS: Final = "someone's own words stand on its input line"


@dataclass(frozen=True, slots=True)
class Submitted:
    """``seen``: and the agent has begun to work on it, or has answered it. ``line``, ``before``: what was typed, and
    how its transcript looked before that: whoever looks later knows by them whether it was answered."""

    proof: str
    keys: tuple[str, ...]
    seen: bool = False
    line: str = ""
    before: Mark = UNMARKED


@dataclass(frozen=True, slots=True)
class NotSubmitted:
    """``lost``: the text never came to stand on the input line, and none of it does now. ``absence``: what its pane is
    used for instead, by its agent or by a person."""

    reason: str
    keys: tuple[str, ...] = ()
    lost: bool = False
    absence: Absence | None = None


Typed: TypeAlias = Submitted | NotSubmitted


@dataclass(kw_only=True, eq=False)
class Typist:
    tmux: Tmux
    profile: Profile
    look: Callable[[], Awaitable[Sight]]
    ready_again_s: float = READY_AGAIN_S
    #: What we typed and have not seen go since: submitted, taken back, or removed by somebody.
    unsent: str | None = field(default=None, init=False)
    #: The last line that was typed, should it come to stand there late.
    _last: str | None = field(default=None, init=False)
    _command: str | None = field(default=None, init=False)

    # --- what stands on the input line
    def standing(self, sight: Sight, line: str | None = None) -> InputLine:
        """``line``: one that may stand there since before our start."""
        typed = sight.reading.typed
        if isinstance(sight.state, Menu) and self._is_beside_ours(sight.state):
            typed = sight.state.text  # without the list below it
        for ours, sure in ((self.unsent, True), (line, False), (self._last, False)):
            if ours is not None and (found := whose(typed, self.profile, ours, sure=sure)) is not InputLine.OTHERS:
                return found
        return whose(typed, self.profile)

    def allows(self, sight: Sight, key: Key) -> bool:
        return allowed(self._state(sight), self._left(sight), key, always=self.profile.interrupt.when == "always")

    def _state(self, sight: Sight) -> State:
        """The list that some show beside a command is no menu of somebody's while the command is ours. And a shell that
        is an agent is known by a prompt with nothing after it: not while our own line stands there."""
        state = sight.state
        if self.profile.kind == "shell" and isinstance(state, Unknown) and self.unsent is not None:
            return Ready() if self.standing(sight) is InputLine.OURS else state
        return Ready() if isinstance(state, Menu) and self._is_beside_ours(state) else state

    def _is_beside_ours(self, menu: Menu) -> bool:
        return self._command is not None and bool(menu.text) and self._command.startswith(menu.text)

    def _left(self, sight: Sight) -> InputLine:
        """As ``standing``; and what we have just typed may hide what the input line is known by."""
        found = self.standing(sight)
        if found is InputLine.UNSEEN and self.unsent is not None and isinstance(sight.state, Unknown):
            tail = compact(self.unsent)[-_TAIL:]
            return InputLine.PART if tail in compact(foot(rows_of(sight.text), _TAIL_ROWS)) else found
        return found

    def _holds(self, sight: Sight, line: str) -> bool:
        """All of it, a piece of it, or it among somebody's words."""
        return self.standing(sight) in _OURS or compact(line) in compact(sight.reading.typed or "")

    # --- a line
    async def submit(self, words: str, before: Sight) -> Typed:
        """``before``: what showed that it is ready. The same line that stands there already is not typed again."""
        line, pane_id = self.profile.line_prefix + words, before.pane.pane_id
        if self.standing(before, line) in _OURS and whose(before.reading.typed, self.profile, line) is InputLine.OTHERS:
            await self.take_back()  # another one, or a piece
            before = await self.look()
        marked, standing = mark(before.text, line, self.profile), self.standing(before, line)
        if standing is InputLine.EMPTY and self.allows(before, Key.TEXT):
            self.unsent = self._last = line
            await self.tmux.type_text(pane_id, line)
        elif standing is InputLine.OURS:
            self.unsent = line
        else:
            return self._not_now(before, standing)
        sight = await self._until(lambda now: self.standing(now) is InputLine.OURS, self.profile.submit.wait_s)
        if self.standing(sight) is not InputLine.OURS:
            return await self._unseen(sight)
        await anyio.sleep(self.profile.submit.pause_s)
        sight = await self.look()
        if not self.allows(sight, Key.SUBMIT):
            refusal = self._not_now(sight, self.standing(sight))
            await self.take_back()
            return refusal
        return await self._enter(line, sight, marked, self._count(before, line))

    async def _unseen(self, sight: Sight) -> NotSubmitted:
        """It is not there, or not all of it, or not it alone."""
        if self.standing(sight) is InputLine.OTHERS:
            return NotSubmitted(SOMEONES_WORDS, absence=Absence.TAKEN)
        lost = await self.take_back() and not isinstance(sight.state, Prompt | Menu | Limit | Shell)
        return NotSubmitted(f"typed, but not seen on its input line: {_named(sight)}", lost=lost)

    def _not_now(self, sight: Sight, standing: InputLine, pressed: tuple[str, ...] = ()) -> NotSubmitted:
        if isinstance(sight.state, Busy):
            return NotSubmitted("it went to work as we typed", pressed, absence=Absence.BUSY)
        if standing is InputLine.OTHERS and isinstance(sight.state, Ready):
            return NotSubmitted(SOMEONES_WORDS, pressed, absence=Absence.TAKEN)
        return NotSubmitted(f"not submitted: {_named(sight)}", pressed)

    async def _enter(self, line: str, sight: Sight, before: Mark, count: int) -> Typed:
        pressed: list[str] = []
        for key in self.profile.submit.tries:
            if not self.allows(sight, Key.SUBMIT):
                break
            await self._press(sight.pane.pane_id, key)
            pressed.append(key)
            sight = await self._until_twice(lambda now: not self._holds(now, line), self.profile.submit.wait_s)
            if not self._holds(sight, line):
                return self._judged(sight, line, before, count, tuple(pressed))
        standing = self.standing(sight)
        await self.take_back()
        if standing is InputLine.OURS and isinstance(sight.state, Ready):
            return NotSubmitted(f"the line still stood on its input line after {', '.join(pressed)}", tuple(pressed))
        return self._not_now(sight, standing, tuple(pressed))

    def _judged(self, sight: Sight, line: str, before: Mark, count: int, pressed: tuple[str, ...]) -> Typed:
        """It is gone from the input line. That alone proves nothing of an agent that ended meanwhile."""
        self.unsent = None
        if isinstance(sight.state, Shell):
            return NotSubmitted(f"its agent ended as it was told: {_named(sight)}", pressed)
        if isinstance(sight.state, Busy):
            return Submitted("the pane went busy", pressed, seen=True)
        if answered(mark(sight.text, line, self.profile), before, self.profile):
            return Submitted("its own words stand below the line", pressed, seen=True)
        if self._count(sight, line) > count:
            return Submitted("the line stands in its transcript", pressed, line=line, before=before)
        if sight.reading.typed is not None or isinstance(sight.state, Prompt | Menu | Limit):
            return Submitted("the line left its input line", pressed, line=line, before=before)
        return NotSubmitted(f"the line is gone, and {_named(sight)}", pressed)

    async def take_back(self) -> bool:
        """By as many backspaces as we typed characters, while nothing but ours stands there. Whether none of it does.

        What cannot be taken back is not tried for ever: it counts as somebody's words from then on.
        """
        for _ in range(_TAKE_BACK_TRIES):
            sight = await self.look()
            ours = self.unsent or self._last
            if ours is None or self._left(sight) not in _OURS or not self.allows(sight, Key.TAKE_BACK):
                break
            self.unsent = ours
            await self.tmux.press_again(sight.pane.pane_id, "BSpace", len(ours))
            sight = await self._until(lambda now: self._left(now) not in _OURS, self.profile.submit.wait_s)
            if self._left(sight) not in _OURS:
                break
        else:
            self.unsent = self._last = None
            return False
        if self.standing(sight) is InputLine.EMPTY:
            self.unsent = None
            return True
        return False

    # --- keys that disturb
    async def interrupt(self, sight: Sight, *, hung: bool = False) -> tuple[Sight, tuple[str, ...]]:
        """Key by key, and no further than needed: Escape on an idle codex opens its history, C-c ends it (seen in
        0.166.0). Nor into anything that comes up meanwhile: what was seen last, and what was pressed.

        ``hung``: also what is at work may be interrupted.
        """
        pressed: list[str] = []
        for key in self.profile.interrupt.keys:
            busy = isinstance(sight.state, Busy)
            if not self.allows(sight, Key.END_HANG if busy and hung else Key.INTERRUPT):
                break
            await self._press(sight.pane.pane_id, key)
            pressed.append(key)
            sight = await self._until(lambda now: not isinstance(now.state, Busy), _HEEDED_S if busy else 0)
            await anyio.sleep(self.profile.interrupt.pause_s)
            sight = await self.look()
        if not pressed:
            return sight, ()
        return (await self.until_ready() if isinstance(sight.state, Busy) else await self.look()), tuple(pressed)

    async def reset(self, before: Sight) -> Typed:
        """Its command typed key by key, for that arrives even where a burst of text is lost; then until it is ready.

        Enter is pressed only if the command, and nothing else, stands on the input line.
        """
        keys = self.profile.reset
        self._command = keys.type
        try:
            return await self._reset(keys, before)
        finally:
            self._command = None

    async def _reset(self, keys: Keys, sight: Sight) -> Typed:
        if not self.allows(sight, Key.TEXT):
            return self._not_now(sight, self.standing(sight))
        self.unsent = self._last = keys.type
        for letter in keys.type:
            await self.tmux.type_text(sight.pane.pane_id, letter)
            await anyio.sleep(_LETTER_S)
            if isinstance(self._state(sight := await self.look()), Prompt | Menu | Limit | Shell):
                return NotSubmitted(f"{keys.type} was not typed to its end: {_named(sight)}")
        sight = await self._until(lambda now: self.standing(now) is InputLine.OURS, self.profile.submit.wait_s)
        if self.standing(sight) is not InputLine.OURS or not self.allows(sight, Key.SUBMIT):
            await self.take_back()
            return NotSubmitted(f"{keys.type} did not come to stand alone on its input line: {_named(sight)}")
        pressed: tuple[str, ...] = (keys.type,)
        for key in keys.keys:
            await anyio.sleep(keys.pause_s)
            if self.allows(await self.look(), Key.SUBMIT):
                await self._press(sight.pane.pane_id, key)
                pressed += (key,)
        await anyio.sleep(keys.pause_s)
        sight = await self.until_ready()
        if not sight.reading.is_idle:
            await self.take_back()
            return NotSubmitted(f"not ready after {keys.type}: {_named(sight)}", pressed)
        self.unsent = self._last = None
        return Submitted(f"ready after {keys.type}", pressed)

    async def until_ready(self, patience_s: float | None = None) -> Sight:
        patience_s = self.ready_again_s if patience_s is None else patience_s
        return await self._until(lambda now: now.reading.is_idle, patience_s)

    # --- keys and looks
    async def _press(self, pane_id: str, key: str) -> None:
        if (raw := RAW_KEYS.get(key)) is not None:
            await self.tmux.send_bytes(pane_id, raw)
        else:
            await self.tmux.press(pane_id, key)

    async def _until(self, true: Callable[[Sight], bool], patience_s: float) -> Sight:
        """The first sight that is as wanted, else the last one."""
        give_up_at = anyio.current_time() + patience_s
        while not true(sight := await self.look()) and anyio.current_time() < give_up_at:  # noqa: ASYNC110 - tmux is asked
            await anyio.sleep(LOOK_AGAIN_S)
        return sight

    async def _until_twice(self, true: Callable[[Sight], bool], patience_s: float) -> Sight:
        """A screen may be caught as it is being drawn: what is gone must be gone at a second look."""
        give_up_at = anyio.current_time() + patience_s
        while True:
            sight = await self._until(true, give_up_at - anyio.current_time())
            if not true(sight):
                return sight
            await anyio.sleep(LOOK_AGAIN_S / 2)
            if true(again := await self.look()) or anyio.current_time() >= give_up_at:
                return again

    def _count(self, sight: Sight, line: str) -> int:
        return compact(transcript(sight.text, self.profile)).count(compact(line))


def _named(sight: Sight) -> str:
    text = getattr(sight.state, "text", "")
    return type(sight.state).__name__.lower() + (f" ({text})" if text else "")
