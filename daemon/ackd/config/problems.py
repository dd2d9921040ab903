"""The problems of a config file, in words and with the line each stands on.

Pydantic's errors become ``Problem`` values: the key's path, its line in the TOML, the nearest known key. The caller
passes the known keys. Line numbers are best effort, for people, and never decide anything.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pydantic import ValidationError

    from ackd.config.file_mark import FileMark

Key: TypeAlias = tuple[str, ...]

_KEY: Final = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED: Final = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER_LINE: Final = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY_LINE: Final = re.compile(rf"\s*({_DOTTED})\s*=")
#: TOML's names for types, in place of the Python names that pydantic uses.
_PLAINER: Final = {
    "must be a dictionary": "must be a table",
    "must be a tuple": "must be a list",
    "must be a integer": "must be a whole number",
}


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """The file a config came from, and where its keys stand in it."""

    path: Path
    lines: Mapping[Key, int]
    mark: FileMark | None = None

    @classmethod
    def of(cls, path: Path, mark: FileMark | None = None) -> ConfigSource:
        return cls(path, key_lines(path.read_text(encoding="utf-8")), mark)

    def line_of(self, key: Key) -> int | None:
        """The line of the key, or of the nearest table around it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[:-1]
        return None


def key_lines(text: str) -> dict[Key, int]:
    """Return the line of each key. tomllib keeps no positions; this reads valid TOML line by line: a key inside an
    inline table gets the line of the table."""
    lines: dict[Key, int] = {}
    table: Key = ()
    closing: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if closing is not None:
            closing = None if closing in line else closing
        elif header := _HEADER_LINE.match(line):
            table = _parts(header[1])
            lines.setdefault(table, number)
        elif key := _KEY_LINE.match(line):
            lines.setdefault(table + _parts(key[1]), number)
            closing = next((quote for quote in ('"""', "'''") if line.count(quote) == 1), None)
    return lines


def _parts(dotted: str) -> Key:
    return tuple(part.strip("\"'") for part in re.findall(_KEY, dotted))


def in_words(
    error: ValidationError,
    source: ConfigSource,
    known_keys: Callable[[Key], list[str]],
    tables: Sequence[str],
    team_only: frozenset[str],
) -> tuple[Problem, ...]:
    """Every problem that pydantic found, in the order of the file. ``tables``: where a misplaced key may belong."""
    problems: list[Problem] = []
    for item in error.errors():
        key = tuple(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            what = _unknown_key(key, known_keys, tables, team_only)
        else:
            what = _wrong_value(item["msg"], item.get("input"))
        problems.append(Problem(".".join(key), what, source.line_of(key)))
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def _wrong_value(message: str, value: object) -> str:
    words = message.replace("Input should be a valid ", "must be a ").replace("Input should be ", "must be ")
    words = re.sub(r" or instance of \w+$", "", words)  # a class of ours says nothing to whoever wrote the file
    words = _PLAINER.get(words, words)
    shown = f", not {value!r}" if isinstance(value, str | int | float) else ""
    return f"{words}{shown}"


def _unknown_key(
    key: Key, known_keys: Callable[[Key], list[str]], tables: Sequence[str], team_only: frozenset[str]
) -> str:
    name, table = key[-1], key[:-1]
    if table[:1] in (("agents",), ("templates",)) and name in team_only:
        return f"`{name}` holds for the whole team: it belongs in [delivery]"
    known = known_keys(table)
    if near := difflib.get_close_matches(name, known, n=1, cutoff=0.6):
        return f"unknown key `{name}`: did you mean `{near[0]}`?"
    for home in tables:
        if name in known_keys((home,)):
            return f"unknown key `{name}` here: it belongs in [{home}]"
    return f"unknown key `{name}`; known here: {', '.join(known)}"
