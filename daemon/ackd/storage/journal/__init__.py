"""The journal: the messages that ackd had in hand, and those that it finished lately.

entries: the lines and what they add up to · journal: the file, and when lines are written to it.
"""

from ackd.storage.journal.entries import (
    JournalState,
    NoticeWritten,
    PartKey,
    PutAway,
    TakenIn,
    part_key,
    twin_digest,
)
from ackd.storage.journal.journal import Compaction, Journal

__all__ = [
    "Compaction",
    "Journal",
    "JournalState",
    "NoticeWritten",
    "PartKey",
    "PutAway",
    "TakenIn",
    "part_key",
    "twin_digest",
]
