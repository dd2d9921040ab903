"""The endpoint of a stage worker: tells mail to the generation of the worker that it was written to.

An Execute is told at most once, whatever crashes: a flag on disk is raised before the telling. Workers of several
generations share a name and nothing else; mail for one that is gone is completed without being told.

Fails by the answer, as endpoints do. ``Hindered`` stands for troubles that pass (an exhausted machine, a story that
another process is changing), ``NotTold`` for mail or a record that cannot be read.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.lowlevel

from ackd.coordination.pipeline.rules.ids import execute_id
from ackd.coordination.pipeline.rules.stage_names import whose_worker
from ackd.core import faults
from ackd.core.errors import Busy, TheirFault
from ackd.core.events import Hindered, NotTold, Outcome, RunEnded, Told
from ackd.core.ports import Endpoint
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.coordination.pipeline.worker_kinds import WorkerProcess
    from ackd.coordination.pipeline.workers import LiveWorker, StageWorkers
    from ackd.core.effects import NudgeAgent, TellAgent
    from ackd.core.ports import Services, TellAnswer


@dataclass(kw_only=True, eq=False)
class StageEndpoint(Endpoint):
    agent: str
    workers: StageWorkers
    services: Services

    async def tell(self, order: TellAgent) -> TellAnswer:
        await self.workers.recovered.wait()
        try:
            worker = self._addressed(order)
            if worker is None or worker.end is not None:
                return self._completed(order, "its worker is gone")
            is_execute = self._is_execute(order, worker)
            if is_execute and not await self._is_first(order, worker):
                return Told(order.key, "told before, and never again", seen=True, attempt=order.attempt)
        except (OSError, Busy, TheirFault) as error:
            return self._prevented(order, error)
        if is_execute:
            return await self._execute(order, worker)
        if not worker.process.reads_mail:
            return self._completed(order, "kept for its command line")
        return await worker.process.tell(order)

    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        return NotTold(order.key, "a stage worker has no ladder but status check and respawn", attempt=order.attempt)

    async def stop(self, drain_s: float) -> None:
        await self.workers.stop(self.agent, drain_s)

    async def leave(self, drain_s: float) -> None:
        await self.workers.stop(self.agent, drain_s, leave=True)

    def has_work(self) -> bool:
        return any(one.has_work() for one in self._processes())

    def is_asked_at_stop(self) -> bool:
        return any(one.is_asked_at_stop() for one in self._processes())

    def leaves_work(self) -> bool:
        return any(one.leaves_work() for one in self._processes())

    def _processes(self) -> Iterator[WorkerProcess]:
        return (worker.process for worker in self.workers.all() if worker.agent == self.agent)

    # --- which worker -------------------------------------------------------------------------------------------------
    def _addressed(self, order: TellAgent) -> LiveWorker | None:
        """Find the worker that a message is for.

        Mail without a generation, which is not the lead's, goes to the newest.
        """
        whose = self._whose()
        generation = self.workers.offered.files.body(order.message, order.place).get("generation")
        if isinstance(generation, int):
            return self.workers.get(whose[0], generation)
        workers = [worker for worker in self.workers.all() if worker.agent == self.agent]
        return workers[-1] if workers else None

    def _whose(self) -> tuple[str, int]:
        whose = whose_worker(self.agent, self.workers.pipeline.id_pattern)
        assert whose is not None, f"{self.agent} is no worker's name"
        return whose

    def _is_execute(self, order: TellAgent, worker: LiveWorker) -> bool:
        story = self.workers.files.read(worker.story_id)
        return story is not None and execute_id(story, worker.generation) == order.message.message_id

    # --- telling ------------------------------------------------------------------------------------------------------
    async def _is_first(self, order: TellAgent, worker: LiveWorker) -> bool:
        """Raise the flag, and return True, if the Execute was not told before.

        A flag that this daemon raised does not count, because we know that nothing was told: a disk may keep a flag
        although raising it failed, or refuse to remove it.
        """
        flag, files = _flag(worker), self.workers.files
        if worker.told or (not worker.flagged and files.is_flagged(*flag)):
            return False
        worker.flagged = True
        await in_thread(lambda: files.raise_flag(*flag, message_id=order.message.message_id))
        return True

    async def _execute(self, order: TellAgent, worker: LiveWorker) -> TellAnswer:
        """Tell the Execute. It stays in flight until its stage is over, when the lead completes it."""
        answer = await worker.process.tell(order)
        if isinstance(answer, Told):
            worker.told = True
            return answer
        with contextlib.suppress(OSError):  # the next daemon takes the worker for lost, and begins anew
            await in_thread(self.workers.files.lower_flag, *_flag(worker))
        if isinstance(answer, NotTold):  # the Execute may have arrived: this worker is not told again
            self.workers.cannot_be_told(worker, answer.reason)
            return self._completed(order, answer.reason)
        return answer

    def _prevented(self, order: TellAgent, error: OSError | Busy | TheirFault) -> Hindered | NotTold:
        passes = isinstance(error, Busy) or (isinstance(error, OSError) and faults.is_nobodys(error))
        return (Hindered if passes else NotTold)(order.key, f"could not be told: {error}", attempt=order.attempt)

    def _completed(self, order: TellAgent, proof: str) -> Told:
        ended = RunEnded(order.key, Outcome.DONE, proof, order.attempt)
        self.services.tasks.start_soon(self._say, ended, name=f"mail of {self.agent}")
        return Told(order.key, proof, seen=True, attempt=order.attempt)

    async def _say(self, ended: RunEnded) -> None:
        """Post the end after the answer to the telling."""
        await anyio.lowlevel.checkpoint()
        self.services.post(ended)


def _flag(worker: LiveWorker) -> tuple[str, int, int, str]:
    return worker.story_id, worker.stage, worker.generation, "active"
