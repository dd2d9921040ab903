"""Times on a bus: with a ``Z``, with an offset, without either (read as local), or as seconds since 1970.

Never fails: what is no time, or none of this century, is None.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

_EARLIEST: Final = 946_684_800.0  # 2000-01-01
_LATEST: Final = 4_102_444_800.0  # 2100-01-01
_LONGEST: Final = 64


def moment(value: object) -> float | None:
    """Wall seconds."""
    match value:
        case bool():
            return None
        case str() if len(value) <= _LONGEST:
            seconds = _iso(value.strip())
        case int() | float():
            seconds = value
        case _:
            return None
    return float(seconds) if seconds is not None and _EARLIEST <= seconds < _LATEST else None


def _iso(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()  # a naive time counts as local
    except (ValueError, OverflowError, OSError):
        return None
