"""What ackd says to a worker: a method for each word, heard by whichever life is current.

Owns whose name and time stand on a line, and that an assignment carries what is kept of the work. Refuses to know when
something is said, and what is answered. Fails with ``CannotWrite``, but for answers that need not be heard.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.adapters.child import CannotWrite
from ackd.dialects import worker_json
from ackd.runtime.workers.assignments import assignment

if TYPE_CHECKING:
    from ackd.core.errors import BadLine
    from ackd.ports import Clock
    from ackd.runtime.workers.checkpoints import Checkpoints
    from ackd.runtime.workers.hand import Work
    from ackd.runtime.workers.worker import Worker


@dataclass(frozen=True, slots=True)
class Voice:
    agent: str
    worker: Worker
    clock: Clock
    checkpoints: Checkpoints
    context_threshold: float

    def assign(self, work: Work) -> None:
        checkpoint = self.checkpoints.read(work.message.message_id)
        told = assignment(work, self.worker.generation, checkpoint, self.context_threshold)
        self.worker.write(worker_json.assign(self.agent, self._wall(), told))

    def ask(self, text: str, work: Work | None) -> None:
        self.worker.write(worker_json.status_check(self.agent, self._wall(), text, _task_id(work)))

    def ask_for_checkpoint(self, work: Work | None) -> None:
        why = "its context is nearly full"
        self.worker.write(worker_json.checkpoint_request(self.agent, self._wall(), why, _task_id(work)))

    def ack(self, of: str, work: Work | None) -> None:
        with contextlib.suppress(CannotWrite):
            self.worker.write(worker_json.ack(self.agent, self._wall(), of, _task_id(work)))

    def complain(self, bad: BadLine, line: bytes) -> None:
        with contextlib.suppress(CannotWrite):
            self.worker.write(worker_json.error(self.agent, self._wall(), bad, line))

    def farewell(self, why: str) -> bytes:
        """Said by the worker itself, once in a life."""
        return worker_json.shutdown(self.agent, self._wall(), why)

    def _wall(self) -> float:
        return self.clock.now().wall


def _task_id(work: Work | None) -> str | None:
    return work.task_id if work is not None else None
