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
    "read": (f"{_HERE}.read:READ", "Print a message, and what to do next."),
    "ack": (f"{_HERE}.receipts:ACK", "Say that a message has arrived and is being worked on."),
    "done": (f"{_HERE}.receipts:DONE", "Say that a message is dealt with."),
    "refuse": (f"{_HERE}.receipts:REFUSE", "Give a message back for good."),
    "defer": (f"{_HERE}.receipts:DEFER", "Give a message back to be offered again later."),
    "checkpoint": (f"{_HERE}.checkpoint:CHECKPOINT", "Say where the work on a message stands."),
    "reply": (f"{_HERE}.send:REPLY", "Answer a message."),
    "status": (f"{_HERE}.status:status", "Show the daemon, the agents and their mail."),
    "agent": (f"{_HERE}.agent:agent", "List agents; start, stop, restart, pause, resume them, or look in on one."),
    "nudge": (f"{_HERE}.agent:nudge", "Wake an agent for what it has in hand."),
    "story": (f"{_HERE}.story:story", "Start, list, show, pause, resume or cancel stories of the pipeline."),
    "stage": (f"{_HERE}.stage:stage", "For a story's stage workers: report, check, status, checkpoint."),
    "hook": (f"{_HERE}.stage:hook", "For agents' hooks: whether a stage worker may stop."),
    "explain": (f"{_HERE}.explain:explain", "Tell the whole story of a message."),
    "dead": (f"{_HERE}.dead:dead", "List, show, requeue or purge what could not be delivered or read."),
    "loop": (f"{_HERE}.loop:loop", "List messages that are held because they go around for ever, and let them go."),
    "tail": (f"{_HERE}.tail:tail", "Show the session log, and follow it."),
    "board": (f"{_HERE}.board:board", "Call a board's meeting, speak and vote in it, see how it stands."),
    "lock": (f"{_HERE}.lock_group:lock", "Lease files: one writer at a time, in turn, for a time."),
    "bus": (f"{_HERE}.bus:bus", "Post to a message bus, read it, wait for its events, see how its workers stand."),
    "message": (f"{_HERE}.message:message", "Build, parse, change and validate message files."),
    "lint": (f"{_HERE}.lint:lint", "Find vague words in a report."),
    "completion": (f"{_HERE}.completion:completion", "Print the completion script of a shell."),
}

#: Those that are described (shape.py) and so can run without click: what agents and their hooks call all the time.
DESCRIBED: Final = frozenset({"send", "reply", "read", "ack", "done", "refuse", "defer", "checkpoint"})

#: The same for commands of a group, by both words; the group itself is click's.
DESCRIBED_PAIRS: Final[Mapping[str, str]] = {
    "lock acquire": f"{_HERE}.lock:ACQUIRE",
    "lock renew": f"{_HERE}.lock:RENEW",
    "lock release": f"{_HERE}.lock:RELEASE",
    "lock list": f"{_HERE}.lock:LIST",
    "bus post": f"{_HERE}.bus_post:POST",
}
DESCRIBED_GROUPS: Final = frozenset({"lock", "bus"})


def load(name: str) -> Any:
    """The command itself: a ``shape.Command`` if it is described, else click's."""
    module, _, attribute = (DESCRIBED_PAIRS.get(name) or COMMANDS[name][0]).partition(":")
    return getattr(importlib.import_module(module), attribute)
