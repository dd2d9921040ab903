"""Makes the endpoints of exec agents, and finds the runs that a daemon before this one left in ``state/runs/``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.endpoints.exec.endpoint import ExecEndpoint
from ackd.endpoints.exec.run_files import scan_runs
from ackd.endpoints.making import EndpointMaker

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.endpoints.exec.settings import ExecSettings
    from ackd.endpoints.making import FoundRun


@dataclass
class ExecMaker(EndpointMaker):
    """``runs``: the directory below state/ that holds the directories of runs."""

    runs: str = "runs"

    def make(self, agent: str, table: ExecSettings) -> ExecEndpoint:
        offered = self.offered
        return ExecEndpoint(
            agent=agent,
            command=list(table.command),
            cwd=offered.config.base_dir / table.cwd,
            env=table.env,
            runs_dir=self.runs_dir,
            resolve=offered.files.path,
            services=offered.services,
            extra_env=offered.environment,
            timeout_s=table.timeout_s,
            config=offered.live,
        )

    def adapt(self, endpoint: ExecEndpoint, table: ExecSettings, agent: str) -> None:  # noqa: ARG002 - as all kinds
        endpoint.command, endpoint.env = list(table.command), table.env
        endpoint.cwd, endpoint.timeout_s = self.offered.config.base_dir / table.cwd, table.timeout_s

    def found_runs(self) -> list[FoundRun]:
        return scan_runs(self.runs_dir)

    @property
    def runs_dir(self) -> Path:
        return self.offered.site.state / self.runs


MAKER: Final = ExecMaker
