"""The worker protocol's public words: message types, messages, states, the context threshold (seed: worker-protocol).

They are for authors of workers or orchestrators in Python that do not use ``ackd.worker``. The states and their
transitions are defined in ``core/worker.py``, the lines in ``endpoints/process/wire``; each class here has the fields
that stand at the top of its line there. ``transition`` returns False, and changes nothing, if there is no such
transition.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar, Final

from ackd.core.worker import TABLE, WorkerState

__all__ = [
    "CONTEXT_THRESHOLD",
    "AssignMessage",
    "BlockedMessage",
    "CompleteMessage",
    "ContextThresholdMessage",
    "FailedMessage",
    "HeartbeatMessage",
    "Message",
    "MessageType",
    "ProgressMessage",
    "WorkerProtocol",
    "WorkerState",
    "check_context_threshold",
    "create_checkpoint_signal",
]

CONTEXT_THRESHOLD: Final = 0.70


class MessageType(Enum):
    ASSIGN = "assign"  # the only one of these that is sent to a worker
    HEARTBEAT = "heartbeat"
    PROGRESS = "progress"
    COMPLETE = "complete"
    FAILED = "failed"
    BLOCKED = "blocked"
    CONTEXT_THRESHOLD = "context_threshold"


@dataclass
class Message:
    """The fields that every message has. ``timestamp`` should know its zone: one that does not is read as local."""

    type: MessageType
    worker_id: str
    timestamp: datetime
    payload: dict[str, Any]


@dataclass
class AssignMessage(Message):
    task_id: str
    spec_path: str
    worktree_path: str
    timeout_seconds: int


@dataclass
class HeartbeatMessage(Message):
    """The worker is alive. ``context_usage``: a share, 0.0 to 1.0. ``current_step``: a name."""

    context_usage: float
    current_step: str | None


@dataclass
class ProgressMessage(Message):
    """The worker's progress: ``step`` of ``total_steps`` are done."""

    task_id: str
    step: int
    total_steps: int
    description: str


@dataclass
class CompleteMessage(Message):
    task_id: str
    files_created: list[str]
    files_modified: list[str]
    verification_passed: bool
    verification_output: str


@dataclass
class FailedMessage(Message):
    task_id: str
    error: str
    recoverable: bool
    checkpoint_path: str | None


@dataclass
class BlockedMessage(Message):
    """The worker cannot continue without help. ``blocking_task_id``: a task's id, or an agent's name."""

    task_id: str
    reason: str
    blocking_task_id: str | None


@dataclass
class ContextThresholdMessage(Message):
    """A checkpoint as payload: task_id, current_step (an index), files_created, files_modified, and more."""


class WorkerProtocol:
    """The state of one worker."""

    VALID_TRANSITIONS: ClassVar[dict[WorkerState, list[WorkerState]]] = {
        state: list(following) for state, following in TABLE.items()
    }

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.state = WorkerState.IDLE
        self.current_task: str | None = None

    def transition(self, new_state: WorkerState) -> bool:
        """Go to that state if the transition exists; return whether it does."""
        if new_state not in self.VALID_TRANSITIONS[self.state]:
            return False
        self.state = new_state
        return True

    def can_accept_task(self) -> bool:
        return self.state is WorkerState.IDLE


def check_context_threshold(context_usage: float) -> bool:
    """Say whether a worker should write a checkpoint and hand over."""
    return context_usage >= CONTEXT_THRESHOLD


def create_checkpoint_signal(
    task_id: str, worker_id: str, current_step: int, files_created: list[str], files_modified: list[str]
) -> ContextThresholdMessage:
    """Make a checkpoint message. ``current_step``: the number of steps that are done; the worker that continues begins
    with the one after them."""
    checkpoint = {
        "task_id": task_id,
        "current_step": current_step,
        "files_created": list(files_created),
        "files_modified": list(files_modified),
        "checkpoint_ready": True,
    }
    return ContextThresholdMessage(MessageType.CONTEXT_THRESHOLD, worker_id, datetime.now(UTC), checkpoint)
