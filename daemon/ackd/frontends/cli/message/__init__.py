"""`ackd message …`: build, read, change and check message files, one at a time.

commands: the command line · several_values: options as argparse's ``nargs`` · files: message files read, written and
changed · judging: what is wrong with one.
"""

from ackd.frontends.cli.message.commands import message

__all__ = ["message"]
