"""Lines to a worker: a method for each word, written to the current process of the worker.

Each line bears the agent's name and the time; an assignment carries the checkpoint that is kept of the work. Raises
``StdinRefused``, except for answers that need not arrive.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.endpoints.process import wire as worker_json
from ackd.endpoints.process.assignments import assignment
from ackd.endpoints.process.child import StdinRefused

if TYPE_CHECKING:
    from ackd.core.errors import BadLine
    from ackd.core.ports import Clock
    from ackd.endpoints.process.assignments import AgentCheckpoints, Work
    from ackd.endpoints.process.worker import Worker


@dataclass(frozen=True, slots=True)
class OutboundLines:
    agent: str
    worker: Worker
    clock: Clock
    checkpoints: AgentCheckpoints
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

    def ask_for_last_checkpoint(self, work: Work, ends_in_s: float) -> None:
        """Ask for the checkpoint from which the worker of the next daemon goes on."""
        why = "ackd is stopping"
        about = _task_id(work)
        line = worker_json.checkpoint_request(self.agent, self._wall(), why, about, ends_in_s=ends_in_s)
        self.worker.write(line)

    def cancel(self, work: Work, why: str, let_go_within_s: float) -> None:
        about = (work.task_id, work.message.message_id)
        self.worker.write(worker_json.cancel(self.agent, self._wall(), why, about, let_go_within_s))

    def ack(self, of: str, work: Work | None) -> None:
        with contextlib.suppress(StdinRefused):
            self.worker.write(worker_json.ack(self.agent, self._wall(), of, _task_id(work)))

    def complain(self, bad: BadLine, line: bytes) -> None:
        with contextlib.suppress(StdinRefused):
            self.worker.write(worker_json.error(self.agent, self._wall(), bad, line))

    def farewell(self, why: str) -> bytes:
        """The line that asks a worker to end; ``Worker`` writes it, once for each process."""
        return worker_json.shutdown(self.agent, self._wall(), why)

    def _wall(self) -> float:
        return self.clock.now().wall


def _task_id(work: Work | None) -> str | None:
    return work.task_id if work is not None else None
