"""Events: everything that ``engine.handle`` can be told, in the past tense.

Events carry values, never handles to the outside. ``key`` is the engine's own number for one (message, recipient);
effects carry it out and their answers bring it back.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from ackd.core.idleness import Doing
from ackd.core.message import Message, Place, Progress, Receipt, Standing
from ackd.core.parts import PartEnd
from ackd.core.policy import AgentPolicy, EnginePolicy
from ackd.core.pools import NO_LABELS, POOL_TIMEOUT_S, Labels
from ackd.core.values import value
from ackd.core.waits import Wait
from ackd.core.worker import WorkerState


@value
class Now:
    """A reading of both clocks: ``mono`` for timers, ``wall`` (UTC seconds) for records."""

    mono: float
    wall: float


# --- agents ---------------------------------------------------------------------------------------------------------
@value
class AgentJoined:
    """An agent is in the config, or its queue directory appeared. Sent again when its policy has changed.

    ``replaced``: it gets another endpoint, which these fields are about, when it has nothing in hand any more.
    """

    agent: str
    policy: AgentPolicy
    endpoint: str
    labels: Labels = NO_LABELS
    #: The members, if it is a pool: what lies in its queue goes to one of them.
    members: tuple[str, ...] | None = None
    pool_timeout_s: float = POOL_TIMEOUT_S
    replaced: bool = False


@value
class TeamChanged:
    """The config has other team-wide numbers."""

    policy: EnginePolicy


@value
class AgentPaused:
    agent: str
    reason: str = "by hand"


@value
class AgentResumed:
    agent: str


@value
class SignOfLife:
    """Evidence from outside that an agent lives (pane change, heartbeat, CPU time, …)."""

    agent: str
    evidence: str


# --- files ----------------------------------------------------------------------------------------------------------
@value
class Arrived:
    """A readable file was met in ``queue/`` or ``processed/``.

    ``arrived_at``: the file's mtime as wall seconds. ``standing``: for ``processed/`` only. ``recovered``: met by the
    scan at start. ``crashes``: how often ackd itself died with it in hand. ``run_alive``: its exec run was adopted.
    ``logged``: the session before has recorded it, and was ended in order. ``stamp``: identifies the file; 0 if
    unknown. ``warning``: what is wrong with its body, which delays nothing.
    """

    message: Message
    place: Place
    arrived_at: float
    standing: Standing | None = None
    recovered: bool = False
    crashes: int = 0
    run_alive: bool = False
    logged: bool = False
    stamp: int = 0
    warning: str = ""


@value
class Unreadable:
    """A file is no message: ``code`` is one word, ``detail`` is for people. ``sender``: the agent that its From seems
    to name."""

    place: Place
    code: str
    detail: str
    sender: str | None = None


@value
class Quarantined:
    place: Place
    kept_as: str
    code: str
    detail: str
    sender: str | None = None


@value
class Vanished:
    """A known file is gone for good: absent after settling, with its directory intact.

    ``moved_to``: a person moved it between queue/ and processed/. It is met there as a new arrival, and was completed
    by nobody.
    """

    place: Place
    moved_to: Place | None = None


@value
class SpoolLost:
    """A queue directory itself is gone or was replaced (``git clean``): these files went with it."""

    box: str
    places: tuple[Place, ...]


@value
class ReceiptCame:
    receipt: Receipt


@value
class PartEnded:
    """A start found out that a part has ended while no daemon ran. ``notify``: what its header says of telling its
    sender, if anything."""

    end: PartEnd
    notify: bool | None = None


# --- answers to effects -----------------------------------------------------------------------------------------------
@value
class Claimed:
    key: int
    place: Place


@value
class Moved:
    """The asked-for move (archive, dead letter, requeue) is on disk."""

    key: int
    place: Place


@value
class MoveLost:
    """The file was not there to be claimed or moved: its agent or a person removed it. ``why``: nobody removed it, but
    something else lies in its place."""

    key: int
    why: str = ""


@value
class LetterPurged:
    """A person removed a dead letter for good."""

    message_id: str
    agent: str


@value
class SpoolFailed:
    """The disk refused (full, read-only, I/O error). Nothing was changed; it will be tried again."""

    key: int
    error: str


class Absence(enum.Enum):
    GONE = "gone"  # nothing is there to be told: it is escalated
    BUSY = "busy"  # at work on something else: notified only after busy_timeout_s
    TAKEN = "taken"  # a person has typed where it would be told: the watcher of the pane reports when that is gone
    STUCK = "stuck"  # it waits for a person, or for a limit to pass: it is escalated


@value
class Told:
    """The endpoint has proof that the agent was told; ``proof`` says which. ``seen``: also that the agent took it.

    ``attempt``, here and in the next three, is that of the order it answers: an answer that comes after its time was up
    must not count for the next attempt. 0 stands for the current one.
    """

    key: int
    proof: str
    seen: bool = False
    attempt: int = 0


@value
class NotTold:
    key: int
    reason: str
    attempt: int = 0


@value
class EndpointAway:
    """The agent could not be told because nothing is there (program missing, pane gone): no failure of the message.

    ``why``: whether anyone must hear of it. ``until``: when it is over, in wall seconds, if that is known.
    """

    key: int
    reason: str
    attempt: int = 0
    why: Absence = Absence.GONE
    until: float | None = None


@value
class Hindered:
    """The machine refused what telling needs (room, descriptors): the fault of neither message nor agent."""

    key: int
    reason: str
    attempt: int = 0


@value
class LetGo:
    """The agent was told that the message is cancelled, or had nothing to let go of; ``how`` for people. A run that is
    ended for it answers by ``RunEnded``."""

    key: int
    how: str
    attempt: int = 0


@value
class Reminded:
    """A reminder was typed and submitted (``made``), or it was not, and ``detail`` says why."""

    key: int
    made: bool
    detail: str
    attempt: int = 0


@value
class NotProbed:
    """A status check could not be made: nobody was asked."""

    key: int
    reason: str
    attempt: int = 0


@value
class Seen:
    key: int
    evidence: str


class Outcome(enum.Enum):
    DONE = "done"
    DEFERRED = "deferred"
    REFUSED = "refused"
    FAILED = "failed"
    STOPPED = "stopped"  # by our own shutdown: offered again, uncounted
    HINDERED = "hindered"  # by a fault of the machine: offered again when it may be over, uncounted


@value
class RunEnded:
    """An exec child, a handler or a worker has ended its work on the message.

    ``attempt`` is that of the order it was told by; 0 stands for the current one (an adopted run). ``told``: the proof
    that it was told and took it, for a run that ended before that could be reported.
    """

    key: int
    outcome: Outcome
    detail: str
    attempt: int = 0
    told: str = ""


# --- what lives behind an endpoint: a child, a pane -------------------------------------------------------------------
@value
class AgentStarted:
    """The agent can be told from now on. ``detail`` for people: "pid 4242", "pane %3"."""

    agent: str
    detail: str


@value
class AgentDied:
    """The agent's process ended, or its pane vanished. Its message failed with it, by a RunEnded of its own.

    ``again_in_s``: it is started again after so long; None: it died too often, or cannot be started. ``wanted``: a
    person ended it and knows, so its work has not failed and no death is counted.
    """

    agent: str
    why: str
    again_in_s: float | None = None
    wanted: bool = False


@value
class AgentStuck:
    """The agent waits for a person (permission prompt, menu) or for a time (usage limit, with ``until`` in wall
    seconds).

    Sent again when the reason changes. ``new``: it waits for something else now; False: for the same in other words, as
    a limit that counts down.
    """

    agent: str
    reason: str
    until: float | None = None
    new: bool = True


@value
class AgentReady:
    """The agent takes work again, after it was busy or stuck. ``evidence`` for people."""

    agent: str
    evidence: str


@value
class AgentShowed:
    """The agent's screen shows what it is doing: sent at the first look and at every change. ``evidence`` for
    people."""

    agent: str
    doing: Doing
    evidence: str = ""


@value
class AgentWaits:
    """An agent waits for something besides answers to its mail (a lease, a board, a story), as far as ``source``
    knows."""

    agent: str
    source: str
    waits: tuple[Wait, ...]


@value
class WorkerSaid:
    """A worker sent a heartbeat or progress. None stands for what it did not say. ``key``: the message it is about;
    None: it is about the worker itself, as a screen shows it."""

    agent: str
    key: int | None = None
    state: WorkerState | None = None
    context_usage: float | None = None
    step: str | None = None
    progress: Progress | None = None
    attempt: int = 0


@value
class WorkBlocked:
    """The agent cannot go on by itself. ``blocker``: an agent's name or a task's id, if it named one."""

    key: int
    reason: str
    blocker: str | None = None
    attempt: int = 0


@value
class CheckpointCame:
    """A checkpoint of the work is durable on disk, and will be handed to whoever is told next.

    ``context_usage``: what its worker said with it; a worker that is full hands over by itself.
    """

    key: int
    attempt: int = 0
    context_usage: float | None = None


@value
class NudgeAsked:
    """A person asks to wake the agent for the message that it has in hand."""

    agent: str


@value
class TroubleSeen:
    """A part of the daemon outside the engine wants somebody to be notified. ``alerts.notify`` says what the fields
    mean, how often a notice is sent, and to whom if ``to`` is None."""

    kind: str
    subject: str
    text: str
    cure: str
    agent: str | None = None
    to: str | None = None


# --- time and the operator --------------------------------------------------------------------------------------------
@value
class Ticked:
    """Time passed, and timers up to ``until`` are due (None: up to now).

    ``until`` is the last moment up to which everything that was said has been heard: the answer to a later timer may
    lie unread.
    """

    until: float | None = None


@value
class RecoveryEnded:
    """Everything that was in hand before the start has been met: files, runs, receipts, and every answer. Work may be
    offered.

    ``reading``: messages that nobody was told of are still being read. The same event, without it, ends that.
    """

    reading: bool = False


@value
class FaultEnded:
    """The machine gives again what it had refused: whatever waits for that need not wait longer."""


@value
class RoomLow:
    """There is hardly any room on a disk: no message is taken up until there is (``RoomBack``)."""


@value
class RoomBack:
    """There is room again: what has waited for it is offered."""


@value
class StopRequested:
    """The daemon is to stop: no more messages are claimed."""


Event: TypeAlias = (
    AgentJoined
    | TeamChanged
    | AgentPaused
    | AgentResumed
    | SignOfLife
    | Arrived
    | Unreadable
    | Quarantined
    | Vanished
    | SpoolLost
    | ReceiptCame
    | PartEnded
    | Claimed
    | Moved
    | MoveLost
    | LetterPurged
    | SpoolFailed
    | Told
    | NotTold
    | EndpointAway
    | Hindered
    | LetGo
    | Reminded
    | NotProbed
    | Seen
    | RunEnded
    | AgentStarted
    | AgentDied
    | AgentStuck
    | AgentReady
    | AgentShowed
    | AgentWaits
    | WorkerSaid
    | WorkBlocked
    | CheckpointCame
    | NudgeAsked
    | TroubleSeen
    | Ticked
    | RecoveryEnded
    | FaultEnded
    | RoomLow
    | RoomBack
    | StopRequested
)
