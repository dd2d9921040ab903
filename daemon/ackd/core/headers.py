"""The delivery headers that ackd writes into a message file (ignite-mime, "Headers"), and how it writes time there.

``None`` removes a header.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.delivery import State
from ackd.core.idleness import REMINDERS
from ackd.core.message import FRESH, Idled, Status

if TYPE_CHECKING:
    from ackd.core.state import Delivery

Headers: TypeAlias = tuple[tuple[str, str | None], ...]

#: How a message ended that was cancelled, withdrawn by its sender, or expired.
ENDED: Final = "X-ACKD-Ended"
#: The times that its sender gave it.
EXPIRES: Final = "X-ACKD-Expires"
DEADLINE: Final = "X-ACKD-Deadline"
#: The members of its pool that gave it back.
HAD_BY: Final = "X-ACKD-Had-By"
#: Removes all of ours, so that the message is as its sender wrote it, and the times that its sender gave it: whoever
#: puts a dead letter back wants it delivered now.
NONE_OF_OURS: Final[Headers] = (
    *(
        (f"X-IGNITE-{name}", None)
        for name in "Status Seen Idle Processed-At Retry-Count Next-Retry-After Error-Reason Error-At Recipient".split()
    ),
    (ENDED, None),
    (HAD_BY, None),
    (EXPIRES, None),
    (DEADLINE, None),
)


def in_hand(status: Status, wall: float, *, seen: bool = False, retries: int = 0, idled: Idled = FRESH) -> Headers:
    """Return the headers of a message that was told or acknowledged. Retry-Count is written again, because a restart
    goes on counting from it, and the disk may have refused it when it was counted."""
    words: Headers = (
        ("X-IGNITE-Status", status.value),
        ("X-IGNITE-Processed-At", local_seconds(wall)),
        ("X-IGNITE-Next-Retry-After", None),
        ("X-IGNITE-Seen", "yes" if seen and status is Status.DELIVERED else None),  # an ack says that as well
        *idle(idled),
    )
    return (*words, ("X-IGNITE-Retry-Count", str(retries))) if retries else words


def idle(idled: Idled) -> Headers:
    """Return the header for reminders, idle time and the place in the window, which a restart must not begin anew."""
    words = {
        "reminders": str(idled.reminders) if idled.reminders else "",
        "told": "yes" if idled.told else "",
        "seconds": f"{idled.idle_s:.0f}" if idled.idle_s >= 1 else "",
        "beside": "yes" if idled.beside else "",
        "stalled": "yes" if idled.stalled else "",
    }
    return (("X-IGNITE-Idle", " ".join(f"{key}={word}" for key, word in words.items() if word) or None),)


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
        ("X-IGNITE-Status", Status.RETRYING.value),
        ("X-IGNITE-Seen", None),
        ("X-IGNITE-Idle", None),
        ("X-IGNITE-Retry-Count", str(delivery.retries)),
        ("X-IGNITE-Next-Retry-After", precise(due)),
    )


def tombstone(delivery: Delivery, wall: float) -> Headers:
    return (
        ("X-IGNITE-Status", None),
        ("X-IGNITE-Seen", None),
        ("X-IGNITE-Idle", None),
        ("X-IGNITE-Next-Retry-After", None),
        ("X-IGNITE-Error-Reason", one_line(delivery.reason)),
        ("X-IGNITE-Error-At", local_seconds(wall)),
        ("X-IGNITE-Retry-Count", str(delivery.retries)),
        ("X-IGNITE-Recipient", delivery.addressee),
        *(had_by(delivery) if delivery.message.pool else ((HAD_BY, None),)),
        (ENDED, delivery.ended or None),
    )


def withdrawn(delivery: Delivery, wall: float) -> Headers:
    """Return the headers of a message that was cancelled before anyone was told. In the archive they tell it from one
    that was completed."""
    return (
        (ENDED, "withdrawn"),
        ("X-IGNITE-Error-Reason", one_line(delivery.reason)),
        ("X-IGNITE-Error-At", local_seconds(wall)),
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
