"""Types one line into a pane and proves that it was submitted.

Key events have a fixed order. The text is typed literally into an input line that is seen to be empty. The screen is
looked at until the text stands there, and only then Enter is pressed, as a key event of its own. The screen is looked
at until the text is gone, and Enter is pressed again while it is not. A line that could not be submitted is taken back,
so that no line of ours waits for somebody else's Enter. Before every key the screen is looked at, and
``endpoints.tmux.screen.allowed`` decides whether that key may be pressed; between the two nothing is awaited but tmux.

The caller decides whether to type, and holds the pane's turn. Results are values; the conditions of
``endpoints.tmux.client`` pass through.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

from ackd.core.events import Absence
from ackd.endpoints.tmux.screen import (
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
from ackd.endpoints.tmux.screen.profile import RAW_KEYS
from ackd.endpoints.tmux.screen.rows import foot, rows_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.endpoints.tmux.client import Tmux
    from ackd.endpoints.tmux.pane_finder import PaneView
    from ackd.endpoints.tmux.screen import Profile, State
    from ackd.endpoints.tmux.screen.profile import Keys

LOOK_AGAIN_S: Final = 0.1
#: Pause between the letters of a command that is typed key by key: too slow to be taken for a paste.
_LETTER_S: Final = 0.03
#: How long an interrupting key may take to have an effect before the next one is pressed.
_HEEDED_S: Final = 1.0
#: How often backspaces are tried.
_TAKE_BACK_TRIES: Final = 3
#: A long line may push the mark of the input line out of sight. It is then recognised by this many characters of its
#: end, in the last rows.
_TAIL: Final = 16
_TAIL_ROWS: Final = 8
#: How long an agent may take from a key that interrupts or resets it until it is ready.
READY_AGAIN_S: Final = 15.0
_OURS: Final = frozenset({InputLine.OURS, InputLine.PART})

SOMEONES_WORDS: Final = "someone's own words stand on its input line"


@dataclass(frozen=True, slots=True)
class Submitted:
    """The line was submitted. ``seen``: the agent has also begun to work on it, or has answered it. ``line`` and
    ``before`` are the line, and a mark of the transcript before it, by which a later look tells whether the line was
    answered."""

    proof: str
    keys: tuple[str, ...]
    seen: bool = False
    line: str = ""
    before: Mark = UNMARKED


@dataclass(frozen=True, slots=True)
class NotSubmitted:
    """The line was not submitted. ``lost``: the text never appeared on the input line, and none of it stands there now.
    ``absence``: set if the agent, or a person, uses the pane for something else."""

    reason: str
    keys: tuple[str, ...] = ()
    lost: bool = False
    absence: Absence | None = None


Typed: TypeAlias = Submitted | NotSubmitted


@dataclass(kw_only=True, eq=False)
class Typist:
    tmux: Tmux
    profile: Profile
    look: Callable[[], Awaitable[PaneView]]
    ready_again_s: float = READY_AGAIN_S
    #: The line that we typed and that has not been seen to go (submitted, taken back, or removed by somebody).
    unsent: str | None = field(default=None, init=False)
    #: The last line that was typed: it may still appear on the input line late.
    _last: str | None = field(default=None, init=False)
    _command: str | None = field(default=None, init=False)

    # --- what stands on the input line
    def standing(self, view: PaneView, line: str | None = None) -> InputLine:
        """Tell whose text stands on the input line. ``line``: a line of ours that may stand there since before our
        start."""
        typed = view.reading.typed
        if isinstance(view.state, Menu) and self._is_beside_ours(view.state):
            typed = view.state.text  # the input without the list below it
        for ours, sure in ((self.unsent, True), (line, False), (self._last, False)):
            if ours is not None and (found := whose(typed, self.profile, ours, sure=sure)) is not InputLine.OTHERS:
                return found
        return whose(typed, self.profile)

    def allows(self, view: PaneView, key: Key) -> bool:
        return allowed(self._state(view), self._left(view), key, always=self.profile.interrupt.when == "always")

    def _state(self, view: PaneView) -> State:
        """The state of the screen, with two corrections for our own text. A list that a program shows beside a command
        is no menu if we typed the command. A shell as an agent is recognised by an empty prompt, so it counts as ready
        also while our own line stands after the prompt."""
        state = view.state
        if self.profile.kind == "shell" and isinstance(state, Unknown) and self.unsent is not None:
            return Ready() if self.standing(view) is InputLine.OURS else state
        return Ready() if isinstance(state, Menu) and self._is_beside_ours(state) else state

    def _is_beside_ours(self, menu: Menu) -> bool:
        return self._command is not None and bool(menu.text) and self._command.startswith(menu.text)

    def _left(self, view: PaneView) -> InputLine:
        """Like ``standing``, and also recognises a line of ours that hides the mark of the input line."""
        found = self.standing(view)
        if found is InputLine.UNSEEN and self.unsent is not None and isinstance(view.state, Unknown):
            tail = compact(self.unsent)[-_TAIL:]
            return InputLine.PART if tail in compact(foot(rows_of(view.text), _TAIL_ROWS)) else found
        return found

    def _holds(self, view: PaneView, line: str) -> bool:
        """Tell whether the line, a piece of it, or the line among somebody's words stands on the input line."""
        return self.standing(view) in _OURS or compact(line) in compact(view.reading.typed or "")

    # --- a line
    async def submit(self, words: str, before: PaneView) -> Typed:
        """Type the line and press Enter. ``before``: the view that showed the agent to be ready. If the same line
        stands there already, it is not typed again."""
        line, pane_id = self.profile.line_prefix + words, before.pane.pane_id
        if self.standing(before, line) in _OURS and whose(before.reading.typed, self.profile, line) is InputLine.OTHERS:
            await self.take_back()  # another line of ours, or a piece of one
            before = await self.look()
        marked, standing = mark(before.text, line, self.profile), self.standing(before, line)
        if standing is InputLine.EMPTY and self.allows(before, Key.TEXT):
            self.unsent = self._last = line
            await self.tmux.type_text(pane_id, line)
        elif standing is InputLine.OURS:
            self.unsent = line
        else:
            return self._not_now(before, standing)
        view = await self._until(lambda now: self.standing(now) is InputLine.OURS, self.profile.submit.wait_s)
        if self.standing(view) is not InputLine.OURS:
            return await self._unseen(view)
        await anyio.sleep(self.profile.submit.pause_s)
        view = await self.look()
        if not self.allows(view, Key.SUBMIT):
            refusal = self._not_now(view, self.standing(view))
            await self.take_back()
            return refusal
        return await self._enter(line, view, marked, self._count(before, line))

    async def _unseen(self, view: PaneView) -> NotSubmitted:
        """The result for a line that did not appear, or not completely, or not alone. It is taken back if possible."""
        if self.standing(view) is InputLine.OTHERS:
            return NotSubmitted(SOMEONES_WORDS, absence=Absence.TAKEN)
        lost = await self.take_back() and not isinstance(view.state, Prompt | Menu | Limit | Shell)
        return NotSubmitted(f"typed, but not seen on its input line: {_named(view)}", lost=lost)

    def _not_now(self, view: PaneView, standing: InputLine, pressed: tuple[str, ...] = ()) -> NotSubmitted:
        if isinstance(view.state, Busy):
            return NotSubmitted("it went to work as we typed", pressed, absence=Absence.BUSY)
        if standing is InputLine.OTHERS and isinstance(view.state, Ready):
            return NotSubmitted(SOMEONES_WORDS, pressed, absence=Absence.TAKEN)
        return NotSubmitted(f"not submitted: {_named(view)}", pressed)

    async def _enter(self, line: str, view: PaneView, before: Mark, count: int) -> Typed:
        pressed: list[str] = []
        for key in self.profile.submit.tries:
            if not self.allows(view, Key.SUBMIT):
                break
            await self._press(view.pane.pane_id, key)
            pressed.append(key)
            view = await self._until_twice(lambda now: not self._holds(now, line), self.profile.submit.wait_s)
            if not self._holds(view, line):
                return self._judged(view, line, before, count, tuple(pressed))
        standing = self.standing(view)
        await self.take_back()
        if standing is InputLine.OURS and isinstance(view.state, Ready):
            return NotSubmitted(f"the line still stood on its input line after {', '.join(pressed)}", tuple(pressed))
        return self._not_now(view, standing, tuple(pressed))

    def _judged(self, view: PaneView, line: str, before: Mark, count: int, pressed: tuple[str, ...]) -> Typed:
        """The result for a line that has left the input line. That alone is no proof: the agent may have ended."""
        self.unsent = None
        if isinstance(view.state, Shell):
            return NotSubmitted(f"its agent ended as it was told: {_named(view)}", pressed)
        if isinstance(view.state, Busy):
            return Submitted("the pane went busy", pressed, seen=True)
        if answered(mark(view.text, line, self.profile), before, self.profile):
            return Submitted("its own words stand below the line", pressed, seen=True)
        if self._count(view, line) > count:
            return Submitted("the line stands in its transcript", pressed, line=line, before=before)
        if view.reading.typed is not None or isinstance(view.state, Prompt | Menu | Limit):
            return Submitted("the line left its input line", pressed, line=line, before=before)
        return NotSubmitted(f"the line is gone, and {_named(view)}", pressed)

    async def take_back(self) -> bool:
        """Remove our line with as many backspaces as it has characters, if nothing but ours stands there. Returns True
        if the input line is empty then.

        After a few tries the line is given up, and counts as somebody else's words from then on.
        """
        for _ in range(_TAKE_BACK_TRIES):
            view = await self.look()
            ours = self.unsent or self._last
            if ours is None or self._left(view) not in _OURS or not self.allows(view, Key.TAKE_BACK):
                break
            self.unsent = ours
            await self.tmux.press_again(view.pane.pane_id, "BSpace", len(ours))
            view = await self._until(lambda now: self._left(now) not in _OURS, self.profile.submit.wait_s)
            if self._left(view) not in _OURS:
                break
        else:
            self.unsent = self._last = None
            return False
        if self.standing(view) is InputLine.EMPTY:
            self.unsent = None
            return True
        return False

    # --- keys that disturb
    async def interrupt(self, view: PaneView, *, hung: bool = False) -> tuple[PaneView, tuple[str, ...]]:
        """Press the interrupting keys one by one, and no more than needed: Escape on an idle codex opens its history,
        and C-c ends it (seen in 0.166.0). Stops if a prompt or anything else comes up meanwhile. Returns the last view,
        and the keys that were pressed.

        ``hung``: an agent at work may be interrupted, too.
        """
        pressed: list[str] = []
        for key in self.profile.interrupt.keys:
            busy = isinstance(view.state, Busy)
            if not self.allows(view, Key.END_HANG if busy and hung else Key.INTERRUPT):
                break
            await self._press(view.pane.pane_id, key)
            pressed.append(key)
            view = await self._until(lambda now: not isinstance(now.state, Busy), _HEEDED_S if busy else 0)
            await anyio.sleep(self.profile.interrupt.pause_s)
            view = await self.look()
        if not pressed:
            return view, ()
        return (await self.until_ready() if isinstance(view.state, Busy) else await self.look()), tuple(pressed)

    async def reset(self, before: PaneView) -> Typed:
        """Type the reset command and wait until the agent is ready. The command is typed key by key, because that
        arrives even where a burst of text is lost.

        Enter is pressed only if the command, and nothing else, stands on the input line.
        """
        keys = self.profile.reset
        self._command = keys.type
        try:
            return await self._reset(keys, before)
        finally:
            self._command = None

    async def _reset(self, keys: Keys, view: PaneView) -> Typed:
        if not self.allows(view, Key.TEXT):
            return self._not_now(view, self.standing(view))
        self.unsent = self._last = keys.type
        for letter in keys.type:
            await self.tmux.type_text(view.pane.pane_id, letter)
            await anyio.sleep(_LETTER_S)
            if isinstance(self._state(view := await self.look()), Prompt | Menu | Limit | Shell):
                return NotSubmitted(f"{keys.type} was not typed to its end: {_named(view)}")
        view = await self._until(lambda now: self.standing(now) is InputLine.OURS, self.profile.submit.wait_s)
        if self.standing(view) is not InputLine.OURS or not self.allows(view, Key.SUBMIT):
            await self.take_back()
            return NotSubmitted(f"{keys.type} did not come to stand alone on its input line: {_named(view)}")
        pressed: tuple[str, ...] = (keys.type,)
        for key in keys.keys:
            await anyio.sleep(keys.pause_s)
            if self.allows(await self.look(), Key.SUBMIT):
                await self._press(view.pane.pane_id, key)
                pressed += (key,)
        await anyio.sleep(keys.pause_s)
        view = await self.until_ready()
        if not view.reading.is_idle:
            await self.take_back()
            return NotSubmitted(f"not ready after {keys.type}: {_named(view)}", pressed)
        self.unsent = self._last = None
        return Submitted(f"ready after {keys.type}", pressed)

    async def until_ready(self, patience_s: float | None = None) -> PaneView:
        patience_s = self.ready_again_s if patience_s is None else patience_s
        return await self._until(lambda now: now.reading.is_idle, patience_s)

    # --- keys and looks
    async def _press(self, pane_id: str, key: str) -> None:
        if (raw := RAW_KEYS.get(key)) is not None:
            await self.tmux.send_bytes(pane_id, raw)
        else:
            await self.tmux.press(pane_id, key)

    async def _until(self, true: Callable[[PaneView], bool], patience_s: float) -> PaneView:
        """Look until the condition holds, or ``patience_s`` have passed; return the last view."""
        give_up_at = anyio.current_time() + patience_s
        while not true(view := await self.look()) and anyio.current_time() < give_up_at:  # noqa: ASYNC110 - tmux is asked
            await anyio.sleep(LOOK_AGAIN_S)
        return view

    async def _until_twice(self, true: Callable[[PaneView], bool], patience_s: float) -> PaneView:
        """Like ``_until``, but the condition must hold at two looks: a screen may be caught while it is being drawn."""
        give_up_at = anyio.current_time() + patience_s
        while True:
            view = await self._until(true, give_up_at - anyio.current_time())
            if not true(view):
                return view
            await anyio.sleep(LOOK_AGAIN_S / 2)
            if true(again := await self.look()) or anyio.current_time() >= give_up_at:
                return again

    def _count(self, view: PaneView, line: str) -> int:
        return compact(transcript(view.text, self.profile)).count(compact(line))


def _named(view: PaneView) -> str:
    text = getattr(view.state, "text", "")
    return type(view.state).__name__.lower() + (f" ({text})" if text else "")
