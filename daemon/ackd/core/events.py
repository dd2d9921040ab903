"""What happened, in past tense: everything ``engine.handle`` can be told.

Events carry values, never handles to the outside. ``key`` is the engine's own number for one (message, recipient);
effects carry it out and their answers bring it back.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from ackd.core.message import Message, Place, Receipt, Standing
from ackd.core.policy import AgentPolicy


@dataclass(frozen=True, slots=True)
class Now:
    """One reading of both clocks: ``mono`` for deadlines, ``wall`` (UTC seconds) for records."""

    mono: float
    wall: float


# --- agents ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AgentJoined:
    """An agent of the config, or a queue directory that appeared. Again with another policy: it changed."""

    agent: str
    policy: AgentPolicy
    endpoint: str


@dataclass(frozen=True, slots=True)
class AgentPaused:
    agent: str


@dataclass(frozen=True, slots=True)
class AgentResumed:
    agent: str


@dataclass(frozen=True, slots=True)
class SignOfLife:
    """Evidence from outside that an agent lives (pane change, heartbeat, CPU time, …)."""

    agent: str
    evidence: str


# --- files ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Arrived:
    """A readable file was met in ``queue/`` or ``processed/``.

    ``arrived_at``: the file's mtime as wall seconds. ``standing``: for ``processed/`` only. ``recovered``: met by the
    scan at start. ``crashes``: how often ackd itself died with it in hand. ``run_alive``: its exec run was adopted.
    """

    message: Message
    place: Place
    arrived_at: float
    standing: Standing | None = None
    recovered: bool = False
    crashes: int = 0
    run_alive: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is no message: ``code`` one word, ``detail`` for people."""

    place: Place
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    place: Place
    kept_as: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Vanished:
    """A known file is gone for good: absent after settling, directory intact.

    ``moved_to``: a person moved it between queue/ and processed/; it is met there as a new arrival, completed by
    nobody.
    """

    place: Place
    moved_to: Place | None = None


@dataclass(frozen=True, slots=True)
class SpoolLost:
    """A queue directory itself is gone or was replaced (``git clean``): these files went with it."""

    box: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class ReceiptCame:
    receipt: Receipt


# --- answers to effects -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Claimed:
    key: int
    place: Place


@dataclass(frozen=True, slots=True)
class Moved:
    """The asked-for move (archive, dead letter, requeue) is on disk."""

    key: int
    place: Place


@dataclass(frozen=True, slots=True)
class MoveLost:
    """The file was not there to be claimed or moved: its agent or a person removed it."""

    key: int


@dataclass(frozen=True, slots=True)
class SpoolFailed:
    """The disk said no (full, read-only, I/O error). Nothing was changed; it will be tried again."""

    key: int
    error: str


@dataclass(frozen=True, slots=True)
class Told:
    """The endpoint has proof that the agent was told; ``proof`` says which. ``seen``: and that it took it.

    ``attempt``, here and in the three below, is that of the order it answers: one that comes after its time was up must
    not be taken for the answer to the next. 0 stands for the current one.
    """

    key: int
    proof: str
    seen: bool = False
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class NotTold:
    key: int
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class EndpointAway:
    """There is nobody to tell (program missing, pane gone): no failure of the message."""

    key: int
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Hindered:
    """The machine refused us what telling takes (room, descriptors): the fault of neither message nor agent."""

    key: int
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class RunEnded:
    """An exec child, a handler or a worker is through with the message.

    ``attempt`` is that of the order it was told by; 0 stands for the current one (an adopted run).
    """

    key: int
    outcome: Outcome
    detail: str
    attempt: int = 0


# --- time and the operator --------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed; deadlines up to now are due."""


@dataclass(frozen=True, slots=True)
class RecoveryEnded:
    """What was in hand before the start has been met: files, runs, receipts, and every answer. Work may be offered.

    ``reading``: messages that nobody was told of are still being read, and the same event, without it, ends that.
    """

    reading: bool = False


@dataclass(frozen=True, slots=True)
class FaultEnded:
    """What the machine had refused can be had again: whatever waits for that need not wait longer."""


@dataclass(frozen=True, slots=True)
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
    | SpoolFailed
    | Told
    | NotTold
    | EndpointAway
    | Hindered
    | Seen
    | RunEnded
    | Ticked
    | RecoveryEnded
    | FaultEnded
    | StopRequested
)
