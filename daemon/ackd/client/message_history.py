"""The history of one message, derived from its lines of the session log.

For each recipient: the state the message is in, which receipts are proven, by what and when, and what happens next. The
functions here are pure: they read neither disk nor clock (client/explain.py reads both and calls them). A receipt that
no line proves is missing and never assumed, even when a later receipt is there. Lines of unknown types change nothing,
and no order of lines makes the derivation fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ackd.core.message import MONITOR, Folder, identity
from ackd.core.message_facts import (
    message_acked,
    message_cancel,
    message_claimed,
    message_completed,
    message_dead,
    message_duplicate,
    message_handed_back,
    message_held,
    message_queued,
    message_released,
    message_requeued,
    message_retry,
    message_seen,
    message_told,
    message_withdrawn,
)
from ackd.core.message_files import STRAY_CURE, STRAY_WORDS
from ackd.facts import clock_time, duration, evidence, short_id, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ackd.storage.session_log import Line

RECEIPTS: Final = ("queued", "claimed", "told", "seen", "acked", "completed")
#: From the least finished to the most. A message with several recipients is in the state of the least finished one.
STATES: Final = (
    "stray", "queued", "retrying", "processing", "delivered", "acked", "cancelling", "dead", "cancelled", "withdrawn",
    "completed",
)  # fmt: skip
OVER: Final = frozenset({"dead", "cancelled", "withdrawn", "completed"})

#: Line type → the state it leads to, and the states in which the line comes too late to change anything.
_LEADS_TO: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    message_queued.type: ("queued", frozenset()),
    message_claimed.type: ("processing", OVER | {"acked"}),
    message_told.type: ("delivered", OVER | {"acked"}),
    message_acked.type: ("acked", OVER),
    message_completed.type: ("completed", frozenset()),
    message_retry.type: ("retrying", OVER),
    message_dead.type: ("dead", frozenset({"completed"})),
    message_withdrawn.type: ("withdrawn", frozenset({"completed"})),
    message_requeued.type: ("queued", frozenset()),
    message_handed_back.type: ("queued", OVER),
    message_cancel.type: ("cancelling", OVER),
}
_HOLDING: Final = (message_held.type, message_released.type)
#: After a restart every message that is found gets a "queued" line again. These states survive it: the file's header
#: has them.
_OUTLIVE_RESTART: Final = frozenset({"delivered", "acked", "retrying"})
#: Line type → the receipt it proves, and the key of its data that names the proof.
_PROOFS: Final[Mapping[str, tuple[str, str]]] = {
    message_queued.type: ("queued", "file"),
    message_claimed.type: ("claimed", "file"),
    message_told.type: ("told", "proof"),
    message_seen.type: ("seen", "evidence"),
    message_acked.type: ("acked", "by"),
    message_completed.type: ("completed", "by"),
}


@dataclass(frozen=True, slots=True)
class ReceiptProof:
    """A receipt that a line of the log proves. ``at`` is the line's timestamp."""

    receipt: str
    at: str
    agent: str
    proof: str


@dataclass(frozen=True, slots=True)
class RecipientHistory:
    """The history of the message at one recipient. The last three fields are filled in by client/explain.py.

    ``holder``: of a message to a pool, the member that has it, or the last one that had it when it ended; empty while
    it lies in the pool's own queue."""

    agent: str
    state: str = "queued"
    receipts: tuple[ReceiptProof, ...] = ()
    #: The file as the newest line names it.
    file: str | None = None
    #: Why the message is retried, dead or withdrawn.
    reason: str | None = None
    next_retry_after: str | None = None
    #: Why the message stays in the queue until a person releases it; empty if it is not held.
    held: str = ""
    #: A note on what the disk shows and the log does not.
    note: str = ""
    holder: str = ""
    #: Where the recipient's file lies now; None if there is none any more.
    path: Path | None = None
    #: One sentence about what happens next; empty when nothing more is to come.
    next: str = ""
    #: How often ackd did what for this message at this recipient (client/agent_lines.py).
    attempts: Mapping[str, int] = field(default_factory=dict)

    @property
    def whose(self) -> str:
        """The agent whose mail it is now: the holder, if it is a pool's."""
        return self.holder or self.agent

    @property
    def name(self) -> str:
        """The recipient for people: ``workers (w1)`` where a member of a pool has it."""
        return f"{self.agent} ({self.holder})" if self.holder else self.agent

    @property
    def missing(self) -> tuple[str, ...]:
        proven = {one.receipt for one in self.receipts}
        return tuple(receipt for receipt in RECEIPTS if receipt not in proven)

    def proof_of(self, receipt: str) -> ReceiptProof | None:
        return next((one for one in self.receipts if one.receipt == receipt), None)


@dataclass(frozen=True, slots=True)
class MessageHistory:
    message_id: str
    recipients: tuple[RecipientHistory, ...] = ()
    #: The lines about the message itself, oldest first.
    events: tuple[Line, ...] = ()
    #: Ids of the messages that reply to it. What ackd itself wrote about it is no answer.
    answers: tuple[str, ...] = ()
    #: Lines about its agents while they had the message (client/agent_lines.py).
    around: tuple[Line, ...] = ()
    #: ``from``, ``type``, ``priority``, ``thread_id``, ``in_reply_to``, ``part_of``, ``root``, ``task_id``, as far as
    #: they are known.
    header: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state of the recipient that is least far; ``unknown`` if there is no recipient."""
        return min((one.state for one in self.recipients), key=STATES.index, default="unknown")

    @property
    def receipts(self) -> tuple[ReceiptProof, ...]:
        return tuple(proof for one in self.recipients for proof in one.receipts)


def history_of(lines: Iterable[Line], message_id: str) -> MessageHistory:
    """Derive the history from lines of ``find_message_lines``. Lines about other messages only add answers."""
    recipients: dict[str, RecipientHistory] = {}
    before: dict[str, RecipientHistory] = {}  # as it stood when the newest message_queued came
    events: list[Line] = []
    answers: dict[str, None] = {}
    header: dict[str, str] = {}
    for line in lines:
        if line.data.get("message_id") != message_id:
            if line.data.get("in_reply_to") == message_id and line.data.get("from") != MONITOR:
                answers[str(line.data.get("message_id"))] = None
            elif line.data.get("escalation_id") == message_id:
                events.append(line)
            continue
        events.append(line)
        if line.type == message_queued.type:
            header = header or _header(line.data)
        who = recipient_of(line)
        if who is None:
            continue
        one = recipients.get(who) or RecipientHistory(addressee(line))
        if line.type == message_queued.type:
            before[who] = one
        elif line.type == message_duplicate.type:  # the queued line was a copy's: the message itself is where it was
            one = before.get(who, one)
        recipients[who] = after_line(one, line)
    return MessageHistory(message_id, tuple(recipients.values()), tuple(events), tuple(answers), header=header)


def recipient_of(line: Line) -> str | None:
    """Return the identity of the recipient that the line is about; None for a line that must not make up a recipient,
    like a warning about a receipt for nobody's message."""
    known = line.type in _LEADS_TO or line.type in (message_seen.type, message_duplicate.type, *_HOLDING)
    return identity(addressee(line)) or None if known else None


def addressee(line: Line) -> str:
    """Return the recipient that the line is about: a pool, if its agent has the message as a member of one; empty if it
    names none."""
    for key in ("pool", "agent"):
        if isinstance(name := line.data.get(key), str) and name:
            return name
    return ""


def after_line(before: RecipientHistory, line: Line) -> RecipientHistory:
    """Return the recipient's history after one more line."""
    file = _text(line.data, "file") or before.file
    if line.data.get("pool") and line.type in _LEADS_TO:
        before = replace(before, holder=str(line.data.get("agent")))
    match line.type:
        case message_duplicate.type:
            return before
        case message_held.type:
            return replace(before, held=_text(line.data, "reason") or "a loop")
        case message_released.type | message_claimed.type:
            before = replace(before, held="")
        case message_handed_back.type:  # another member starts afresh
            queued = tuple(one for one in before.receipts if one.receipt == "queued")
            before = replace(before, holder="", receipts=queued, reason=_text(line.data, "reason"))
        case message_requeued.type:  # it starts afresh: earlier receipts prove nothing now
            return RecipientHistory(
                before.agent, receipts=(ReceiptProof("queued", line.timestamp, before.agent, "requeued"),), file=file
            )
        case message_retry.type | message_dead.type | message_withdrawn.type:
            before = replace(
                before,
                reason=_text(line.data, "reason"),
                next_retry_after=_text(line.data, "next_retry_after"),
            )
    return replace(before, state=_state_after(before, line), receipts=_receipts_after(before, line), file=file)


def _state_after(before: RecipientHistory, line: Line) -> str:
    state, too_late_in = _LEADS_TO.get(line.type, (before.state, frozenset()))
    if line.type == message_queued.type and line.data.get("recovered"):
        too_late_in = _OUTLIVE_RESTART
    if line.type == message_dead.type and line.data.get("end") == "cancelled":
        state = "cancelled"
    return before.state if before.state in too_late_in else state


def _receipts_after(before: RecipientHistory, line: Line) -> tuple[ReceiptProof, ...]:
    """Keep the newest proof of each receipt, but the first one of "queued": a file that is found again was not queued
    again."""
    receipt, key = _PROOFS.get(line.type, ("", ""))
    if not receipt or (receipt == "queued" and before.receipts):
        return before.receipts
    proof = _text(line.data, key) or "not said"
    if receipt in ("seen", "completed"):
        proof = evidence(proof)
    if receipt == "told" and "attempt" in line.data:
        proof = f"{proof} (attempt {line.data['attempt']})"
    proven = {one.receipt: one for one in before.receipts} | {
        receipt: ReceiptProof(receipt, line.timestamp, before.whose, proof)
    }
    return tuple(proven[name] for name in RECEIPTS if name in proven)


def _header(data: Mapping[str, Any]) -> dict[str, str]:
    names = {"message_type": "type"}
    wanted = (
        *("from", "message_type", "priority", "thread_id", "in_reply_to", "part_of", "root", "task_id"),
        *("expires", "deadline"),
    )
    return {names.get(key, key): text for key in wanted if (text := _text(data, key)) is not None}


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return str(value) if value is not None else None


# --- what the disk adds -----------------------------------------------------------------------------------------------
#: Folder of the file → the state of a message of which nothing else is known.
_STATE_IN: Final[Mapping[Folder, str]] = {
    Folder.QUEUE: "queued",
    Folder.PROCESSED: "processing",
    Folder.DEAD: "dead",
    Folder.ARCHIVE: "completed",
}


def from_disk_alone(agent: str, folder: Folder) -> RecipientHistory:
    """Describe a message that no log mentions: the daemon has not met it yet, or its logs are gone."""
    met = "" if folder is not Folder.QUEUE else ": no daemon has picked it up yet"
    return RecipientHistory(agent, state=_STATE_IN.get(folder, "queued"), note=f"the logs know nothing of it{met}")


def stray(agent: str) -> RecipientHistory:
    """Describe a message that lies in a queue under a name that is never read, so that it was never queued."""
    return RecipientHistory(agent, state="stray", note=STRAY_WORDS)


def corrected(history: RecipientHistory, folder: Folder | None) -> RecipientHistory:
    """Correct the state by the disk: a dead letter that lies in a queue was requeued while no daemon wrote a log."""
    if folder is Folder.QUEUE and history.state in ("dead", "cancelled", "withdrawn"):
        return RecipientHistory(
            history.agent, file=history.file, note="it was put back into the queue after the last log line"
        )
    return history


# --- what comes next --------------------------------------------------------------------------------------------------
def next_step(
    history: RecipientHistory, message_id: str, *, now: float, agent_state: Line | None, daemon_runs: bool
) -> str:
    """Say in one sentence what happens next; empty when nothing more is to come."""
    if history.state in ("dead", "cancelled"):
        return f"nothing, unless somebody has it delivered again: `ackd dead requeue {short_id(message_id)}`"
    if history.state in OVER:
        return ""
    if history.state == "stray":
        return STRAY_CURE
    who = visible(history.whose)
    step = {
        "queued": _waiting(history, message_id, who),
        "processing": f"{who} is being told",
        "delivered": _awaited(history, who),
        "acked": f"waiting for {who} to complete it",
        "retrying": _again(history, now),
        "cancelling": f"waiting for {who} to let go of it",
    }[history.state]
    if history.state in ("queued", "retrying") and not history.held and agent_state is not None:
        step += hindrance(agent_state, who)
    return step if daemon_runs else f"{step}; no daemon is running: start it with `ackd run`"


def _waiting(history: RecipientHistory, message_id: str, who: str) -> str:
    if not history.held:
        return f"waits until {who} can take it"
    return f"held, for {visible(history.held)}: `ackd loop release {short_id(message_id)}` lets it go"


def _awaited(history: RecipientHistory, who: str) -> str:
    return f"{who} has it: waiting for its result" if history.proof_of("seen") else f"waiting for {who} to ack it"


def _again(history: RecipientHistory, now: float) -> str:
    try:
        at = datetime.fromisoformat(history.next_retry_after or "").timestamp()
    except (ValueError, OverflowError):
        return "tried again"
    return f"tried again at {clock_time(at)}, " + (f"in {duration(at - now)}" if at > now else "which is now")


def hindrance(agent_state: Line, who: str) -> str:
    """Say why the agent takes no mail, as the end of a sentence; empty if it does take some."""
    words = takes_no_mail(who, agent_state.data.get("state"), agent_state.data.get("reason"))
    return f"; {words}" if words else ""


def takes_no_mail(who: str, state: object, reason: object) -> str:
    """Say why an agent in this state takes no mail; empty if it does take some."""
    if state not in ("parked", "paused", "down"):
        return ""
    return f"{who} is {state}" + (f": {visible(reason)}" if reason else "")
