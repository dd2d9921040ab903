"""Decides from what a pane shows whether its agent can be told; if not, why, and whether a person must hear of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, assert_never

from ackd.core.events import Absence
from ackd.endpoints.tmux.screen import Busy, InputLine, Limit, Menu, Prompt, Ready, Shell, Unknown
from ackd.endpoints.tmux.typist import SOMEONES_WORDS

if TYPE_CHECKING:
    from ackd.endpoints.tmux.pane_finder import PaneView
    from ackd.endpoints.tmux.screen import State


class Away(NamedTuple):
    """The reason why an agent cannot be told. ``shows``: the state of a screen that waits for a person."""

    why: Absence
    reason: str
    until: float | None = None
    shows: type[State] | None = None


def absence(view: PaneView, line: InputLine) -> Away | None:
    """None: the agent can be told. A screen that is not understood is ``STUCK``; a caller that has seen it change says
    that it is busy. ``line``: whose text stands on its input line.
    """
    pane, state = view.pane, view.state
    match state:
        case Busy(text):
            return Away(Absence.BUSY, f"it is busy: {text}")
        case Prompt(text):
            return Away(Absence.STUCK, f"a permission prompt waits for a person: {text}", shows=type(state))
        case Menu(text):
            return Away(Absence.STUCK, f"a menu waits for a person: {text}", shows=type(state))
        case Limit(text, until):
            return Away(Absence.STUCK, f"a usage limit: {text}", until, Limit)
        case Shell(text):
            return Away(Absence.GONE, f"its program has ended, a shell is there: {text}")
        case Unknown(text):
            reason = f"its screen is not understood: {text}" if text else "its screen is empty"
            return Away(Absence.STUCK, reason, shows=Unknown)
        case Ready():
            pass
        case _:
            assert_never(state)
    if pane.synchronized:
        return Away(Absence.STUCK, "its pane is synchronized: keys would reach its neighbours, too")
    if pane.input_off:
        return Away(Absence.STUCK, "its pane takes no input (select-pane -d)")
    if line is InputLine.OTHERS:
        return Away(Absence.TAKEN, SOMEONES_WORDS)
    if line is InputLine.UNSEEN:
        return Away(Absence.STUCK, "its screen is not understood: no input line is to be seen")
    return None
