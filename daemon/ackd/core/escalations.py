"""What ackd tells people and leaders when something cannot be mended.

Owns the open escalations (one per agent and cause: later ones are counted into it), what ends them, the words, and the
ids, which derive from the cause: writing one again after a crash makes the same message, which is recognised. Refuses
to know how it is sent. Every text names who, how many, what share and where: it passes ``ackd lint``.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ackd.core.delivery import State
from ackd.core.message import MONITOR, Draft, Priority
from ackd.core.words import Word

if TYPE_CHECKING:
    from ackd.core.book import Delivery


class Over(Word):
    """What ends an escalation's cause, and with it the escalation. An answer by whoever it went to always ends it."""

    MESSAGE = "message"  # all the messages that it is about have ended, were taken or are told again
    LETTER = "letter"  # all of them were dug up again, or completed after all
    AGENT = "agent"  # its agent is back, goes on, takes work again
    ANSWER = "answer"  # nothing else


#: By cause; what is not listed waits for an answer.
ENDS: Final[dict[str, Over]] = {
    "overdue": Over.MESSAGE,
    "idle": Over.MESSAGE,
    "blocked": Over.MESSAGE,
    "loop_held": Over.MESSAGE,
    "dead": Over.LETTER,
    "refused": Over.LETTER,
    "unfinished": Over.LETTER,
    "silent": Over.AGENT,
    "stuck": Over.AGENT,
    "away": Over.AGENT,
    "died": Over.AGENT,
}
#: What an open escalation remembers of the messages that it is about. One that is about more waits for an answer.
MOST_ABOUT: Final = 1_000


@dataclass(slots=True)
class OpenEscalation:
    """``about``: the messages that it counts, by id; of one who is stuck, what it is asked instead. ``told``: its own
    mail was seen and is completed; it is open all the same, until it is answered or over."""

    escalation_id: str
    agent: str
    cause: str
    to: str
    opened_at: float
    counted: int = 1
    told: bool = False
    about: list[str] = field(default_factory=list)


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

    def of(self, agent: str, cause: str) -> OpenEscalation | None:
        return self._open.get((agent, cause))

    def called(self, escalation_id: str) -> OpenEscalation | None:
        return next((one for one in self._open.values() if one.escalation_id == escalation_id), None)

    def close(self, escalation_id: str) -> OpenEscalation | None:
        one = self.called(escalation_id)
        return self._open.pop((one.agent, one.cause)) if one is not None else None

    def settled(self, agent: str, message_id: str, *ends: Over) -> list[OpenEscalation]:
        """What this message's end, or new beginning, was the last of: no longer open."""
        over = []
        for (who, cause), one in list(self._open.items()):
            if who == agent and message_id in one.about and ENDS.get(cause) in ends:
                one.about.remove(message_id)
                if not one.about and one.counted <= MOST_ABOUT:
                    over.append(self._open.pop((who, cause)))
        return over

    def agents(self, agent: str) -> list[OpenEscalation]:
        """Those that its agent's coming back ends: no longer open."""
        mine = [key for key in self._open if key[0] == agent and ENDS.get(key[1]) is Over.AGENT]
        return [self._open.pop(key) for key in mine]

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


def telling_id(kind: str, delivery: Delivery) -> str:
    """About one telling of a message: the same after a crash, another for a counted retry or a requeue."""
    return derived_id(kind, delivery.message.message_id, delivery.agent, delivery.retries, _life(delivery))


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
