"""What ackd had in hand, and what it finished lately.

entries: lines and what they add up to · files: the file, opened and brought back · journal: what goes to it, when.
"""

from ackd.adapters.journal.entries import End, JournalState, LetGo, TakenIn, twin_digest
from ackd.adapters.journal.journal import Compaction, Journal

__all__ = ["Compaction", "End", "Journal", "JournalState", "LetGo", "TakenIn", "twin_digest"]
