"""Messages as values, once they have been read: the message, its place on disk, its standing, receipts and drafts.

Bytes are read and written by formats/, files by storage/. The names and words that messages are made of can be imported
from here as well.
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
    """A file of the spool. ``box`` is the directory's spelling of the agent's name.

    A tuple among the values: it is looked up in a dictionary twenty times a message, and tuples are hashed and compared
    without a call.
    """

    box: str
    folder: Folder
    name: str

    def __str__(self) -> str:
        """Return the path below the root, which a person can paste."""
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
    """The body of a progress_update, in the seed's one-line terms."""

    stage: str | None = None
    percent: int | None = None
    message: str | None = None
    final: bool = False


@value
class Message:
    """A message as the engine knows it. Ids are bare (no angle brackets).

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
    part_of: str | None = None  # the message for which its sender sent it
    root: str | None = None  # the first message of all that this one came of
    notify: bool | None = None  # whether its sender is told when all parts have ended; None: as its agent's table says
    pool: str = ""  # it was sent to this pool, and ``recipient`` is the member that holds it
    needs: frozenset[str] = frozenset()  # labels without which a member of the pool is not given it
    prefers: frozenset[str] = frozenset()  # labels that make a member the better choice
    expires_at: float | None = None  # wall: if nobody has it in hand by then, it is not delivered any more
    deadline_at: float | None = None  # wall: it should be completed by then
    doubts: str = ""  # what is wrong with its headers, which delays nothing

    @property
    def addressee(self) -> str:
        """The agent or pool that it was sent to. It stays the same, whichever member of a pool holds it."""
        return self.pool or self.recipient


@value
class Idled:
    """The record of a message that its agent took and does not finish. Kept on disk too, so that a restart goes on from
    it.

    ``reminders``: how many were typed. ``told``: someone was told, too. ``idle_s``: the agent's idle time, summed since
    the telling or the ack. ``beside``: the message fills no place of the window, because someone was told of it or it
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
    """The delivery headers of a file in ``processed/``. Times are wall-clock seconds, already checked for sanity."""

    status: Status = Status.PROCESSING
    retry_count: int = 0
    next_retry_at: float | None = None
    processed_at: float | None = None
    seen: bool = False
    idled: Idled = FRESH
    error: str | None = None  # X-IGNITE-Error-Reason
    cancelled: bool = False  # of a dead letter: a late completion changes nothing
    had_by: tuple[str, ...] = ()  # members of its pool that gave it back


#: Tells files of one name apart: inode, mtime, size, and a hash of the content that is valid in this process only.
WhichFile: TypeAlias = tuple[int, int, int, int]


class ReceiptFile(NamedTuple):
    """A file in ``receipts/``, as it was read. Another file, or the same one written anew, is another receipt. A file
    that says the same under the same name when this one is dropped goes with it (``Spool.remove_receipt``)."""

    name: str
    which: WhichFile | None = None


@value
class Receipt:
    """A receipt that someone dropped into ``receipts/``. Its file, ``name``, is removed once the engine has acted on
    it. A program that writes all its receipts under one name may have put another there by then; ``which`` tells the
    two apart.

    ``agent`` is None only for operator requests; ``message_id`` is whole, not a prefix. ``file`` names a file in
    ``corrupt/`` or ``dead_letter/``, and ``folder`` which of them, if that is given. A quarantined file has no id that
    can be believed, so ``message_id`` is empty; it is empty too for requests that name an agent only. ``text`` and
    ``step`` belong to a checkpoint; ``by``: who asks. ``of`` belongs to a cancellation: the message from which this
    one came, and with which it is cancelled.
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
    of: str | None = None
    which: WhichFile | None = field(default=None, compare=False)

    @property
    def receipt_file(self) -> ReceiptFile:
        return ReceiptFile(self.name, self.which)


@value
class Draft:
    """A message that ackd writes itself. ``message_id`` derives from its cause, so writing it twice is harmless."""

    message_id: str
    sender: str
    recipient: str
    type: str
    priority: Priority
    body: dict[str, object] = field(hash=False)
    thread_id: str | None = None
    in_reply_to: str | None = None
    auto: AutoSubmitted | None = None
