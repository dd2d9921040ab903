"""Times as buses write them: ISO 8601, read and written without a calendar library, which costs a quick command more
than all it does with it.

A time without a zone is UTC (the seed writes ``utcnow``), and times are written in UTC with a ``Z``. Text that is no
time gives None; nothing is guessed.
"""

import re
from typing import Final

_FORM: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?\s*(?:([Zz])|([+-])(\d\d):?(\d\d)?)?",
    re.ASCII,
)
_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def read(text: object) -> float | None:
    """Seconds since 1970, or None for what is no time."""
    found = _FORM.fullmatch(text.strip()) if isinstance(text, str) and len(text) <= 64 else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= _MONTHS[month - 1] and hour <= 23 and minute <= 59 and second <= 60):
        return None
    ahead = (int(found[10] or 0) * 60 + int(found[11] or 0)) * 60 * (-1 if found[9] == "-" else 1)
    whole = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - ahead
    return whole + (float(f"0.{found[7]}") if found[7] else 0.0)


def write(wall: float) -> str:
    """Write a time, to the microsecond."""
    second, micros = divmod(round(wall * 1_000_000), 1_000_000)
    days, rest = divmod(second, 86_400)
    year, month, day = _date(days)
    hour, rest = divmod(rest, 3600)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{rest // 60:02}:{rest % 60:02}.{micros:06}Z"


def in_utc(text: str) -> str:
    """The same moment in UTC with a ``Z``, if the text is a time; else the text."""
    at = None if text.endswith("Z") else read(text)
    return text if at is None else write(at)


# The Gregorian calendar, counted in years that begin with March: leap days come last, and fall out of the sums.
def _days(year: int, month: int, day: int) -> int:
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    era, of_era_days = divmod(days + 719_468, 146_097)
    of_era = (of_era_days - of_era_days // 1460 + of_era_days // 36_524 - of_era_days // 146_096) // 365
    of_year = of_era_days - (365 * of_era + of_era // 4 - of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
