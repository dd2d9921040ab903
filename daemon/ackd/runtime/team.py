"""The members of the team, by name, and the endpoint that delivers to each.

Members are the agents of the config, those inside the daemon, and every queue directory that turns up (an inbox). Each
is announced to the engine once, and again when another config treats it differently. Where that needs another endpoint,
the engine asks for it (``replace``) when the old one has nothing in hand.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from ackd.config.comparing import When
from ackd.config.live import announcement
from ackd.core.errors import BadConfig
from ackd.core.events import EndpointAway
from ackd.core.message import identity
from ackd.core.ports import Endpoint
from ackd.endpoints import registry
from ackd.endpoints.inbox.endpoint import InboxEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.config.agents import AgentSettings
    from ackd.config.live import LiveConfig
    from ackd.config.model import Config
    from ackd.config.site import Site
    from ackd.core.effects import TellAgent
    from ackd.core.ports import Inhabited, Keeper, LeftRun, Post, Tasks
    from ackd.endpoints.making import EndpointMaker, FoundRun, Offered


class Makers:
    """The endpoint makers of all kinds, each imported and made when it is first needed."""

    def __init__(self, offered: Offered) -> None:
        self._offered = offered
        self._makers: dict[str, EndpointMaker] = {}

    def make(self, agent: str, table: AgentSettings) -> Endpoint:
        return self._of(table.endpoint).make(agent, table)

    def verify(self, agent: str, config: Config) -> None:
        """Raise BadConfig if the agent's endpoint cannot be made from that config."""
        table = config.agent(agent)
        self._of(table.endpoint).verify(agent, table, config)

    def adapt(self, agent: str, endpoint: Endpoint, table: AgentSettings) -> None:
        self._of(table.endpoint).adapt(endpoint, table, agent)

    async def clear(self) -> list[str]:
        return [agent for kind in registry.KINDS for agent in await self._of(kind).clear()]

    def found_runs(self) -> list[FoundRun]:
        return [run for kind in registry.KINDS for run in self._of(kind).found_runs()]

    def _of(self, kind: str) -> EndpointMaker:
        if kind not in self._makers:
            self._makers[kind] = registry.part(kind, "maker").MAKER(self._offered)
        return self._makers[kind]


@dataclass(kw_only=True)
class Team:
    config: LiveConfig
    site: Site
    makers: Makers
    post: Post
    keeper: Keeper
    tasks: Tasks
    #: Called with an agent and a message id when the agent's checkpoints of that message may be removed.
    work_ended: Callable[[str, str], None]
    #: Make the endpoints of agents that capabilities bring. Each returns None for an agent that is not its own.
    own_endpoints: list[Callable[[str], Endpoint | None]] = field(default_factory=list)
    _endpoints: dict[str, Endpoint] = field(default_factory=dict, init=False)
    #: The kind that each endpoint was made as.
    _kinds: dict[str, str] = field(default_factory=dict, init=False)
    #: Agents whose endpoint is to be replaced, and those whose drain is under way.
    _replaced: set[str] = field(default_factory=set, init=False)
    _draining: dict[str, anyio.Event] = field(default_factory=dict, init=False)
    #: Endpoints that were replaced, of which a command may still be at its end.
    _leaving: list[Endpoint] = field(default_factory=list, init=False)
    _names: dict[str, str] = field(default_factory=dict, init=False)

    def join(self, name: str) -> str:
        """Return the agent of that name, and announce it if it is new. The spelling that came first stays."""
        known = self._names.get(identity(name))
        if known is not None:
            return known
        config = self.config.now
        table = config.agent(name)
        self._endpoints[name], self._kinds[name] = self._build(name, table), table.endpoint
        self._names[identity(name)] = name
        self.post(announcement(config, name))
        return name

    def called(self, name: str) -> str | None:
        """Return the spelling by which the agent is known here, or None if it is not known."""
        return self._names.get(identity(name))

    def endpoint(self, agent: str) -> Endpoint:
        return self._endpoints[agent]

    def inhabited(self, agent: str) -> Inhabited | None:
        """Return the agent's endpoint if a process or a pane lives behind it, else None."""
        endpoint = self._endpoints.get(agent)
        return endpoint.inhabited if endpoint is not None else None

    def names(self) -> list[str]:
        return list(self._endpoints)

    def endpoints(self) -> list[Endpoint]:
        """Return all endpoints, with those that were replaced while a command of theirs is at its end."""
        self._leaving = [endpoint for endpoint in self._leaving if endpoint.has_work()]
        return [*self._endpoints.values(), *self._leaving]

    # --- another config -----------------------------------------------------------------------------------------------
    def take(self, agent: str, when: When) -> None:
        """Have an agent of the team treated as the config in force says, from then on."""
        table = self.config.now.agent(agent)
        if when is When.WHEN_FREE:
            self._replaced.add(agent)
        elif when is When.NEXT_MESSAGE and agent not in self._replaced:
            self.makers.adapt(agent, self._endpoints[agent], table)
        self.post(announcement(self.config.now, agent, replaced=when is When.WHEN_FREE))

    def drain(self, agent: str) -> None:
        """Have the endpoint of an agent that is no longer in the config finish, or hand over, what has no end."""
        if agent not in self._draining:
            self._draining[agent] = anyio.Event()
            self.tasks.start_soon(self._drain, agent, self._endpoints[agent], name=f"drain {agent}")

    async def _drain(self, agent: str, endpoint: Endpoint) -> None:
        try:
            await endpoint.drain(self.config.now.daemon.drain_timeout_s)
        finally:
            self._draining.pop(agent).set()

    async def replace(self, agent: str) -> None:
        """Make the agent's endpoint anew. Its lane waits meanwhile, so nothing is told."""
        if (drained := self._draining.get(agent)) is not None:
            await drained.wait()
        old, before = self._endpoints[agent], self._kinds[agent]
        table = self.config.now.agent(agent)
        old.leave()
        if self.keeper.keeps(agent):
            # A pane that is no longer ours to look after is left to whoever works in it.
            await self.keeper.forget(agent, end=before == table.endpoint)
        if old.has_work():
            self._leaving.append(old)
        self._replaced.discard(agent)
        table = self.config.now.agent(agent)  # which may have been read again meanwhile
        try:
            self._endpoints[agent] = self._build(agent, table)
        except BadConfig as bad:  # it was verified; what it needs has been removed since
            self._endpoints[agent] = _Missing(str(bad))
        self._kinds[agent] = table.endpoint

    def with_work(self) -> list[str]:
        """Return the agents of which something runs that the end of the daemon waits for."""
        return [name for name, endpoint in self._endpoints.items() if endpoint.has_work()]

    def box(self, agent: str) -> str:
        return self.site.box_dir(agent).name

    def adopt(self, agent: str, key: int | None, run: LeftRun, *, speaks_for: int | None) -> None:
        """Hand a run that a daemon before this one left behind to the agent's endpoint, if there still is one."""
        endpoint = self._endpoints.get(self.called(agent) or "")
        if endpoint is not None:
            endpoint.adopt(key, run, speaks_for=speaks_for)
        elif not run.alive:
            run.discard()

    def forget_run(self, agent: str, key: int) -> None:
        """Forget the message's last run. Called when its outcome is on disk: the message may be delivered again."""
        self._endpoints[agent].forget(key)

    def let_go(self, agent: str, key: int, message_id: str) -> None:
        """Forget the message. Called when it has ended, and its end is on disk."""
        self._endpoints[agent].let_go(key)
        self.work_ended(agent, message_id)

    def abandon(self) -> None:
        for endpoint in self._endpoints.values():
            endpoint.abandon()

    def _build(self, name: str, table: AgentSettings) -> Endpoint:
        for make in self.own_endpoints:
            if (endpoint := make(name)) is not None:
                return endpoint
        return self.makers.make(name, table)


@dataclass
class _Missing(InboxEndpoint):
    """Stands in for an endpoint that could not be made."""

    why: str

    def tell(self, order: TellAgent) -> EndpointAway:  # type: ignore[override]
        return EndpointAway(order.key, self.why, attempt=order.attempt)


def environment(site: Site) -> dict[str, str]:
    """Return variables for every command that ackd starts, so that ``ackd send`` inside it finds this team."""
    found = {"ACKD_ROOT": str(site.root.absolute())}
    if site.config_path is not None:
        found["ACKD_CONFIG"] = str(site.config_path.absolute())
    return found


def command_environment(site: Site) -> dict[str, str]:
    return {**os.environ, **environment(site)}
