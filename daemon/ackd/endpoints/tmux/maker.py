"""Makes the endpoints of agents in tmux panes, all on the team's one tmux server."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from ackd.endpoints.making import EndpointMaker

if TYPE_CHECKING:
    from ackd.config.model import Config
    from ackd.endpoints.tmux.client import Tmux
    from ackd.endpoints.tmux.endpoint import TerminalEndpoint
    from ackd.endpoints.tmux.screen import Profile
    from ackd.endpoints.tmux.settings import TmuxSettings


class TmuxMaker(EndpointMaker):
    def make(self, agent: str, table: TmuxSettings) -> TerminalEndpoint:
        from ackd.endpoints.tmux.endpoint import TerminalEndpoint  # noqa: PLC0415 - a team without need not wait

        offered, services = self.offered, self.offered.services
        endpoint = TerminalEndpoint(
            agent=agent,
            tmux=self._server,
            profile=self._profile(agent, table),
            clock=services.clock,
            resolve=offered.files.path,
            post=services.post,
            record=services.record,
            tasks=services.tasks,
            # Two teams may have an agent of one name on one server.
            owner=f"{offered.site.root.absolute()}:{agent}{offered.suffix}",
            target=table.pane,
            title=table.title,
            restarter=partial(offered.keeper.replace, agent) if table.start else None,
            starter=partial(offered.keeper.ready, agent) if table.start else None,
            line=table.line,
            kept=offered.checkpoints,
            table=offered.processes,
            taken_timeout_s=offered.config.policy(agent).busy_timeout_s,
        )
        if table.start:
            self._keep_pane(agent, table, table.start, endpoint)
        return endpoint

    def verify(self, agent: str, table: TmuxSettings, config: Config) -> None:
        self._profile(agent, table, config)

    def _keep_pane(self, agent: str, table: TmuxSettings, start: str, endpoint: TerminalEndpoint) -> None:
        from ackd.endpoints.tmux.screen import started_with  # noqa: PLC0415 - as above
        from ackd.endpoints.tmux.started_pane import StartedPane  # noqa: PLC0415

        config = self.offered.config
        pane = StartedPane(
            agent=agent,
            tmux=self._server,
            finder=endpoint.finder,
            command=started_with(start, endpoint.profile),
            cwd=config.base_dir / table.cwd,
            env={**self.offered.environment, **table.env, "ACKD_AGENT": agent},
            config=self.offered.live,
        )
        self.keep(agent, pane, table.restart)

    def _profile(self, agent: str, table: TmuxSettings, config: Config | None = None) -> Profile:
        from ackd.endpoints.tmux.screen import BadProfile, load_profile  # noqa: PLC0415 - as above

        try:
            return load_profile(table.profile, (config or self.offered.config).profiles)
        except BadProfile as bad:
            raise self.offered.bad_config(agent, "profile", str(bad), config) from None

    @cached_property
    def _server(self) -> Tmux:
        from ackd.endpoints.tmux.client import server_called  # noqa: PLC0415 - as above

        return server_called(self.offered.config.tmux_socket)


MAKER: Final = TmuxMaker
