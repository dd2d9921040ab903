"""The endpoint of a stage worker: what the lead writes to it reaches the generation that it was written to.

Owns that an Execute is told at most once, whatever crashes: a flag on disk, raised before the telling, stands for it. A
worker of an older generation shares the name and nothing else; mail for one that is gone is completed untold. Refuses
to know what is in the mail beyond its generation. Fails by answering, as endpoints do: what passes by itself (an
exhausted machine, a story that somebody else is changing) is ``Hindered``, mail or a record that cannot be read
``NotTold``.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.lowlevel

from ackd.core import faults
from ackd.core.errors import Busy, TheirFault
from ackd.core.events import Hindered, NotTold, Outcome, RunEnded, Told
from ackd.core.stage_words import whose_worker
from ackd.core.story_ids import execute_id
from ackd.core.story_record import Result
from ackd.runtime.pipeline.rooms import Over
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from ackd.core.effects import NudgeAgent, TellAgent
    from ackd.ports import Post, TellAnswer
    from ackd.runtime.pipeline.rooms import Room
    from ackd.runtime.pipeline.workers import StageWorkers


@dataclass(kw_only=True, eq=False)
class StageEndpoint:
    agent: str
    workers: StageWorkers
    tasks: TaskGroup
    post: Post
    #: An Execute that cannot be told: the lead hears how it ended.
    failed: Callable[[Room, Over], None]

    async def tell(self, order: TellAgent) -> TellAnswer:
        await self.workers.settled_in.wait()
        try:
            room = self._addressed(order)
            if room is None or room.over is not None:
                return self._completed(order, "its worker is gone")
            is_execute = self._is_execute(order, room)
            if is_execute and not await self._is_first(order, room):
                return Told(order.key, "told before, and never again", seen=True, attempt=order.attempt)
        except (OSError, Busy, TheirFault) as error:
            return self._prevented(order, error)
        if is_execute:
            return await self._execute(order, room)
        if not room.life.reads_mail:
            return self._completed(order, "kept for its command line")
        return await room.life.tell(order)

    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        return NotTold(order.key, "a stage worker has no ladder but status check and respawn", attempt=order.attempt)

    async def stop(self, drain_s: float) -> None:
        await self.workers.stop(self.agent, drain_s)

    # --- whom
    def _addressed(self, order: TellAgent) -> Room | None:
        """What has no generation is meant for whoever is there: someone else's mail."""
        whose = self._whose()
        generation = self.workers.read(order.message, order.place).get("generation")
        if isinstance(generation, int):
            return self.workers.get(whose[0], generation)
        rooms = [room for room in self.workers.rooms() if room.agent == self.agent]
        return rooms[-1] if rooms else None

    def _whose(self) -> tuple[str, int]:
        pipeline = self.workers.config.pipeline
        assert pipeline is not None
        whose = whose_worker(self.agent, pipeline.id_pattern)
        assert whose is not None, f"{self.agent} is no worker's name"
        return whose

    def _is_execute(self, order: TellAgent, room: Room) -> bool:
        story = self.workers.files.read(room.story_id)
        return story is not None and execute_id(story, room.generation) == order.message.message_id

    # --- how
    async def _is_first(self, order: TellAgent, room: Room) -> bool:
        """Whether its Execute may be told: then the flag stands. One that we raised ourselves does not speak against
        it, for we know that nothing was told: the disk may keep a flag that it refused us, or would not let go of."""
        flag, files = _flag(room), self.workers.files
        if room.told or (not room.flagged and files.is_flagged(*flag)):
            return False
        room.flagged = True
        await in_thread(lambda: files.raise_flag(*flag, message_id=order.message.message_id))
        return True

    async def _execute(self, order: TellAgent, room: Room) -> TellAnswer:
        """In flight until its stage is over: the lead completes it then."""
        answer = await room.life.tell(order)
        if isinstance(answer, Told):
            room.told = True
            return answer
        with contextlib.suppress(OSError):  # to the next daemon it is a worker that was lost, and begun anew
            await in_thread(self.workers.files.lower_flag, *_flag(room))
        if isinstance(answer, NotTold):  # tried, and it may have had it: not to be tried on the same worker
            self.failed(room, Over(Result.CRASHED, answer.reason))
            return self._completed(order, answer.reason)
        return answer

    def _prevented(self, order: TellAgent, error: OSError | Busy | TheirFault) -> Hindered | NotTold:
        passes = isinstance(error, Busy) or (isinstance(error, OSError) and faults.is_nobodys(error))
        return (Hindered if passes else NotTold)(order.key, f"could not be told: {error}", attempt=order.attempt)

    def _completed(self, order: TellAgent, proof: str) -> Told:
        ended = RunEnded(order.key, Outcome.DONE, proof, order.attempt)
        self.tasks.start_soon(self._say, ended, name=f"mail of {self.agent}")
        return Told(order.key, proof, seen=True, attempt=order.attempt)

    async def _say(self, ended: RunEnded) -> None:
        """After the answer to the telling."""
        await anyio.lowlevel.checkpoint()
        self.post(ended)


def _flag(room: Room) -> tuple[str, int, int, str]:
    return room.story_id, room.stage, room.generation, "active"
