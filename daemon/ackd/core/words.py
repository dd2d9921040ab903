"""The words in files and on command lines: types, priorities, folders, statuses, rejections, receipts.

One enum for each closed set. Apart from the values that are made of them (message.py), because `ackd send` and `ackd
ack` need the words only and pay for every class that they import.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

#: The seed's 18 types (ignite-mime, "Message Types").
SEED_TYPES: Final = frozenset(
    "user_goal strategy_request strategy_response task_list architecture_request architecture_response "
    "task_assignment task_completed evaluation_request evaluation_result improvement_request improvement_suggestion "
    "improvement_completed progress_update github_event github_task escalation dead_letter".split()
)
#: Further types that teams of that seed use.
FURTHER_TYPES: Final = frozenset(
    "help_request issue_proposal slack_event slack_task insight_request insight_response insight_result "
    "design_review_request design_review_response quality_plan_request quality_plan_response revision_request "
    "review_request memory_review_request notification".split()
)
#: Types of ackd, which the other protocols need.
OWN_TYPES: Final = frozenset({"message", "shutdown_request", "status_check", "board_request"})
KNOWN_TYPES: Final = SEED_TYPES | FURTHER_TYPES | OWN_TYPES
#: A reply of one of these types is a report: it completes what it answers. Any other reply acknowledges it.
REPORT_TYPES: Final = frozenset(
    "strategy_response architecture_response task_completed evaluation_result improvement_completed".split()
)


def is_type_name(word: object) -> bool:
    """Return whether this can be a type: small letters, digits and ``_``. It stands in headers, and names of files
    begin with it."""
    if not isinstance(word, str) or not 0 < len(word) <= 64 or not word.isascii():
        return False
    return word[0].isalpha() and word.replace("_", "a").isalnum() and word.islower()


class AnyType:
    """A container of everything that can be a type, for a team whose unknown types are delivered."""

    def __contains__(self, word: object) -> bool:
        return is_type_name(word)


def accepted_types(extra: Iterable[str], unknown: str) -> Container[str]:
    """Return the types that are delivered besides those that are known: the config's own, or all."""
    return AnyType() if unknown == "deliver" else frozenset(extra)


# --- headers that tell of a message's delivery ------------------------------------------------------------------------
# The first three are the seed's, the rest are ours. Times are local, as the seed writes them.
STATUS: Final = "X-IGNITE-Status"
PROCESSED_AT: Final = "X-IGNITE-Processed-At"
RETRY_COUNT: Final = "X-IGNITE-Retry-Count"
NEXT_RETRY_AFTER: Final = "X-IGNITE-Next-Retry-After"
ERROR_REASON: Final = "X-IGNITE-Error-Reason"
ERROR_AT: Final = "X-IGNITE-Error-At"
#: The agent or pool that a dead letter was for.
RECIPIENT: Final = "X-IGNITE-Recipient"
#: The agent has seen the message, which was told and not acknowledged.
SEEN: Final = "X-IGNITE-Seen"
#: Reminders, idle time and the place in the window (``headers.idle``).
IDLE: Final = "X-IGNITE-Idle"
#: Set by a sender: times of RFC 3339 in UTC. If nobody has the message in hand when it expires, it is not delivered any
#: more; the deadline is the time by which it should be completed.
EXPIRES: Final = "X-ACKD-Expires"
DEADLINE: Final = "X-ACKD-Deadline"
#: The end of a message that was not given up as others are: cancelled, withdrawn, expired.
ENDED: Final = "X-ACKD-Ended"
#: The members of its pool that gave the message back.
HAD_BY: Final = "X-ACKD-Had-By"


# --- closed sets ------------------------------------------------------------------------------------------------------
class Word(enum.Enum):
    """An enum whose members are hashed as objects. ``enum`` hashes a member by its name, in Python, and every event
    looks members up in several tables; there is one object per member, so this gives the same answers."""

    __hash__ = object.__hash__


class Priority(Word):
    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Folder(Word):
    """The folders of the spool."""

    QUEUE = "queue"  # queue/<box>/
    PROCESSED = "processed"  # queue/<box>/processed/
    DEAD = "dead_letter"  # queue/dead_letter/   (box is the recipient's)
    CORRUPT = "corrupt"  # queue/corrupt/       (box is where it came from)
    ARCHIVE = "archive"  # archive/YYYYMMDD/<box>/


class Status(Word):
    """X-IGNITE-Status as it is believed in ``processed/``; everywhere else the header is ignored."""

    PROCESSING = "processing"
    DELIVERED = "delivered"
    ACKED = "acked"
    RETRYING = "retrying"
    #: Words of other programs for messages that have ended, believed for files from before ackd first ran.
    COMPLETED = "completed"
    ERROR = "error"


class MessageEnd(enum.StrEnum):
    """The ends of a message. The journal holds the values."""

    COMPLETED = "completed"
    DEAD = "dead"
    WITHDRAWN = "withdrawn"
    DUPLICATE = "duplicate"  # archived untold: the same message is open, or was completed before
    HANDED_BACK = "handed back"  # no end of the message: its holder gave it back to the pool


class Rejection(enum.StrEnum):
    """The reasons why a file is no message: the ``code`` of ``BadMessage``. One word each, for logs and ``.reason``
    files."""

    EMPTY = "empty"  # no bytes at all: a writer died, or a power cut
    TOO_LARGE = "too_large"  # the file is above max_message_bytes
    NOT_REGULAR = "not_regular"  # symlink, FIFO, device, directory
    NOT_ALLOWED = "not_allowed"  # the daemon may not read it: another user's, and closed
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


class AutoSubmitted(enum.StrEnum):
    """The header Auto-Submitted (RFC 3834): no person wrote the message. Such mail is never answered automatically."""

    GENERATED = "auto-generated"  # made from what others wrote or did: it informs, and asks for nothing
    REPLIED = "auto-replied"


class ReceiptKind(Word):
    SEEN = "seen"  # opened through one of ackd's doors
    ACK = "ack"
    DONE = "done"
    REFUSE = "refuse"  # for good
    DEFER = "defer"  # try again
    REQUEUE = "requeue"  # an operator has a dead letter (or quarantined file) delivered again
    PURGE = "purge"  # an operator removes one for good
    CHECKPOINT = "checkpoint"  # where its agent stands with it
    CANCEL = "cancel"  # by its sender or a person: nobody shall work on it any more
    PAUSE = "pause"  # an agent: gets nothing until it is resumed
    RESUME = "resume"
    START = "start"  # what lives behind an agent's endpoint
    STOP = "stop"
    RESTART = "restart"
    RELEASE = "release"  # a message that is held goes on
    NUDGE = "nudge"  # wake an agent for what it has in hand
    RELOAD = "reload"  # read the config again


#: Receipts that name an agent and no message: what a person asks of it.
AGENT_REQUESTS: Final = frozenset(
    {
        ReceiptKind.PAUSE,
        ReceiptKind.RESUME,
        ReceiptKind.START,
        ReceiptKind.STOP,
        ReceiptKind.RESTART,
        ReceiptKind.NUDGE,
    }
)
