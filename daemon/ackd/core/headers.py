"""The delivery headers that ackd writes into a message file (ignite-mime, "Headers"), and how it writes time there.

``None`` removes a header.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.delivery import State
from ackd.core.idleness import REMINDERS
from ackd.core.message import FRESH, Idled, Status
from ackd.core.words import (
    DEADLINE,
    ENDED,
    ERROR_AT,
    ERROR_REASON,
    EXPIRES,
    HAD_BY,
    IDLE,
    NEXT_RETRY_AFTER,
    PROCESSED_AT,
    RECIPIENT,
    RETRY_COUNT,
    SEEN,
    STATUS,
)

if TYPE_CHECKING:
    from ackd.core.state import Delivery

Headers: TypeAlias = tuple[tuple[str, str | None], ...]

#: Removes all of ours, so that the message is as its sender wrote it, and the times that its sender gave it: whoever
#: puts a dead letter back wants it delivered now.
NONE_OF_OURS: Final[Headers] = tuple(
    (name, None)
    for name in (
        STATUS, SEEN, IDLE, PROCESSED_AT, RETRY_COUNT, NEXT_RETRY_AFTER, ERROR_REASON, ERROR_AT, RECIPIENT,
        ENDED, HAD_BY, EXPIRES, DEADLINE,
    )
)  # fmt: skip


def in_hand(status: Status, wall: float, *, seen: bool = False, retries: int = 0, idled: Idled = FRESH) -> Headers:
    """Return the headers of a message that was told or acknowledged. Retry-Count is written again, because a restart
    goes on counting from it, and the disk may have refused it when it was counted."""
    words: Headers = (
        (STATUS, status.value),
        (PROCESSED_AT, local_seconds(wall)),
        (NEXT_RETRY_AFTER, None),
        (SEEN, "yes" if seen and status is Status.DELIVERED else None),  # an ack says that as well
        *idle(idled),
    )
    return (*words, (RETRY_COUNT, str(retries))) if retries else words


def idle(idled: Idled) -> Headers:
    """Return the header for reminders, idle time and the place in the window, which a restart must not begin anew."""
    words = {
        "reminders": str(idled.reminders) if idled.reminders else "",
        "told": "yes" if idled.told else "",
        "seconds": f"{idled.idle_s:.0f}" if idled.idle_s >= 1 else "",
        "beside": "yes" if idled.beside else "",
        "stalled": "yes" if idled.stalled else "",
    }
    return ((IDLE, " ".join(f"{key}={word}" for key, word in words.items() if word) or None),)


def idle_of(text: str) -> Idled:
    """Parse that header. Others write it too: whatever makes no sense counts as absent."""
    words = dict(part.partition("=")[::2] for part in text.split())
    return Idled(
        reminders=min(_number(words.get("reminders", "")), REMINDERS),
        told=words.get("told") == "yes",
        idle_s=float(_number(words.get("seconds", ""))),
        beside=words.get("beside") == "yes",
        stalled=words.get("stalled") == "yes",
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def had_by(delivery: Delivery) -> Headers:
    """Return the header that names the members of its pool that have had the message. In a dead letter the last of them
    is the one that had it when it died."""
    dies = delivery.state in (State.BURYING, State.ANNULLING)
    names = dict.fromkeys((*delivery.had_by, delivery.agent) if dies else delivery.had_by)
    return ((HAD_BY, ", ".join(names)),) if names else ()


def retrying(delivery: Delivery, due: float) -> Headers:
    return (
        *had_by(delivery),
        (STATUS, Status.RETRYING.value),
        (SEEN, None),
        (IDLE, None),
        (RETRY_COUNT, str(delivery.retries)),
        (NEXT_RETRY_AFTER, precise(due)),
    )


def tombstone(delivery: Delivery, wall: float) -> Headers:
    return (
        (STATUS, None),
        (SEEN, None),
        (IDLE, None),
        (NEXT_RETRY_AFTER, None),
        (ERROR_REASON, one_line(delivery.reason)),
        (ERROR_AT, local_seconds(wall)),
        (RETRY_COUNT, str(delivery.retries)),
        (RECIPIENT, delivery.addressee),
        *(had_by(delivery) if delivery.message.pool else ((HAD_BY, None),)),
        (ENDED, delivery.ended or None),
    )


def withdrawn(delivery: Delivery, wall: float) -> Headers:
    """Return the headers of a message that was cancelled before anyone was told. In the archive they tell it from one
    that was completed."""
    return (
        (ENDED, "withdrawn"),
        (ERROR_REASON, one_line(delivery.reason)),
        (ERROR_AT, local_seconds(wall)),
    )


def local_seconds(wall: float) -> str:
    """Format a time as ``date -Iseconds`` does."""
    return datetime.fromtimestamp(wall).astimezone().isoformat(timespec="seconds")


def precise(wall: float) -> str:
    """Format a time to the millisecond: a restart in the middle of a retry keeps it."""
    return datetime.fromtimestamp(wall).astimezone().isoformat(timespec="milliseconds")


def one_line(text: str) -> str:
    """Make a text fit for a header: no control characters, and bounded."""
    return "".join(ch if ch.isprintable() else " " for ch in text)[:500].strip() or "unknown"
