"""The pipeline's parts, put together for one daemon: the lead, its ear, and its workers' places in the team."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.names import identity
from ackd.core.stage_words import LEAD
from ackd.runtime.pipeline.boxes import Boxes
from ackd.runtime.pipeline.conduct import Conduct
from ackd.runtime.pipeline.endpoint import StageEndpoint
from ackd.runtime.pipeline.lead import Lead
from ackd.runtime.pipeline.reports import Reports
from ackd.runtime.pipeline.workers import StageWorkers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from ackd.core.message import Draft
    from ackd.ports import Post
    from ackd.runtime.gateways.gateway import Around
    from ackd.runtime.team import Team


def made(
    *,
    team: Team,
    around: Around,
    workers: StageWorkers,
    tasks: TaskGroup,
    post: Post,
    admit: Callable[[str], bool],
    escalate: Callable[[Draft], Awaitable[None]],
) -> Lead:
    pipeline = team.config.pipeline
    assert pipeline is not None
    conduct = Conduct(
        pipeline=pipeline,
        around=around,
        files=workers.files,
        workers=workers,
        boxes=Boxes(team.spool, team.box),
        tasks=tasks,
        admit=admit,
        escalate=escalate,
    )
    lead = Lead(config=team.config, conduct=conduct)
    team.inside[identity(LEAD)] = Reports(conduct)
    team.stage_endpoint = lambda name: StageEndpoint(
        agent=name, workers=workers, tasks=tasks, post=post, failed=lead.failed
    )
    return lead
