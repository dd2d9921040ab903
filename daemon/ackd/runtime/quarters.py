"""What agents live in: children and panes, made for them by what the config says.

Owns the supervisor and what all children have in common. Refuses to know what is delivered to them, and who else is in
the team (team.py). What ackd starts begins to be kept alive when its endpoint is made. Fails with ``BadConfig``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ackd.adapters.child import Child, delegated, end_remnants
from ackd.adapters.process_tree import ProcessTable
from ackd.adapters.tmux import server_called
from ackd.core.errors import BadConfig
from ackd.core.restarts import RestartMode, RestartPolicy
from ackd.runtime.supervisor import Supervisor

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.adapters import checkpoints
    from ackd.config import Agent, Config
    from ackd.core.message import Message, Place
    from ackd.dialects.screen import Profile
    from ackd.ports import Clock, Living, Post
    from ackd.runtime.terminals import TerminalEndpoint
    from ackd.runtime.workers import ProcessEndpoint
    from ackd.site import Site


@dataclass(kw_only=True)
class Quarters:
    config: Config
    site: Site
    tasks: TaskGroup
    post: Post
    record: Callable[[str, dict[str, object]], None]
    clock: Clock
    rng: random.Random
    kept: checkpoints.Checkpoints
    resolve: Callable[[Place], Path]
    #: The values of a message's body.
    read: Callable[[Message, Place], Mapping[str, object]]
    #: What every command we start is told.
    environment: Mapping[str, str]
    #: Who was stopped by hand, and stays so.
    is_stopped: Callable[[str], bool]
    #: Tells apart panes of one agent that are not to be taken for each other.
    mark: str = ""
    supervisor: Supervisor = field(init=False)

    def __post_init__(self) -> None:
        stop_timeout_s = self.config.daemon.stop_timeout_s
        self.supervisor = Supervisor(
            tasks=self.tasks, post=self.post, record=self.record, rng=self.rng, stop_timeout_s=stop_timeout_s
        )
        self._table = ProcessTable()
        self._children = self.site.state / "children"
        self._cgroup = delegated()
        self._tmux = server_called(self.config.tmux_socket)

    async def clear(self) -> list[str]:
        """Before any child is started: what a killed daemon's children left behind is ended. Whose it was."""
        return await end_remnants(self._children, self.config.daemon.stop_timeout_s)

    def process(self, agent: str, table: Agent) -> ProcessEndpoint:
        from ackd.runtime.workers import Checkpoints, ProcessEndpoint  # noqa: PLC0415 - a team without need not wait

        child = Child(
            agent=agent,
            command=table.command,
            cwd=self.config.base_dir / table.cwd,
            env=table.env,
            directory=self._children,
            logs=self.site.logs,
            record=self.record,
            extra_env={**self.environment, "ACKD_AGENT": agent},
            cgroup=self._cgroup,
        )
        endpoint = ProcessEndpoint(
            agent=agent,
            child=child,
            keeper=self.supervisor,
            tasks=self.tasks,
            post=self.post,
            record=self.record,
            clock=self.clock,
            read=self.read,
            resolve=self.resolve,
            checkpoints=Checkpoints(self.kept, agent),
            table=self._table,
            timeout_s=table.timeout_s,
            context_threshold=self.config.policy(agent).context_threshold,
            stop_timeout_s=self.config.daemon.stop_timeout_s,
        )
        self._keep(agent, endpoint.worker, table)
        return endpoint

    def terminal(self, agent: str, table: Agent) -> TerminalEndpoint:
        from ackd.dialects.screen import started_with  # noqa: PLC0415
        from ackd.runtime.terminals import StartedPane, TerminalEndpoint  # noqa: PLC0415 - as above

        endpoint = TerminalEndpoint(
            agent=agent,
            tmux=self._tmux,
            profile=self._profile(agent, table),
            clock=self.clock,
            resolve=self.resolve,
            post=self.post,
            record=self.record,
            tasks=self.tasks,
            # Two teams may have an agent of one name on one server.
            owner=f"{self.site.root.absolute()}:{agent}{self.mark}",
            target=table.pane,
            title=table.title,
            restarter=partial(self.supervisor.replace, agent) if table.start else None,
            starter=partial(self.supervisor.ready, agent) if table.start else None,
            line=table.line,
            kept=self.kept,
            table=self._table,
            taken_timeout_s=self.config.policy(agent).busy_timeout_s,
        )
        if table.start:
            pane = StartedPane(
                agent=agent,
                tmux=self._tmux,
                eye=endpoint.eye,
                command=started_with(table.start, endpoint.profile),
                cwd=self.config.base_dir / table.cwd,
                env={**self.environment, **table.env, "ACKD_AGENT": agent},
                stop_timeout_s=self.config.daemon.stop_timeout_s,
            )
            self._keep(agent, pane, table)
        return endpoint

    def _keep(self, agent: str, living: Living, table: Agent) -> None:
        policy = RestartPolicy(mode=RestartMode(table.restart))
        self.supervisor.keep(agent, living, policy, start=not self.is_stopped(agent))

    def _profile(self, agent: str, table: Agent) -> Profile:
        from ackd.dialects.screen import BadProfile, load_profile  # noqa: PLC0415

        try:
            return load_profile(table.profile, self.config.profiles)
        except BadProfile as bad:
            problem = self.config.problem(("agents", agent, "profile"), str(bad))
            raise BadConfig(str(self.config.path or self.config.root), (problem,)) from None
