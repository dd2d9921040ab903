"""Values made harmless and short, for one line of a terminal.

The values of a line may come from anybody, so every character that a terminal would act on is spelled out. Text is
measured in cells of the terminal; ids, times and durations are shortened. Never fails: any value has a text.
"""

from __future__ import annotations

import time
import unicodedata
from typing import Final

from ackd.core.message_ids import hash_part
from ackd.facts.redaction import redacted
from ackd.formats import utc_times

_SHORT_ID_CHARS: Final = 40
TINY_ID_CHARS: Final = 8


def visible(value: object) -> str:
    """The value as text in which every character that a terminal would act on is spelled out, without the secrets that
    a command was told to take out."""
    text = redacted(_plain(value))
    return text if text.isprintable() else "".join(c if is_harmless(c) else _spelled(c) for c in text)


def _plain(value: object) -> str:
    match value:
        case str():
            return value
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return ", ".join(map(_plain, value))
        case dict():
            return " ".join(f"{key}={_plain(item)}" for key, item in value.items())
        case _:
            return str(value)


def is_harmless(char: str) -> bool:
    # Spaces of all widths are no danger, and Japanese text is full of them; bidi marks and the rest of Cf are.
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def cells(text: str) -> int:
    """The number of columns that the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def _cells_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """At most ``width`` cells, the last of them an ellipsis when something is missing; 0 means no limit."""
    if not width or cells(text) <= width:
        return text
    left = width - 1
    for index, char in enumerate(text):
        left -= _cells_of(char)
        if left < 0:
            return text[:index] + "…"
    return text


def short_id(message_id: str) -> str:
    """The id up to its ``@``, which every command accepts in place of the whole id."""
    return visible(message_id.partition("@")[0][:_SHORT_ID_CHARS])


def tiny_id(message_id: str) -> str:
    """The few characters that tell messages apart: the beginning of the hash, or of an id without one. Every command
    accepts them in place of the whole id."""
    return visible((hash_part(message_id) or message_id.partition("@")[0])[:TINY_ID_CHARS])


def clock_time(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def local_time(when: object) -> str:
    """A moment on the reader's own clock, as ``2026-11-19 03:15:00``. ``when``: seconds, or an RFC 3339 time as files
    and JSON have it; other text is shown as it is."""
    at = when if isinstance(when, int | float) else utc_times.read(when)
    if at is None:
        return visible(when)
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, OSError, ValueError):  # a year that the machine's calendar lacks
        return visible(when)


def duration(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "?"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
