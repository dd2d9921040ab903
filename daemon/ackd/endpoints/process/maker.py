"""Makes the endpoints of process agents, and ends what children of a killed daemon left behind."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from ackd.endpoints.making import EndpointMaker
from ackd.endpoints.process.child import Child, delegated, end_leftovers

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.endpoints.process.endpoint import ProcessEndpoint
    from ackd.endpoints.process.settings import ProcessSettings


class ProcessMaker(EndpointMaker):
    def make(self, agent: str, table: ProcessSettings) -> ProcessEndpoint:
        # A team without process agents need not wait for these.
        from ackd.endpoints.process.assignments import AgentCheckpoints  # noqa: PLC0415
        from ackd.endpoints.process.endpoint import ProcessEndpoint  # noqa: PLC0415

        offered, config, services = self.offered, self.offered.config, self.offered.services
        child = Child(
            agent=agent,
            command=table.command,
            cwd=config.base_dir / table.cwd,
            env=table.env,
            directory=self._children,
            logs=offered.site.logs,
            record=services.record,
            extra_env={**offered.environment, "ACKD_AGENT": agent},
            cgroup=self._cgroup,
        )
        endpoint = ProcessEndpoint(
            agent=agent,
            child=child,
            keeper=offered.keeper,
            services=services,
            read=offered.files.body,
            resolve=offered.files.path,
            checkpoints=AgentCheckpoints(offered.checkpoints, agent),
            table=offered.processes,
            timeout_s=table.timeout_s,
            context_threshold=config.policy(agent).context_threshold,
            config=offered.live,
        )
        self.keep(agent, endpoint.worker, table.restart)
        return endpoint

    async def clear(self) -> list[str]:
        return await end_leftovers(self._children, self.offered.config.daemon.stop_timeout_s)

    @property
    def _children(self) -> Path:
        return self.offered.site.state / "children"

    @cached_property
    def _cgroup(self) -> Path | None:
        return delegated()


MAKER: Final = ProcessMaker
