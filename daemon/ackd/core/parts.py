"""The parts of a message: messages that its holder sent while it held it, and what came of them.

Whoever shares a piece of work out says so in the header ``X-ACKD-Part-Of``. The parts that one agent sent for one
message are its *family*. The table says what is done when a part comes, when the last open one ends, and when its
holder can be told. The holder is told once of each set of parts: of the same set never again, and of parts that it
sends later in another notice. parts_told.py keeps the families and carries the table out. A pair that is not in the
table cannot happen: ``ImpossibleEvent``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.errors import ImpossibleEvent
from ackd.core.escalations import derived_id
from ackd.core.message import MONITOR, Draft, Priority
from ackd.core.values import value
from ackd.core.words import MessageEnd, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: How many parts a notice lists one by one. `ackd thread` shows all of them.
LISTED: Final = 200


class Sharing(Word):
    """The states of a family."""

    NONE = "no part"
    OPEN = "parts open"
    ENDED = "all ended"  # its holder is to be told, as soon as it has sent what it has to send


class PartEvent(Word):
    """The events of the table."""

    CAME = "a part came"
    ENDED = "a part ended"  # and others are open
    LAST_ENDED = "the last open part ended"
    AT_WORK = "its holder is at work"  # and may send more parts
    FREE = "its holder can be told"


class PartAct(Word):
    NOTHING = "nothing"
    AWAIT = "look again soon"  # its holder may be sending more of them just now
    TELL = "tell its holder"  # one notice, and the family is forgotten


S, E, A = Sharing, PartEvent, PartAct

TABLE: Final[dict[Sharing, dict[PartEvent, tuple[Sharing, PartAct]]]] = {
    S.NONE: {
        E.CAME: (S.OPEN, A.NOTHING),
        E.LAST_ENDED: (S.ENDED, A.AWAIT),  # it ended while the daemon was away
    },
    S.OPEN: {
        E.CAME: (S.OPEN, A.NOTHING),
        E.ENDED: (S.OPEN, A.NOTHING),
        E.LAST_ENDED: (S.ENDED, A.AWAIT),
        E.AT_WORK: (S.OPEN, A.NOTHING),  # another part came since the last look was asked for
        E.FREE: (S.OPEN, A.NOTHING),
    },
    S.ENDED: {
        E.CAME: (S.OPEN, A.NOTHING),
        E.LAST_ENDED: (S.ENDED, A.AWAIT),  # one more that ended while the daemon was away
        E.AT_WORK: (S.ENDED, A.AWAIT),
        E.FREE: (S.NONE, A.TELL),
    },
}


def step(sharing: Sharing, happened: PartEvent) -> tuple[Sharing, PartAct]:
    try:
        return TABLE[sharing][happened]
    except KeyError:
        raise ImpossibleEvent("parts", sharing.value, happened.value) from None


# --- values -----------------------------------------------------------------------------------------------------------
@value
class PartEnd:
    """A part that has ended: whose it is, and what came of it. ``at``: wall seconds. The journal keeps it until its
    holder was told."""

    parent: str
    holder: str  # the agent that sent it
    message_id: str
    agent: str
    type: str
    end: MessageEnd
    at: float
    reason: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return (self.message_id, self.agent)


@value
class PartsNotice:
    """A notice to the holder of a message: these parts have ended. It is fixed before it is written, so that after a
    crash the same one is written again, and is recognised."""

    notice_id: str
    parent: str
    holder: str
    parts: tuple[PartEnd, ...]
    thread_id: str | None = None


def notice_of(parent: str, holder: str, parts: Iterable[PartEnd], thread_id: str | None) -> PartsNotice:
    ordered = tuple(sorted(parts, key=lambda one: (one.at, *one.key)))
    cause = [part for one in ordered for part in (*one.key, one.end, f"{one.at:.6f}")]
    return PartsNotice(derived_id("parts", parent, holder, *cause), parent, holder, ordered, thread_id)


def draft(notice: PartsNotice) -> Draft:
    count = len(notice.parts)
    body: dict[str, object] = {
        "cause": "parts_ended",
        "message_id": notice.parent,
        "summary": f"All {count} parts of {notice.parent} that you wanted to hear of have ended: "
        f"{in_words(notice.parts)}",
        "action": f"`ackd thread {notice.parent}` shows them. End {notice.parent} yourself if you still have it",
        "parts": [_described(one) for one in notice.parts[:LISTED]],
    }
    if count > LISTED:
        body["not_listed"] = count - LISTED
    return Draft(
        notice.notice_id,
        MONITOR,
        notice.holder,
        "notification",
        Priority.NORMAL,
        body,
        thread_id=notice.thread_id or notice.parent,
        in_reply_to=notice.parent,
    )


def _described(part: PartEnd) -> dict[str, object]:
    said = {"message_id": part.message_id, "to": part.agent, "type": part.type, "state": part.end.value}
    return {**said, **({"reason": part.reason} if part.reason else {})}


def counted(parts: Sequence[PartEnd]) -> dict[MessageEnd, int]:
    return {end: number for end in MessageEnd if (number := sum(one.end is end for one in parts))}


def in_words(parts: Sequence[PartEnd]) -> str:
    return ", ".join(f"{number} {end.value}" for end, number in counted(parts).items())
