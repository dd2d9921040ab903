"""What a worker said, once it has been read: a closed union of values.

Owns these values and nothing else. What a worker did not say is None. Texts for people are cut to a sane length here;
names are hostile still: ``task_id`` and ``blocker`` are what a worker wrote, to be compared, never to be opened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ackd.core.worker import WorkerState


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where work stands. ``json`` is the object as its worker wrote it: to be kept, and handed on, byte for byte.

    ``step`` is an index: so many steps are done. None where the worker keeps its own count (a ``checkpoint_path``).
    """

    json: bytes
    step: int | None = None

    def value(self) -> dict[str, object]:
        read: dict[str, object] = json.loads(self.json)
        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What any line may say. ``message_id``, ``attempt`` and ``generation`` are echoes of the assign, if it gave them:
    a line whose echoes are not those of the work in hand is a late word."""

    task_id: str | None = None
    worker_id: str | None = None
    said_at: float | None = None  # wall seconds
    naive_time: bool = False  # its time had no zone and was read as local: to be logged once for each worker
    message_id: str | None = None
    attempt: int | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Words):
    """It lives. Also the answer to a status_check, and a worker's first line, if it has one."""

    context_usage: float | None = None
    current_step: str | None = None
    state: WorkerState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Words):
    """So many steps of ``total_steps`` are done, if it counts them; ``percent`` of them, where the total is known.

    ``checkpoint``: where to go on should it die, to be kept; it goes on itself, and hands nothing over.
    """

    step: int | None = None
    total_steps: int | None = None
    description: str | None = None
    percent: int | None = None
    context_usage: float | None = None
    state: WorkerState | None = None
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(Words):
    """``verification_passed`` False: it ended, and did not do what it should."""

    verification_passed: bool
    verification_output: str | None = None
    files_created: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Words):
    """Not ``recoverable``: refused for good. ``checkpoint``: where to go on, if it wrote that down."""

    error: str
    recoverable: bool
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked(Words):
    """``blocker``: an agent's name or a task's id."""

    reason: str
    blocker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextThreshold(Words):
    """It hands over. ``checkpoint`` None: it has reached its threshold, and has not written down where it stands yet.

    Also the answer to a checkpoint_request, and to a shutdown in the middle of work.
    """

    context_usage: float | None = None
    checkpoint: Checkpoint | None = None


Said: TypeAlias = Heartbeat | Progressed | Completed | Failed | Blocked | ContextThreshold
