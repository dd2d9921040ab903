"""The page of `ackd --help`, made without click, which takes longer to import than a person should wait for a page.

Owns what click cannot know of it: the words above and below the tables. It looks as click would print it, for it is
click that prints it on narrow terminals, where lines are broken within words, and the pages of all commands; a test
compares the two.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from ackd.frontends.cli.commands import COMMANDS
from ackd.frontends.cli.errors import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ABOUT: Final = "Deliver files between agents, wait for the ACK, and never lose one."
EPILOG: Final = (
    "Every command takes --json, and every one but demo --root and --config. ACKD_ROOT, ACKD_CONFIG and "
    "ACKD_AGENT set defaults; ACKD_TRUST names what is believed though it is another user's."
)
VERSION_HELP: Final = "Print it."
MAX_COLUMNS: Final = 100
MIN_COLUMNS: Final = 80


def page() -> str | None:
    """The page for the terminal there is; None if that is too narrow."""
    columns = min(_columns(), MAX_COLUMNS)
    return None if columns < MIN_COLUMNS else "\n".join(_lines(columns - 2))


def _lines(width: int) -> Iterator[str]:
    yield "Usage: ackd [OPTIONS] COMMAND [ARGS]..."
    yield ""
    yield from _wrapped(ABOUT, width, "  ")
    yield from _section("Options", [("--version", VERSION_HELP), ("-h, --help", "Show this message and exit.")], width)
    yield from _section("Commands", [(name, words) for name, (_, words) in COMMANDS.items()], width)
    yield from _section("Exit codes", [(str(code), words) for code, words in EXIT_CODES], width)
    yield ""
    yield from _wrapped(EPILOG, width, "  ")


def _section(title: str, rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    yield ""
    yield f"{title}:"
    indent = " " * (max(len(term) for term, _ in rows) + 4)
    for term, words in rows:
        first, *rest = _wrapped(words, width, indent)
        yield f"  {term}{first[len(term) + 2 :]}"
        yield from rest


def _wrapped(text: str, width: int, indent: str) -> Iterable[str]:
    lines = [""]
    for word in text.split(" "):
        if len(indent) + len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f"{word} "
    return [indent + line.rstrip(" ") for line in lines]


def _columns() -> int:
    """As shutil.get_terminal_size says, which loads three compressors first."""
    said = os.environ.get("COLUMNS", "")
    try:
        columns = int(said) if said else 0
    except ValueError:
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or MIN_COLUMNS  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return MIN_COLUMNS
