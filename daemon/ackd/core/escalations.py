"""Escalations: mail to people and leaders about what ackd cannot mend itself.

``Escalations`` holds the open ones: one per agent and cause, into which later cases are counted. The ids derive from
the cause, so that one that is written again after a crash is the same message, and is recognised. alerts.py opens,
sends and closes them. Every text names who, how many, what share and where: it passes ``ackd lint``.
"""

from __future__ import annotations

import enum
import functools
import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ackd.core.delivery import State
from ackd.core.message import MONITOR, AutoSubmitted, Draft, Priority
from ackd.core.words import Word

if TYPE_CHECKING:
    from ackd.core.state import Delivery


class Cause(enum.StrEnum):
    """The reasons why somebody is asked for help. Saved files and log lines hold the values."""

    AWAY = "away"  # the agent cannot be told
    STUCK = "stuck"  # it waits for a person, or for a limit to pass
    DIED = "died"  # its process or pane is gone, and is not started again
    SILENT = "silent"  # it was woken to the end of its ladder, and a message is dead
    IDLE = "idle"  # it took a message and is back at its prompt
    BLOCKED = "blocked"  # it says that it cannot go on
    OVERDUE = "overdue"  # it acknowledged a message long ago
    DEADLINE = "deadline"  # a message was not completed by its deadline
    DEAD = "dead"  # a message failed too often
    REFUSED = "refused"  # its agent refused it
    UNFINISHED = "unfinished"  # its agent was idle for too long with it in hand
    LOOP_HELD = "loop_held"  # a message of an endless chain of answers is held
    SPOOL_LOST = "spool_lost"  # a queue directory was removed with the files in it
    UNSERVED = "unserved"  # mail waits in the queue of a pool, and no member can take it
    UNDELIVERED = "escalation_undelivered"  # an escalation could not be delivered


class Over(Word):
    """The events that end an escalation, besides an answer by whoever it went to, which always does."""

    MESSAGE = "message"  # all messages that it is about have ended, were taken or are told again
    LETTER = "letter"  # all of them were requeued, or completed after all
    AGENT = "agent"  # its agent is back, goes on, takes work again
    ANSWER = "answer"  # nothing else


#: The event that ends each cause. A cause that is not listed waits for an answer.
ENDS: Final[dict[str, Over]] = {
    Cause.OVERDUE: Over.MESSAGE,
    Cause.DEADLINE: Over.MESSAGE,
    Cause.IDLE: Over.MESSAGE,
    Cause.BLOCKED: Over.MESSAGE,
    Cause.LOOP_HELD: Over.MESSAGE,
    Cause.DEAD: Over.LETTER,
    Cause.REFUSED: Over.LETTER,
    Cause.UNFINISHED: Over.LETTER,
    Cause.SILENT: Over.AGENT,
    Cause.STUCK: Over.AGENT,
    Cause.AWAY: Over.AGENT,
    Cause.DIED: Over.AGENT,
}
#: How many messages an open escalation remembers. One that is about more waits for an answer.
MOST_ABOUT: Final = 1_000


@dataclass(slots=True)
class OpenEscalation:
    """An escalation that waits for an answer or for the end of its cause.

    ``about``: the messages that it counts, by id; for an agent that is stuck, what it is asked. ``told``: its own mail
    was seen and has ended, and the escalation is still open.
    """

    escalation_id: str
    agent: str
    cause: str
    to: str
    opened_at: float
    counted: int = 1
    told: bool = False
    about: list[str] = field(default_factory=list)


class Escalations:
    """The open escalations, by (agent, cause) and by the id of their mail."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], OpenEscalation] = {}

    def counted(self, agent: str, cause: str) -> OpenEscalation | None:
        """Count this case into the open escalation and return it; None if there is none."""
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
        """Take the message out of the escalations about it. Return those that are about no other message: they are
        closed."""
        over = []
        for (who, cause), one in list(self._open.items()):
            if who == agent and message_id in one.about and ENDS.get(cause) in ends:
                one.about.remove(message_id)
                if not one.about and one.counted <= MOST_ABOUT:
                    over.append(self._open.pop((who, cause)))
        return over

    def agents(self, agent: str) -> list[OpenEscalation]:
        """Close the escalations that end when their agent comes back, and return them."""
        mine = [key for key in self._open if key[0] == agent and ENDS.get(key[1]) is Over.AGENT]
        return [self._open.pop(key) for key in mine]

    def all(self) -> list[OpenEscalation]:
        return list(self._open.values())


def derived_id(kind: str, *cause: object) -> str:
    """Return a Message-ID in the seed's form whose every part comes from the cause."""
    text = "\0".join(map(str, (kind, *cause)))
    heads = (str(part).partition(".")[0] for part in cause)
    epoch = next((head for head in heads if head.isascii() and head.isdecimal()), "0")[:12]
    return f"{epoch}.0.{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}@ignite.local"


def stamp(wall: float) -> str:
    return _stamp_of(int(wall))


@functools.lru_cache(maxsize=16)
def _stamp_of(second: int) -> str:
    """Format one second. Cached, because facts come by the thousand in one second."""
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
        "what_happened": [{"at": stamp(at), "what": what} for at, what in delivery.history] if delivery else [],
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
        "to": delivery.addressee,
        "reason": reason,
        "retry_count": delivery.retries,
        "error_at": stamp(wall),
        "file": f"queue/dead_letter/{delivery.place.name}",
        "how_to_requeue": f"ackd dead requeue {message.message_id}",
    }
    ident = derived_id("dead_letter", message.message_id, delivery.agent, _life(delivery), message.digest)
    return Draft(ident, MONITOR, to, "dead_letter", Priority.HIGH, body, message.thread_id, message.message_id)


def with_notice(draft: Draft, notice: Draft) -> Draft:
    """Return an escalation that also is the notice of a dead letter, for a reader who sent the dead message."""
    body = {**draft.body, "dead_letter": dict(notice.body)}
    return replace(draft, body=body, in_reply_to=notice.in_reply_to)


def cancel_notice(delivery: Delivery, to: str, summary: str, action: str) -> Draft:
    """Return the mail about a cancelled message that is no dead letter, or is for the agent that had it."""
    message = delivery.message
    body: dict[str, object] = {
        "summary": summary,
        "action": action,
        "message_id": message.message_id,
        "type": message.type,
        "from": message.sender,
        "to": delivery.agent,
        "reason": delivery.reason,
    }
    ident = derived_id("cancelled", message.message_id, delivery.agent, to, _life(delivery))
    auto = AutoSubmitted.GENERATED
    return Draft(ident, MONITOR, to, "notification", Priority.HIGH, body, message.thread_id, message.message_id, auto)


def deadline_id(kind: str, delivery: Delivery) -> str:
    """Return an id about the deadline of a message: the same for all its attempts."""
    return derived_id(kind, delivery.message.message_id, delivery.addressee, _life(delivery))


def death_id(delivery: Delivery) -> str:
    message = delivery.message
    return derived_id("escalation", message.message_id, delivery.agent, _life(delivery), message.digest)


def death_summary(delivery: Delivery, reason: str) -> str:
    tells = max(delivery.tells, 1)
    attempts = "1 attempt failed, with" if tells == 1 else f"{tells} attempts failed, the last with"
    return (
        f"{delivery.agent} did not complete 1 message ({delivery.message.type} from {delivery.message.sender}): "
        f"{attempts}: {reason}. "
        f"The message is kept in queue/dead_letter/{delivery.place.name}"
    )


def telling_id(kind: str, delivery: Delivery) -> str:
    """Return an id about one telling of a message: the same after a crash, another after a counted retry or a
    requeue."""
    return derived_id(kind, delivery.message.message_id, delivery.agent, delivery.retries, _life(delivery))


def _life(delivery: Delivery) -> str:
    """Return what differs between the lives of a requeued message (a requeue gives the file a new time, a crash does
    not) and between two messages of one id and time."""
    return f"{int(delivery.arrived_at * 1_000_000)} {delivery.message.digest}"


def _identify(delivery: Delivery) -> dict[str, object]:
    message, dying = delivery.message, delivery.state in (State.BURYING, State.ANNULLING)
    return {
        "message_id": message.message_id,
        "type": message.type,
        "from": message.sender,
        "to": delivery.agent,
        "file": f"queue/dead_letter/{delivery.place.name}" if dying else str(delivery.place),
    }
