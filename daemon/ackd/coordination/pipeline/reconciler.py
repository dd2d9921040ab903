"""The pipeline's gateway: looks at the stories, compares what their records say with what is, and does what is missing.

Each look finds whose turn it is, which workers have ended or are quiet, which reports still need an ACK, which workers
are still to leave, and which agents wait for stories that they started. The files are the truth; a hint only says that
there may be news. What becomes of a story is decided in ``rules/decisions`` and carried out by the executor. When the
disk refuses something, that is recorded, and tried again with the next look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ackd.coordination.gateway import Gateway, WaitsSaid
from ackd.coordination.pipeline import drafts
from ackd.coordination.pipeline.mailbox import remove_empty_queues
from ackd.coordination.pipeline.rules import decisions
from ackd.coordination.pipeline.rules.decisions import Ack, StoryDecision
from ackd.coordination.pipeline.rules.record import REPORTED, BadStoryRecord, Doubt, Result
from ackd.coordination.pipeline.rules.stage_names import worker_name
from ackd.coordination.pipeline.rules.story import ENDS, StoryState, stage_of
from ackd.coordination.pipeline.workers import StageNews, WorkerEnd
from ackd.core.daemon_facts import io_error
from ackd.core.errors import Busy, CannotStart
from ackd.core.waits import Wait
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.config.live import LiveConfig
    from ackd.coordination.pipeline.executor import Executor
    from ackd.coordination.pipeline.files import StoryFiles
    from ackd.coordination.pipeline.rules.record import Story, Try
    from ackd.coordination.pipeline.settings import PipelineSettings
    from ackd.coordination.pipeline.workers import LiveWorker, StageWorkers
    from ackd.core.signals import Signal

#: The time between two looks while anyone is at work, for signs of life, flags and deadlines.
LOOK_EVERY_S: Final = 1.0
#: An agent that waits for a story is told of signs of life of its worker no more often than this.
SIGN_EACH_S: Final = 30.0


@dataclass(kw_only=True, eq=False)
class Reconciler(Gateway):
    config: LiveConfig
    executor: Executor
    name: str = field(default="pipeline", init=False)
    listens: frozenset[type[Signal]] = field(default=frozenset({StageNews}), init=False)
    _known: dict[str, tuple[object, Story]] = field(default_factory=dict, init=False)
    _bad: dict[str, str] = field(default_factory=dict, init=False)
    _in_progress: set[str] = field(default_factory=set, init=False)
    _waits_said: WaitsSaid = field(init=False)

    def __post_init__(self) -> None:
        self._waits_said = WaitsSaid(self.name, self.executor.services.post)

    @property
    def pipeline(self) -> PipelineSettings:
        return self.executor.pipeline

    @property
    def files(self) -> StoryFiles:
        return self.executor.files

    @property
    def workers(self) -> StageWorkers:
        return self.executor.workers

    # --- a gateway ----------------------------------------------------------------------------------------------------
    def heard(self, signal: Signal) -> None:
        """Do nothing: the signal only makes us look, and ``workers`` knows whose end it was."""

    def prepare(self) -> None:
        remove_empty_queues(self.workers.offered.site, self.files, self.pipeline.id_pattern)

    def places(self) -> frozenset[str]:
        return frozenset({str(self.files.directory)})

    def page(self) -> dict[str, object]:
        states = [story.state for _, story in self._known.values()]
        return {state.value: count for state in StoryState if (count := states.count(state))}

    async def look(self, where: frozenset[str] | None) -> float | None:  # noqa: ARG002 - all stories are few
        try:
            return None if self.workers.stopping else await self._look()
        except Busy as held:
            raise OSError(str(held)) from None

    async def _look(self) -> float | None:
        self.files.make()  # a directory that does not exist cannot be watched, and the first story would be met late
        stories = self._stories()
        self._say_who_waits(stories)  # first, because the rest may take long or be refused
        if not self.workers.recovered.is_set():
            await self._recover(stories)
            self.workers.recovered.set()
            stories = self._stories()
        for story, of in decisions.orphans(stories):
            await self._decide(story.story_id, partial(decisions.orphaned, of=of, now=self.executor.wall()))
        for story in decisions.next_turns(stories, self.pipeline.max_parallel):
            await self._decide(story.story_id, self._turn)
        stories = self._stories()
        self._say_who_waits(stories)
        for story in stories:
            if self._wants_attention(story) and story.story_id not in self._in_progress:
                self._in_progress.add(story.story_id)
                self.executor.tasks.start_soon(self._attend, story.story_id, name=f"story {story.story_id}")
        busy = any(stage_of(story.state) is not None for story in stories) or self.workers.all()
        return LOOK_EVERY_S if busy else None

    async def _decide(self, story_id: str, decide: Callable[[Story], StoryDecision]) -> None:
        """Decide about one story. If its record cannot be written, the other stories go on."""
        try:
            await self.executor.decide(story_id, decide)
        except (OSError, Busy, BadStoryRecord) as error:
            self._record_trouble(story_id, error)

    def _turn(self, story: Story) -> StoryDecision:
        """Give the story its turn, unless it was paused since it was looked at."""
        return (
            decisions.turn(story, self.executor.wall()) if story.state is StoryState.WAITING else StoryDecision(story)
        )

    def _stories(self) -> list[Story]:
        """Read the stories that have changed. A record that cannot be read is reported once, and left alone."""
        found: dict[str, tuple[object, Story]] = {}
        for story_id in self.files.ids():
            signature = self.files.signature(story_id)
            known = self._known.get(story_id)
            if known is not None and known[0] == signature:
                found[story_id] = known
                continue
            try:
                story = self.files.read(story_id)
            except BadStoryRecord as bad:
                self._record_bad(bad)
                continue
            self._bad.pop(story_id, None)
            if story is not None:
                found[story_id] = (signature, story)
        self._known = found
        return [story for _, story in found.values()]

    def _say_who_waits(self, stories: list[Story]) -> None:
        """Tell the engine which agents wait for stories that they started: they are not idle at their prompts.

        A paused story is not over, so its starter still waits.
        """
        self._waits_said.say(
            (self.executor.services.called(one.started_by), Wait(None, f"story {one.story_id}", self._progress(one)))
            for one in stories
            if one.started_by is not None and one.state not in ENDS
        )

    def _progress(self, story: Story) -> str:
        """Return a text that changes with each step, and now and then while the story's worker shows signs of life."""
        worker = self.workers.get(story.story_id, story.generation) if story.current is not None else None
        sign = f", sign {worker.seen_at // SIGN_EACH_S:.0f}" if worker is not None else ""
        return f"{story.state.value} {story.moves}{sign}"

    def _record_bad(self, bad: BadStoryRecord) -> None:
        if self._bad.get(bad.story) != bad.why:
            self._bad[bad.story] = bad.why
            self.executor.services.record(io_error(what=f"state/stories/{bad.story}.json", error=bad.why))

    def _wants_attention(self, story: Story) -> bool:
        open_ones = any(not one.settled for one in story.tries)
        untold = story.escalated != story.pauses or story.logged != story.moves
        return story.current is not None or open_ones or untold

    # --- one story ----------------------------------------------------------------------------------------------------
    async def _attend(self, story_id: str) -> None:
        try:
            async with self.executor.lock(story_id):
                await self._reconcile(story_id)
        except (OSError, Busy, BadStoryRecord) as error:
            self._record_trouble(story_id, error)
        finally:
            self._in_progress.discard(story_id)

    def _record_trouble(self, story_id: str, error: Exception) -> None:
        self.executor.services.record(io_error(what=f"story {story_id}", error=str(error)))

    async def _reconcile(self, story_id: str) -> None:
        """Do whatever the record says should have been done, and was not."""
        story = self.files.read(story_id)
        if story is None or self.workers.stopping:
            return
        if story.logged != story.moves:
            await self.executor.decide(story_id, StoryDecision)
        if story.escalated != story.pauses:
            await self.executor.tell_person(story)
        for one in story.tries:
            await self._dismiss(story, one)
        current = story.current
        if current is not None and not current.executed:
            await self.executor.spawn(story, current)
        elif current is not None:
            await self._watch(story, current)

    async def _dismiss(self, story: Story, one: Try) -> None:
        """For a try that is over: acknowledge its report, then let its worker leave."""
        if one.settled or one.ended_at is None:
            return
        if one.result in REPORTED and one.acked_at is None:
            await self.executor.ack(story, Ack(one.generation, worker_name(story.story_id, one.stage), one.report_id))
        self.executor.shutdown.begin(story.story_id, one.generation)

    # --- after a restart ----------------------------------------------------------------------------------------------
    async def _recover(self, stories: list[Story]) -> None:
        """Find the workers that outlived the daemon before us, and what became of the others."""
        if stories:
            await in_thread(self.files.sweep)
        async with anyio.create_task_group() as side_by_side:
            for story in stories:
                if story.current is not None:
                    side_by_side.start_soon(self._recover_one, story.story_id, name=f"story {story.story_id}, again")
        self.workers.discard_leftover_runs()

    async def _recover_one(self, story_id: str) -> None:
        try:
            await self._recover_worker(story_id)
        except (OSError, Busy, BadStoryRecord) as error:
            self._record_trouble(story_id, error)

    async def _recover_worker(self, story_id: str) -> None:
        async with self.executor.lock(story_id):
            story = self.files.read(story_id)
            one = story.current if story is not None else None
            if story is None or one is None:
                return
            told = self.files.is_flagged(story_id, one.stage, one.generation, "active")
            if not one.executed and not told:
                await self.executor.spawn(story, one)
                return
            if not one.executed:  # the Execute was sent, and the daemon died before the record said so
                await self.executor.mark_executed(story, one)
            self.executor.admit(worker_name(story_id, one.stage))
            try:
                found = await self.workers.recover(story, one)
            except CannotStart as error:
                found = WorkerEnd(Result.LOST, error.why)
            if isinstance(found, WorkerEnd):
                self.workers.lost[story_id, one.generation] = found
            elif one.doubt is not None:
                await self.executor.ask(story, one)

    # --- watching -----------------------------------------------------------------------------------------------------
    async def _watch(self, story: Story, one: Try) -> None:
        worker = self.workers.get(story.story_id, one.generation)
        end = self.workers.lost.get((story.story_id, one.generation)) if worker is None else worker.end
        if worker is not None and (end is None or end.report is None) and await self._pass_on(story, one, worker):
            return
        if end is not None:
            await self._ended(story, one, end)
        elif worker is None:
            await self._ended(story, one, WorkerEnd(Result.LOST, "nothing is known of it"))
        elif worker.told:
            await self._keep_watch(story, one, worker)

    async def _pass_on(self, story: Story, one: Try, worker: LiveWorker) -> bool:
        """Turn lines that the worker printed for the lead into mail; it is read before anything else is judged."""
        words = worker.process.words()
        for said in words:
            if said.clear:
                draft = drafts.printed_report(story, one, said.text, *self.pipeline.texts, said.nth)
            else:
                draft = drafts.printed_near_miss(story, one, said.text, said.nth)
                worker.printed_unclear = True
            await self.executor.services.mail(draft)
            worker.process.mark_taken(said)
        return bool(words)

    async def _ended(self, story: Story, one: Try, end: WorkerEnd) -> None:
        """Judge a worker's end, after its last report, if there is one, was read."""
        agent = worker_name(story.story_id, one.stage)
        if end.report is not None:
            await self.executor.services.mail(drafts.printed_report(story, one, end.report, *self.pipeline.texts))
            worker = self.workers.get(story.story_id, one.generation)
            if worker is not None:
                worker.end = WorkerEnd(end.how, end.why)
            return
        if self.executor.mailboxes.has_unread_from(agent):
            return
        self.workers.lost.pop((story.story_id, one.generation), None)
        words = f"it ended without a report ({end.why})" if end.how is Result.CRASHED else end.why
        why = (one.generation, end.how, words, self.executor.wall(), self.pipeline.budgets)
        await self.executor.decide(story.story_id, lambda now: decisions.broke(now, *why), carry_out=True)

    async def _keep_watch(self, story: Story, one: Try, worker: LiveWorker) -> None:
        now = anyio.current_time()
        if worker.process.pulse() is not None:
            worker.seen_at = now
        lives = worker.asked_at is not None and worker.seen_at > worker.asked_at
        if one.doubt is not None and one.doubt is not Doubt.GARBLED and lives:
            await self.executor.decide(story.story_id, lambda it: decisions.lived(it, one.generation))
        elif one.doubt is not None:
            if worker.asked_at is None or now < worker.asked_at + self._probe_s() or self._may_not_hear(one, worker):
                return
            why = (one.generation, self.executor.wall(), self.pipeline.budgets)
            await self.executor.decide(story.story_id, lambda it: decisions.unanswered(it, *why), carry_out=True)
        elif (doubt := self._doubt(story, one, worker, now)) is not None:
            wall = self.executor.wall()
            await self.executor.decide(
                story.story_id, lambda it: decisions.doubted(it, one.generation, doubt, wall), carry_out=True
            )

    def _doubt(self, story: Story, one: Try, worker: LiveWorker, now: float) -> Doubt | None:
        held = self.files.notes(story.story_id, one.stage, one.generation).held_since
        if held is not None and (one.asked_at is None or one.asked_at < held):
            return Doubt.HELD if self.executor.wall() >= held + self.pipeline.report_patience_s else None
        quiet_s = self._quiet_s()
        return Doubt.QUIET if quiet_s is not None and now >= worker.seen_at + quiet_s else None

    def _may_not_hear(self, one: Try, worker: LiveWorker) -> bool:
        """Return whether the worker may be unable to answer a status check.

        A command that printed something unclear and goes on may never look for one. Its end is waited for, unless its
        table says how long it may take to answer.
        """
        patient = self._quiet_s() is None and self.pipeline.worker.probe_timeout_s is None
        return one.doubt is Doubt.GARBLED and worker.printed_unclear and patient

    def _quiet_s(self) -> float | None:
        """Return how long a worker may be quiet. A quiet command may just be working: only the config sets a limit."""
        own = self.pipeline.worker.heartbeat_timeout_s
        if own is not None or self.workers.kind.works_silently:
            return own
        return self.config.now.liveness.heartbeat_timeout_s

    def _probe_s(self) -> float:
        return self.pipeline.worker.probe_timeout_s or self.config.now.liveness.probe_timeout_s
