"""Finds out from the transcript whether an agent answered a line: a turn may be over before anybody looks.

A line of ours begins on a row that the profile's ``told`` knows, and may be wrapped, or cut with an ellipsis. Below it,
up to the next line that somebody said, stands the answer: the agent's own words and tool calls (``agent``); an error, a
limit or an interrupt (``trouble``) is none. If the same line was typed several times, a ``Mark`` of the transcript
before it tells which of them is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.endpoints.tmux.screen.rows import compact, rows_of, transcript

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.endpoints.tmux.screen.profile import Pattern, Profile

#: A line that is cut is recognised by this many characters of its beginning.
_CUT: Final = 12
#: A line whose beginning is out of sight is recognised by this many characters of its end, which belong to the id.
_END: Final = 8
_ELLIPSIS: Final = ("…", "...")


class Mark(NamedTuple):
    """The number of times that a line stands in a transcript, and the rows below the last of them."""

    times: int = 0
    below: tuple[str, ...] = ()


UNMARKED: Final = Mark()


def mark(screen: str, line: str, profile: Profile) -> Mark:
    if not profile.told:
        return UNMARKED
    rows = [row for row in rows_of(transcript(screen, profile)) if row]
    wanted, count, below = compact(line), 0, len(rows)
    if (end := _end_at_the_top(rows, wanted, profile)) is not None:
        count, below = 1, end
    for at in _told(rows, profile):
        end = _ends(rows, at, wanted, profile)
        if end is not None:
            count, below = count + 1, end
    after = next((at for at in _told(rows, profile) if at >= below), len(rows))
    return Mark(count, tuple(rows[below:after]))


def answered(now: Mark, before: Mark, profile: Profile) -> bool:
    """True if the telling between the two marks has an answer below it."""
    if not now.times or not _is_another(now, before):
        return False
    return any(_any(profile.agent, row) and not _any(profile.trouble, row) for row in now.below)


def _is_another(now: Mark, before: Mark) -> bool:
    """True if the line was told again. A transcript only grows, so rows that do not continue those before are below
    another line; earlier ones may be out of sight."""
    return now.times > before.times or bool(before.below and now.below[: len(before.below)] != before.below)


def _told(rows: list[str], profile: Profile) -> Iterator[int]:
    return (at for at, row in enumerate(rows) if _any(profile.told, row))


def _ends(rows: list[str], at: int, wanted: str, profile: Profile) -> int | None:
    """The row after the line, if it is the one that begins here."""
    first = next(found for one in profile.told if (found := one.pattern.search(rows[at])) is not None)
    words = compact(first.groupdict().get("text") or rows[at][first.end() :])
    for after in range(at + 1, len(rows) + 1):
        if words == wanted:
            return after
        cut = next((words.removesuffix(dots) for dots in _ELLIPSIS if words.endswith(dots)), None)
        if cut is not None and len(cut) >= _CUT and wanted.startswith(cut):
            return after
        if not wanted.startswith(words) or after == len(rows):
            return None
        words += compact(rows[after])
    return None


def _end_at_the_top(rows: list[str], wanted: str, profile: Profile) -> int | None:
    """The row after the line, if its beginning has left a small screen and its end stands in the first rows."""
    words, first = "", next(_told(rows, profile), len(rows))
    for after, row in enumerate(rows[:first], start=1):
        words += compact(row)
        if words not in wanted:
            return None
        if len(words) >= _END and wanted.endswith(words):
            return after
    return None


def _any(patterns: tuple[Pattern, ...], row: str) -> bool:
    return any(one.pattern.search(row) is not None for one in patterns)
