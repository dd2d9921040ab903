"""The table of commands: their names, their one-line help, and where each lives.

Importing them all would cost every `ackd send` a second, so a command is imported when it is run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_HERE: Final = "ackd.frontends.cli"

#: name → (module:attribute, one line). The order is the order of `ackd --help`.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "init": (f"{_HERE}.init:init", "Write a small ackd.toml and the directories."),
    "check": (f"{_HERE}.check:check", "Look at the config and its surroundings; say what is wrong and how to mend it."),
    "run": (f"{_HERE}.run:run", "Run the daemon in the foreground."),
    "demo": (f"{_HERE}.demo:demo", "Watch a small team work, fail and recover, in a temporary directory."),
    "send": (f"{_HERE}.send:SEND", "Queue a message for one or more agents."),
    "inbox": (f"{_HERE}.inbox:inbox", "List an agent's mail."),
    "read": (f"{_HERE}.inbox:read", "Print a message."),
    "ack": (f"{_HERE}.receipts:ACK", "Say that a message has arrived and is being worked on."),
    "done": (f"{_HERE}.receipts:DONE", "Say that a message is dealt with."),
    "refuse": (f"{_HERE}.receipts:REFUSE", "Give a message back for good."),
    "defer": (f"{_HERE}.receipts:DEFER", "Give a message back to be offered again later."),
    "reply": (f"{_HERE}.send:REPLY", "Answer a message."),
    "status": (f"{_HERE}.status:status", "Show the daemon, the agents and their mail."),
    "explain": (f"{_HERE}.explain:explain", "Tell the whole story of a message."),
    "dead": (f"{_HERE}.dead:dead", "List, show, requeue or purge what could not be delivered or read."),
    "tail": (f"{_HERE}.tail:tail", "Show the session log, and follow it."),
    "message": (f"{_HERE}.message:message", "Build, parse, change and validate message files."),
    "lint": (f"{_HERE}.lint:lint", "Find vague words in a report."),
    "completion": (f"{_HERE}.completion:completion", "Print the completion script of a shell."),
}

#: Those that are described (shape.py) and so can run without click: what agents and their hooks call all the time.
DESCRIBED: Final = frozenset({"send", "reply", "ack", "done", "refuse", "defer"})


def load(name: str) -> Any:
    """The command itself: a ``shape.Command`` if it is described, else click's."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    return getattr(importlib.import_module(module), attribute)
