"""All workers of the pipeline that live: making their rooms, hearing of their ends, taking up what a restart finds.

Owns ``state/stage_runs/`` and the rooms, by story and generation. Refuses to decide anything about a story: the end of
a worker is a line of the log, ``stage_worker_ended``, which the lead listens to. Fails with ``CannotStart``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ackd.adapters.exec_runs import ExecEndpoint, scan_runs
from ackd.adapters.process_tree import ProcessTable
from ackd.core import events
from ackd.core.errors import CannotStart
from ackd.core.stage_words import worker_name
from ackd.core.story_ids import execute_id
from ackd.core.story_record import Result
from ackd.dialects import stage_text
from ackd.runtime.pipeline import letters
from ackd.runtime.pipeline.rooms import RUN, ChildLife, Over, PaneLife, Room, RunLife, how_it_ended
from ackd.runtime.quarters import Quarters

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.adapters import checkpoints
    from ackd.adapters.exec_runs import FoundRun
    from ackd.adapters.story_files import StoryFiles
    from ackd.config import Agent, Config
    from ackd.core.message import Message, Place
    from ackd.core.story_record import Story, Try
    from ackd.ports import Clock, Post
    from ackd.runtime.pipeline.rooms import Life
    from ackd.site import Site


@dataclass(kw_only=True, eq=False)
class StageWorkers:
    """``read``: the values of a message's body; ``environment``: what every command we start is told."""

    config: Config
    site: Site
    files: StoryFiles
    tasks: TaskGroup
    post: Post
    record: Callable[[str, dict[str, object]], None]
    clock: Clock
    rng: random.Random
    kept: checkpoints.Checkpoints
    resolve: Callable[[Place], Path]
    read: Callable[[Message, Place], Mapping[str, object]]
    environment: Mapping[str, str]
    stopping: bool = field(default=False, init=False)
    #: Set when what a restart found has its rooms: before that nobody can say whether mail's worker is gone.
    settled_in: anyio.Event = field(default_factory=anyio.Event, init=False)
    #: What became of workers that a restart found gone, until their stories have heard of it.
    lost: dict[tuple[str, int], Over] = field(default_factory=dict, init=False)
    _rooms: dict[tuple[str, int], Room] = field(default_factory=dict, init=False)
    _found: dict[tuple[str, str], FoundRun] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._runs = self.site.state / "stage_runs"
        self._table = ProcessTable()

    def get(self, story_id: str, generation: int) -> Room | None:
        return self._rooms.get((story_id, generation))

    def rooms(self) -> list[Room]:
        return list(self._rooms.values())

    # --- beginning ----------------------------------------------------------------------------------------------------
    async def open(self, story: Story, one: Try) -> Room:
        """A fresh worker that can be told; the one there is, if it was opened before. CannotStart: nothing is left."""
        known = self.get(story.story_id, one.generation)
        if known is not None:
            return known
        room = self._make(story, one)
        try:
            await room.life.start()
        except CannotStart:
            await self.close(room, "it could not be started")
            raise
        return room

    async def take_up(self, story: Story, one: Try) -> Room | Over:
        """After a restart: the worker of a try whose Execute was sent by the daemon before us, or what became of it."""
        told = self.files.is_flagged(story.story_id, one.stage, one.generation, "active")
        run = self._left_runs().pop((worker_name(story.story_id, one.stage), execute_id(story, one.generation)), None)
        if run is not None:
            return self._adopt(story, one, run)
        if not told:  # its Execute waits in its queue
            return await self.open(story, one)
        if self.config.pipeline is not None and self.config.pipeline.worker.endpoint == "tmux":
            return await self._pane(story, one)
        return Over(Result.LOST, "it ended with the daemon before this one")

    async def leaving(self, story: Story, one: Try) -> Room | None:
        """The worker of a try that is over: perhaps a pane that the daemon before us was about to close."""
        known = self.get(story.story_id, one.generation)
        assert self.config.pipeline is not None
        if known is not None or self.config.pipeline.worker.endpoint != "tmux":
            return known
        found = await self._pane(story, one)
        return found if isinstance(found, Room) else None

    async def _pane(self, story: Story, one: Try) -> Room | Over:
        """The pane that carries its mark; a fresh one in its place would have been told nothing."""
        room = self._make(story, one, start=False)
        assert isinstance(room.life, PaneLife)
        owner = room.life.endpoint.eye.owner
        try:
            panes = await room.life.endpoint.tmux.panes()
        except OSError:
            panes = []
        if not any(pane.agent == owner and not pane.dead for pane in panes):
            await self.close(room, "its pane is gone")
            return Over(Result.LOST, "its pane was gone when ackd came back")
        room.told = True
        try:
            await room.life.quarters.supervisor.start(room.agent)
        except CannotStart as error:
            await self.close(room, error.why)
            return Over(Result.LOST, error.why)
        return room

    def _left_runs(self) -> dict[tuple[str, str], FoundRun]:
        """Read once: what is started later is ours."""
        if self._found is None:
            self._found = {(run.agent, run.message_id): run for run in scan_runs(self._runs)}
        return self._found

    def _adopt(self, story: Story, one: Try, run: FoundRun) -> Room:
        room = self._make(story, one)
        room.told = True
        assert isinstance(room.life, RunLife)
        room.life.adopt(run)
        if not run.alive:
            outcome = run.outcome or events.Outcome.STOPPED
            detail = run.detail if run.outcome is not None else "its run ended without a word"
            self._run_over(room, outcome, detail, RUN)
        return room

    # --- ending -------------------------------------------------------------------------------------------------------
    async def close(self, room: Room, why: str) -> None:
        """Nothing of it is left when this returns, and nothing is heard of it any more."""
        self._rooms.pop(room.key, None)
        with anyio.CancelScope(shield=True):
            await room.life.end(why)

    async def stop(self, agent: str, drain_s: float) -> None:
        """The daemon ends. What it ends with it was lost, which the next one finds out."""
        self.stopping = True
        for room in [room for room in self.rooms() if room.agent == agent]:
            await room.life.stop(drain_s)

    def discard_left(self) -> None:
        """Runs of tries that are over: seen through, and forgotten."""
        for run in list(self._left_runs().values()):
            self._exec(run.agent, self.config.agent(run.agent), {}, lambda _: None).adopt(None, run)
        self._left_runs().clear()

    # --- making -------------------------------------------------------------------------------------------------------
    def _make(self, story: Story, one: Try, *, start: bool = True) -> Room:
        agent = worker_name(story.story_id, one.stage)
        heard = partial(self._heard, (story.story_id, one.generation))
        life = self._life(story, one, heard, start=start)
        room = Room(story.story_id, one.stage, one.generation, agent, life)
        self._rooms[room.key] = room
        return room

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

    def _life(self, story: Story, one: Try, heard: Post, *, start: bool) -> Life:
        assert self.config.pipeline is not None
        agent, rules = worker_name(story.story_id, one.stage), self.config.pipeline.texts
        variables, table = self._variables(story, one), self.config.agent(agent)
        if table.endpoint.value == "exec":
            return RunLife(self._exec(agent, table, variables, heard), self._table, rules)
        quarters = Quarters(
            config=self.config,
            site=self.site,
            tasks=self.tasks,
            post=heard,
            record=self.record,
            clock=self.clock,
            rng=self.rng,
            kept=self.kept,
            resolve=self.resolve,
            read=self.read,
            environment={**self.environment, **variables},
            is_stopped=lambda _: not start,
            mark=f".g{one.generation}",
        )
        if table.endpoint.value == "process":
            spoke = partial(self._spoke, (story.story_id, one.generation))
            return ChildLife(agent, quarters.process(agent, table), quarters, rules, spoke)
        line = partial(letters.line_for, story, one)
        return PaneLife(agent, quarters.terminal(agent, table), quarters, line)

    def _exec(self, agent: str, table: Agent, variables: dict[str, str], heard: Post) -> ExecEndpoint:
        return ExecEndpoint(
            agent=agent,
            command=list(table.command),
            cwd=self.config.base_dir / table.cwd,
            env=table.env,
            runs_dir=self._runs,
            resolve=self.resolve,
            post=heard,
            record=self.record,
            tasks=self.tasks,
            extra_env={**self.environment, **variables},
            timeout_s=table.timeout_s,
            stop_timeout_s=self.config.daemon.stop_timeout_s,
        )

    # --- hearing ------------------------------------------------------------------------------------------------------
    def _heard(self, key: tuple[str, int], event: events.Event) -> None:
        room = self._rooms.get(key)
        if room is None:
            return
        room.seen_at = anyio.current_time()
        match event:
            case events.RunEnded(run, outcome, detail):
                self._run_over(room, outcome, detail, run)
            case events.AgentDied(why=why, wanted=wanted):
                self._end(room, Over(Result.LOST if wanted else Result.CRASHED, why, self._report(room, RUN)))
            case events.AgentStuck() | events.AgentReady() | events.Seen() | events.SignOfLife():
                self.post(event)
            case _:
                pass  # the engine keeps no watch over it

    def _run_over(self, room: Room, outcome: events.Outcome, detail: str, run: int) -> None:
        self._end(room, Over(*how_it_ended(outcome, detail), self._report(room, run)))

    def _report(self, room: Room, run: int) -> str | None:
        assert self.config.pipeline is not None
        return stage_text.last_report(room.life.printed(run), *self.config.pipeline.texts)

    def _spoke(self, key: tuple[str, int]) -> None:
        """A line of the log is the lead's hint that words wait; what they say stands in the line that follows."""
        room = self._rooms.get(key)
        if room is not None and not self.stopping:
            room.seen_at = anyio.current_time()
            self.record("stage_said", room.about())

    def _end(self, room: Room, over: Over) -> None:
        if room.over is None and not self.stopping:
            room.over = over
            self.record("stage_worker_ended", {**room.about(), "why": over.why, "reported": over.report is not None})
