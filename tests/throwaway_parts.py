"""Throw-away parts, one of each sort that people add: an endpoint kind, a capability, a command and a front door.

``PARTS`` has their files and the lines of existing files that they need. ``add`` lays a part into a copy of the package;
tests/test_adding.py shows that each works there, and tests/house.py counts the files that had to change.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Part:
    """``files``: new files, by their paths in the package. ``lines``: by existing file, a line of it and what is
    inserted before that line."""

    files: Mapping[str, str]
    lines: Mapping[str, tuple[str, str]] = field(default_factory=dict)


# --- an endpoint kind: the body of each message is written into a file ------------------------------------------------
_KIND: Final = {
    "__init__.py": '"""Agents whose mail is written into one file."""\n',
    "settings.py": """
from typing import Final

from ackd.config.agents import AgentSettings


class DropSettings(AgentSettings):
    file: str = "dropped"


SETTINGS: Final = DropSettings
""",
    "endpoint.py": """
import json
from dataclasses import dataclass

from ackd.core.events import NotTold, Outcome, RunEnded
from ackd.core.ports import Endpoint, Services


@dataclass(kw_only=True)
class DropEndpoint(Endpoint):
    path: object
    body: object
    services: Services

    def tell(self, order):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(dict(self.body(order.message, order.place))) + "\\n")
        self.services.post(RunEnded(order.key, Outcome.DONE, "dropped", order.attempt, "written"))

    async def nudge(self, order):
        return NotTold(order.key, "a file has no ladder", attempt=order.attempt)

    async def stop(self, drain_s):
        pass
""",
    "maker.py": """
from typing import Final

from ackd.endpoints.drop.endpoint import DropEndpoint
from ackd.endpoints.making import EndpointMaker


class DropMaker(EndpointMaker):
    def make(self, agent, table):
        offered = self.offered
        path = offered.config.base_dir / table.file
        return DropEndpoint(path=path, body=offered.files.body, services=offered.services)


MAKER: Final = DropMaker
""",
    "check.py": """
from typing import Final

from ackd.client.agent_findings import KindCheck
from ackd.client.findings import OK, Finding


class DropCheck(KindCheck):
    def agent(self, subject, name, table):
        return Finding(OK, subject, f"writes into {table.file}")


CHECK: Final = DropCheck
""",
    "attach.py": """
from ackd.cli.errors import NO, Failure


def attach(site, agent, *, as_json):
    raise Failure(NO, f"{agent}: look at its file")
""",
}

# --- a capability: each file of a directory becomes mail --------------------------------------------------------------
_CAPABILITY: Final = {
    "__init__.py": '"""Postcards: files of one line that become mail."""\n',
    "settings.py": """
from ackd.config.values import Table, not_agents


class PostcardSettings(Table):
    to: str


def complaints(settings, agents, shared):
    return not_agents([(("postcards", "to"), settings.to)], agents)
""",
    "facts.py": '''
from ackd.core.fact import CYAN, fact


@fact("postcard", "+", CYAN, lambda of: f"{of['file']} for {of['agent']}")
def postcard_taken_in(*, agent: str, file: str) -> None:
    """A postcard became mail."""
''',
    "gateway.py": """
import os

from ackd.coordination.gateway import Gateway
from ackd.coordination.postcards.facts import postcard_taken_in
from ackd.coordination.postcards.settings import PostcardSettings
from ackd.core.escalations import derived_id
from ackd.core.message import MONITOR, Draft, Priority


def make(context, others):
    settings = context.config.settings(PostcardSettings)
    return None if settings is None else PostcardGateway(settings, context.services)


class PostcardGateway(Gateway):
    name = "postcards"

    def __init__(self, settings, services):
        self.to, self.services, self.known = settings.to, services, set()
        self.directory = str(services.base / "postcards")

    def places(self):
        return frozenset({self.directory})

    async def look(self, where):
        for entry in sorted(os.scandir(self.directory), key=lambda one: one.name):
            if entry.name not in self.known:
                with open(entry.path, encoding="utf-8") as file:
                    body = {"content": file.read()}
                ident = derived_id("postcard", int(entry.stat().st_mtime), entry.name)
                await self.services.mail(Draft(ident, MONITOR, self.to, "message", Priority.NORMAL, body))
                self.services.record(postcard_taken_in(agent=self.to, file=entry.name))
                self.known.add(entry.name)
""",
}

# --- a command and a front door ---------------------------------------------------------------------------------------
_COMMAND: Final = '''
from ackd.cli.command_line import argument, command, for_team
from ackd.cli.output import print_json, say
from ackd.client import Client


@command
@argument("agent", metavar="AGENT")
@for_team
def count(site, as_json: bool, agent: str) -> None:
    """Count an agent's mail."""
    found = len(Client.at(site).inbox(agent).messages)
    if as_json:
        print_json({"messages": found})
    else:
        say(f"{found}")
'''
_DOOR: Final = '''
"""Sends the lines of standard input, AGENT TEXT each, and prints the ids."""

import sys

from ackd.client import Client

for line in sys.stdin:
    agent, _, text = line.strip().partition(" ")
    print(Client().send(agent, text).message_id)
'''

KINDS: Final = "endpoints/registry.py"
CAPABILITIES: Final = "coordination/registry.py"
COMMANDS: Final = "cli/commands.py"

PARTS: Final[Mapping[str, Part]] = {
    "endpoint kind": Part(
        {f"endpoints/drop/{name}": text for name, text in _KIND.items()},
        {KINDS: ('    "handler": Kind(', '    "drop": Kind(f"{_HERE}.drop", "it is a file", _PAUSE),\n')},
    ),
    "capability": Part(
        {f"coordination/postcards/{name}": text for name, text in _CAPABILITY.items()},
        {
            CAPABILITIES: (
                '    Capability(\n        name="pipeline"',
                (
                    '    Capability(\n        name="postcards",\n        gateway=f"{_HERE}.postcards.gateway:make",\n'
                    '        facts=f"{_HERE}.postcards.facts",\n'
                    '        settings=f"{_HERE}.postcards.settings:PostcardSettings",\n    ),\n'
                ),
            )
        },
    ),
    "command": Part(
        {"cli/count.py": _COMMAND},
        {COMMANDS: ('    "read": (', '    "count": (f"{_HERE}.count:count", "Count an agent\'s mail."),\n')},
    ),
    "front door": Part({"web/__main__.py": _DOOR}),
}


def add(part: Part, package: Path) -> None:
    """Add the part to this copy of the package."""
    for name, text in part.files.items():
        path = package / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.lstrip("\n"))
    for name, (before, line) in part.lines.items():
        text = (package / name).read_text()
        assert text.count(before) == 1, f"{name} has no place for the part"
        (package / name).write_text(text.replace(before, line + before))


def copy_with(part: Part, package: Path, place: Path) -> Path:
    """Copy the package, with the part in it, and return the directory that holds the copy."""
    shutil.copytree(package, place / "ackd", ignore=shutil.ignore_patterns("__pycache__"))
    add(part, place / "ackd")
    return place
