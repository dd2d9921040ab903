"""`ackd message …`: build, read, change and check message files, one at a time.

commands: the command line · files: message files read, written and changed · judging: finding faults in one.
"""

from ackd.cli.message.commands import message

__all__ = ["message"]
