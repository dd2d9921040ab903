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


def input_text(screen: str, profile: Profile) -> str | None:
    """What stands on the input line, its rows joined by newlines; "" if only a placeholder; None if there is none."""
    found = _input(rows_of(screen), profile)
    if found is None:
        return None
    text = found[1]
    return "" if any(one.match(text) for one in profile.input.placeholders) else text


def transcript(screen: str, profile: Profile) -> str:
    """What stands above the input line; all of it where there is none."""
    rows = rows_of(screen)
    found = _input(rows, profile)
    return "\n".join(rows if found is None else rows[: found[0]])


def _input(rows: list[str], profile: Profile) -> tuple[int, str] | None:
    """The row that the input begins on, and what was typed there."""
    if profile.input.region is not None:
        return _in_region(rows, profile.input.region)
    marker = profile.input.marker
    assert marker is not None
    for at in range(len(rows) - 1, -1, -1):
        if (found := marker.search(rows[at])) is not None:
            typed = [found.groupdict().get("text") or ""]
            for row in rows[at + 1 :]:
                if not row or _BORDER.match(row):
                    break
                typed.append(row.strip())
            return at, "\n".join(typed).strip()
    return None


def _in_region(rows: list[str], region: re.Pattern[str]) -> tuple[int, str] | None:
    shown, last = "\n".join(rows), None
    for last in region.finditer(shown):  # noqa: B007 - the last one counts
        pass
    if last is None:
        return None
    typed = last.groupdict().get("text") or ""
    return shown.count("\n", 0, last.start()), "\n".join(row.strip() for row in typed.splitlines()).strip()


def for_people(text: str, limit: int = 160) -> str:
    """One line of what can be shown anywhere."""
    words = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
