"""How workers leave: the shutdown_request, a while to take their ACK, the end of what is left, and their mail closed.

Owns one task for each worker that leaves, beside whatever its story goes on with. ``settled`` in the record says that
it is done; until then a restart begins it again. Refuses to decide who leaves. The disk's refusals are told of, and
tried again with the lead's next look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.adapters import maildrop
from ackd.core import story_decisions as deciding
from ackd.core.errors import Busy, UnknownAgent
from ackd.core.stage_words import worker_name
from ackd.core.story_decisions import Decision
from ackd.core.story_ids import execute_id
from ackd.core.story_record import BadStoryRecord
from ackd.core.words import ReceiptKind
from ackd.runtime.pipeline import letters
from ackd.threads import in_thread

if TYPE_CHECKING:
    from ackd.core.story_record import Story, Try
    from ackd.runtime.pipeline.conduct import Conduct
    from ackd.runtime.pipeline.rooms import Room

_LOOK_S: Final = 0.1


@dataclass(eq=False)
class Farewells:
    conduct: Conduct
    _leaving: set[tuple[str, int]] = field(default_factory=set)

    def begin(self, story_id: str, generation: int) -> None:
        key = (story_id, generation)
        if key not in self._leaving and not self.conduct.workers.stopping:
            self._leaving.add(key)
            self.conduct.tasks.start_soon(self._leave, *key, name=f"farewell of {story_id} {generation}")

    async def at_once(self, story: Story, generation: int) -> None:
        """It is gone, or hangs: nothing of it is left when this returns, and its mail is closed."""
        one = story.of(generation)
        if one is not None:
            await self._end(story.story_id, generation, "its stage is over")
            await self._close_mail(story, one)
            await self._settle(story, one)

    async def _leave(self, story_id: str, generation: int) -> None:
        try:
            story = self.conduct.files.read(story_id)
            one = story.of(generation) if story is not None else None
            if story is None or one is None or one.settled:
                return
            await self._tell(story, one)
            await self._wait(await self.conduct.workers.leaving(story, one))
            if self.conduct.workers.stopping:
                return
            await self._end(story_id, generation, "its stage is over")
            await self._close_mail(story, one)
            await self._settle(story, one)
        except (OSError, Busy, BadStoryRecord) as error:
            self.conduct.around.record("io_error", {"what": f"farewell of {story_id}", "error": str(error)})
        finally:
            self._leaving.discard((story_id, generation))

    async def _tell(self, story: Story, one: Try) -> None:
        try:
            await self.conduct.around.mail(letters.shutdown(story, one))
        except UnknownAgent:
            return  # it never was: nobody has to be asked to go

    async def _wait(self, room: Room | None) -> None:
        """Until it has ended; not longer than it may take. A pane stays open all that time: its done flag says that the
        report is through, not that its agent has said what it has to say, or that anybody has read it."""
        with anyio.move_on_after(self.conduct.pipeline.leave_s):
            while room is not None and not self.conduct.workers.stopping:
                if room.over is not None:
                    return
                await anyio.sleep(_LOOK_S)

    async def _end(self, story_id: str, generation: int, why: str) -> None:
        room = self.conduct.workers.get(story_id, generation)
        if room is not None:
            await self.conduct.workers.close(room, why)

    async def _close_mail(self, story: Story, one: Try) -> None:
        """What was written to it and lies there open: its Execute, above all."""
        agent = worker_name(story.story_id, one.stage)
        is_open = self.conduct.boxes.open_mail(agent, one.generation)
        if self.conduct.pipeline.worker.endpoint != "tmux":  # whatever else there is, its endpoint completes by itself
            is_open = [message_id for message_id in is_open if message_id == execute_id(story, one.generation)]
        for message_id in is_open:
            await in_thread(self._done, message_id, agent)

    def _done(self, message_id: str, agent: str) -> None:
        receipts = self.conduct.around.root / "receipts"
        maildrop.drop_receipt(receipts, ReceiptKind.DONE, message_id, agent, fsync=self.conduct.around.durable)

    async def _settle(self, story: Story, one: Try) -> None:
        await self.conduct.decide(story.story_id, lambda it: Decision(deciding.settled(it, one.generation)))
