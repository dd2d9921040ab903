"""Tables for people, as wide as the terminal.

On a terminal rich draws the table; into a pipe go plain columns, untruncated, for grep and awk. Cells come from whoever
could write a file: each goes through ``printable``.
"""

from __future__ import annotations

import sys
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from ackd.cli.output import echo, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEAST_ROOM: Final = 12


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
    if sys.stdout.isatty():
        _print_rich(columns, clean, styles or {}, ["", *map(printable, below)], whole=whole)
        return
    widths = [max(len(row[number]) for row in [list(columns), *clean]) for number in range(len(columns))]
    for row in [list(columns), *clean]:
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


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
