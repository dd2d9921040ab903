"""Lets workers leave: sends the shutdown_request, waits a while, ends what is left, and closes their mail.

Each leaving worker has a task of its own, while its story goes on. ``settled`` in the record says that the worker is
gone; until then a restart begins again. What the disk refuses is recorded, and tried again with the next look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.coordination.pipeline import drafts
from ackd.coordination.pipeline.rules import decisions
from ackd.coordination.pipeline.rules.decisions import StoryDecision
from ackd.coordination.pipeline.rules.ids import execute_id
from ackd.coordination.pipeline.rules.record import BadStoryRecord
from ackd.coordination.pipeline.rules.stage_names import worker_name
from ackd.core.daemon_facts import io_error
from ackd.core.errors import Busy, UnknownAgent
from ackd.core.words import ReceiptKind
from ackd.storage import maildrop
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from ackd.coordination.pipeline.executor import Executor
    from ackd.coordination.pipeline.rules.record import Story, Try
    from ackd.coordination.pipeline.workers import LiveWorker

_LOOK_S: Final = 0.1


@dataclass(eq=False)
class WorkerShutdown:
    executor: Executor
    _leaving: set[tuple[str, int]] = field(default_factory=set)

    def begin(self, story_id: str, generation: int) -> None:
        key = (story_id, generation)
        if key not in self._leaving and not self.executor.workers.stopping:
            self._leaving.add(key)
            self.executor.tasks.start_soon(self._leave, *key, name=f"farewell of {story_id} {generation}")

    async def at_once(self, story: Story, generation: int) -> None:
        """End a worker that hangs, or is gone already.

        When this returns, nothing of it is left and its mail is closed.
        """
        one = story.of(generation)
        if one is not None:
            await self._end(story.story_id, generation, "its stage is over")
            await self._close_mail(story, one)
            await self._settle(story, one)

    async def _leave(self, story_id: str, generation: int) -> None:
        try:
            story = self.executor.files.read(story_id)
            one = story.of(generation) if story is not None else None
            if story is None or one is None or one.settled:
                return
            await self._tell(story, one)
            await self._wait(await self.executor.workers.find_leaving(story, one))
            if self.executor.workers.stopping:
                return
            await self._end(story_id, generation, "its stage is over")
            await self._close_mail(story, one)
            await self._settle(story, one)
        except (OSError, Busy, BadStoryRecord) as error:
            self.executor.services.record(io_error(what=f"farewell of {story_id}", error=str(error)))
        finally:
            self._leaving.discard((story_id, generation))

    async def _tell(self, story: Story, one: Try) -> None:
        try:
            await self.executor.services.mail(drafts.shutdown(story, one))
        except UnknownAgent:
            return  # the worker never had a queue: there is nobody to ask

    async def _wait(self, worker: LiveWorker | None) -> None:
        """Wait for the worker's end, for as long as it may take.

        A pane stays open all that time. Its done flag only says that the report has arrived, not that its agent has
        nothing more to say, nor that anybody has read it.
        """
        with anyio.move_on_after(self.executor.pipeline.leave_s):
            while worker is not None and not self.executor.workers.stopping:
                if worker.end is not None:
                    return
                await anyio.sleep(_LOOK_S)

    async def _end(self, story_id: str, generation: int, why: str) -> None:
        worker = self.executor.workers.get(story_id, generation)
        if worker is not None:
            await self.executor.workers.close(worker, why)

    async def _close_mail(self, story: Story, one: Try) -> None:
        """Complete the open messages that were written to the worker: its Execute, above all."""
        agent = worker_name(story.story_id, one.stage)
        is_open = self.executor.mailboxes.open_mail(agent, one.generation)
        if not self.executor.workers.kind.reads_mail:  # everything else was completed when it was not told
            is_open = [message_id for message_id in is_open if message_id == execute_id(story, one.generation)]
        for message_id in is_open:
            await in_thread(self._write_receipt, message_id, agent)

    def _write_receipt(self, message_id: str, agent: str) -> None:
        receipts = self.executor.services.root / "receipts"
        maildrop.drop_receipt(receipts, ReceiptKind.DONE, message_id, agent, fsync=self.executor.services.durable)

    async def _settle(self, story: Story, one: Try) -> None:
        await self.executor.decide(story.story_id, lambda it: StoryDecision(decisions.settled(it, one.generation)))
