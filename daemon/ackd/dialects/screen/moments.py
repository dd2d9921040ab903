"""When a limit ends, from the words on a screen to wall seconds.

Programs say it as a time of day ("1:36 PM", "3pm (Europe/Berlin)"), with a date ("Nov 20th, 2026 1:36 PM"), as a while
("2 hours 5 minutes") or as Unix time. A time of day is the one nearest to now: limits last for hours, and those of days
come with a date, so that one which was an hour ago is over and not tomorrow's. Never raises: words that make no sense
are no time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLOCK: Final = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*([ap])\.?m|(\d{1,2}):(\d{2})", re.IGNORECASE)
_ZONE: Final = re.compile(r"\(?\b([A-Z][A-Za-z]+/[A-Za-z_/+-]+|UTC)\b\)?")
_DATE: Final = re.compile(r"([A-Z][a-z]{2})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?")
_ISO: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_WHILE: Final = re.compile(r"(\d+)\s*(d|h|m|s)", re.IGNORECASE)
_UNIT_S: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_HALF_DAY: Final = timedelta(hours=12)


def moment(words: Mapping[str, str | None], now: float) -> float | None:
    """By the groups of a pattern: ``epoch``, ``within`` (a while) or ``at`` (a time)."""
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
    """None: the zone of the machine, which is the program's too."""
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
