"""A pipeline for tests: real records and queues on disk, and fake workers that only note what was done to them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import anyio

from ackd.config.agents import LivenessSettings
from ackd.coordination.gateway import GatewayServices
from ackd.coordination.pipeline.executor import Executor
from ackd.coordination.pipeline.files import StoryFiles
from ackd.coordination.pipeline.mailbox import Mailboxes
from ackd.coordination.pipeline.reconciler import Reconciler
from ackd.coordination.pipeline.reports import Reports
from ackd.coordination.pipeline.rules.record import Story
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.coordination.pipeline.settings import PipelineSettings, StageWorker
from ackd.coordination.pipeline.worker_kinds import CommandProcess, WorkerProcess
from ackd.coordination.pipeline.workers import LiveWorker
from ackd.core.errors import CannotStart
from ackd.core.events import Told
from ackd.handlers import Context, Mail
from ackd.storage.spool import Spool
from ackd.system.clock import SystemClock
from tests.live_config import live_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.coordination.pipeline.rules.record import Try
    from ackd.coordination.pipeline.worker_kinds import PrintedWord
    from ackd.coordination.pipeline.workers import StageWorkers, WorkerEnd
    from ackd.core.effects import TellAgent
    from ackd.core.events import Event
    from ackd.core.fact import Fact
    from ackd.core.message import Draft
    from ackd.core.ports import TellAnswer

NEW = Story("A-1", StoryState.WAITING, 1_770_000_000.0, 1)


@dataclass(eq=False)
class FakeProcess:
    """A worker's process that notes each text it is told, and answers with ``answer``."""

    reads_mail: bool = False
    is_marked: bool = False
    works_silently: bool = True
    answer: object = None
    told: list[str] = field(default_factory=list)

    async def start(self) -> None: ...

    async def tell(self, order: TellAgent) -> TellAnswer:
        self.told.append(order.message.message_id)
        return cast("TellAnswer", self.answer or Told(order.key, "told", attempt=order.attempt))

    async def ask(self, text: str) -> None:
        self.told.append(text)

    def pulse(self) -> str | None:
        return None

    async def end(self, why: str) -> None:
        self.told.append(f"end: {why}")

    def is_asked_at_stop(self) -> bool:
        return False

    def leaves_work(self) -> bool:
        return False

    async def leave(self, drain_s: float) -> None:
        await self.stop(drain_s)

    def has_work(self) -> bool:
        return False

    async def stop(self, drain_s: float) -> None: ...

    def printed(self, key: int) -> str:
        return ""

    def words(self) -> list[PrintedWord]:
        return []

    def mark_taken(self, said: PrintedWord) -> None: ...

    def acknowledge(self, text: str) -> None:
        self.told.append(text)


@dataclass(eq=False)
class FakeWorkers:
    """Workers without processes. ``refuses``: why none can be started."""

    files: StoryFiles
    done: list[str]
    refuses: str = ""
    kind: type[WorkerProcess] = CommandProcess
    stopping: bool = False
    lost: dict[tuple[str, int], WorkerEnd] = field(default_factory=dict)
    recovered: anyio.Event = field(default_factory=anyio.Event)
    failed: list[str] = field(default_factory=list)
    known: dict[tuple[str, int], LiveWorker] = field(default_factory=dict)

    def get(self, story_id: str, generation: int) -> LiveWorker | None:
        return self.known.get((story_id, generation))

    async def find_leaving(self, story: Story, one: Try) -> LiveWorker | None:
        return self.get(story.story_id, one.generation)

    def discard_leftover_runs(self) -> None: ...

    def cannot_be_told(self, worker: LiveWorker, why: str) -> None:
        self.failed.append(why)

    def all(self) -> list[LiveWorker]:
        return list(self.known.values())

    async def open(self, story: Story, one: Try) -> LiveWorker:
        if self.refuses:
            raise CannotStart(self.refuses)
        self.done.append(f"start {one.generation}")
        worker = LiveWorker(story.story_id, one.stage, one.generation, story.worker, FakeProcess())
        self.known[worker.key] = worker
        return worker

    async def close(self, worker: LiveWorker, why: str) -> None:
        self.done.append(f"end {worker.generation}")
        self.known.pop(worker.key, None)
        await worker.process.end(why)


@dataclass(eq=False)
class PipelineUnderTest:
    """The parts of a pipeline, and its results.

    ``done``: its actions, in order; ``facts``: the lines of the log; ``posted``: events for the engine.
    """

    executor: Executor
    workers: FakeWorkers
    files: StoryFiles
    spool: Spool
    done: list[str]
    drafts: list[Draft]
    facts: list[tuple[str, dict[str, object]]]
    posted: list[Event]
    tasks: TaskGroup

    @property
    def story(self) -> Story:
        found = self.files.read("A-1")
        assert found is not None
        return found

    async def hear(self, text: str, *, sender: str = "story-A-1-s0", generation: int | None = 1, type_: str = "message",
                   message_id: str = "") -> None:  # fmt: skip
        body: dict[str, object] = {"content": text} | ({"generation": generation} if generation is not None else {})
        name = message_id or f"m{len(self.facts)}"
        mail = Mail(name, sender, "pipeline-lead", type_, 2, "", load=lambda _: body)  # type: ignore[arg-type]
        await Reports(self.executor)(mail, cast("Context", None))

    def reconciler(self) -> Reconciler:
        """Return a new reconciler, as after a restart. It looks only when the test says so."""
        patient = LivenessSettings(heartbeat_timeout_s=3600, probe_timeout_s=3600)
        return Reconciler(config=live_config(liveness=patient), executor=self.executor)

    def types(self) -> list[str]:
        return [type_ for type_, _ in self.facts]


@asynccontextmanager
async def pipeline_under_test(
    place: Path, story: Story = NEW, *, leave_s: float = 0.01
) -> AsyncIterator[PipelineUnderTest]:
    done: list[str] = []
    drafts: list[Draft] = []
    facts: list[tuple[str, dict[str, object]]] = []
    posted: list[Event] = []
    files = StoryFiles(place / "state/stories", durable=False)
    files.change(story.story_id, lambda _: story)
    spool = Spool(place, max_message_bytes=100_000, durable=False)
    spool.ensure_layout()
    workers = FakeWorkers(files, done)

    async def mail(draft: Draft) -> None:
        state = files.read("A-1")
        assert state is not None
        what = str(draft.body.get("content", draft.type)) if draft.type != "escalation" else "escalation"
        done.append(f"{what} [{state.state.value}]")
        drafts.append(draft)

    def record(fact: Fact) -> None:
        type_, data = fact
        facts.append((type_, data))

    services = GatewayServices(
        SystemClock(),
        record,
        mail,
        posted.append,
        lambda name: name if name != "nobody" else None,
        place,
        place,
        place / "state",
        live_config(settle_s=0.1),
        durable=False,
    )
    async with anyio.create_task_group() as tasks:
        executor = Executor(
            pipeline=PipelineSettings(worker=StageWorker(command=("true",)), leave_s=leave_s),
            services=services,
            workers=cast("StageWorkers", workers),
            mailboxes=Mailboxes(spool, lambda name: name),
            tasks=tasks,
            admit=lambda _: True,
            escalate=mail,
        )
        yield PipelineUnderTest(executor, workers, files, spool, done, drafts, facts, posted, tasks)
