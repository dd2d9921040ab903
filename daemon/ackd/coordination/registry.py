"""The table of capabilities: one line each, and nothing else in the tree names one.

A capability is a folder of ``coordination/`` that adds something to plain delivery: foreign files that are taken in, a
table of ackd.toml, commands. The config, the daemon, the command line and the client read this table, so deleting a
folder, its line, its public module and what requires it deletes the thing (tests/coordination/test_deleting.py does
exactly that).

Importing this module loads no capability: where something lives is text, ``module:attribute``, and ``load`` imports it
when it is used. Every command imports this table, so it must stay cheap.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import importlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_HERE: Final = "ackd.coordination"


class Capability(NamedTuple):
    """A line of the table. Every value that names code is ``module:attribute``."""

    name: str
    #: The capabilities whose folders this one imports. They stand before it in the table.
    requires: tuple[str, ...] = ()
    #: The pydantic class of its table [name] in ackd.toml. ``complaints(settings, agents, shared)`` in the same module
    #: reports mistakes that types and ranges cannot express; ``shared``: the names of groups and pools.
    settings: str = ""
    #: A class made with these settings, for a capability that brings agents of its own (config.model.OwnAgents).
    own_agents: str = ""
    #: The agents that every team with the table [name] has. The quick commands know them from here.
    always_there: tuple[str, ...] = ()
    #: The names of those of its agents whose work does not end by `ackd done` (a regular expression), and the commands
    #: that `ackd read` tells them of instead, by what each says.
    own_names: str = ""
    next_commands: Mapping[str, str] = _NONE
    #: Makes its gateway (coordination/gateway.py: GatewayContext).
    gateway: str = ""
    #: The module that declares its types of log lines (core/fact.py).
    facts: str = ""
    #: Commands of the command line: name → where it is, one line of help. `ackd --help` lists them right after
    #: ``commands_after``; of two capabilities that name the same command there, the lower line's come first.
    commands: Mapping[str, tuple[str, str]] = _NONE
    commands_after: str = ""
    #: Commands of its groups that are loaded without the rest of the group, by both words: hooks call them often.
    quick_commands: Mapping[str, str] = _NONE
    #: Makes what programs reach as ``Client().<name>``, from the team's ``Site``.
    door: str = ""
    #: The name that programs reach it by, if that is not the capability's own.
    door_name: str = ""
    #: Pauses its own work in a root that is restored from a backup: called with state/ and the name of who pauses, it
    #: returns the names of what it paused.
    restoring: str = ""


CAPABILITIES: Final = (
    Capability(
        name="ensemble",
        gateway=f"{_HERE}.ensemble.gateway:make",
        facts=f"{_HERE}.ensemble.facts",
        settings=f"{_HERE}.ensemble.settings:EnsembleSettings",
        commands={"lint": (f"{_HERE}.ensemble.commands:lint", "Find vague words in a report.")},
        commands_after="message",
    ),
    Capability(
        name="bus",
        gateway=f"{_HERE}.bus.gateway:make",
        facts=f"{_HERE}.bus.facts",
        settings=f"{_HERE}.bus.settings:BusSettings",
        commands={
            "bus": (
                f"{_HERE}.bus.commands.bus:bus",
                "Post to a message bus, read it, wait for its events, show its workers.",
            )
        },
        commands_after="tail",
        quick_commands={"bus post": f"{_HERE}.bus.commands.post:post"},
        door=f"{_HERE}.bus.door:BusDoor",
    ),
    Capability(
        name="leases",
        requires=("bus",),
        gateway=f"{_HERE}.leases.gateway:make",
        facts=f"{_HERE}.leases.facts",
        commands={
            "lock": (f"{_HERE}.leases.commands.lock:lock", "Lease files to one writer at a time, for a limited time.")
        },
        commands_after="tail",
        door=f"{_HERE}.leases.door:LeaseDoor",
    ),
    Capability(
        name="deadlock",
        requires=("bus", "leases"),
        gateway=f"{_HERE}.deadlock.search:make",
        facts=f"{_HERE}.deadlock.facts",
    ),
    Capability(
        name="board",
        requires=("bus",),
        gateway=f"{_HERE}.board.gateway:make",
        facts=f"{_HERE}.board.facts",
        settings=f"{_HERE}.board.settings:BoardSettings",
        commands={
            "board": (
                f"{_HERE}.board.commands.board:board",
                "Call a board's meeting, assess, discuss and vote in it, show it.",
            )
        },
        commands_after="tail",
        door=f"{_HERE}.board.door:BoardDoor",
    ),
    Capability(
        name="pipeline",
        gateway=f"{_HERE}.pipeline.gateway:make",
        facts=f"{_HERE}.pipeline.facts",
        settings=f"{_HERE}.pipeline.settings:PipelineSettings",
        own_agents=f"{_HERE}.pipeline.own_agents:PipelineAgents",
        always_there=("pipeline-lead",),
        own_names=r"story-.+-s[0-3]",
        next_commands={
            "report the stage when it is over": "ackd stage report",
            "where you stand": "ackd stage status",
        },
        commands={
            "story": (
                f"{_HERE}.pipeline.commands.story:story",
                "Start, list, show, pause, resume or cancel stories of the pipeline.",
            ),
            "stage": (
                f"{_HERE}.pipeline.commands.stage:stage",
                "For a story's stage workers: report, check, status, checkpoint.",
            ),
            "hook": (f"{_HERE}.pipeline.commands.stage:hook", "For agents' hooks: whether a stage worker may stop."),
        },
        commands_after="nudge",
        door=f"{_HERE}.pipeline.door:StoryDoor",
        door_name="stories",
        restoring=f"{_HERE}.pipeline.restoring:pause",
    ),
)


def load(where: str) -> Any:
    """Import what ``module:attribute`` names."""
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)


def next_commands(agent: str) -> Mapping[str, str]:
    """The commands by which an agent that a capability brings ends its work; empty for every other agent."""
    own = (one for one in CAPABILITIES if one.own_names and re.fullmatch(one.own_names, agent))
    return next((one.next_commands for one in own), _NONE)


def load_beside(where: str, name: str) -> Any:
    """Import another attribute of the same module."""
    return load(f"{where.partition(':')[0]}:{name}")
