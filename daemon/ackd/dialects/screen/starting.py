"""The command that starts an agent in a pane, with the options that its kind needs (``start`` of a profile).

A command is a line for a shell, written by a user. Only one that plainly begins with the program, after ``exec``,
``env`` and settings of variables, gets the options; all else (a script of the user's own) is left as it is.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ackd.dialects.screen.profile import Profile

_BEFORE: Final = r"""\s*(?:exec\s+)?(?:env\s+(?:-i\s+)?)?(?:[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|[^\s"';|&])*\s+)*"""


def started_with(command: str, profile: Profile) -> str:
    """The command, with its options if they have a place in it and it has not settled that by itself."""
    start = profile.start
    if start is None or start.unless in command:
        return command
    found = re.match(rf"{_BEFORE}(?:[^\s'\"]*/)?{re.escape(start.program)}(?=\s|$)", command)
    if found is None:
        return command
    return f"{command[: found.end()]} {shlex.join(start.options)}{command[found.end() :]}"
