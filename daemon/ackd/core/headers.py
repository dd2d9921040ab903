"""What ackd writes into a message file's headers, and how it writes time there.

Owns the names and values of the delivery headers (ignite-mime, "Headers"); ``None`` removes one. Refuses to know how a
file is rewritten. Cannot fail.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.idleness import REMINDERS
from ackd.core.message import FRESH, Idled

if TYPE_CHECKING:
    from ackd.core.book import Delivery

Headers: TypeAlias = tuple[tuple[str, str | None], ...]

#: Takes all of them away: what is left is what its sender wrote.
NONE_OF_OURS: Final[Headers] = tuple(
    (f"X-IGNITE-{name}", None)
    for name in "Status Seen Idle Processed-At Retry-Count Next-Retry-After Error-Reason Error-At Recipient".split()
)


def in_hand(status: str, wall: float, *, seen: bool = False, retries: int = 0, idled: Idled = FRESH) -> Headers:
    """Told or acknowledged. Retry-Count is written again: a restart goes on counting from it, and the disk may have
    refused it when it was counted."""
    words: Headers = (
        ("X-IGNITE-Status", status),
        ("X-IGNITE-Processed-At", local_seconds(wall)),
        ("X-IGNITE-Next-Retry-After", None),
        ("X-IGNITE-Seen", "yes" if seen and status == "delivered" else None),  # who acked has seen it
        *idle(idled),
    )
    return (*words, ("X-IGNITE-Retry-Count", str(retries))) if retries else words


def idle(idled: Idled) -> Headers:
    """Reminders given, idle time summed, and whether it fills a window: what a restart must not begin anew."""
    words = {
        "reminders": str(idled.reminders) if idled.reminders else "",
        "told": "yes" if idled.told else "",
        "seconds": f"{idled.idle_s:.0f}" if idled.idle_s >= 1 else "",
        "beside": "yes" if idled.beside else "",
        "stalled": "yes" if idled.stalled else "",
    }
    return (("X-IGNITE-Idle", " ".join(f"{key}={word}" for key, word in words.items() if word) or None),)


def idle_of(text: str) -> Idled:
    """What the header says. Others write it too: what makes no sense counts as absent."""
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


def retrying(delivery: Delivery, due: float) -> Headers:
    return (
        ("X-IGNITE-Status", "retrying"),
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
        ("X-IGNITE-Recipient", delivery.agent),
    )


def local_seconds(wall: float) -> str:
    """As ``date -Iseconds`` prints it."""
    return datetime.fromtimestamp(wall).astimezone().isoformat(timespec="seconds")


def precise(wall: float) -> str:
    """To the millisecond: a restart in the middle of a retry keeps its time."""
    return datetime.fromtimestamp(wall).astimezone().isoformat(timespec="milliseconds")


def one_line(text: str) -> str:
    """Fit for a header: no control characters, bounded."""
    return "".join(ch if ch.isprintable() else " " for ch in text)[:500].strip() or "unknown"
