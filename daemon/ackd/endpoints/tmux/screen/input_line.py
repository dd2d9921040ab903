"""The text on an input line: who wrote it, and which keys may be pressed then.

A table says which kinds of keys are allowed, by the state that a screen shows and by what stands on its input line. A
combination that the table does not name allows no key. A line of ours is known only to the caller that typed it, so it
is an argument.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final

from ackd.endpoints.tmux.screen.classify import Busy, Limit, Menu, Prompt, Ready, Shell, State, Unknown
from ackd.endpoints.tmux.screen.rows import compact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.endpoints.tmux.screen.profile import Profile

#: Some programs show only the end of a long text. This many characters of it, without white space, prove it ours.
_ENOUGH: Final = 40
#: This many are enough if we have just typed it.
_PIECE: Final = 8
#: Stand at the end of a row where there is more text above or below it. No line of ours contains one.
_SCROLLED: Final = re.compile(r"[↑↓]$", re.MULTILINE)


class InputLine(enum.Enum):
    EMPTY = "empty"  # nothing, or a placeholder
    OURS = "ours"  # our own line that was not submitted, all of it and nothing else
    PART = "part"  # a piece of our own line, and nothing else
    OTHERS = "others"  # somebody else's words, with ours or without
    UNSEEN = "unseen"  # the screen shows no input line


class Key(enum.Enum):
    TEXT = "text"  # a line of ours, or the command that clears the context
    SUBMIT = "submit"  # Enter, or what stands for it
    TAKE_BACK = "take back"  # as many backspaces as we typed characters
    INTERRUPT = "interrupt"  # Escape and C-c, by rung 2
    END_HANG = "end hang"  # the same keys, at an agent that hangs at its work, or by a person's wish


_OURS: Final = frozenset({Key.SUBMIT, Key.TAKE_BACK, Key.INTERRUPT})

#: A combination without a row allows no key: a prompt, a menu and a shell take any key for an answer or a command.
TABLE: Final[Mapping[tuple[type[State], InputLine], frozenset[Key]]] = {
    (Ready, InputLine.EMPTY): frozenset({Key.TEXT}),
    (Ready, InputLine.OURS): _OURS,
    (Ready, InputLine.PART): frozenset({Key.TAKE_BACK}),
    (Busy, InputLine.EMPTY): frozenset({Key.END_HANG}),
    (Busy, InputLine.OURS): frozenset({Key.TAKE_BACK, Key.END_HANG}),
    (Busy, InputLine.PART): frozenset({Key.TAKE_BACK, Key.END_HANG}),
    (Busy, InputLine.UNSEEN): frozenset({Key.END_HANG}),
    # In a pane of a few rows, our own line may hide the rows by which the screen is recognised.
    (Unknown, InputLine.OURS): frozenset({Key.TAKE_BACK}),
    (Unknown, InputLine.PART): frozenset({Key.TAKE_BACK}),
}
STATES: Final[tuple[type[State], ...]] = (Ready, Busy, Prompt, Limit, Menu, Shell, Unknown)


def allowed(state: State, line: InputLine, key: Key, *, always: bool = False) -> bool:
    """Tell whether this key may be pressed. ``always``: the profile wants rung 2's interrupt at an empty prompt too."""
    if always and key is Key.INTERRUPT and isinstance(state, Ready) and line is InputLine.EMPTY:
        return True
    return key in TABLE.get((type(state), line), frozenset())


def whose(typed: str | None, profile: Profile, ours: str | None = None, *, sure: bool = False) -> InputLine:
    """Tell who wrote ``typed`` (of a ``Reading``). ``ours``: a line of ours that may stand there.

    ``sure``: we typed it, into an empty line; only then can a piece of it, or a word that stands for a long text, be
    ours.
    """
    if typed is None:
        return InputLine.UNSEEN
    words = compact(_SCROLLED.sub("", typed) if sure else typed)
    if not words:
        return InputLine.EMPTY
    if ours is None:
        return InputLine.OTHERS
    line = compact(ours)
    if words == line or (len(words) >= (_PIECE if sure else _ENOUGH) and line.endswith(words)):
        return InputLine.OURS
    if sure and _is_collapsed(typed, profile):
        return InputLine.OURS
    if sure and (line.startswith(words) or (len(words) >= _PIECE and words in line)):
        return InputLine.PART
    return InputLine.OTHERS


def _is_collapsed(typed: str, profile: Profile) -> bool:
    pattern = profile.input.collapsed
    return pattern is not None and pattern.fullmatch(typed.strip()) is not None
