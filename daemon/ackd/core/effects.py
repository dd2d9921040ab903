"""Effects: everything that ``engine.handle`` can ask for, in the imperative.

``lane`` is the agent on whose behalf it is done: effects of one lane run in order, lanes run side by side. Every effect
that names an answer is answered by an event.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from ackd.core.fact import Fact
from ackd.core.message import Draft, Message, Place, ReceiptFile, WhichFile
from ackd.core.parts import PartEnd, PartsNotice
from ackd.core.signals import Signal
from ackd.core.values import value
from ackd.core.words import MessageEnd


@value
class ClaimMessage:
    """Move a message from queue/ to processed/ of the agent that it is for, which for a pool's message is another
    directory. Answer: Claimed, MoveLost, SpoolFailed. ``stamp``: of the file that is meant."""

    lane: str
    key: int
    message: Message
    place: Place
    stamp: int = 0


@value
class TellAgent:
    """Hand the message to the agent's endpoint. Answer: Told, NotTold, EndpointAway; later Seen, RunEnded."""

    lane: str
    key: int
    message: Message
    place: Place
    attempt: int
    crashes: int = 0


@value
class CallOff:
    """Tell the agent, by the means of its endpoint, that the message is cancelled. Answer, some time later: LetGo, or
    the end of its run."""

    lane: str
    key: int
    message: Message
    place: Place
    why: str
    attempt: int = 0


@value
class NudgeAgent:
    """Climb to a rung of the agent's ladder (from 1; 0: type the line again because a person asks). Answer: Told or
    NotTold, which change nothing but the log.

    ``hung``: the agent has shown nothing but busy for too long; only then may rungs 2 and 3 interrupt its work.
    """

    lane: str
    key: int
    message: Message
    place: Place
    rung: int
    attempt: int = 0
    hung: bool = False


@value
class ProbeAgent:
    """Ask a quiet agent whether it still works, in these words. Answer: Told, which changes nothing, or NotProbed."""

    lane: str
    key: int
    message: Message
    place: Place
    text: str
    attempt: int = 0


@value
class RemindAgent:
    """Remind an idle agent of a message that it has not finished, and of the commands that end it. Done only while it
    waits for a line and nothing is typed there. Answer: Reminded."""

    lane: str
    key: int
    message: Message
    place: Place
    attempt: int = 0


@value
class AskCheckpoint:
    """Ask a worker whose context is nearly full to write down where it stands. Answer: CheckpointCame, some time
    later."""

    lane: str
    key: int
    message: Message
    place: Place
    attempt: int = 0


@value
class RenewAgent:
    """Start a fresh generation with an empty context: a new child, or a cleared pane. Effects that follow in the lane
    are for it."""

    lane: str
    why: str


@value
class RestartAgent:
    """End what lives behind the endpoint, and start it again. Answers: AgentDied, AgentStarted."""

    lane: str
    why: str


@value
class ReplaceEndpoint:
    """Make the agent's endpoint anew, as the config in force has it. Nothing is in the hands of the old one."""

    lane: str


@value
class WriteStatus:
    """Set headers (None removes) of a file in processed/.

    ``ends_run``: once this is on disk, the files that the message's last run left may go. Before that a crash must find
    them, after that a restart must not count them again. ``because_of``: receipts that say the same. If the disk
    refuses, they are not dropped before a status of this message is on disk or it has ended; this one is tried again
    when they are to be dropped once more.
    """

    lane: str
    key: int
    place: Place
    headers: tuple[tuple[str, str | None], ...]
    ends_run: bool = False
    because_of: tuple[ReceiptFile, ...] = ()


@value
class ArchiveMessage:
    """Move to archive/. Answer: Moved, MoveLost, SpoolFailed. ``duplicate``: archived untold, beside its twin.
    ``headers``: set before the move, for a message that was withdrawn."""

    lane: str
    key: int
    message: Message
    place: Place
    duplicate: bool = False
    headers: tuple[tuple[str, str | None], ...] = ()


@value
class BuryMessage:
    """Write a dead letter: move the message to dead_letter/ with these headers set. Answer: Moved, MoveLost,
    SpoolFailed."""

    lane: str
    key: int
    message: Message
    place: Place
    headers: tuple[tuple[str, str | None], ...]


@value
class ReviveMessage:
    """Move from dead_letter/ back to queue/, with its counts reset. Answer: Moved, MoveLost, SpoolFailed."""

    lane: str
    key: int
    message: Message
    place: Place


@value
class ReturnMessage:
    """Move from its holder's processed/ back to the queue of its pool. Answer: Moved, MoveLost, SpoolFailed."""

    lane: str
    key: int
    message: Message
    place: Place


@value
class ForgetMessage:
    """Remove the journal entry of a message whose end is in the log, and the files that its run left."""

    lane: str
    key: int
    message: Message
    place: Place
    end: MessageEnd
    #: The end of a part, kept in the journal until whoever sent it was told. None: the message was no part.
    part: PartEnd | None = None


@value
class NoteParts:
    """Have the journal keep a notice about parts that have ended, before it is written and (``is_written``) after."""

    lane: str
    notice: PartsNotice
    is_written: bool


@value
class QuarantineFile:
    """Move a file that is no message to corrupt/, byte for byte, beside the reason. Answer: Quarantined."""

    lane: str
    place: Place
    code: str
    detail: str
    sender: str | None = None


@value
class SendMessage:
    """Write a message from ackd, durably, before the effects that follow in this lane."""

    lane: str
    draft: Draft
    #: Set for escalations that reach a person: also run the on_escalation command with it.
    notify: bool = False


@value
class RemindPerson:
    """Run the on_escalation command about a message that waits in an inbox."""

    lane: str
    key: int
    message: Message
    place: Place


@value
class RecordFact:
    """Write a line of the session log. With a lane, it is written once the effects before it in that lane are done.
    ``signal``: the same news for other parts of the daemon, emitted when the line is recorded. ``logged``: the line is
    in the log of an earlier session, and only the signal is emitted."""

    fact: Fact = field(hash=False)
    lane: str | None = None
    signal: Signal | None = field(default=None, compare=False)
    logged: bool = False

    @property
    def type(self) -> str:
        return self.fact.type

    @property
    def data(self) -> dict[str, object]:
        return self.fact.data


@value
class DropReceipt:
    """Remove a receipt that has been acted on; what it caused precedes this in the lane. ``which``: the file of that
    name that was read."""

    lane: str
    name: str
    which: WhichFile | None = None

    @classmethod
    def of(cls, lane: str, file: ReceiptFile) -> DropReceipt:
        return cls(lane, file.name, file.which)


Effect: TypeAlias = (
    ClaimMessage
    | TellAgent
    | CallOff
    | NudgeAgent
    | ProbeAgent
    | RemindAgent
    | AskCheckpoint
    | RenewAgent
    | RestartAgent
    | ReplaceEndpoint
    | WriteStatus
    | ArchiveMessage
    | BuryMessage
    | ReviveMessage
    | ReturnMessage
    | ForgetMessage
    | NoteParts
    | QuarantineFile
    | SendMessage
    | RemindPerson
    | RecordFact
    | DropReceipt
)
