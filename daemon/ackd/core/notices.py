"""Notices about trouble (a file in quarantine, a stray, a loop, an agent that is busy or waits), limited in number.

There is one for each recipient, cause and hour, 20 an hour to one recipient, and the rest in one summary when the hour
is over. Ids derive from just that, so that one that is made again after a crash is the same message, and is recognised.
alerts.py decides who is told, and sends. Mail that others wait for is never limited: escalations, dead letters,
replies, and word of leases, buses, boards and threads.

Every text names who, how many, what share and where: it passes ``ackd lint``.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.escalations import derived_id, stamp
from ackd.core.message import MONITOR, Draft, Priority

if TYPE_CHECKING:
    from collections.abc import Iterable

HOUR_S: Final = 3600
#: How many an hour one recipient gets; its summary is one more.
AN_HOUR: Final = 20
#: Subjects that a summary names; all of them are in the session log.
NAMED: Final = 10
#: How many causes that were held back are remembered within the hour. Beyond that one may be counted twice.
REMEMBERED: Final = 1_000


class NoticeVerdict(enum.Enum):
    TELL = "tell"
    KNOWN = "known"  # told of, or counted, within this hour
    HELD = "held"  # for the summary


@dataclass(slots=True)
class Hour:
    """The notices that one recipient was sent within one hour, and those that were held back."""

    to: str
    hour: int
    told: set[str] = field(default_factory=set)
    held: dict[str, int] = field(default_factory=dict)  # kind → how many
    held_causes: set[str] = field(default_factory=set)
    named: list[str] = field(default_factory=list)
    #: Sent before a restart, perhaps without reaching the disk, so it may be sent again. Its id is the same.
    unsure: set[str] = field(default_factory=set)
    summed: bool = False

    @property
    def held_back(self) -> int:
        return sum(self.held.values())


class Notices:
    """The hours that are still needed: the present one, and the one before, whose summary may not be on disk."""

    def __init__(self, limit: int = AN_HOUR) -> None:
        self._limit = limit
        self._hours: dict[tuple[str, int], Hour] = {}
        self.changes = 0  # grows with each change, for whoever saves them

    def weigh(self, to: str, kind: str, subject: str, hour: int) -> NoticeVerdict:
        known = self._hours.get((to, hour))
        if known is None:
            self._forget_before(hour - 1)
            known = self._hours[to, hour] = Hour(to, hour)
        cause = _mark(kind, subject)
        if cause in known.unsure:
            known.unsure.discard(cause)
            return NoticeVerdict.TELL
        if cause in known.told or cause in known.held_causes:
            return NoticeVerdict.KNOWN
        self.changes += 1
        if len(known.told) < self._limit:
            known.told.add(cause)
            return NoticeVerdict.TELL
        known.held[kind] = known.held.get(kind, 0) + 1
        known.summed = False
        if len(known.held_causes) < REMEMBERED:
            known.held_causes.add(cause)
        if len(known.named) < NAMED:
            known.named.append(subject)
        return NoticeVerdict.HELD

    def over(self, hour: int) -> list[Hour]:
        """Return the hours before this one that owe a summary, each once in a session. Forget those that gave theirs
        long ago."""
        self._forget_before(hour - 1)
        found = [one for one in self._hours.values() if one.hour < hour and one.held and not one.summed]
        for one in found:
            one.summed = True
        return found

    @property
    def owes(self) -> bool:
        return any(one.held and not one.summed for one in self._hours.values())

    @property
    def has_given(self) -> bool:
        """A summary that may not be on disk yet."""
        return any(one.held and one.summed for one in self._hours.values())

    def all(self) -> list[Hour]:
        return list(self._hours.values())

    def restore(self, hours: Iterable[Hour]) -> None:
        """Take over the hours from before a restart."""
        for one in hours:
            one.unsure = set(one.told)
            self._hours[one.to, one.hour] = one

    def _forget_before(self, hour: int) -> None:
        """Forget older hours, except those that still owe a summary."""
        for key, one in list(self._hours.items()):
            if one.hour < hour and (one.summed or not one.held):
                del self._hours[key]
                self.changes += 1


def hour_of(wall: float) -> int:
    return int(wall // HOUR_S)


def _mark(kind: str, subject: str) -> str:
    # Subjects are hostile text of any length.
    return hashlib.blake2b(f"{kind}\0{subject}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def notice_id(to: str, kind: str, subject: str, hour: int) -> str:
    return derived_id("notice", hour * HOUR_S, to, kind, subject)


def notice(to: str, kind: str, subject: str, text: str, cure: str, agent: str | None, hour: int) -> Draft:
    body: dict[str, object] = {"cause": kind, "about": subject, "summary": text, "action": cure}
    if agent is not None:
        body["agent"] = agent
    return _draft(notice_id(to, kind, subject, hour), to, body)


def summary(hour: Hour, to: str) -> Draft:
    begin, end = stamp(hour.hour * HOUR_S), stamp((hour.hour + 1) * HOUR_S)
    count, told = hour.held_back, len(hour.told)
    share = round(100 * count / (count + told))
    body: dict[str, object] = {
        "cause": "summary",
        "summary": f"{count} of {count + told} notices for {hour.to} ({share}%) between {begin} and {end} were held "
        f"back, so as not to flood it",
        "action": "Read them with `ackd tail --type notice`, and mend what they have in common",
        "held_back": dict(sorted(hour.held.items())),
        "first_of_them": list(hour.named),
    }
    return _draft(derived_id("notice summary", hour.hour * HOUR_S, hour.to), to, body)


def _draft(ident: str, to: str, body: dict[str, object]) -> Draft:
    return Draft(ident, MONITOR, to, "notification", Priority.NORMAL, body)
