"""What ackd tells people and leaders when something cannot be mended.

Owns the open escalations (one per agent and cause: later ones are counted into it), the words, and the ids, which
derive from the cause: writing one again after a crash makes the same message, which is recognised. Refuses to know
how it is sent. Every text names who, how many, what share and where: it passes ``ackd lint``.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ackd.core.delivery import State
from ackd.core.message import MONITOR, Draft, Priority

if TYPE_CHECKING:
    from ackd.core.book import Delivery


@dataclass(slots=True)
class OpenEscalation:
    escalation_id: str
    agent: str
    cause: str
    to: str
    opened_at: float
    counted: int = 1


class Escalations:
    """Open ones, by (agent, cause) and by their message's id."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], OpenEscalation] = {}

    def counted(self, agent: str, cause: str) -> OpenEscalation | None:
        """The open one, with this case counted in; None if there is none."""
        existing = self._open.get((agent, cause))
        if existing is not None:
            existing.counted += 1
        return existing

    def open(self, escalation: OpenEscalation) -> None:
        self._open[(escalation.agent, escalation.cause)] = escalation

    def close(self, escalation_id: str) -> OpenEscalation | None:
        for key, one in self._open.items():
            if one.escalation_id == escalation_id:
                return self._open.pop(key)
        return None

    def all(self) -> list[OpenEscalation]:
        return list(self._open.values())


def derived_id(kind: str, *cause: object) -> str:
    """A Message-ID in the seed's form whose every part comes from the cause."""
    text = "\0".join(map(str, (kind, *cause)))
    heads = (str(part).partition(".")[0] for part in cause)
    epoch = next((head for head in heads if head.isascii() and head.isdecimal()), "0")[:12]
    return f"{epoch}.0.{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}@ignite.local"


def stamp(wall: float) -> str:
    return _stamp_of(int(wall))


@functools.lru_cache(maxsize=16)
def _stamp_of(second: int) -> str:
    """Facts come by the thousand in one second."""
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")


def escalation(
    escalation_id: str,
    to: str,
    agent: str,
    cause: str,
    summary: str,
    action: str,
    delivery: Delivery | None,
    wall: float,
) -> Draft:
    body: dict[str, object] = {
        "agent": agent,
        "cause": cause,
        "summary": summary,
        "raised_at": stamp(wall),
        "counted": 1,
        "action": action,
        "what_happened": [{"at": stamp(at), "what": what} for at, what in delivery.story] if delivery else [],
    }
    if delivery is not None:
        body["message"] = _identify(delivery)
    thread = delivery.message.thread_id if delivery else None
    return Draft(escalation_id, MONITOR, to, "escalation", Priority.CRITICAL, body, thread_id=thread)


def dead_notice(delivery: Delivery, to: str, reason: str, wall: float) -> Draft:
    message = delivery.message
    body: dict[str, object] = {
        "message_id": message.message_id,
        "type": message.type,
        "to": delivery.agent,
        "reason": reason,
        "retry_count": delivery.retries,
        "error_at": stamp(wall),
        "file": f"queue/dead_letter/{delivery.place.name}",
        "how_to_requeue": f"ackd dead requeue {message.message_id}",
    }
    ident = derived_id("dead_letter", message.message_id, delivery.agent, _life(delivery))
    return Draft(ident, MONITOR, to, "dead_letter", Priority.HIGH, body, message.thread_id, message.message_id)


def death_id(delivery: Delivery) -> str:
    return derived_id("escalation", delivery.message.message_id, delivery.agent, _life(delivery))


def death_summary(delivery: Delivery, reason: str) -> str:
    tells = max(delivery.tells, 1)
    return (
        f"{delivery.agent} did not complete 1 message ({delivery.message.type} from {delivery.message.sender}): "
        f"{tells} of {tells} attempts failed (100%), the last with: {reason}. "
        f"The message is kept in queue/dead_letter/{delivery.place.name}"
    )


def _life(delivery: Delivery) -> int:
    """Tells a requeued message's second death from its first: a requeue gives the file a new time, a crash does not."""
    return int(delivery.arrived_at * 1_000_000)


def _identify(delivery: Delivery) -> dict[str, object]:
    message, dying = delivery.message, delivery.state is State.BURYING
    return {
        "message_id": message.message_id,
        "type": message.type,
        "from": message.sender,
        "to": delivery.agent,
        "file": f"queue/dead_letter/{delivery.place.name}" if dying else str(delivery.place),
    }
