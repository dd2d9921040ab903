"""The stage workers that live: starting them, noticing their ends, and finding them again after a restart.

There is one worker for each try of a stage, known by its story and generation. Runs of commands keep their files in
``state/stage_runs/``. What the end of a worker means for its story is decided elsewhere: an end is recorded
and emitted as ``StageNews``, which makes the reconciler look. Starting fails with ``CannotStart``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from ackd.coordination.pipeline import drafts
from ackd.coordination.pipeline import wire as stage_text
from ackd.coordination.pipeline.facts import stage_said, stage_worker_ended
from ackd.coordination.pipeline.own_agents import PipelineAgents
from ackd.coordination.pipeline.rules.ids import execute_id
from ackd.coordination.pipeline.rules.record import Result
from ackd.coordination.pipeline.rules.stage_names import worker_name
from ackd.coordination.pipeline.worker_kinds import (
    KINDS,
    RUN,
    CommandProcess,
    PaneProcess,
    StdinProcess,
    result_of_end,
)
from ackd.core import events
from ackd.core.errors import CannotStart
from ackd.core.signals import Signal
from ackd.core.values import value
from ackd.endpoints.exec.maker import ExecMaker
from ackd.endpoints.exec.settings import ExecSettings
from ackd.endpoints.process.maker import ProcessMaker
from ackd.endpoints.process.settings import ProcessSettings
from ackd.endpoints.tmux.maker import TmuxMaker
from ackd.endpoints.tmux.settings import TmuxSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.config.agents import AgentSettings
    from ackd.coordination.pipeline.files import StoryFiles
    from ackd.coordination.pipeline.rules.record import Story, Try
    from ackd.coordination.pipeline.settings import PipelineSettings
    from ackd.coordination.pipeline.worker_kinds import WorkerProcess
    from ackd.core.ports import Keeper, Post
    from ackd.endpoints.making import FoundRun, Offered


@value
class StageNews(Signal):
    """A stage worker has said something or has ended: the reconciler looks at its story."""


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """The end of a worker, and its report, if it printed one."""

    how: Result
    why: str
    report: str | None = None


@dataclass(eq=False)
class LiveWorker:
    """A worker that lives, or has just ended. Times are monotonic."""

    story_id: str
    stage: int
    generation: int
    agent: str
    process: WorkerProcess
    #: True when its Execute was handed over.
    told: bool = False
    #: True if this daemon raised the flag on disk that says so.
    flagged: bool = False
    #: True if it printed a line that resembles a report, and is none.
    printed_unclear: bool = False
    end: WorkerEnd | None = None
    seen_at: float = field(default_factory=anyio.current_time)
    asked_at: float | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.story_id, self.generation

    def about(self) -> dict[str, Any]:
        return {"story": self.story_id, "stage": self.stage, "agent": self.agent, "generation": self.generation}


@dataclass(kw_only=True, eq=False)
class StageWorkers:
    """``new_supervisor`` makes the supervisor of a single worker, which posts what becomes of it."""

    offered: Offered
    pipeline: PipelineSettings
    files: StoryFiles
    new_supervisor: Callable[[Post], Keeper]
    stopping: bool = field(default=False, init=False)
    #: Set when the workers that a restart found are known here. Before that nobody can say whose worker is gone.
    recovered: anyio.Event = field(default_factory=anyio.Event, init=False)
    #: Ends of workers that a restart did not find, until their stories have been told.
    lost: dict[tuple[str, int], WorkerEnd] = field(default_factory=dict, init=False)
    _workers: dict[tuple[str, int], LiveWorker] = field(default_factory=dict, init=False)
    _found: dict[tuple[str, str], FoundRun] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.services, self._agents = self.offered.services, PipelineAgents(self.pipeline)

    @property
    def kind(self) -> type[WorkerProcess]:
        """The kind of the workers that the config names; one of an earlier daemon may be of another."""
        return KINDS[self.pipeline.worker.endpoint]

    def get(self, story_id: str, generation: int) -> LiveWorker | None:
        return self._workers.get((story_id, generation))

    def all(self) -> list[LiveWorker]:
        return list(self._workers.values())

    # --- beginning ----------------------------------------------------------------------------------------------------
    async def open(self, story: Story, one: Try) -> LiveWorker:
        """Start the try's worker, or return it if it was started before. CannotStart: nothing of it is left."""
        known = self.get(story.story_id, one.generation)
        if known is not None:
            return known
        worker = self._add(story, one, self._process(story, one))
        try:
            await worker.process.start()
        except CannotStart:
            await self.close(worker, "it could not be started")
            raise
        return worker

    async def recover(self, story: Story, one: Try) -> LiveWorker | WorkerEnd:
        """Find the worker that an earlier daemon sent its Execute to, or say how it ended."""
        told = self.files.is_flagged(story.story_id, one.stage, one.generation, "active")
        agent = worker_name(story.story_id, one.stage)
        run = self._leftover_runs().pop((agent, execute_id(story, one.generation)), None)
        if run is not None:
            return self._adopt(story, one, run)
        if not told:  # the Execute waits in the worker's queue
            return await self.open(story, one)
        if self.kind.is_marked:
            return await self._find_pane(story, one)
        return WorkerEnd(Result.LOST, "it ended with the daemon before this one")

    async def find_leaving(self, story: Story, one: Try) -> LiveWorker | None:
        """Return the worker of a try that is over. It may be a pane that an earlier daemon was about to close."""
        known = self.get(story.story_id, one.generation)
        if known is not None or not self.kind.is_marked:
            return known
        found = await self._find_pane(story, one)
        return found if isinstance(found, LiveWorker) else None

    async def _find_pane(self, story: Story, one: Try) -> LiveWorker | WorkerEnd:
        """Find the pane that carries the worker's mark. A new pane in its place would not know its task."""
        process = self._pane(story, one, start=False)
        worker = self._add(story, one, process)
        if not await process.is_open():
            await self.close(worker, "its pane is gone")
            return WorkerEnd(Result.LOST, "its pane was gone when ackd came back")
        worker.told = True
        try:
            await process.supervisor.start(worker.agent)
        except CannotStart as error:
            await self.close(worker, error.why)
            return WorkerEnd(Result.LOST, error.why)
        return worker

    def _leftover_runs(self) -> dict[tuple[str, str], FoundRun]:
        """Scan for runs of an earlier daemon, once: runs that begin later are our own."""
        if self._found is None:
            self._found = {(run.agent, run.message_id): run for run in self._runs(self.offered).found_runs()}
        return self._found

    def _adopt(self, story: Story, one: Try, run: FoundRun) -> LiveWorker:
        process = self._command(story, one)
        worker = self._add(story, one, process)
        worker.told = True
        process.adopt(run)
        if not run.alive:
            outcome = run.outcome or events.Outcome.STOPPED
            detail = run.detail if run.outcome is not None else "its run ended without a word"
            self._run_ended(worker, outcome, detail, RUN)
        return worker

    # --- ending -------------------------------------------------------------------------------------------------------
    async def close(self, worker: LiveWorker, why: str) -> None:
        """End the worker. Nothing of it is left when this returns, and its later events are ignored."""
        self._workers.pop(worker.key, None)
        with anyio.CancelScope(shield=True):
            await worker.process.end(why)

    async def stop(self, agent: str, drain_s: float, *, leave: bool = False) -> None:
        """Stop serving an agent's workers because the daemon ends. The next daemon finds out which of them are lost.
        ``leave``: it follows at once, and adopts what can go on."""
        self.stopping = True
        for worker in [worker for worker in self.all() if worker.agent == agent]:
            await (worker.process.leave(drain_s) if leave else worker.process.stop(drain_s))

    def discard_leftover_runs(self) -> None:
        """Wait for the end of runs whose tries are over, and remove their files."""
        for run in list(self._leftover_runs().values()):
            unheard = replace(self.offered, services=replace(self.services, post=lambda _: None))
            self._runs(unheard).make(run.agent, ExecSettings(endpoint="exec")).adopt(None, run)
        self._leftover_runs().clear()

    # --- making -------------------------------------------------------------------------------------------------------
    def _add(self, story: Story, one: Try, process: WorkerProcess) -> LiveWorker:
        agent = worker_name(story.story_id, one.stage)
        worker = LiveWorker(story.story_id, one.stage, one.generation, agent, process)
        self._workers[worker.key] = worker
        return worker

    def _process(self, story: Story, one: Try) -> WorkerProcess:
        match self._table(story, one):
            case ExecSettings():
                return self._command(story, one)
            case ProcessSettings() as table:
                return self._child(story, one, table)
            case TmuxSettings():
                return self._pane(story, one, start=True)
            case other:
                raise AssertionError(other)  # the pipeline's settings allow no other kind

    def _table(self, story: Story, one: Try) -> AgentSettings | None:
        """Return the worker's table: of the pipeline that this daemon serves, whatever a config read later says."""
        return self._agents.table(worker_name(story.story_id, one.stage))

    def _command(self, story: Story, one: Try) -> CommandProcess:
        agent = worker_name(story.story_id, one.stage)
        table = self._table(story, one)
        if not isinstance(table, ExecSettings):  # a run of an earlier daemon, whose config had another kind of worker
            table = ExecSettings(endpoint="exec")
        offered = self._offered_to(story, one, self.offered.keeper)
        endpoint = self._runs(offered).make(agent, table)
        return CommandProcess(endpoint=endpoint, table=offered.processes, rules=self.pipeline.texts)

    def _child(self, story: Story, one: Try, table: ProcessSettings) -> StdinProcess:
        agent, supervisor = worker_name(story.story_id, one.stage), self._supervisor(story, one)
        return StdinProcess(
            agent=agent,
            endpoint=ProcessMaker(self._offered_to(story, one, supervisor)).make(agent, table),
            supervisor=supervisor,
            rules=self.pipeline.texts,
            spoke=partial(self._spoke, (story.story_id, one.generation)),
        )

    def _pane(self, story: Story, one: Try, *, start: bool) -> PaneProcess:
        agent, supervisor = worker_name(story.story_id, one.stage), self._supervisor(story, one)
        table = self._table(story, one)
        assert isinstance(table, TmuxSettings)
        offered = self._offered_to(story, one, supervisor, start=start)
        return PaneProcess(
            agent=agent,
            endpoint=TmuxMaker(offered).make(agent, table),
            supervisor=supervisor,
            line=partial(drafts.line_for, story, one),
        )

    def _offered_to(self, story: Story, one: Try, supervisor: Keeper, *, start: bool = True) -> Offered:
        """Return what the daemon offers, for the endpoint of this worker alone. ``start``: it is started at once."""
        return replace(
            self.offered,
            services=replace(self.services, post=partial(self._happened, (story.story_id, one.generation))),
            keeper=supervisor,
            is_stopped=lambda _: not start,
            environment={**self.offered.environment, **self._variables(story, one)},
            suffix=f".g{one.generation}",
        )

    def _supervisor(self, story: Story, one: Try) -> Keeper:
        return self.new_supervisor(partial(self._happened, (story.story_id, one.generation)))

    def _runs(self, offered: Offered) -> ExecMaker:
        """Return the maker of commands. Runs of stage workers are kept apart from those of ordinary agents."""
        return ExecMaker(offered, runs="stage_runs")

    def _variables(self, story: Story, one: Try) -> dict[str, str]:
        found = {
            "ACKD_STORY": story.story_id,
            "ACKD_STAGE": str(one.stage),
            "ACKD_TRY": str(one.generation),
            "ACKD_AGENT": worker_name(story.story_id, one.stage),
            "ACKD_STATUS_CHECK": str(self.files.flag(story.story_id, one.stage, one.generation, "asked").absolute()),
        }
        if self.files.checkpoint(story.story_id, one.stage) is not None:
            found["ACKD_CHECKPOINT"] = str(self.files.checkpoint_path(story.story_id).absolute())
        return found

    # --- events of workers --------------------------------------------------------------------------------------------
    def _happened(self, key: tuple[str, int], event: events.Event) -> None:
        worker = self._workers.get(key)
        if worker is None:
            return
        worker.seen_at = anyio.current_time()
        match event:
            case events.RunEnded(run, outcome, detail):
                self._run_ended(worker, outcome, detail, run)
            case events.AgentDied(why=why, wanted=wanted):
                how = Result.LOST if wanted else Result.CRASHED
                self._ended(worker, WorkerEnd(how, why, self._last_report(worker, RUN)))
            case events.AgentStuck() | events.AgentReady() | events.Seen() | events.SignOfLife():
                self.services.post(event)
            case _:
                pass  # the engine does not watch stage workers

    def _run_ended(self, worker: LiveWorker, outcome: events.Outcome, detail: str, run: int) -> None:
        self._ended(worker, WorkerEnd(result_of_end(outcome), detail, self._last_report(worker, run)))

    def _last_report(self, worker: LiveWorker, run: int) -> str | None:
        return stage_text.last_report(worker.process.printed(run), *self.pipeline.texts)

    def _spoke(self, key: tuple[str, int]) -> None:
        """Record ``stage_said``, which makes the reconciler look. The mail that it makes has the text."""
        worker = self._workers.get(key)
        if worker is not None and not self.stopping:
            worker.seen_at = anyio.current_time()
            self.services.record(stage_said(**worker.about()))
            self.services.emit(StageNews())

    def _ended(self, worker: LiveWorker, end: WorkerEnd) -> None:
        if not self.stopping:
            self._note_end(worker, end)

    def cannot_be_told(self, worker: LiveWorker, why: str) -> None:
        """Note that the worker's Execute could not be told. That is the end of this worker."""
        self._note_end(worker, WorkerEnd(Result.CRASHED, why))

    def _note_end(self, worker: LiveWorker, end: WorkerEnd) -> None:
        if worker.end is None:
            worker.end = end
            self.services.record(stage_worker_ended(**worker.about(), why=end.why, reported=end.report is not None))
            self.services.emit(StageNews())
