"""What happened, in past tense: everything ``engine.handle`` can be told.

Events carry values, never handles to the outside. ``key`` is the engine's own number for one (message, recipient);
effects carry it out and their answers bring it back.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from ackd.core.idleness import Doing
from ackd.core.message import Message, Place, Progress, Receipt, Standing
from ackd.core.policy import AgentPolicy
from ackd.core.values import value
from ackd.core.waits import Wait
from ackd.core.worker import WorkerState


@value
class Now:
    """One reading of both clocks: ``mono`` for deadlines, ``wall`` (UTC seconds) for records."""

    mono: float
    wall: float


# --- agents ---------------------------------------------------------------------------------------------------------
@value
class AgentJoined:
    """An agent of the config, or a queue directory that appeared. Again with another policy: it changed."""

    agent: str
    policy: AgentPolicy
    endpoint: str


@value
class AgentPaused:
    agent: str


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
    ``stamp``: which file it is; 0 if nobody knows. ``warning``: what is wrong with its body, which delays nothing.
    """

    message: Message
    place: Place
    arrived_at: float
    standing: Standing | None = None
    recovered: bool = False
    crashes: int = 0
    run_alive: bool = False
    stamp: int = 0
    warning: str = ""


@value
class Unreadable:
    """A file that is no message: ``code`` one word, ``detail`` for people. ``sender``: whom its From seems to name."""

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
    """A known file is gone for good: absent after settling, directory intact.

    ``moved_to``: a person moved it between queue/ and processed/; it is met there as a new arrival, completed by
    nobody.
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
    """The file was not there to be claimed or moved: its agent or a person removed it. ``why``: it was neither, but
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
    """The disk said no (full, read-only, I/O error). Nothing was changed; it will be tried again."""

    key: int
    error: str


class Absence(enum.Enum):
    GONE = "gone"  # nothing is there to be told: someone hears of it
    BUSY = "busy"  # at work on something else: nobody is told before busy_timeout_s
    TAKEN = "taken"  # somebody's own words stand where it would be told: who watches the pane says so in time
    STUCK = "stuck"  # it waits for a person, or for a limit to pass: someone hears of it


@value
class Told:
    """The endpoint has proof that the agent was told; ``proof`` says which. ``seen``: and that it took it.

    ``attempt``, here and in the three below, is that of the order it answers: one that comes after its time was up must
    not be taken for the answer to the next. 0 stands for the current one.
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
    """There is nobody to tell (program missing, pane gone): no failure of the message.

    ``why``: whether anyone must be told of it. ``until``: when it is over, in wall seconds, if that is known.
    """

    key: int
    reason: str
    attempt: int = 0
    why: Absence = Absence.GONE
    until: float | None = None


@value
class Hindered:
    """The machine refused us what telling takes (room, descriptors): the fault of neither message nor agent."""

    key: int
    reason: str
    attempt: int = 0


@value
class Reminded:
    """What came of a reminder. ``made``: it was typed and submitted; else it was none, and ``detail`` says why."""

    key: int
    made: bool
    detail: str
    attempt: int = 0


@value
class NotProbed:
    """A status check could not be made, and is none: nobody was asked."""

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
    """An exec child, a handler or a worker is through with the message.

    ``attempt`` is that of the order it was told by; 0 stands for the current one (an adopted run). ``told``: the proof
    that it was told and took it, of a run that was over before anybody could say so.
    """

    key: int
    outcome: Outcome
    detail: str
    attempt: int = 0
    told: str = ""


# --- what lives behind an endpoint: a child, a pane -------------------------------------------------------------------
@value
class AgentStarted:
    """It can be told from now on. ``detail`` for people: "pid 4242", "pane %3"."""

    agent: str
    detail: str


@value
class AgentDied:
    """Its process ended, its pane vanished. What it had in hand failed with it, by a RunEnded of its own.

    ``again_in_s``: it is started again after so long; None: it died too often, or cannot be started. ``wanted``: a
    person ended it, and knows: no failure of its work, and no death to be counted.
    """

    agent: str
    why: str
    again_in_s: float | None = None
    wanted: bool = False


@value
class AgentStuck:
    """It waits for a person (permission prompt, menu) or for a time (usage limit, with ``until`` in wall seconds).

    Said again when the reason changes. ``new``: it is something else that it waits for now; else the same in other
    words, as of a limit that counts down.
    """

    agent: str
    reason: str
    until: float | None = None
    new: bool = True


@value
class AgentReady:
    """It takes work again: whoever waited for that (busy, stuck) need wait no longer. ``evidence`` for people."""

    agent: str
    evidence: str


@value
class AgentShowed:
    """What its screen shows that it is doing, at the first look and when that changes. ``evidence`` for people."""

    agent: str
    doing: Doing
    evidence: str = ""


@value
class AgentWaits:
    """What an agent waits for besides answers to its mail (a lease, a board, a story), as far as ``source`` knows."""

    agent: str
    source: str
    waits: tuple[Wait, ...]


@value
class WorkerSaid:
    """A heartbeat or progress. What it does not say is None. ``key``: the work it is about; None: of itself, as a
    screen shows it, which is no word about any work."""

    agent: str
    key: int | None = None
    state: WorkerState | None = None
    context_usage: float | None = None
    step: str | None = None
    progress: Progress | None = None
    attempt: int = 0


@value
class WorkBlocked:
    """Its agent cannot go on by itself. ``blocker``: an agent's name or a task's id, if it said one."""

    key: int
    reason: str
    blocker: str | None = None
    attempt: int = 0


@value
class CheckpointCame:
    """Where the work stands is durable on disk, and will be handed to whoever is told next.

    ``context_usage``: what its worker said with it; one that is full hands over by itself.
    """

    key: int
    attempt: int = 0
    context_usage: float | None = None


@value
class NudgeAsked:
    """By hand: wake the agent for what it has in hand."""

    agent: str


@value
class TroubleSeen:
    """Somebody is to hear of it, and no message waits for that: ``trouble.tell`` says what each word means, how often
    it is told, and to whom if ``to`` is nobody."""

    kind: str
    subject: str
    text: str
    cure: str
    agent: str | None = None
    to: str | None = None


# --- time and the operator --------------------------------------------------------------------------------------------
@value
class Ticked:
    """Time passed; deadlines up to ``until`` are due (None: up to now).

    Up to the last moment of which everything that was said is heard: the answer to a later deadline may lie unread.
    """

    until: float | None = None


@value
class RecoveryEnded:
    """What was in hand before the start has been met: files, runs, receipts, and every answer. Work may be offered.

    ``reading``: messages that nobody was told of are still being read, and the same event, without it, ends that.
    """

    reading: bool = False


@value
class FaultEnded:
    """What the machine had refused can be had again: whatever waits for that need not wait longer."""


@value
class StopRequested:
    """Claim nothing more."""


Event: TypeAlias = (
    AgentJoined
    | AgentPaused
    | AgentResumed
    | SignOfLife
    | Arrived
    | Unreadable
    | Quarantined
    | Vanished
    | SpoolLost
    | ReceiptCame
    | Claimed
    | Moved
    | MoveLost
    | LetterPurged
    | SpoolFailed
    | Told
    | NotTold
    | EndpointAway
    | Hindered
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
    | StopRequested
)
