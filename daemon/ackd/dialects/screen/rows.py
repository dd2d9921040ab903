"""The rows of a screen: what stands at its foot, on its input line, and above that.

Owns where the input line is. Frames are drawn around anything, and every program wraps differently, so texts are
compared without white space (``compact``). Refuses to know what any of it means.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ackd.dialects.screen.profile import Profile

_FRAME: Final = re.compile(r"^\s*[│┃▌]\s?|\s*[│┃▐]\s*$")
_BORDER: Final = re.compile(r"^\s*[─━═╭╮╰╯┌┐└┘├┤▀▄▁▔]{3,}")
_WHITE: Final = re.compile(r"\s+")


def rows_of(screen: str) -> list[str]:
    """Without the frames at their sides and without trailing white space."""
    return [_FRAME.sub("", row).rstrip() for row in screen.splitlines()]


def foot(rows: list[str], count: int) -> str:
    """The last rows that are not blank, as one text."""
    return "\n".join([row for row in rows if row][-count:])


def compact(text: str) -> str:
    return _WHITE.sub("", text)


def _input_at(rows: list[str], profile: Profile) -> int | None:
    marker = profile.input.marker
    return next((at for at in range(len(rows) - 1, -1, -1) if marker.search(rows[at])), None)


def input_text(screen: str, profile: Profile) -> str | None:
    """What stands on the input line, its rows joined by newlines; "" if only a placeholder; None if there is none."""
    rows = rows_of(screen)
    at = _input_at(rows, profile)
    if at is None:
        return None
    found = profile.input.marker.search(rows[at])
    assert found is not None
    typed = [found.groupdict().get("text") or ""]
    for row in rows[at + 1 :]:
        if not row or _BORDER.match(row):
            break
        typed.append(row.strip())
    text = "\n".join(typed).strip()
    return "" if any(one.search(text) for one in profile.input.placeholders) else text


def transcript(screen: str, profile: Profile) -> str:
    """What stands above the input line; all of it where there is none."""
    rows = rows_of(screen)
    at = _input_at(rows, profile)
    return "\n".join(rows[:at])


def for_people(text: str, limit: int = 160) -> str:
    """One line of what can be shown anywhere."""
    words = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
