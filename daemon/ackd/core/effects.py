"""What is to be done, in the imperative: everything ``engine.handle`` can ask for.

``lane`` is the agent on whose behalf it is done: effects of one lane run in order, lanes run side by side. Every effect
that names an answer is answered by an event.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from ackd.core.message import Draft, Message, Place, ReceiptFile, WhichFile
from ackd.core.values import value


@value
class ClaimMessage:
    """queue/ → processed/. Answer: Claimed, MoveLost, SpoolFailed. ``stamp``: of the file that is meant."""

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
class NudgeAgent:
    """Climb to a rung of the agent's ladder (1 …; 0: the line again, by a person's wish). Answer: Told or NotTold,
    which change nothing but the log. ``hung``: it shows that it is busy and nothing else, for too long; only then may
    rungs 2 and 3 interrupt its work."""

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
    """Say to an agent that is idle which message it has not finished, and the commands that end it. Only while it waits
    for a line, and nothing is typed there. Answer: Reminded."""

    lane: str
    key: int
    message: Message
    place: Place
    attempt: int = 0


@value
class AskCheckpoint:
    """Its context is nearly full: it shall write down where it stands. Answer: CheckpointCame, some time later."""

    lane: str
    key: int
    message: Message
    place: Place
    attempt: int = 0


@value
class RenewAgent:
    """A fresh generation, with nothing in its head: a new child, a cleared pane. What follows in the lane is for it."""

    lane: str
    why: str


@value
class RestartAgent:
    """End what lives behind the endpoint, and start it again. Answers: AgentDied, AgentStarted."""

    lane: str
    why: str


@value
class WriteStatus:
    """Set headers (None removes) of a file in processed/.

    ``ends_run``: once it is on disk, what the message's last run left behind is told in full and may go; before that a
    crash must find it, after that a restart must not count it again. ``because_of``: receipts that say the same; if the
    disk refuses, their dropping waits until a status of this message is on disk, or it has ended; this one is tried
    again when they are to be dropped once more.
    """

    lane: str
    key: int
    place: Place
    headers: tuple[tuple[str, str | None], ...]
    ends_run: bool = False
    because_of: tuple[ReceiptFile, ...] = ()


@value
class ArchiveMessage:
    """→ archive/. Answer: Moved, MoveLost, SpoolFailed. ``duplicate``: put away unworked, beside its twin."""

    lane: str
    key: int
    message: Message
    place: Place
    duplicate: bool = False


@value
class BuryMessage:
    """→ dead_letter/ with these headers set. Answer: Moved, MoveLost, SpoolFailed."""

    lane: str
    key: int
    message: Message
    place: Place
    headers: tuple[tuple[str, str | None], ...]


@value
class ReviveMessage:
    """dead_letter/ → queue/, counts reset. Answer: Moved, MoveLost, SpoolFailed."""

    lane: str
    key: int
    message: Message
    place: Place


@value
class ForgetMessage:
    """It ended and the log says so: its journal entry and what its run left behind may go.

    ``end``: completed, dead, withdrawn, duplicate.
    """

    lane: str
    key: int
    message: Message
    place: Place
    end: str


@value
class QuarantineFile:
    """→ corrupt/, byte for byte, beside its reason. Answer: Quarantined."""

    lane: str
    place: Place
    code: str
    detail: str
    sender: str | None = None


@value
class SendMessage:
    """Write a message of our own, durably, before the effects that follow in this lane."""

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
    """One line of the session log; with a lane, only once what precedes it in that lane is done."""

    type: str
    data: dict[str, object] = field(hash=False)
    lane: str | None = None


@value
class DropReceipt:
    """The receipt has been acted on; what it caused precedes this in the lane. ``which`` file of that name it was."""

    lane: str
    name: str
    which: WhichFile | None = None


Effect: TypeAlias = (
    ClaimMessage
    | TellAgent
    | NudgeAgent
    | ProbeAgent
    | RemindAgent
    | AskCheckpoint
    | RenewAgent
    | RestartAgent
    | WriteStatus
    | ArchiveMessage
    | BuryMessage
    | ReviveMessage
    | ForgetMessage
    | QuarantineFile
    | SendMessage
    | RemindPerson
    | RecordFact
    | DropReceipt
)
