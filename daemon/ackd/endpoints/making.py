"""The two sides of making an endpoint: ``Offered`` by the daemon, and an ``EndpointMaker`` of each kind that uses it.

At every start all kinds are asked what a daemon before this one left of them, because an agent may have been of another
kind then.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ackd.core.errors import BadConfig
from ackd.core.restarts import RestartMode, RestartPolicy
from ackd.system.process_tree import ProcessTable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from ackd.config.live import LiveConfig
    from ackd.config.model import Config
    from ackd.config.site import Site
    from ackd.core.events import Outcome
    from ackd.core.message import Draft, Message, Place
    from ackd.core.ports import Endpoint, Keeper, Living, Services
    from ackd.handlers import Handler, Mail
    from ackd.storage.checkpoints import CheckpointFiles


class MailFiles(Protocol):
    """The files of messages that endpoints are told of."""

    def path(self, place: Place) -> Path: ...

    def mail(self, message: Message, place: Place) -> Mail:
        """The message as a handler sees it. Raises OSError, BadMessage."""

    def body(self, message: Message, place: Place) -> Mapping[str, object]:
        """The values that the body holds; empty if the body holds no values. Raises OSError, BadMessage."""


@dataclass(frozen=True, kw_only=True)
class Offered:
    """Everything that the daemon offers to the endpoints that are made for it."""

    services: Services
    live: LiveConfig
    site: Site
    files: MailFiles
    send: Callable[[Draft], Awaitable[None]]
    checkpoints: CheckpointFiles
    keeper: Keeper
    #: Agents that were stopped by hand are not started.
    is_stopped: Callable[[str], bool]
    #: Environment variables of every program that ackd starts.
    environment: Mapping[str, str]
    #: Handlers that ackd has inside itself, by the identity of their agent.
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    processes: ProcessTable = field(default_factory=ProcessTable)
    #: Distinguishes several endpoints of one agent that must not be taken for each other.
    suffix: str = ""

    @property
    def config(self) -> Config:
        """The config as an endpoint is made. The endpoint keeps its agent's own table for as long as it lives."""
        return self.live.now

    def bad_config(self, agent: str, key: str, what: str, config: Config | None = None) -> BadConfig:
        """The error about a key of an agent's table, with its line in the file. ``config``: not the one in force."""
        config = config or self.config
        problem = config.problem(("agents", agent, key), what)
        return BadConfig(str(config.path or config.root), (problem,))


@dataclass(frozen=True, slots=True)
class FoundRun:
    """The directory of a run, as a daemon before this one left it (a ``ports.LeftRun``).

    ``outcome`` is None while the run is alive, and also if it died without a result: then its message is offered again.
    """

    agent: str
    message_id: str
    name: str
    box: str
    digest: str
    attempt: int
    path: Path
    alive: bool
    outcome: Outcome | None
    detail: str
    started_at: float
    timeout_s: float

    def discard(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


@dataclass
class EndpointMaker:
    """Makes the endpoints of one kind, and finds what a killed daemon left of that kind."""

    offered: Offered

    def make(self, agent: str, table: Any) -> Endpoint:
        """The endpoint of an agent; ``table`` is of the kind's own settings. What ackd starts for it begins to be kept
        alive here. Raises BadConfig."""
        raise NotImplementedError

    def verify(self, agent: str, table: Any, config: Config) -> None:
        """Raise BadConfig if an endpoint cannot be made from this table of another config. Nothing is begun."""

    def adapt(self, endpoint: Any, table: Any, agent: str) -> None:
        """Have the endpoint go by another table of its kind from the next message on."""

    async def clear(self) -> list[str]:
        """End what children of a killed daemon left behind, before any is started; return the agents concerned."""
        return []

    def found_runs(self) -> list[FoundRun]:
        """Runs that outlived the daemon before this one, or ended after it."""
        return []

    def keep(self, agent: str, living: Living, restart: str) -> None:
        policy = RestartPolicy(mode=RestartMode(restart))
        self.offered.keeper.keep(agent, living, policy, start=not self.offered.is_stopped(agent))
