"""The table of commands: name, one line of help, and the module and attribute where each is.

Importing them all would cost every `ackd send` a second, so a command is imported when it is run. A new command is one
line here, or, for a capability or an endpoint kind, in its line of the registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackd.coordination.registry import CAPABILITIES
from ackd.coordination.registry import load as load_attribute
from ackd.endpoints.registry import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

_HERE: Final = "ackd.cli"

#: The commands of plain delivery: name → (module:attribute, one line). The folders bring the others.
_OWN: Final[Mapping[str, tuple[str, str]]] = {
    "init": (f"{_HERE}.init:init", "Write a small ackd.toml and the directories."),
    "check": (f"{_HERE}.check:check", "Check the config and its surroundings; say what is wrong and how to mend it."),
    "run": (f"{_HERE}.run:run", "Run the daemon in the foreground."),
    "stop": (f"{_HERE}.stop:stop", "Stop the daemon, however it was started."),
    "service": (f"{_HERE}.service:service", "Run ackd as a service of systemd."),
    "demo": (f"{_HERE}.demo:demo", "Watch a small team work, fail and recover, in a temporary directory."),
    "send": (f"{_HERE}.send:send", "Queue a message for one or more agents."),
    "inbox": (f"{_HERE}.inbox:inbox", "List an agent's mail."),
    "read": (f"{_HERE}.read:read", "Print a message, and what to do next."),
    "ack": (f"{_HERE}.receipts:ack", "Say that a message has arrived and is being worked on."),
    "done": (f"{_HERE}.receipts:done", "Say that a message is completed."),
    "refuse": (f"{_HERE}.receipts:refuse", "Give a message back for good: it becomes a dead letter."),
    "defer": (f"{_HERE}.receipts:defer", "Give a message back to be offered again later."),
    "checkpoint": (f"{_HERE}.receipts:checkpoint", "Say where the work on a message stands."),
    "reply": (f"{_HERE}.send:reply", "Answer a message."),
    "cancel": (f"{_HERE}.cancel:cancel", "Have a message of yours worked on no more."),
    "reload": (f"{_HERE}.reload:reload", "Have the running daemon read ackd.toml again."),
    "status": (f"{_HERE}.status:status", "Show the daemon, the agents and their mail."),
    "agent": (f"{_HERE}.agent:agent", "List agents; start, stop, restart, pause, resume them, or look in on one."),
    "nudge": (f"{_HERE}.agent:nudge", "Wake an agent for the messages in its hands."),
    "explain": (f"{_HERE}.explain:explain", "Tell the whole story of a message."),
    "thread": (f"{_HERE}.thread:thread", "Show all that came of a message, and who waits for whom."),
    "wait": (f"{_HERE}.wait:wait", "Wait until messages have ended, and all that comes of them."),
    "dead": (f"{_HERE}.dead:dead", "List, show, requeue or purge files that could not be delivered or read."),
    "loop": (f"{_HERE}.loop:loop", "List and release messages that are held because they go around for ever."),
    "tail": (f"{_HERE}.tail:tail", "Show the session log, and follow it."),
    "message": (f"{_HERE}.message:message", "Build, parse, change and validate message files."),
    "config": (f"{_HERE}.shipped:config", "Print what may stand in ackd.toml."),
    "example": (f"{_HERE}.shipped:example", "List and print examples: teams, their programs, systemd units."),
    "completion": (f"{_HERE}.completion:completion", "Print the completion script of a shell."),
    "help": (f"{_HERE}.help:help_", "Show how ackd, or one of its commands, is used."),
    "version": (f"{_HERE}.help:version", "Print the version."),
}


def _with_folders() -> dict[str, tuple[str, str]]:
    rows = list(_OWN.items())
    for one in CAPABILITIES:
        if one.commands:
            place = [name for name, _ in rows].index(one.commands_after) + 1
            rows[place:place] = one.commands.items()
    place = [name for name, _ in rows].index("completion")
    rows[place:place] = [row for kind in KINDS.values() for row in kind.commands.items()]
    return dict(rows)


#: All commands. The order is the order of `ackd --help`.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = _with_folders()

#: Commands of two words that are loaded without the rest of their group, because hooks call them all the time.
QUICK: Final[Mapping[str, str]] = {words: where for one in CAPABILITIES for words, where in one.quick_commands.items()}


def load(name: str) -> Any:
    """Import a command or a group by its name: a ``Command`` or a ``Group`` of cli/command_line.py."""
    return load_attribute(QUICK.get(name) or COMMANDS[name][0])
