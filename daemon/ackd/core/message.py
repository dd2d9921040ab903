"""What a message is, once it has been read: values only.

Owns the words of the domain: names, types, priorities, places on disk, receipts. Refuses to know how any of them is
written (dialects/) or stored (adapters/spool.py). Names come from hostile text, so ``agent_name`` is the only way to
make one and raises ``BadName``.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import Final, assert_never

from ackd.core.errors import BadName

#: The seed's 18 types (ignite-mime, "Message Types").
SEED_TYPES: Final = frozenset(
    "user_goal strategy_request strategy_response task_list architecture_request architecture_response "
    "task_assignment task_completed evaluation_request evaluation_result improvement_request improvement_suggestion "
    "improvement_completed progress_update github_event github_task escalation dead_letter".split()
)
#: Ours, for what the other protocols need.
OWN_TYPES: Final = frozenset({"message", "shutdown_request", "status_check", "board_request"})
KNOWN_TYPES: Final = SEED_TYPES | OWN_TYPES

RESERVED_NAMES: Final = frozenset({"dead_letter", "corrupt", "processed"})
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

#: Who speaks for ackd itself. Mail from it never causes mail (a null sender), or dead letters would breed.
MONITOR: Final = "queue_monitor"
USER: Final = "user"


def agent_name(text: str, reserved: frozenset[str] = RESERVED_NAMES) -> str:
    """The name itself, proven harmless as a directory name."""
    if not _NAME.fullmatch(text):
        raise BadName(
            text, "a name is 1 to 64 letters, digits, dots, dashes or underscores, and starts with a letter or digit"
        )
    if text in reserved:
        raise BadName(text, "the name is reserved for ackd's own directories")
    return text


def is_agent_name(text: str, reserved: frozenset[str] = RESERVED_NAMES) -> bool:
    """For those who only pass over what is no name, where ``agent_name`` would say why."""
    return _NAME.fullmatch(text) is not None and text not in reserved


def identity(name: str) -> str:
    """What makes two spellings one agent: ``ignitian-1`` and ``ignitian_1`` are the same."""
    return name.replace("-", "_")


class Priority(enum.Enum):
    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Folder(enum.Enum):
    """Where in the spool a file lies."""

    QUEUE = "queue"  # queue/<box>/
    PROCESSED = "processed"  # queue/<box>/processed/
    DEAD = "dead_letter"  # queue/dead_letter/   (box is the recipient's)
    CORRUPT = "corrupt"  # queue/corrupt/       (box is where it came from)
    ARCHIVE = "archive"  # archive/YYYYMMDD/<box>/


@dataclass(frozen=True, slots=True)
class Place:
    """One file of the spool. ``box`` is the directory's spelling of the agent's name."""

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


@dataclass(frozen=True, slots=True)
class Progress:
    """What a progress_update's body says, in the seed's one-line terms."""

    stage: str | None = None
    percent: int | None = None
    message: str | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
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


class Status(enum.Enum):
    """X-IGNITE-Status as it is believed in ``processed/``; everywhere else the header is ignored."""

    PROCESSING = "processing"
    DELIVERED = "delivered"
    ACKED = "acked"
    RETRYING = "retrying"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a file in ``processed/`` says of itself. Times are wall-clock seconds, already checked for sanity."""

    status: Status = Status.PROCESSING
    retry_count: int = 0
    next_retry_at: float | None = None
    processed_at: float | None = None


class Rejection(enum.StrEnum):
    """Why a file is no message: the ``code`` of ``BadMessage``. One word each, for logs and ``.reason`` files."""

    EMPTY = "empty"  # no bytes at all: a writer died, or a power cut
    TOO_LARGE = "too_large"  # the file is above max_message_bytes
    NOT_REGULAR = "not_regular"  # symlink, FIFO, device, directory
    NOT_UTF8 = "not_utf8"
    HEADER_TOO_LARGE = "header_too_large"
    NO_BLANK_LINE = "no_blank_line"  # half-written, or no message
    BARE_CR = "bare_cr"
    MIXED_LINE_ENDS = "mixed_line_ends"  # a CRLF among LF lines would smuggle a CR into a value
    CONTROL_CHARACTER = "control_character"
    FOLDED_HEADER = "folded_header"
    DUPLICATE_HEADER = "duplicate_header"
    BAD_HEADER = "bad_header"  # no "Name: value", or a value its header does not allow
    MISSING_HEADER = "missing_header"
    BAD_CONTENT_TYPE = "bad_content_type"  # MIME-Version, Content-Type or CTE other than the format's
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_PRIORITY = "unknown_priority"
    BAD_NAME = "bad_name"
    BAD_ID = "bad_id"
    BAD_RECEIPT = "bad_receipt"  # a file in receipts/ that is none


class ReceiptKind(enum.Enum):
    SEEN = "seen"  # opened through one of ackd's doors
    ACK = "ack"
    DONE = "done"
    REFUSE = "refuse"  # for good
    DEFER = "defer"  # try again
    REQUEUE = "requeue"  # an operator digs a dead letter (or quarantined file) up
    PURGE = "purge"  # an operator removes one for good


@dataclass(frozen=True, slots=True)
class Receipt:
    """What someone dropped into ``receipts/``. ``name`` is its file, removed once the engine has acted on it.

    ``agent`` is None only for operator requests; ``message_id`` is whole, not a prefix. ``file`` names a file in
    ``corrupt/`` or ``dead_letter/``; a quarantined one has no id that can be believed, ``message_id`` is then empty.
    """

    kind: ReceiptKind
    message_id: str
    agent: str | None
    name: str
    reason: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
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
