"""The value that a check is made of."""

from __future__ import annotations

from typing import Final, NamedTuple

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"


class Finding(NamedTuple):
    """A thing that was looked at. ``level``: OK, WARN or FAIL; ``mend``: what to do about it."""

    level: str
    subject: str
    words: str
    mend: str | None = None
