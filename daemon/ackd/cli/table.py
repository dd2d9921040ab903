"""Tables for people, as wide as the terminal.

On a terminal rich draws the table; into a pipe go plain columns, untruncated, for grep and awk. On a terminal that is
too narrow for columns each row is a paragraph. Cells come from whoever could write a file: each goes through
``printable``.
"""

from __future__ import annotations

import os
import sys
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, TextIO

from ackd.cli.output import STYLES, echo, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LEAST_ROOM: Final = 12
#: On a terminal narrower than this, columns would leave the last of them no room.
NARROW_COLUMNS: Final = 60
_INDENT: Final = "  "
_NOTHING: Final = ("", "-", "0")
#: A space at which a line is not folded; no cell contains it, because it is not printable.
_TOGETHER: Final = "\x1f"
#: The styles of cells, as escape codes.
_CODES: Final = {**STYLES, "cyan": "36", "dim": "2"}


def age(seconds: float) -> str:
    """An age in one unit: 5s, 12m, 3h, 9d."""
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "m"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(0, int(seconds / size))}{unit}"
    return f"{int(seconds / 86400)}d"


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Mapping[str, str] | None = None,
    below: Sequence[str] = (),
    *,
    whole: bool = False,
) -> None:
    """Print rows under their columns.

    ``styles``: the colour of a cell, by its whole text. ``below``: a line for each row that a terminal shows under it,
    unless it is empty. ``whole``: a last cell that does not fit is shown below its row, too, instead of being cut.
    """
    clean = [[printable(cell) for cell in row] for row in rows]
    if is_narrow():
        _print_paragraphs(columns, clean, styles or {}, list(map(printable, below)))
        return
    if sys.stdout.isatty():
        _print_rich(columns, clean, styles or {}, ["", *map(printable, below)], whole=whole)
        return
    looks = styles or {}
    widths = [max(len(row[number]) for row in [list(columns), *clean]) for number in range(len(columns))]
    for row in [list(columns), *clean]:
        cells = list(zip(row, widths, strict=True))
        echo(
            "  ".join(_painted(cell, looks.get(cell, "")) + " " * (width - len(cell)) for cell, width in cells).rstrip()
        )


# --- narrow terminals -------------------------------------------------------------------------------------------------
def is_narrow() -> bool:
    """Tell whether stdout is a terminal that has no room for columns."""
    return sys.stdout.isatty() and columns_of_terminal() < NARROW_COLUMNS


def say_folded(text: str, style: str = "", indent: str = _INDENT, *, in_pairs: bool = False) -> None:
    """Print one line for people. On a narrow terminal it is folded between words, and what is left is indented.
    ``in_pairs``: only where two spaces stand, which keep "3 unread" from being parted."""
    clean = printable(text)
    if not is_narrow():
        echo(_painted(clean, style))
        return
    whole = "  ".join(one.replace(" ", _TOGETHER) for one in clean.split("  ")) if in_pairs else clean
    for line in folded(whole, columns_of_terminal(), indent):
        echo(_painted(line.replace(_TOGETHER, " "), style))


def folded(text: str, width: int, indent: str = _INDENT) -> Iterator[str]:
    """The text in lines of at most ``width`` cells, all but the first indented. A longer word has a line of its own and
    is not cut: an id or a path that is cut cannot be typed."""
    from ackd.facts.harmless import cells

    begun = text[: len(text) - len(text.lstrip())]
    line, empty = begun, True
    for word in text.split(" "):
        if not word:
            continue
        if not empty and cells(line) + 1 + cells(word) > width:
            yield line
            line, empty = indent, True
        line, empty = f"{line}{'' if empty else ' '}{word}", False
    yield line


def folded_under(text: str, first: str, rest: str, width: int) -> Iterator[str]:
    """The text below itself: ``first`` before its first line, ``rest`` before the others, all within ``width`` cells if
    each word fits. Like ``folded``, it cuts no word; a command in backticks stays in one piece if it fits. ``width`` 0:
    on one line."""
    from ackd.facts.harmless import cells

    before, line = first, ""
    for word in _words(text, width - cells(rest)):
        has_room = not width or cells(before) + cells(line) + bool(line) + cells(word) <= width
        if not has_room and (line or cells(rest) < cells(before)):
            yield (before + line).rstrip()
            before, line = rest, ""
        line = f"{line} {word}" if line else word
    yield (before + line).rstrip()


def _words(text: str, room: int) -> Iterator[str]:
    from ackd.facts.harmless import cells

    held: list[str] = []
    quoted = False
    for word in text.split(" "):
        held.append(word)
        quoted ^= word.count("`") % 2 == 1
        if not quoted:
            whole = " ".join(held)
            yield from [whole] if cells(whole) <= room else held
            held = []
    yield from held


def terminal_width(stream: TextIO) -> int:
    """Return the width of the terminal that the stream is; 0 if it is none."""
    if not stream.isatty():
        return 0
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or columns_of_terminal()
    except (ValueError, OSError):
        return columns_of_terminal()


def _print_paragraphs(
    columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[str, str], below: Sequence[str]
) -> None:
    """Print each row as its first cell and, indented below it, the others with their titles, then the last one alone.
    A cell that says nothing, or none, is left out."""
    width = columns_of_terminal()
    for row, more in zip_longest(rows, below, fillvalue=""):
        first, *middle = zip(columns, row, strict=True)
        echo(_painted(first[1], "bold"))
        last = middle.pop()[1] if middle else ""
        parts = [f"{title.lower()} {cell}".replace(" ", _TOGETHER) for title, cell in middle if cell not in _NOTHING]
        said = ", ".join(parts)
        style = next((styles[cell] for _, cell in middle if cell in styles), "")
        for text, look in ((said, style), (str(more), "dim"), (last if last != "-" else "", styles.get(last, ""))):
            for line in folded(f"{_INDENT}{text}", width) if text else ():
                echo(_painted(line.replace(_TOGETHER, " "), look))


def columns_of_terminal() -> int:
    from ackd.cli.command_line import columns

    return columns()


def _painted(text: str, style: str) -> str:
    code = "1" if style == "bold" else _CODES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _print_rich(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Mapping[str, str],
    below: Sequence[str],
    *,
    whole: bool,
) -> None:
    """Lay the table out by hand: rich's own tables drop whole columns when room is short, and an id that is cut cannot
    be typed. Only the last column gives way."""
    from rich.cells import cell_len, set_cell_size
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    lines = [list(columns), *rows]
    widths = [max(cell_len(line[number]) for line in lines) for number in range(len(columns) - 1)]
    room = max(_LEAST_ROOM, console.width - sum(width + 2 for width in widths))
    for line, more in zip_longest(lines, below, fillvalue=""):
        text = Text()
        for cell, width in zip(line[:-1], widths, strict=True):
            text.append(set_cell_size(cell, width) + "  ", "bold" if line is lines[0] else styles.get(cell, ""))
        last = Text(line[-1], "bold" if line is lines[0] else styles.get(line[-1], ""))
        moved = whole and last.cell_len > room
        last.truncate(room, overflow="ellipsis")
        console.print(text if moved else text + last, soft_wrap=True)
        for words in filter(None, (more, line[-1] if moved else "")):
            for under in Text(words, "dim").wrap(console, max(_LEAST_ROOM, console.width - 2)):
                console.print(Text("  ") + under, soft_wrap=True)
