"""What a message is, once it has been read: values only.

Owns messages, their places on disk, receipts. Refuses to know how any of them is written (dialects/) or stored
(adapters/spool.py). The names and words that they are made of are to be had from here as well.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, NamedTuple, TypeAlias, assert_never

from ackd.core.names import MONITOR, RESERVED_NAMES, USER, agent_name, identity, is_agent_name
from ackd.core.values import value
from ackd.core.words import (
    FURTHER_TYPES,
    KNOWN_TYPES,
    OWN_TYPES,
    SEED_TYPES,
    AutoSubmitted,
    Folder,
    Priority,
    ReceiptKind,
    Rejection,
    Status,
)

__all__ = [
    "FRESH",
    "FURTHER_TYPES",
    "KNOWN_TYPES",
    "MONITOR",
    "OWN_TYPES",
    "RESERVED_NAMES",
    "SEED_TYPES",
    "USER",
    "AutoSubmitted",
    "Draft",
    "Folder",
    "Idled",
    "Message",
    "Place",
    "Priority",
    "Progress",
    "Receipt",
    "ReceiptFile",
    "ReceiptKind",
    "Rejection",
    "Standing",
    "Status",
    "agent_name",
    "identity",
    "is_agent_name",
]


class Place(NamedTuple):
    """One file of the spool. ``box`` is the directory's spelling of the agent's name.

    A tuple among the values: it is looked up in a dictionary twenty times a message, and tuples are hashed and compared
    without a call.
    """

    box: str
    folder: Folder
    name: str

    def __str__(self) -> str:
        """Its path below the root: what a person can paste."""
        match self.folder:
            case Folder.QUEUE:
                return f"queue/{self.box}/{self.name}"
            case Folder.PROCESSED:
                return f"queue/{self.box}/processed/{self.name}"
            case Folder.DEAD | Folder.CORRUPT:
                return f"queue/{self.folder.value}/{self.name}"
            case Folder.ARCHIVE:  # the name of an archived file begins with its day
                day, _, name = self.name.rpartition("/")
                return f"archive/{day}/{self.box}/{name}"
            case _:
                assert_never(self.folder)


@value
class Progress:
    """What a progress_update's body says, in the seed's one-line terms."""

    stage: str | None = None
    percent: int | None = None
    message: str | None = None
    final: bool = False


@value
class Message:
    """One message as the engine knows it. Ids are bare (no angle brackets).

    ``digest`` is a fingerprint of the content that tells a repeated message from one whose id was copied.
    """

    message_id: str
    sender: str
    recipient: str  # canonical spelling of the agent whose directory it lies in
    type: str
    priority: Priority
    digest: str
    thread_id: str | None = None
    in_reply_to: str | None = None
    task_id: str | None = None
    progress: Progress | None = None
    verdict: str | None = None  # of an evaluation_result
    automatic: bool = False  # Auto-Submitted: no person or agent wrote it
    others: tuple[str, ...] = ()  # whom else it names, if nobody says that they have it


@value
class Idled:
    """What is kept of a message that its agent took and does not finish; on disk too, for a restart goes on from it.

    ``reminders``: how many were typed. ``told``: someone was told, too. ``idle_s``: its agent's idle time, summed since
    it was told, or since its ack. ``beside``: it fills no place of its agent's window: someone was told of it, or it
    was let pass a full one. ``stalled``: its agent waits for others, nothing moved, and someone was told of that.
    """

    reminders: int = 0
    told: bool = False
    idle_s: float = 0.0
    beside: bool = False
    stalled: bool = False


FRESH: Final = Idled()


@value
class Standing:
    """What a file in ``processed/`` says of itself. Times are wall-clock seconds, already checked for sanity."""

    status: Status = Status.PROCESSING
    retry_count: int = 0
    next_retry_at: float | None = None
    processed_at: float | None = None
    seen: bool = False
    idled: Idled = FRESH
    error: str | None = None  # X-IGNITE-Error-Reason


#: Of the files that bore one name: inode, mtime, size, and the hash of what was read, which is this process's own.
WhichFile: TypeAlias = tuple[int, int, int, int]


class ReceiptFile(NamedTuple):
    """One file in ``receipts/``, as it was read. Another file, or the same one written anew, is another word. What says
    the same under the same name when this one is to be dropped goes with it (``Spool.remove_receipt``)."""

    name: str
    which: WhichFile | None = None


@value
class Receipt:
    """What someone dropped into ``receipts/``. ``name`` is its file, removed once the engine has acted on it; who
    writes every word under one name has put another there by then, which is told from this one by ``which``.

    ``agent`` is None only for operator requests; ``message_id`` is whole, not a prefix. ``file`` names a file in
    ``corrupt/`` or ``dead_letter/``, and ``folder`` which of them, if it is said; a quarantined one has no id that can
    be believed, ``message_id`` is then empty; so it is for requests that name an agent only. ``text`` and ``step`` are
    a checkpoint's; ``by``: who asks.
    """

    kind: ReceiptKind
    message_id: str
    agent: str | None
    name: str
    reason: str | None = None
    file: str | None = None
    text: str | None = None
    step: int | None = None
    by: str | None = None
    folder: Folder | None = None
    which: WhichFile | None = field(default=None, compare=False)

    @property
    def paper(self) -> ReceiptFile:
        return ReceiptFile(self.name, self.which)


@value
class Draft:
    """A message ackd writes itself. ``message_id`` derives from its cause, so writing it twice is harmless."""

    message_id: str
    sender: str
    recipient: str
    type: str
    priority: Priority
    body: dict[str, object] = field(hash=False)
    thread_id: str | None = None
    in_reply_to: str | None = None
    auto: AutoSubmitted | None = None
