"""The agents that a [pipeline] brings: its lead, inside the daemon, and a worker for each stage of a story."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ackd.config.agents import agent_of
from ackd.coordination.pipeline.rules.stage_names import is_lead, whose_worker
from ackd.core.policy import NEVER, UNLIMITED, AgentPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.config.agents import AgentSettings
    from ackd.coordination.pipeline.settings import PipelineSettings

#: The engine delivers what the lead says, and the lead watches over the workers: a status check and a respawn are their
#: ladder. So no time of the engine ends for them. (``rungs``, ``heartbeat_timeout_s``, ``shows`` and ``reminds`` have
#: defaults that mean the same: nobody is woken, asked or reminded.) Their mail is told again, soon and nearly without
#: limit; their one Execute is never told twice.
STAGE_WORKER: Final = AgentPolicy(
    processing_timeout_s=NEVER,
    task_timeout_s=NEVER,
    busy_timeout_s=NEVER,
    retry_limit=1000,
    backoff_base_s=1,
    backoff_cap_s=5,
    crash_limit=1000,
    max_in_flight=UNLIMITED,
)


class PipelineAgents:
    """The lead and the workers, for the config (an implementation of ``config.model.OwnAgents``)."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings

    def table(self, name: str) -> AgentSettings | None:
        if self._is_worker(name):
            return self._worker()
        return agent_of("handler") if is_lead(name) else None

    def policy(self, name: str) -> AgentPolicy | None:
        if not self._is_worker(name):
            return None
        # A pane keeps what was typed into it, even if the daemon dies. Mail for other workers is told again after a
        # crash: their endpoint completes it at once, and nobody else would if the daemon died in between. (An Execute
        # has a flag of its own.)
        return replace(STAGE_WORKER, volatile=not self._settings.worker.in_pane)

    def templates(self) -> Mapping[str, AgentSettings]:
        return {"of the pipeline": self._worker()}

    def _is_worker(self, name: str) -> bool:
        return whose_worker(name, self._settings.id_pattern) is not None

    def _worker(self) -> AgentSettings:
        worker = self._settings.worker
        return agent_of(
            worker.endpoint,
            command=worker.command,
            start=worker.start,
            profile=worker.profile,
            cwd=worker.cwd,
            env=worker.env,
            timeout_s=worker.timeout_s,
            restart="never",
        )
