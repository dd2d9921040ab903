"""Carries out decisions about stories: the record on disk first, then the next worker, the ACK, the shutdown.

One lock for each story keeps its decisions apart. Every message has an id that derives from its cause, so that one
sent twice after a crash is recognised. Fails with OSError and ``StoriesHeld``; the reconciler's next look finds what
was not done. The decisions themselves are made in ``rules/decisions``.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import anyio

from ackd.coordination.pipeline import drafts
from ackd.coordination.pipeline.facts import stage_ack, stage_check, stage_execute
from ackd.coordination.pipeline.rules import decisions
from ackd.coordination.pipeline.rules.decisions import Ack, AskWorker, Dismiss, Escalate, Spawn, StoryDecision
from ackd.coordination.pipeline.rules.log_lines import by_hand, changes, summary
from ackd.coordination.pipeline.rules.stage_names import whose_worker, worker_name
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.coordination.pipeline.shutdown import WorkerShutdown
from ackd.core.daemon_facts import io_error
from ackd.core.errors import CannotStart, UnknownAgent
from ackd.core.message_facts import message_warning
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.coordination.gateway import GatewayServices
    from ackd.coordination.pipeline.files import StoryFiles
    from ackd.coordination.pipeline.mailbox import Mailboxes
    from ackd.coordination.pipeline.rules.decisions import Order
    from ackd.coordination.pipeline.rules.record import Story, Try
    from ackd.coordination.pipeline.settings import PipelineSettings
    from ackd.coordination.pipeline.workers import StageWorkers
    from ackd.core.message import Draft
    from ackd.core.ports import Tasks


@dataclass(kw_only=True, eq=False)
class Executor:
    """``admit`` gives the agent of that name a queue, and returns False if that cannot be done. ``escalate`` sends mail
    to a person and calls them."""

    pipeline: PipelineSettings
    services: GatewayServices
    workers: StageWorkers
    mailboxes: Mailboxes
    tasks: Tasks
    admit: Callable[[str], bool]
    escalate: Callable[[Draft], Awaitable[None]]
    _locks: dict[str, anyio.Lock] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.shutdown = WorkerShutdown(self)

    def lock(self, story_id: str) -> anyio.Lock:
        """The story's lock: reports, ends of workers and commands of people are decided one after the other."""
        return self._locks.setdefault(story_id, anyio.Lock())

    @property
    def files(self) -> StoryFiles:
        return self.workers.files

    def wall(self) -> float:
        return self.services.clock.now().wall

    async def decide(
        self, story_id: str, by: Callable[[Story], StoryDecision], *, carry_out: bool = False
    ) -> StoryDecision | None:
        """Decide about a story. The record is on disk before any order is carried out, and when this returns.

        None: there is no such story.
        """
        made: list[StoryDecision] = []

        def new(story: Story | None) -> Story | None:
            if story is None:
                return None
            made.append(by(story))
            return decisions.written_down(made[0].story)

        with anyio.CancelScope(shield=True):
            before, after = await in_thread(self.files.change, story_id, new)
        if before is None or after is None or not made:
            return None
        unwritten = by_hand(before) if before.logged != before.moves else ()
        for fact in (*unwritten, *changes(before, after)):
            self.services.record(fact)
        await self._withdraw_check(before, after)
        if after.state is StoryState.DONE and before.state is not StoryState.DONE:
            self.services.record(summary(after))
        if carry_out:
            await self.carry_out(made[0])
        return made[0]

    async def _withdraw_check(self, before: Story, after: Story) -> None:
        """Lower the flag of a status check that no longer waits for an answer."""
        one = before.current
        now = after.of(one.generation) if one is not None else None
        if one is not None and one.doubt is not None and (now is None or now.doubt is None):
            with contextlib.suppress(OSError):  # a flag that stays only makes its worker answer once more
                await in_thread(self.files.lower_flag, after.story_id, one.stage, one.generation, "asked")

    async def carry_out(self, decision: StoryDecision) -> None:
        for order in decision.orders:
            await self._do(decision.story, order)

    async def _do(self, story: Story, order: Order) -> None:
        match order:
            case Spawn(generation):
                one = story.of(generation)
                if one is not None:
                    await self.spawn(story, one)
            case AskWorker(generation):
                one = story.of(generation)
                if one is not None:
                    await self.ask(story, one)
            case Ack():
                await self.ack(story, order)
            case Dismiss(generation, at_once):
                if at_once:
                    await self.shutdown.at_once(story, generation)
                else:
                    self.shutdown.begin(story.story_id, generation)
            case Escalate():
                await self.tell_person(story)
            case _:
                assert_never(order)

    async def spawn(self, story: Story, one: Try) -> None:
        agent = worker_name(story.story_id, one.stage)
        try:
            if not self.admit(agent):
                raise CannotStart(f"queue/{agent} cannot be served")
            await self.workers.open(story, one)
        except CannotStart as error:
            if error.nobodys:
                raise OSError(error.why) from None
            why = (one.generation, error.why, self.wall())
            await self.decide(story.story_id, lambda it: decisions.cannot_start(it, *why), carry_out=True)
            return
        checkpoint = self.files.checkpoint(story.story_id, one.stage)
        draft = drafts.execute(story, one, checkpoint)
        await self.services.mail(draft)
        await self.mark_executed(story, one)
        self.services.record(
            stage_execute(
                story=story.story_id,
                stage=one.stage,
                agent=agent,
                generation=one.generation,
                message_id=draft.message_id,
            )
        )
        if checkpoint is None:
            await self.keep_checkpoint(story, one, f"Execute Stage {one.stage} was sent", replaces=False)

    async def mark_executed(self, story: Story, one: Try) -> None:
        await self.decide(story.story_id, lambda it: StoryDecision(decisions.executed(it, one.generation)))

    async def keep_checkpoint(self, story: Story, one: Try, action: str, *, replaces: bool = True) -> None:
        """Note where a stage stands, as far as the lead knows. ``replaces``: as for ``note_action``."""
        said = {
            "story": story.story_id,
            "stage": one.stage,
            "worker": worker_name(story.story_id, one.stage),
            "generation": one.generation,
            "last_action": action,
            "at": self.wall(),
        }
        await in_thread(partial(self.files.note_action, story.story_id, one.stage, said, replaces=replaces))

    async def ask(self, story: Story, one: Try) -> None:
        draft = drafts.status_check(story, one)
        worker = self.workers.get(story.story_id, one.generation)
        await self._show_check(story, one, str(draft.body["content"]))
        if worker is not None:
            worker.asked_at = anyio.current_time()
            await worker.process.ask(str(draft.body["content"]))
        await self.services.mail(draft)
        doubt = one.doubt.value if one.doubt is not None else ""
        self.services.record(
            stage_check(
                story=story.story_id,
                stage=one.stage,
                agent=draft.recipient,
                generation=one.generation,
                message_id=draft.message_id,
                why=doubt,
            )
        )

    async def _show_check(self, story: Story, one: Try, text: str) -> None:
        """Raise the flag that a command can look for: while it runs, it has no other way to be asked."""
        flag = (story.story_id, one.stage, one.generation, "asked")
        try:
            await in_thread(lambda: self.files.raise_flag(*flag, text=text, at=self.wall()))
        except OSError as error:
            self.services.record(io_error(what=f"status check of {story.story_id}", error=str(error)))

    async def ack(self, story: Story, order: Ack) -> None:
        whose = whose_worker(order.to, self.pipeline.id_pattern)
        one = story.of(order.generation)
        if one is None and whose is not None:
            one = decisions.bygone(order.generation, whose[1])
        if one is None:
            return
        draft = drafts.ack(story, one, order.to, order.message_id)
        about: dict[str, Any] = {
            "story": story.story_id,
            "stage": one.stage,
            "agent": order.to,
            "generation": one.generation,
        }
        try:
            await self.services.mail(draft)
        except UnknownAgent:
            self.services.record(message_warning(**about, warning="its ACK has no address"))
        worker = self.workers.get(story.story_id, one.generation)
        if worker is not None:
            worker.process.acknowledge(str(draft.body["content"]))
        now = self.wall()
        await self.decide(story.story_id, lambda it: StoryDecision(decisions.acked(it, order.generation, now)))
        self.services.record(stage_ack(**about, message_id=order.message_id))

    async def tell_person(self, story: Story) -> None:
        await self.escalate(drafts.escalation(story, self.wall()))
        await self.decide(story.story_id, lambda it: StoryDecision(decisions.told_of(it)))
