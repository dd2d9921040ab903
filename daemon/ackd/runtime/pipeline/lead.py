"""The pipeline lead: a task of the daemon that looks at stories, and does what is missing.

Owns the look: whose turn it is, what became of workers, who is quiet, who is still to be told or sent home, and which
agents wait for the stories that they started. The files are the truth; a hint only says that there may be news. Refuses
to decide (core/story_decisions) and to carry out (conduct). What the disk refuses is told of, and tried again with the
next look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core import story_decisions as deciding
from ackd.core.errors import Busy, CannotStart
from ackd.core.stage_words import worker_name
from ackd.core.story import ENDS, StoryState, stage_of
from ackd.core.story_decisions import Ack, Decision
from ackd.core.story_record import REPORTED, BadStoryRecord, Doubt, Result
from ackd.core.waits import Wait
from ackd.runtime.gateways.waits_said import WaitsSaid
from ackd.runtime.pipeline import letters
from ackd.runtime.pipeline.rooms import Over
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.adapters.story_files import StoryFiles
    from ackd.config import Config
    from ackd.config_pipeline import Pipeline
    from ackd.core.story_record import Story, Try
    from ackd.runtime.pipeline.conduct import Conduct
    from ackd.runtime.pipeline.rooms import Room
    from ackd.runtime.pipeline.workers import StageWorkers

#: While anyone is at work: signs of life, flags, clocks.
LOOK_EVERY_S: Final = 1.0
#: Who waits for a story hears of its worker's signs of life no more often than this.
SIGN_EACH_S: Final = 30.0


@dataclass(kw_only=True, eq=False)
class Lead:
    config: Config
    conduct: Conduct
    name: str = field(default="pipeline", init=False)
    listens: frozenset[str] = field(default=frozenset({"stage_worker_ended", "stage_said"}), init=False)
    _known: dict[str, tuple[object, Story]] = field(default_factory=dict, init=False)
    _bad: dict[str, str] = field(default_factory=dict, init=False)
    _tended: set[str] = field(default_factory=set, init=False)
    _waits_said: WaitsSaid = field(init=False)

    def __post_init__(self) -> None:
        self._waits_said = WaitsSaid(self.name, self.conduct.around.post)

    @property
    def pipeline(self) -> Pipeline:
        return self.conduct.pipeline

    @property
    def files(self) -> StoryFiles:
        return self.conduct.files

    @property
    def workers(self) -> StageWorkers:
        return self.conduct.workers

    # --- a gateway ----------------------------------------------------------------------------------------------------
    def heard(self, type_: str, data: dict[str, object]) -> None:
        """The hint is that it came: whose end it was, the rooms know."""

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
        self.files.make()  # or the first story of a team would be met by the reconciling look only
        stories = self._stories()
        self._say_who_waits(stories)  # not after what may take long, or be refused
        if not self.workers.settled_in.is_set():
            await self._take_up(stories)
            self.workers.settled_in.set()
            stories = self._stories()
        for story, of in deciding.orphans(stories):
            await self._decide(story.story_id, partial(deciding.orphaned, of=of, now=self.conduct.wall()))
        for story in deciding.next_turns(stories, self.pipeline.max_parallel):
            await self._decide(story.story_id, self._turn)
        stories = self._stories()
        self._say_who_waits(stories)
        for story in stories:
            if self._wants_attention(story) and story.story_id not in self._tended:
                self._tended.add(story.story_id)
                self.conduct.tasks.start_soon(self._tend, story.story_id, name=f"story {story.story_id}")
        busy = any(stage_of(story.state) is not None for story in stories) or self.workers.rooms()
        return LOOK_EVERY_S if busy else None

    async def _decide(self, story_id: str, decide: Callable[[Story], Decision]) -> None:
        """One story that cannot be written keeps no other waiting."""
        try:
            await self.conduct.decide(story_id, decide)
        except (OSError, Busy, BadStoryRecord) as error:
            self._tell_trouble(story_id, error)

    def _turn(self, story: Story) -> Decision:
        """It may have been paused since it was looked at."""
        return deciding.turn(story, self.conduct.wall()) if story.state is StoryState.WAITING else Decision(story)

    def _stories(self) -> list[Story]:
        """Read when they have changed; one that cannot be read is told of once, and left alone."""
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
                self._tell_bad(bad)
                continue
            self._bad.pop(story_id, None)
            if story is not None:
                found[story_id] = (signature, story)
        self._known = found
        return [story for _, story in found.values()]

    def _say_who_waits(self, stories: list[Story]) -> None:
        """Who waits at its prompt for a story that it started is not idle; a paused one is not over."""
        self._waits_said.say(
            (self.conduct.around.called(one.started_by), Wait(None, f"story {one.story_id}", self._stands(one)))
            for one in stories
            if one.started_by is not None and one.state not in ENDS
        )

    def _stands(self, story: Story) -> str:
        """Another one with each step, and now and then while its worker lives."""
        room = self.workers.get(story.story_id, story.generation) if story.current is not None else None
        sign = f", sign {room.seen_at // SIGN_EACH_S:.0f}" if room is not None else ""
        return f"{story.state.value} {story.moves}{sign}"

    def _tell_bad(self, bad: BadStoryRecord) -> None:
        if self._bad.get(bad.story) != bad.why:
            self._bad[bad.story] = bad.why
            self.conduct.around.record("io_error", {"what": f"state/stories/{bad.story}.json", "error": bad.why})

    def _wants_attention(self, story: Story) -> bool:
        open_ones = any(not one.settled for one in story.tries)
        untold = story.escalated != story.pauses or story.logged != story.moves
        return story.current is not None or open_ones or untold

    # --- one story ----------------------------------------------------------------------------------------------------
    async def _tend(self, story_id: str) -> None:
        try:
            async with self.conduct.lock(story_id):
                await self._reconcile(story_id)
        except (OSError, Busy, BadStoryRecord) as error:
            self._tell_trouble(story_id, error)
        finally:
            self._tended.discard(story_id)

    def _tell_trouble(self, story_id: str, error: Exception) -> None:
        self.conduct.around.record("io_error", {"what": f"story {story_id}", "error": str(error)})

    async def _reconcile(self, story_id: str) -> None:
        """What the record says should be, and what is: the difference is done."""
        story = self.files.read(story_id)
        if story is None or self.workers.stopping:
            return
        if story.logged != story.moves:
            await self.conduct.decide(story_id, Decision)
        if story.escalated != story.pauses:
            await self.conduct.tell_person(story)
        for one in story.tries:
            await self._see_off(story, one)
        one_now = story.current
        if one_now is not None and not one_now.executed:
            await self.conduct.spawn(story, one_now)
        elif one_now is not None:
            await self._watch(story, one_now)

    async def _see_off(self, story: Story, one: Try) -> None:
        """A try that is over: its report is acknowledged, and then its worker leaves."""
        if one.settled or one.ended_at is None:
            return
        if one.result in REPORTED and one.acked_at is None:
            await self.conduct.ack(story, Ack(one.generation, worker_name(story.story_id, one.stage), one.report_id))
        self.conduct.farewells.begin(story.story_id, one.generation)

    async def _take_up(self, stories: list[Story]) -> None:
        """After a start: workers that outlived the daemon before us, and what became of the others."""
        if stories:
            await in_thread(self.files.sweep)
        async with anyio.create_task_group() as side_by_side:
            for story in stories:
                if story.current is not None:
                    side_by_side.start_soon(self._take_up_one, story.story_id, name=f"story {story.story_id}, again")
        self.workers.discard_left()

    async def _take_up_one(self, story_id: str) -> None:
        try:
            await self._found_again(story_id)
        except (OSError, Busy, BadStoryRecord) as error:
            self._tell_trouble(story_id, error)

    async def _found_again(self, story_id: str) -> None:
        async with self.conduct.lock(story_id):
            story = self.files.read(story_id)
            one = story.current if story is not None else None
            if story is None or one is None:
                return
            told = self.files.is_flagged(story_id, one.stage, one.generation, "active")
            if not one.executed and not told:
                await self.conduct.spawn(story, one)
                return
            if not one.executed:  # told, and we died before that was in its record
                await self.conduct.mark_executed(story, one)
            self.conduct.admit(worker_name(story_id, one.stage))
            try:
                found = await self.workers.take_up(story, one)
            except CannotStart as error:
                found = Over(Result.LOST, error.why)
            if isinstance(found, Over):
                self.workers.lost[story_id, one.generation] = found
            elif one.doubt is not None:
                await self.conduct.ask(story, one)

    # --- watching -----------------------------------------------------------------------------------------------------
    async def _watch(self, story: Story, one: Try) -> None:
        room = self.workers.get(story.story_id, one.generation)
        over = self.workers.lost.get((story.story_id, one.generation)) if room is None else room.over
        if room is not None and (over is None or over.report is None) and await self._pass_on(story, one, room):
            return
        if over is not None:
            await self._ended(story, one, over)
        elif room is None:
            await self._ended(story, one, Over(Result.LOST, "nothing is known of it"))
        elif room.told:
            await self._keep_watch(story, one, room)

    async def _pass_on(self, story: Story, one: Try, room: Room) -> bool:
        """What its worker has printed for us is mail, as what it writes to us. Heard before anything else is judged."""
        words = room.life.words()
        for said in words:
            if said.clear:
                draft = letters.printed_report(story, one, said.text, *self.pipeline.texts, said.nth)
            else:
                draft = letters.printed_near_miss(story, one, said.text, said.nth)
                room.babbled = True
            await self.conduct.around.mail(draft)
            room.life.took(said)
        return bool(words)

    async def _ended(self, story: Story, one: Try, over: Over) -> None:
        """Its last word, if it had one, is heard before its end is judged."""
        agent = worker_name(story.story_id, one.stage)
        if over.report is not None:
            await self.conduct.around.mail(letters.printed_report(story, one, over.report, *self.pipeline.texts))
            room = self.workers.get(story.story_id, one.generation)
            if room is not None:
                room.over = Over(over.how, over.why)
            return
        if self.conduct.boxes.unheard(agent):
            return
        self.workers.lost.pop((story.story_id, one.generation), None)
        words = f"it ended without a report ({over.why})" if over.how is Result.CRASHED else over.why
        why = (one.generation, over.how, words, self.conduct.wall(), self.pipeline.budgets)
        await self.conduct.decide(story.story_id, lambda now: deciding.broke(now, *why), carry_out=True)

    async def _keep_watch(self, story: Story, one: Try, room: Room) -> None:
        now = anyio.current_time()
        if room.life.pulse() is not None:
            room.seen_at = now
        lives = room.asked_at is not None and room.seen_at > room.asked_at
        if one.doubt is not None and one.doubt is not Doubt.GARBLED and lives:
            await self.conduct.decide(story.story_id, lambda it: deciding.lived(it, one.generation))
        elif one.doubt is not None:
            if room.asked_at is None or now < room.asked_at + self._probe_s() or self._may_be_deaf(one, room):
                return
            why = (one.generation, self.conduct.wall(), self.pipeline.budgets)
            await self.conduct.decide(story.story_id, lambda it: deciding.unanswered(it, *why), carry_out=True)
        elif (doubt := self._doubt(story, one, room, now)) is not None:
            wall = self.conduct.wall()
            await self.conduct.decide(
                story.story_id, lambda it: deciding.doubted(it, one.generation, doubt, wall), carry_out=True
            )

    def _doubt(self, story: Story, one: Try, room: Room, now: float) -> Doubt | None:
        held = self.files.notes(story.story_id, one.stage, one.generation).held_since
        if held is not None and (one.asked_at is None or one.asked_at < held):
            return Doubt.HELD if self.conduct.wall() >= held + self.pipeline.report_patience_s else None
        quiet_s = self._quiet_s()
        return Doubt.QUIET if quiet_s is not None and now >= room.seen_at + quiet_s else None

    def _may_be_deaf(self, one: Try, room: Room) -> bool:
        """A command that printed what nobody understands, and goes on, may have no ear: its end is waited for, unless
        its table says how long it may take to answer."""
        patient = self._quiet_s() is None and self.pipeline.worker.probe_timeout_s is None
        return one.doubt is Doubt.GARBLED and room.babbled and patient

    def _quiet_s(self) -> float | None:
        """A command that says nothing may only be at work: it is asked if the config says so."""
        worker = self.pipeline.worker
        if worker.heartbeat_timeout_s is not None or worker.endpoint == "exec":
            return worker.heartbeat_timeout_s
        return self.config.liveness.heartbeat_timeout_s

    def _probe_s(self) -> float:
        return self.pipeline.worker.probe_timeout_s or self.config.liveness.probe_timeout_s

    def failed(self, room: Room, over: Over) -> None:
        """Its Execute could not be told."""
        if room.over is None:
            room.over = over
            self.conduct.around.record("stage_worker_ended", {**room.about(), "why": over.why, "reported": False})
