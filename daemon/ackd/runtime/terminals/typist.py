"""Types one line into a pane and proves that it was submitted.

Owns the order of key events: the text, literally; a look, until it stands on the input line; only then Enter, as a key
event of its own; a look, until it is gone from there; Enter again while it is not. What could not be submitted is taken
back, so that no line of ours waits for somebody else's Enter. Between the look and the key nothing is awaited but tmux.

Refuses to decide whether to type: whoever calls has seen ``Ready``, and holds the pane's turn. Answers by values; the
conditions of ``adapters.tmux`` pass through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

from ackd.dialects.screen import Busy, Limit, Menu, Prompt, Ready, Shell, compact, transcript
from ackd.dialects.screen.profile import RAW_KEYS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.adapters.tmux import Tmux
    from ackd.dialects.screen import Profile
    from ackd.dialects.screen.profile import Keys
    from ackd.runtime.terminals.eye import Sight

LOOK_AGAIN_S: Final = 0.1
#: Between the letters of a command that is typed key by key: fast enough for us, too slow for a paste.
_LETTER_S: Final = 0.03
#: How long a key that interrupts is given before the next one.
_HEEDED_S: Final = 1.0
_BEGINNING: Final = 2
#: So much of the end of a line is that line's.
_ENOUGH: Final = 40
#: How long an agent may take from a key that interrupts or resets it until it is ready.
READY_AGAIN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Submitted:
    """``busy``: and the agent has begun to work on it."""

    proof: str
    keys: tuple[str, ...]
    busy: bool = False


@dataclass(frozen=True, slots=True)
class NotSubmitted:
    """``lost``: the text never came to stand on the input line. ``in_use``: someone else's words stand there, or it
    went to work by itself; ours were taken back."""

    reason: str
    keys: tuple[str, ...] = ()
    lost: bool = False
    in_use: bool = False


Typed: TypeAlias = Submitted | NotSubmitted


@dataclass(kw_only=True, eq=False)
class Typist:
    tmux: Tmux
    profile: Profile
    look: Callable[[], Awaitable[Sight]]
    ready_again_s: float = READY_AGAIN_S

    async def submit(self, words: str, before: Sight) -> Typed:
        """``before``: what showed that it is ready. A line of ours that stands there already is not typed again."""
        line, pane_id = self.profile.line_prefix + words, before.pane.pane_id
        if not self._stands(before, line):
            await self.tmux.type_text(pane_id, line)
        sight = await self._until(lambda now: self._stands(now, line), self.profile.submit.wait_s)
        if not self._stands(sight, line):
            return NotSubmitted(f"typed, but not seen on its input line: {_named(sight)}", lost=True)
        await anyio.sleep(self.profile.submit.pause_s)
        sight = await self.look()
        if isinstance(sight.state, Prompt | Menu | Shell):  # it came up as we typed: even a backspace may answer it
            return NotSubmitted(f"not submitted: {_named(sight)}")
        if isinstance(sight.state, Busy) or not self._stands_alone(sight, line):
            await self._take_back(pane_id, line)
            busy = isinstance(sight.state, Busy)
            why = "it went to work as we typed" if busy else "someone's own words stand on its input line"
            return NotSubmitted(why, in_use=True)
        return await self._enter(line, sight, self._count(before, line))

    async def _enter(self, line: str, sight: Sight, count: int) -> Typed:
        pressed: list[str] = []
        for key in self.profile.submit.tries:
            await self._press(sight.pane.pane_id, key)
            pressed.append(key)
            sight = await self._until_twice(lambda now: not self._stands(now, line), self.profile.submit.wait_s)
            if not self._stands(sight, line):
                return self._judged(sight, line, count, tuple(pressed))
            if isinstance(sight.state, Prompt | Menu | Shell):
                return NotSubmitted(f"the line stands there, and {_named(sight)}", tuple(pressed))
        await self._take_back(sight.pane.pane_id, line)
        return NotSubmitted(f"the line still stood on its input line after {', '.join(pressed)}", tuple(pressed))

    def _judged(self, sight: Sight, line: str, count: int, pressed: tuple[str, ...]) -> Typed:
        """It is gone from the input line. That alone proves nothing of an agent that ended meanwhile."""
        if isinstance(sight.state, Shell):
            return NotSubmitted(f"its agent ended as it was told: {_named(sight)}", pressed)
        if isinstance(sight.state, Busy):
            return Submitted("the pane went busy", pressed, busy=True)
        if self._count(sight, line) > count:
            return Submitted("the line stands in its transcript", pressed)
        if sight.reading.typed is not None or isinstance(sight.state, Prompt | Menu | Limit):
            return Submitted("the line left its input line", pressed)
        return NotSubmitted(f"the line is gone, and {_named(sight)}", pressed)

    async def _press_all(self, pane_id: str, keys: Keys) -> None:
        """Each a key event of its own."""
        for letter in keys.type:
            await self.tmux.type_text(pane_id, letter)
            await anyio.sleep(_LETTER_S)
        for key in keys.keys:
            await anyio.sleep(keys.pause_s)
            await self._press(pane_id, key)
        await anyio.sleep(keys.pause_s)

    async def interrupt(self, sight: Sight) -> tuple[Sight, tuple[str, ...]]:
        """Key by key, and no further than needed: Escape on an idle codex opens its history, C-c ends it (seen in
        0.166.0). Nor into anything that comes up meanwhile: what was seen last, and what was pressed."""
        pressed: list[str] = []
        for key in self.profile.interrupt.keys:
            if _is_idle(sight) or isinstance(sight.state, Prompt | Menu | Limit | Shell):
                break
            await self._press(sight.pane.pane_id, key)
            pressed.append(key)
            sight = await self._until(lambda now: not isinstance(now.state, Busy), _HEEDED_S)
            await anyio.sleep(self.profile.interrupt.pause_s)
        return (await self.until_ready() if isinstance(sight.state, Busy) else await self.look()), tuple(pressed)

    async def reset(self, before: Sight) -> Typed:
        """Its command typed key by key, for that arrives even where a burst of text is lost; then until it is ready.

        Enter is pressed only if the command, and nothing else, stands on the input line.
        """
        keys, pane_id = self.profile.reset, before.pane.pane_id
        await self._press_all(pane_id, keys.model_copy(update={"keys": ()}))
        sight = await self._until(lambda now: self._stands_alone(now, keys.type), self.profile.submit.wait_s)
        if not self._stands_alone(sight, keys.type):
            await self._take_back(pane_id, keys.type)
            return NotSubmitted(f"{keys.type} did not come to stand alone on its input line: {_named(sight)}")
        await self._press_all(pane_id, keys.model_copy(update={"type": ""}))
        sight = await self.until_ready()
        pressed = (keys.type, *keys.keys)
        if not _is_idle(sight):
            return NotSubmitted(f"not ready after {keys.type}: {_named(sight)}", pressed)
        return Submitted(f"ready after {keys.type}", pressed)

    async def until_ready(self, patience_s: float | None = None) -> Sight:
        patience_s = self.ready_again_s if patience_s is None else patience_s
        return await self._until(_is_idle, patience_s)

    # --- keys and looks
    async def _press(self, pane_id: str, key: str) -> None:
        if (raw := RAW_KEYS.get(key)) is not None:
            await self.tmux.send_bytes(pane_id, raw)
        else:
            await self.tmux.press(pane_id, key)

    async def _take_back(self, pane_id: str, line: str) -> None:
        """By as many backspaces as we typed characters: what stood before them is not ours to remove."""
        await self.tmux.press_again(pane_id, "BSpace", len(line))
        await self._until(lambda now: not self._mostly_stands(now, line), self.profile.submit.wait_s)

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

    def _stands(self, sight: Sight, line: str) -> bool:
        typed = sight.reading.typed or ""
        return compact(line) in compact(typed) or self._is_all_of(typed, line)

    def _stands_alone(self, sight: Sight, line: str) -> bool:
        typed = sight.reading.typed or ""
        return compact(typed) == compact(line) or self._is_all_of(typed, line)

    def _is_all_of(self, typed: str, line: str) -> bool:
        """As some show a long text: by a word for it, or its end only."""
        words = compact(typed)
        return self._collapsed(typed) or (len(words) >= _ENOUGH and compact(line).endswith(words))

    def _mostly_stands(self, sight: Sight, line: str) -> bool:
        """The beginning of the line is what goes last."""
        return compact(line)[:_BEGINNING] in compact(sight.reading.typed or "")

    def _collapsed(self, typed: str) -> bool:
        pattern = self.profile.input.collapsed
        return pattern is not None and pattern.fullmatch(typed.strip()) is not None

    def _count(self, sight: Sight, line: str) -> int:
        return compact(transcript(sight.text, self.profile)).count(compact(line))


def _is_idle(sight: Sight) -> bool:
    return isinstance(sight.state, Ready) and not sight.reading.typed


def _named(sight: Sight) -> str:
    text = getattr(sight.state, "text", "")
    return type(sight.state).__name__.lower() + (f" ({text})" if text else "")
