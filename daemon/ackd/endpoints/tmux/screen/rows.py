"""The rows of a screen: those at its foot, on its input line, above that, and those whose change is a sign of life.

Programs draw frames around anything, and each wraps differently, so texts are compared without white space
(``compact``). A change above the input line is a sign of life, but for the rows by which the profile knows that the
agent is busy: a spinner, a clock beside it and a status line at the foot change whatever is done, or nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ackd.endpoints.tmux.screen.profile import Profile

_FRAME: Final = re.compile(r"^\s*[│┃▌]\s?|\s*[│┃▐]\s*$")
_BORDER: Final = re.compile(r"^\s*[─━═╭╮╰╯┌┐└┘├┤▀▄▁▔]{3,}")
_WHITE: Final = re.compile(r"\s+")


def rows_of(screen: str) -> list[str]:
    """The rows without the frames at their sides and without trailing white space."""
    return [_FRAME.sub("", row).rstrip() for row in screen.splitlines()]


def foot(rows: list[str], count: int) -> str:
    """The last rows that are not blank, as one text."""
    return "\n".join([row for row in rows if row][-count:])


def compact(text: str) -> str:
    return _WHITE.sub("", text)


def input_text(screen: str, profile: Profile) -> str | None:
    """The text on the input line, rows joined by newlines; "" for a mere placeholder; None if there is no such line."""
    found = _input(rows_of(screen), profile)
    if found is None:
        return None
    text = found[1]
    return "" if any(one.match(text) for one in profile.input.placeholders) else text


def transcript(screen: str, profile: Profile) -> str:
    """The text above the input line; the whole screen where there is none."""
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
    """The text as one line that can be shown anywhere."""
    words = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def steady(screen: str, profile: Profile) -> str:
    """The rows whose change is a sign of life."""
    text = transcript(screen, profile)
    rows = text.split("\n")
    busy: set[int] = set()
    for one in profile.busy:
        for found in one.pattern.finditer(text):
            first, last = (text.count("\n", 0, at) for at in found.span())
            busy.update(range(first, last + 1))
    return "\n".join(row for at, row in enumerate(rows) if at not in busy).rstrip()
