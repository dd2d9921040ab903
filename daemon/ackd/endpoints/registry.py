"""Every kind of endpoint, one line each: the word in ``endpoint = "…"`` and the folder that has everything about it.

A kind's folder holds its ``settings`` (an agent's table), ``maker`` (endpoints, for the daemon), ``check`` (findings of
`ackd check`) and ``attach`` (`ackd agent attach`). They are named here as text and imported when they are used, because
some of them are slow to import and most commands need none.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """The folder of a kind; and, where nothing lives behind its endpoint that could be started, stopped or woken: why
    not, and what to use instead (``{}`` is the agent's name)."""

    folder: str
    lifeless: str = ""
    instead: str = ""
    #: The module that declares its own types of log lines (core/fact.py).
    facts: str = ""
    #: Commands of the command line: name → module:attribute, one line of help. `ackd --help` lists them last.
    commands: Mapping[str, tuple[str, str]] = MappingProxyType({})
    #: The module ``restoring`` takes the kind's processes out of a root that is restored from a backup.
    keeps_processes: bool = False


_HERE: Final = "ackd.endpoints"
_PAUSE: Final = "`ackd agent pause {}` holds its mail back"
#: In the order in which error messages list them.
KINDS: Final = {
    "tmux": Kind(
        f"{_HERE}.tmux",
        facts=f"{_HERE}.tmux.facts",
        commands={"profile": (f"{_HERE}.tmux.commands:profile", "List and show the profiles of agents' screens.")},
    ),
    "process": Kind(
        f"{_HERE}.process",
        facts=f"{_HERE}.process.facts",
        commands={"worker": (f"{_HERE}.process.commands:worker", "Print the worker protocol's JSON Schemas.")},
        keeps_processes=True,
    ),
    "exec": Kind(
        f"{_HERE}.exec",
        "its command is started for every message",
        _PAUSE,
        f"{_HERE}.exec.facts",
        keeps_processes=True,
    ),
    "inbox": Kind(f"{_HERE}.inbox", "whoever reads it looks by itself", "`ackd inbox {}` shows what waits"),
    "handler": Kind(f"{_HERE}.handler", "it runs inside the daemon", _PAUSE),
}
#: The kind of an agent whose table names none, and of whoever has only a queue directory.
DEFAULT: Final = "inbox"
#: The kind of the agents that ackd has inside itself.
INSIDE: Final = "handler"


def part(kind: str, name: str) -> ModuleType:
    """A module of a kind's folder. Raises KeyError for a kind that does not exist."""
    return import_module(f"{KINDS[kind].folder}.{name}")


def lifeless(kind: str) -> tuple[str, str] | None:
    """The reason why nothing can be started, stopped or woken behind such an endpoint, and what to use instead. None
    for kinds behind which something lives."""
    found = KINDS.get(kind)
    return (found.lifeless, found.instead) if found is not None and found.lifeless else None
