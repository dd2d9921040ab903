"""The state of an agent, by what its screen shows: ready, busy, a prompt, a menu, a limit, a shell, or unknown.

The order of the questions matters: a prompt or a menu, which any key would answer, is looked for first, "ready" last,
and a screen that fits nothing is ``Unknown``, into which nothing is typed. Only the foot of the screen is looked at,
for above it stands what anyone has said.

A limit whose time has come is over, though its words still stand there. Programs name that time as a time of day
("1:36 PM", "3pm (Europe/Berlin)"), with a date ("Nov 20th, 2026 1:36 PM"), as a duration ("2 hours 5 minutes") or as
Unix time. A time of day is the one nearest to now: limits last for hours, and those of days come with a date, so one
that was an hour ago is over and not tomorrow's. Words that make no sense are no time; nothing here raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final, TypeAlias
from zoneinfo import ZoneInfo

from ackd.endpoints.tmux.screen.rows import foot, for_people, input_text, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.endpoints.tmux.screen.profile import Pattern, Profile

SHELLS: Final = frozenset("bash zsh sh dash ash fish ksh mksh tcsh csh nu xonsh pwsh".split())
#: A shell's prompt with nothing after it.
_PROMPT: Final = re.compile(r"^[\w.+@:~/\[\]() -]{0,80}(?:[$#]|(?<!\d)%)$")
#: Fashionable prompts look like the input line of many agents: they count only if a shell is in the foreground.
_FANCY_PROMPT: Final = re.compile("^(?:\\S.{0,80} )?[\u276f\u279c\u03bb]$")


def read(screen: str, profile: Profile, now: float, command: str | None = None) -> Reading:
    """Read a screen. ``command``: the program in the pane's foreground, if that is known."""
    state = classify(screen, profile, now, command)
    return Reading(state, input_text(screen, profile), context_usage(screen, profile))


def classify(screen: str, profile: Profile, now: float, command: str | None = None) -> State:
    """The state that a screen shows. ``now``: wall seconds, for limits that name the time of day they end at."""
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
    """The share of the context that is used, 0 … 1, from what the screen says is used or left."""
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
    """The prompt of a shell where the agent was, if a shell is in the foreground as far as that is known: an agent may
    show a prompt of that form."""
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
    """The matched text for people, with the name of the tool that asks where the pattern tells that apart."""
    groups = found.groupdict()
    said, tool = groups.get("text") or found.group(), groups.get("tool")
    return for_people(f"{tool}: {said}" if tool else said)


# --- states -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Ready:
    """The agent waits for a line. This is the only state in which one is typed, if the input line is empty."""


@dataclass(frozen=True, slots=True)
class Busy:
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """The agent asks for a permission: any key may be taken for the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Limit:
    """A usage limit. ``until``: when it is over, in wall seconds; None where the screen does not say."""

    text: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Menu:
    text: str


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell's prompt stands where the agent was: a line that is typed would be run."""

    text: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A screen that the profile does not know. Nothing is typed; while the screen changes, the agent is taken for busy,
    and once it stands still a person is told. ``text``: the last row."""

    text: str


State: TypeAlias = Ready | Busy | Prompt | Limit | Menu | Shell | Unknown


@dataclass(frozen=True, slots=True)
class Reading:
    """A screen that has been read. ``typed``: the text on the input line, "" if that is empty; None if the screen shows
    no input line."""

    state: State
    typed: str | None = None
    context_usage: float | None = None

    @property
    def is_idle(self) -> bool:
        """True if the agent waits for a line, and nothing stands where one would be typed."""
        return isinstance(self.state, Ready) and self.typed == ""


# --- when a limit ends ------------------------------------------------------------------------------------------------
_CLOCK: Final = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*([ap])\.?m|(\d{1,2}):(\d{2})", re.IGNORECASE)
_ZONE: Final = re.compile(r"\(?\b([A-Z][A-Za-z]+/[A-Za-z_/+-]+|UTC)\b\)?")
_DATE: Final = re.compile(r"([A-Z][a-z]{2})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?")
_ISO: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_WHILE: Final = re.compile(r"(\d+)\s*(d|h|m|s)", re.IGNORECASE)
_UNIT_S: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_HALF_DAY: Final = timedelta(hours=12)


def moment(words: Mapping[str, str | None], now: float) -> float | None:
    """The moment a limit ends, from the groups of a pattern: ``epoch``, ``within`` (a duration) or ``at`` (a time)."""
    try:
        if epoch := words.get("epoch"):
            return float(epoch)
        if within := words.get("within"):
            return _after(within, now)
        if at := words.get("at"):
            return _at(" ".join(at.split()), now)
    except (ValueError, OverflowError, OSError, KeyError):
        return None
    return None


def _after(text: str, now: float) -> float | None:
    parts = _WHILE.findall(text)
    return now + sum(int(count) * _UNIT_S[unit.lower()] for count, unit in parts) if parts else None


def _at(text: str, now: float) -> float | None:
    clock = _CLOCK.search(text)
    here = datetime.fromtimestamp(now, _zone(text)).astimezone(_zone(text))
    day = _day(text, here)
    if day is not None:
        hour, minute = _hour(clock) if clock else (0, 0)
        return day.replace(hour=hour, minute=minute, second=0, microsecond=0).timestamp()
    if clock is None:
        return None
    hour, minute = _hour(clock)
    then = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if then - here > _HALF_DAY:
        then -= timedelta(days=1)
    elif here - then > _HALF_DAY:
        then += timedelta(days=1)
    return then.timestamp()


def _zone(text: str) -> tzinfo | None:
    """The time zone that is named; None: that of the machine, which is the program's too."""
    named = _ZONE.search(text)
    if named is None:
        return None
    return UTC if named[1] == "UTC" else ZoneInfo(named[1])


def _day(text: str, here: datetime) -> datetime | None:
    if iso := _ISO.search(text):
        return here.replace(year=int(iso[1]), month=int(iso[2]), day=int(iso[3]))
    named = _DATE.search(text)
    if named is None or named[1] not in _MONTHS:
        return None
    month, day = _MONTHS.index(named[1]) + 1, int(named[2])
    year = int(named[3]) if named[3] else here.year + (month < here.month - 6)
    return here.replace(year=year, month=month, day=day)


def _hour(clock: re.Match[str]) -> tuple[int, int]:
    if clock[3] is None:
        return int(clock[4]), int(clock[5])
    hour = int(clock[1]) % 12 + (12 if clock[3].lower() == "p" else 0)
    return hour, int(clock[2] or 0)
