"""Whether an agent answered a line, by its transcript: a turn may be over before anybody looks.

Owns where in a transcript a line of ours stands (it begins on a row that the profile's ``told`` knows, and may be
wrapped, or cut with an ellipsis), and what stands below it, up to the next line that somebody said. The agent's own
words and tool calls (``agent``) are an answer; an error, a limit or an interrupt (``trouble``) is none. Which of
several tellings of one line it was is told by how the transcript looked before (``Mark``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.dialects.screen.rows import compact, rows_of, transcript

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.dialects.screen.profile import Pattern, Profile

#: A line that is cut is known by so many characters of its beginning.
_CUT: Final = 12
#: And one whose beginning is out of sight, by so many of its end: those of the id.
_END: Final = 8
_ELLIPSIS: Final = ("…", "...")


class Mark(NamedTuple):
    """How often a line stood in the transcript, and what stood below the last of them: so before, or so now."""

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
    """The telling between the two marks has an answer below it."""
    if not now.times or not _is_another(now, before):
        return False
    return any(_any(profile.agent, row) and not _any(profile.trouble, row) for row in now.below)


def _is_another(now: Mark, before: Mark) -> bool:
    """A transcript only grows: what does not go on where it stood is below another line. Earlier ones may be gone."""
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
