"""Draws a line of the session log for people: time, kind, message, agent, words.

This module draws the columns and their colours; the kind, symbol and colour of each type stand where the fact is
declared. Never fails: a type that nobody declared is drawn plain.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from ackd.core.fact import DIM, DIM_CYAN, PLAIN, RED, YELLOW
from ackd.core.message_facts import progress
from ackd.facts.harmless import TINY_ID_CHARS, cells, clock_time, cut, short_id, tiny_id, visible
from ackd.facts.table import FACTS
from ackd.facts.wording import LogLine, agent_of, words

if TYPE_CHECKING:
    from collections.abc import Iterable

_KIND_WIDTH: Final = 10
_ID_WIDTH: Final = 29
#: On a narrower terminal an id would leave no room for the words, so only its hash is shown.
NARROW_COLUMNS: Final = 110
#: On a terminal narrower than this, time and id are left out.
TINY_COLUMNS: Final = 60
AGENT_WIDTH: Final = 12
_WIDEST_AGENT: Final = 20
#: Styles in which the whole line is drawn, and not its kind alone.
_WHOLE_LINE: Final = frozenset({RED, YELLOW, DIM, DIM_CYAN})


def colour_wanted(stream: IO[Any]) -> bool:
    """Say whether the stream is to have colours: NO_COLOR turns them off and FORCE_COLOR on, wherever the output goes;
    else a terminal that shows colours has them."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0").lower() not in ("", "0", "false"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def never_choke(stream: IO[str]) -> None:
    """Make the stream write a question mark for a character that its encoding lacks, instead of ending the command."""
    if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
        reconfigure(errors="replace")


def agent_width(names: Iterable[str]) -> int:
    """The width of the agents' column if these names may appear in it."""
    return min(max((cells(visible(name)) for name in names), default=AGENT_WIDTH), _WIDEST_AGENT)


def render(line: LogLine, *, colour: bool, width: int = 0, agents: int = AGENT_WIDTH) -> str:
    """The fact on one line, cut to ``width`` cells (0: not at all); ``agents``: the width of the agents' column.

    Without colour, progress is the common format and nothing else (ignite-mime, "Display degradation rules").
    """
    if line.type == progress.type and not colour:
        return cut(words(line), width)
    if 0 < width < TINY_COLUMNS:
        return joined(_tiny(line), colour=colour, width=width, gap=1)
    narrow = 0 < width < NARROW_COLUMNS
    parts = _columns(line, colour=colour, narrow=narrow, agents=agents)
    if not width:  # no terminal, so nothing to line up with
        parts = [part for part in parts if part[0].strip()]
    return joined([part for part in parts if part[0]], colour=colour, width=width, gap=1 if narrow else 2)


def _columns(line: LogLine, *, colour: bool, narrow: bool, agents: int) -> list[tuple[str, str]]:
    """Time, kind, message, agent, words. A line about an agent leaves the message's column blank; one about neither
    has its words at once."""
    look = look_of(line.type)
    whole = look.style if look.style in _WHOLE_LINE else PLAIN
    kind = f"{visible(look.kind):{_KIND_WIDTH}}"
    message_id, agent = line.data.get("message_id"), visible(agent_of(line))
    short = (tiny_id if narrow else short_id)(str(message_id)) if message_id else ""
    if short or agent:
        short = f"{short:{TINY_ID_CHARS if narrow else _ID_WIDTH if not short else 0}}"
        agent = f"{cut(agent, agents) if narrow else agent:{agents}}"
    return [
        (clock_time(line.at), DIM),
        (f"{look.symbol} {kind}" if colour else kind, look.style),
        (short, DIM),
        (agent, DIM if whole == DIM else PLAIN),
        (words(line), whole),
    ]


def _tiny(line: LogLine) -> list[tuple[str, str]]:
    look = look_of(line.type)
    parts = [(look.symbol, look.style), (visible(look.kind), look.style), (visible(agent_of(line)), PLAIN)]
    return [part for part in [*parts, (words(line), look.style if look.style in _WHOLE_LINE else PLAIN)] if part[0]]


def joined(parts: list[tuple[str, str]], *, colour: bool, width: int = 0, gap: int = 2) -> str:
    """Texts and their styles, ``gap`` spaces apart, cut to ``width`` cells without ever cutting a colour."""
    left, shown = width or 1_000_000, []
    for text, style in parts:
        shown.append(paint(cut(text, left), style) if colour else cut(text, left))
        left -= cells(text) + gap
        if left <= 0:
            break
    return (" " * gap).join(shown).rstrip()


def paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


class Look(NamedTuple):
    kind: str
    symbol: str
    style: str


def look_of(type_: str) -> Look:
    """The look of a type of line; a type that nobody declared is drawn plain, under its own name."""
    declared = FACTS.get(type_)
    return Look(declared.kind, declared.symbol, declared.style) if declared is not None else Look(type_, "·", PLAIN)
