"""Who is in the team, and by which endpoint each is told.

Owns the map from names to endpoints: those of the config, those inside the daemon, and every queue directory that turns
up (an inbox). Announces each to the engine once. Refuses to know what is delivered to them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackd.adapters.exec_runs import ExecEndpoint, discard_run
from ackd.adapters.handler_calls import HandlerEndpoint
from ackd.adapters.inbox_calls import InboxEndpoint
from ackd.config import EndpointKind
from ackd.core.errors import BadBody, BadConfig, BadMessage, TheirFault
from ackd.core.events import AgentJoined
from ackd.core.message import MONITOR, Rejection, identity
from ackd.dialects import ignite
from ackd.handlers import Mail, load_handler
from ackd.ports import Inhabited
from ackd.runtime.fresh_mail import FreshMail
from ackd.runtime.house import SystemHandler, queue_monitor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.adapters.exec_runs import FoundRun
    from ackd.adapters.spool import Spool
    from ackd.config import Agent, Config
    from ackd.core.message import Draft, Message, Place
    from ackd.handlers import Handler
    from ackd.ports import Endpoint, Post
    from ackd.runtime.quarters import Quarters
    from ackd.site import Site


@dataclass
class Team:
    config: Config
    site: Site
    spool: Spool
    tasks: TaskGroup
    post: Post
    record: Callable[[str, dict[str, object]], None]
    send: Callable[[Draft], Awaitable[None]]
    status: Callable[[], dict[str, object]]
    quarters: Quarters
    #: What is kept of an agent's work on a message may go.
    work_ended: Callable[[str, str], None]
    #: Handlers that live inside the daemon beside those of house.py, and who makes the endpoint of a stage worker.
    inside: dict[str, Handler] = field(default_factory=dict)
    stage_endpoint: Callable[[str], Endpoint] | None = None
    fresh: FreshMail = field(default_factory=FreshMail)
    _endpoints: dict[str, Endpoint] = field(default_factory=dict)
    #: Those behind which something lives. Found out once: to ask a value whether it is of a Protocol takes as long as a
    #: tenth of a delivery.
    _inhabited: dict[str, Inhabited] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def join(self, name: str) -> str:
        """The agent of that name, made known if it is new; its spelling is the one that came first."""
        known = self._names.get(identity(name))
        if known is not None:
            return known
        table = self.config.agent(name)
        endpoint = self._endpoints[name] = self._build(name, table)
        if isinstance(endpoint, Inhabited):
            self._inhabited[name] = endpoint
        self._names[identity(name)] = name
        self.post(AgentJoined(name, self.config.policy(name), table.endpoint.value))
        return name

    def called(self, name: str) -> str | None:
        return self._names.get(identity(name))

    def endpoint(self, agent: str) -> Endpoint:
        return self._endpoints[agent]

    def inhabited(self, agent: str) -> Inhabited | None:
        """Its endpoint, if something lives behind it."""
        return self._inhabited.get(agent)

    def endpoints(self) -> list[Endpoint]:
        return list(self._endpoints.values())

    def box(self, agent: str) -> str:
        return self.site.box_dir(agent).name

    def adopt(self, agent: str, key: int | None, run: FoundRun, *, speaks_for: int | None) -> None:
        endpoint = self._endpoints.get(self.called(agent) or "")
        if isinstance(endpoint, ExecEndpoint):
            endpoint.adopt(key, run, speaks_for=speaks_for)
        elif not run.alive:
            discard_run(run)

    def forget_run(self, agent: str, key: int) -> None:
        """What its last run left behind is told in full; the message may be told again."""
        endpoint = self._endpoints[agent]
        if isinstance(endpoint, ExecEndpoint):
            endpoint.forget(key)

    def let_go(self, agent: str, key: int, message_id: str) -> None:
        """The message has ended."""
        endpoint = self._endpoints[agent]
        if isinstance(endpoint, ExecEndpoint):
            endpoint.let_go(key)
        elif (inhabited := self._inhabited.get(agent)) is not None:
            inhabited.forget(key)
        self.work_ended(agent, message_id)

    def abandon(self) -> None:
        for endpoint in self._endpoints.values():
            if isinstance(endpoint, ExecEndpoint):
                endpoint.abandon()

    def _build(self, name: str, table: Agent) -> Endpoint:
        if self.stage_endpoint is not None and self.config.is_stage_worker(name):
            return self.stage_endpoint(name)
        if table.endpoint is EndpointKind.EXEC:
            return self._exec(name, table)
        if table.endpoint is EndpointKind.HANDLER:
            return HandlerEndpoint(
                agent=name,
                handler=self._handler(name, table),
                read=self._read,
                write=self.send,
                post=self.post,
                tasks=self.tasks,
            )
        if table.endpoint is EndpointKind.PROCESS:
            return self.quarters.process(name, table)
        if table.endpoint is EndpointKind.TMUX:
            return self.quarters.terminal(name, table)
        return InboxEndpoint()

    def _exec(self, name: str, table: Agent) -> ExecEndpoint:
        return ExecEndpoint(
            agent=name,
            command=list(table.command),
            cwd=self._base / table.cwd,
            env=table.env,
            runs_dir=self.site.state / "runs",
            resolve=self.spool.path,
            post=self.post,
            record=self.record,
            tasks=self.tasks,
            extra_env=environment(self.site),
            timeout_s=table.timeout_s,
            stop_timeout_s=self.config.daemon.stop_timeout_s,
        )

    def _read(self, message: Message, place: Place) -> Mail:
        """The headers were judged when the message came. The body is the one that came with them or, if that is a while
        ago, what lies there now."""
        data = self.fresh.take(message)
        return Mail(
            message_id=message.message_id,
            sender=message.sender,
            recipient=message.recipient,
            type=message.type,
            priority=message.priority,
            body_text=self._body(message, place) if data is None else ignite.body_of(data),
            thread_id=message.thread_id,
            in_reply_to=message.in_reply_to,
            automatic=message.automatic,
        )

    def body(self, message: Message, place: Place) -> Mapping[str, object]:
        """The values that its body holds; none if it is no such thing: whoever is told reads the file itself."""
        try:
            found = self._read(message, place).body
        except BadBody:
            return {}
        return found if isinstance(found, dict) else {}

    def _body(self, message: Message, place: Place) -> str:
        raw = ignite.split(self.spool.read(place).data)
        if ignite.bare_id(raw.fields.get("message-id", "")) != message.message_id:
            raise BadMessage(Rejection.BAD_ID.value, f"another message lies there now, not {message.message_id}")
        return raw.body.decode()

    def _handler(self, name: str, table: Agent) -> Handler:
        if table.handler is None and name == "system":
            return SystemHandler(self.status)
        if table.handler is None and name == MONITOR:
            return queue_monitor
        if table.handler is None and identity(name) in self.inside:
            return self.inside[identity(name)]
        try:
            return load_handler(table.handler or name)
        except TheirFault as fault:
            problem = self.config.problem(("agents", name, "handler"), str(fault))
            raise BadConfig(str(self.config.path or self.config.root), (problem,)) from None

    @property
    def _base(self) -> Path:
        return self.config.base_dir


def environment(site: Site) -> dict[str, str]:
    """What every command we start is told, so that ``ackd send`` inside it finds this team."""
    found = {"ACKD_ROOT": str(site.root.absolute())}
    if site.config_path is not None:
        found["ACKD_CONFIG"] = str(site.config_path.absolute())
    return found


def command_environment(site: Site) -> dict[str, str]:
    return {**os.environ, **environment(site)}
