"""What every adapter that starts processes needs to know of them: a room below the adapters.

identity: who a process is · program: what there is to run · descriptors: what nobody inherits · belongings: all that
belongs to what was started · ending: until nothing of it is left · last_words: how it ended, for people.
"""

from ackd.processes.belongings import died, is_dead, send
from ackd.processes.descriptors import keep_to_ourselves
from ackd.processes.ending import KILLED_WAIT_S, Brood, Cleared, clear_away
from ackd.processes.identity import CHILD_MARK, Identity, boot_id, identity_of, parse_stat
from ackd.processes.last_words import exit_words, last_lines, printable, signal_name
from ackd.processes.program import NoProgramError, find_program

__all__ = [
    "CHILD_MARK",
    "KILLED_WAIT_S",
    "Brood",
    "Cleared",
    "Identity",
    "NoProgramError",
    "boot_id",
    "clear_away",
    "died",
    "exit_words",
    "find_program",
    "identity_of",
    "is_dead",
    "keep_to_ourselves",
    "last_lines",
    "parse_stat",
    "printable",
    "send",
    "signal_name",
]
