"""What of a screen is the agent's work, and what only says that it is busy.

Owns the part whose change is a sign of life: what stands above the input line, without the rows by which the profile
knows that it is busy. A spinner, a clock beside it and a status line at the foot change whatever is done, or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.dialects.screen.rows import transcript

if TYPE_CHECKING:
    from ackd.dialects.screen.profile import Profile


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
