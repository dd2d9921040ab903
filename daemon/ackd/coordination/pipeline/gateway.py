"""Puts the pipeline together for one daemon: the reconciler, the lead's handler, and the endpoints of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.coordination.pipeline.endpoint import StageEndpoint
from ackd.coordination.pipeline.executor import Executor
from ackd.coordination.pipeline.files import StoryFiles
from ackd.coordination.pipeline.mailbox import Mailboxes
from ackd.coordination.pipeline.reconciler import Reconciler
from ackd.coordination.pipeline.reports import Reports
from ackd.coordination.pipeline.rules.stage_names import LEAD, whose_worker
from ackd.coordination.pipeline.settings import PipelineSettings
from ackd.coordination.pipeline.workers import StageWorkers
from ackd.core.names import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.coordination.gateway import Gateway, GatewayContext


def make(context: GatewayContext, others: Mapping[str, Gateway]) -> Reconciler | None:  # noqa: ARG001 - requires nobody
    pipeline = context.config.settings(PipelineSettings)
    if pipeline is None:
        return None
    workers = StageWorkers(
        offered=context.offered,
        pipeline=pipeline,
        files=StoryFiles(context.site.state / "stories", durable=context.site.fsync),
        new_supervisor=context.new_supervisor,
    )
    executor = Executor(
        pipeline=pipeline,
        services=context.services,
        workers=workers,
        mailboxes=Mailboxes(context.spool, context.box),
        tasks=workers.services.tasks,
        admit=context.admit,
        escalate=context.escalate,
    )

    def endpoint(agent: str) -> StageEndpoint | None:
        if whose_worker(agent, pipeline.id_pattern) is None:
            return None
        return StageEndpoint(agent=agent, workers=workers, services=workers.services)

    context.handlers[identity(LEAD)] = Reports(executor)
    context.endpoint_makers.append(endpoint)
    return Reconciler(config=context.live, executor=executor)
