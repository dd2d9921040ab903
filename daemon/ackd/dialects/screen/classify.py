"""What an agent is doing, by what its screen shows.

Owns the order of the questions: what would be answered by a key (a prompt, a menu) is asked for first, "ready" last,
and whatever fits nothing is ``Unknown``, into which nothing is typed. Only the foot of the screen is looked at, for
above it stands what anyone has said. A limit whose time has come is over, though its words still stand there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ackd.dialects.screen.moments import moment
from ackd.dialects.screen.rows import foot, for_people, input_text, rows_of
from ackd.dialects.screen.states import Busy, Limit, Menu, Prompt, Reading, Ready, Shell, State, Unknown

if TYPE_CHECKING:
    from ackd.dialects.screen.profile import Pattern, Profile

SHELLS: Final = frozenset("bash zsh sh dash ash fish ksh mksh tcsh csh nu xonsh pwsh".split())
#: A shell's prompt with nothing after it.
_PROMPT: Final = re.compile(r"^[\w.+@:~/\[\]() -]{0,80}(?:[$#]|(?<!\d)%)$")
#: Those of fashion look like the input line of many an agent: believed only of a shell in the foreground.
_FANCY_PROMPT: Final = re.compile("^(?:\\S.{0,80} )?[\u276f\u279c\u03bb]$")


def read(screen: str, profile: Profile, now: float, command: str | None = None) -> Reading:
    """``command``: what runs in the pane's foreground, if that is known."""
    state = classify(screen, profile, now, command)
    return Reading(state, input_text(screen, profile), context_usage(screen, profile))


def classify(screen: str, profile: Profile, now: float, command: str | None = None) -> State:
    """``now``: wall seconds, for limits that name the time of day they end at."""
    rows = rows_of(screen)
    if profile.kind == "shell":
        return _shell_itself(rows, profile, command)
    if (gone := _shell_prompt(rows, profile, command)) is not None:
        return Shell(gone)
    if (asked := _first(rows, profile.prompt)) is not None:
        return Prompt(_said(asked))
    if (shown := _first(rows, profile.menu)) is not None:
        return Menu(_said(shown))
    if (limited := _limit(rows, profile, now)) is not None:
        return limited
    if (works := _first(rows, profile.busy)) is not None:
        return Busy(_said(works))
    if _first(rows, profile.ready) is not None:
        return Ready()
    return Unknown(for_people(foot(rows, 1)))


def context_usage(screen: str, profile: Profile) -> float | None:
    """0 … 1, by what the screen says is used or left."""
    found = _first(rows_of(screen), profile.context)
    if found is None:
        return None
    groups = found.groupdict()
    left, used = groups.get("left"), groups.get("used")
    percent = 100 - float(left) if left is not None else float(used or 0)
    return percent / 100 if 0 <= percent <= 100 else None


def _shell_itself(rows: list[str], profile: Profile, command: str | None) -> State:
    """An agent that is a shell: ready at its prompt, busy while it runs something."""
    if command is not None and command not in SHELLS:
        return Busy(f"{for_people(command, 40)} runs")
    if _at_prompt(foot(rows, 1), command) or _first(rows, profile.ready) is not None:
        return Ready()
    return Unknown(for_people(foot(rows, 1)))


def _shell_prompt(rows: list[str], profile: Profile, command: str | None) -> str | None:
    """Only with a shell in the foreground, as far as that is known: an agent may show a prompt of that form."""
    if command is not None and command not in SHELLS:
        return None
    last = foot(rows, 1)
    if (found := _first(rows, profile.shell)) is not None:
        return _said(found)
    return for_people(last) if _at_prompt(last, command) else None


def _at_prompt(last: str, command: str | None) -> bool:
    return _PROMPT.search(last) is not None or (command in SHELLS and _FANCY_PROMPT.search(last) is not None)


def _limit(rows: list[str], profile: Profile, now: float) -> Limit | None:
    found = _first(rows, profile.limit)
    if found is None:
        return None
    until = moment(found.groupdict(), now)
    return None if until is not None and until <= now else Limit(_said(found), until)


def _first(rows: list[str], patterns: tuple[Pattern, ...]) -> re.Match[str] | None:
    for one in patterns:
        if (found := one.pattern.search(foot(rows, one.rows))) is not None:
            return found
    return None


def _said(found: re.Match[str]) -> str:
    """What is asked, with the name of the tool that asks for it where the pattern tells that apart."""
    groups = found.groupdict()
    said, tool = groups.get("text") or found.group(), groups.get("tool")
    return for_people(f"{tool}: {said}" if tool else said)
