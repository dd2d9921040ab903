"""Faults of the machine: told of once when one is first met, once when it is over, however often it is met in between.

A full disk is met by every lane, every scan and every turn; the log and a person need to hear of it once. Owns which
faults there are now, since when, and how often they were met. What has another cause than the machine (one file that
may not be read) is no fault here, and passes. A fault is over when ``probe`` has proven it, not when it is quiet: while
it lasts, less and less is tried.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

from ackd.core.escalations import stamp
from ackd.core.faults import ADVICE, OF_STARTING

#: The kernel's own words, by which a fault is known wherever it was written down. Longest first: one may begin another.
_WORDS: Final = dict(sorted(((os.strerror(code), advice) for code, advice in ADVICE.items()), key=lambda w: -len(w[0])))
_OF_STARTING: Final = frozenset(os.strerror(code) for code in OF_STARTING)


@dataclass(slots=True)
class Fault:
    """``what``: where it was met first. ``since``: wall seconds."""

    error: str
    what: str
    since: float
    times: int = 1


@dataclass
class Faults:
    _now: dict[str, Fault] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._now)

    @property
    def of_starting(self) -> bool:
        """One of them is over only when a process and a thread can be had again."""
        return not _OF_STARTING.isdisjoint(self._now)

    def met(self, data: dict[str, object], now_wall: float) -> dict[str, object] | None:
        """What is to be said of an ``io_error``: with advice if a fault begins, None if it is known already."""
        error = next((words for words in _WORDS if words in str(data.get("error"))), None)
        if error is None:
            return data
        known = self._now.get(error)
        if known is not None:
            known.times += 1
            return None
        self._now[error] = Fault(error, str(data.get("what")), now_wall)
        return {**data, "advice": _WORDS[error]}

    def over(self) -> list[Fault]:
        """All of them, told for the last time."""
        ended, self._now = list(self._now.values()), {}
        return ended

    def page(self) -> list[dict[str, object]]:
        """For ``ackd status``."""
        return [
            {"error": one.error, "what": one.what, "since": stamp(one.since), "times": one.times}
            for one in self._now.values()
        ]
