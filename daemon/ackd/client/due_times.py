"""The times that a sender gives a message, as people say them: a duration from now, or a time.

``90s``, ``20m``, ``2h`` and ``1d`` count from now; a time is one of RFC 3339, without a zone in UTC. The header holds
the time, in UTC. Fails with ``BadTime``.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
from typing import Final

from ackd.client.errors import BadTime

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST_DIGITS: Final = 9
#: Times beyond these are taken for mistakes by whoever reads the header.
_YEARS_S: Final = (946_684_800.0, 4_102_444_800.0)  # 2000 to 2100


def header(option: str, text: str, now: float) -> str:
    """Return the value of the header for what was given for ``option``."""
    from ackd.formats import utc_times

    at = _duration(text, now)
    if at is None:
        at = utc_times.read(text)
    if at is None or not _YEARS_S[0] <= at < _YEARS_S[1]:
        raise BadTime(option, text, "is neither a duration (90s, 20m, 2h, 1d) nor a time (2026-11-19T02:00:00Z)")
    if at <= now:
        raise BadTime(option, text, "is past already")
    return utc_times.write(at)


def _duration(text: str, now: float) -> float | None:
    number, unit = text[:-1], _UNITS_S.get(text[-1:])
    if unit is None or not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
        return None
    return now + int(number) * unit
