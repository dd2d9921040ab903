"""Carrying out what was decided about a story: state on disk first, then the next worker, the ACK, the shutdown.

Owns that order, one lock for each story, and the lines of the log. Refuses to decide (core/story_decisions) and to look
for anything (lead). Whatever it does has an id that derives from its cause: done twice after a crash it is recognised.
Fails with OSError and ``StoriesHeld``: what was not done then, the lead's next look finds missing.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

import anyio

from ackd.core import story_decisions as deciding
from ackd.core.errors import CannotStart, UnknownAgent
from ackd.core.stage_words import whose_worker, worker_name
from ackd.core.story import StoryState
from ackd.core.story_decisions import Ack, Ask, Decision, Dismiss, Escalate, Spawn
from ackd.runtime.pipeline import letters
from ackd.runtime.pipeline.farewells import Farewells
from ackd.runtime.pipeline.story_facts import by_hand, changes, summary
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from ackd.adapters.story_files import StoryFiles
    from ackd.config_pipeline import Pipeline
    from ackd.core.message import Draft
    from ackd.core.story_decisions import Order
    from ackd.core.story_record import Story, Try
    from ackd.runtime.gateways.gateway import Around
    from ackd.runtime.pipeline.boxes import Boxes
    from ackd.runtime.pipeline.workers import StageWorkers


@dataclass(kw_only=True, eq=False)
class Conduct:
    """``admit``: the agent of that name has an address from now on (False: it cannot be given one). ``escalate``: mail
    to a person, who is called."""

    pipeline: Pipeline
    around: Around
    files: StoryFiles
    workers: StageWorkers
    boxes: Boxes
    tasks: TaskGroup
    admit: Callable[[str], bool]
    escalate: Callable[[Draft], Awaitable[None]]
    _locks: dict[str, anyio.Lock] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.farewells = Farewells(self)

    def lock(self, story_id: str) -> anyio.Lock:
        """Its reports, its worker's end and a person's wish are decided one after the other."""
        return self._locks.setdefault(story_id, anyio.Lock())

    def wall(self) -> float:
        return self.around.clock.now().wall

    async def decide(
        self, story_id: str, by: Callable[[Story], Decision], *, carry_out: bool = False
    ) -> Decision | None:
        """On disk when this returns, before anything of it is done. None: there is no such story."""
        made: list[Decision] = []

        def new(story: Story | None) -> Story | None:
            if story is None:
                return None
            made.append(by(story))
            return deciding.written_down(made[0].story)

        with anyio.CancelScope(shield=True):
            before, after = await in_thread(self.files.change, story_id, new)
        if before is None or after is None or not made:
            return None
        unwritten = by_hand(before) if before.logged != before.moves else ()
        for type_, data in (*unwritten, *changes(before, after)):
            self.around.record(type_, data)
        await self._settle_check(before, after)
        if after.state is StoryState.DONE and before.state is not StoryState.DONE:
            self.around.record("story_done", summary(after))
        if carry_out:
            await self.carry_out(made[0])
        return made[0]

    async def _settle_check(self, before: Story, after: Story) -> None:
        """A status check that waits for no answer any more is not there to be seen any more."""
        one = before.current
        now = after.of(one.generation) if one is not None else None
        if one is not None and one.doubt is not None and (now is None or now.doubt is None):
            with contextlib.suppress(OSError):  # it is asked again with other words, or is over: nothing hangs on it
                await in_thread(self.files.lower_flag, after.story_id, one.stage, one.generation, "asked")

    async def carry_out(self, decision: Decision) -> None:
        for order in decision.orders:
            await self._do(decision.story, order)

    async def _do(self, story: Story, order: Order) -> None:
        match order:
            case Spawn(generation):
                one = story.of(generation)
                if one is not None:
                    await self.spawn(story, one)
            case Ask(generation):
                one = story.of(generation)
                if one is not None:
                    await self.ask(story, one)
            case Ack():
                await self.ack(story, order)
            case Dismiss(generation, at_once):
                if at_once:
                    await self.farewells.at_once(story, generation)
                else:
                    self.farewells.begin(story.story_id, generation)
            case Escalate():
                await self.tell_person(story)
            case _:
                assert_never(order)

    async def spawn(self, story: Story, one: Try) -> None:
        agent = worker_name(story.story_id, one.stage)
        about = {"story": story.story_id, "stage": one.stage, "agent": agent, "generation": one.generation}
        try:
            if not self.admit(agent):
                raise CannotStart(f"queue/{agent} cannot be served")
            await self.workers.open(story, one)
        except CannotStart as error:
            if error.nobodys:
                raise OSError(error.why) from None
            why = (one.generation, error.why, self.wall())
            await self.decide(story.story_id, lambda it: deciding.cannot_start(it, *why), carry_out=True)
            return
        checkpoint = self.files.checkpoint(story.story_id, one.stage)
        draft = letters.execute(story, one, checkpoint)
        await self.around.mail(draft)
        await self.mark_executed(story, one)
        self.around.record("stage_execute", {**about, "message_id": draft.message_id})
        if checkpoint is None:
            await self.keep_checkpoint(story, one, f"Execute Stage {one.stage} was sent")

    async def mark_executed(self, story: Story, one: Try) -> None:
        await self.decide(story.story_id, lambda it: Decision(deciding.executed(it, one.generation)))

    async def keep_checkpoint(self, story: Story, one: Try, action: str) -> None:
        """Where a stage stands, as far as the lead knows; what the worker has said of its tasks stays."""
        before = self.files.checkpoint(story.story_id, one.stage) or {}
        said = {
            "story": story.story_id,
            "stage": one.stage,
            "worker": worker_name(story.story_id, one.stage),
            "generation": one.generation,
            "tasks_done": before.get("tasks_done", []),
            "tasks_remaining": before.get("tasks_remaining", []),
            "last_action": action,
            "at": self.wall(),
        }
        await in_thread(self.files.keep_checkpoint, story.story_id, said)

    async def ask(self, story: Story, one: Try) -> None:
        draft = letters.status_check(story, one)
        room = self.workers.get(story.story_id, one.generation)
        await self._show_check(story, one, str(draft.body["content"]))
        if room is not None:
            room.asked_at = anyio.current_time()
            await room.life.ask(str(draft.body["content"]))
        await self.around.mail(draft)
        doubt = one.doubt.value if one.doubt is not None else ""
        about = {"story": story.story_id, "stage": one.stage, "agent": draft.recipient, "generation": one.generation}
        self.around.record("stage_check", {**about, "message_id": draft.message_id, "why": doubt})

    async def _show_check(self, story: Story, one: Try, text: str) -> None:
        """Where a command can look: it has no other ear while it runs."""
        flag = (story.story_id, one.stage, one.generation, "asked")
        try:
            await in_thread(lambda: self.files.raise_flag(*flag, text=text, at=self.wall()))
        except OSError as error:
            self.around.record("io_error", {"what": f"status check of {story.story_id}", "error": str(error)})

    async def ack(self, story: Story, order: Ack) -> None:
        whose = whose_worker(order.to, self.pipeline.id_pattern)
        one = story.of(order.generation) or (deciding.bygone(order.generation, whose[1]) if whose is not None else None)
        if one is None:
            return
        draft = letters.ack(story, one, order.to, order.message_id)
        about = {"story": story.story_id, "stage": one.stage, "agent": order.to, "generation": one.generation}
        try:
            await self.around.mail(draft)
        except UnknownAgent:
            self.around.record("message_warning", {**about, "warning": "its ACK has no address"})
        room = self.workers.get(story.story_id, one.generation)
        if room is not None:
            room.life.acknowledge(str(draft.body["content"]))
        now = self.wall()
        await self.decide(story.story_id, lambda it: Decision(deciding.acked(it, order.generation, now)))
        self.around.record("stage_ack", {**about, "message_id": order.message_id})

    async def tell_person(self, story: Story) -> None:
        await self.escalate(letters.escalation(story, self.wall()))
        await self.decide(story.story_id, lambda it: Decision(deciding.told_of(it)))
