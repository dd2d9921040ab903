"""Values for the lines of a worker: a closed union, one class for each type of line.

A field that the worker left out is None. Texts for people have been cut to a sane length. Names are still hostile:
``task_id`` and ``blocker`` stand as the worker wrote them, and may be compared but never used as a path.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ackd.core.worker import WorkerState


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A record of how far the work has got. ``json`` is the object as the worker wrote it, to be kept and passed on.

    ``step`` is the number of steps that are done; None if the worker keeps count itself (a ``checkpoint_path``).
    """

    json: bytes
    step: int | None = None

    def value(self) -> dict[str, object]:
        read: dict[str, object] = json.loads(self.json)
        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Fields of every line. ``message_id``, ``attempt`` and ``generation`` repeat those of the assign, if the worker
    gives them; a line in which they differ from those of the work in hand is late."""

    task_id: str | None = None
    worker_id: str | None = None
    said_at: float | None = None  # wall seconds
    naive_time: bool = False  # the time had no zone and was read as local; logged once for each worker
    message_id: str | None = None
    attempt: int | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Words):
    """The worker is alive. Also the answer to a status_check, and the first line of workers that send one."""

    context_usage: float | None = None
    current_step: str | None = None
    state: WorkerState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Words):
    """``step`` of ``total_steps`` are done, if the worker counts them; ``percent`` is set where the total is known.

    ``checkpoint`` is kept in case the worker dies. The worker itself continues, and hands nothing over.
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
    """The work has ended. ``verification_passed`` False: the result is not what was asked for."""

    verification_passed: bool
    verification_output: str | None = None
    files_created: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Words):
    """The attempt failed. ``recoverable`` False refuses the work for good. ``checkpoint``: the place to continue from,
    if the worker gave one."""

    error: str
    recoverable: bool
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked(Words):
    """The worker cannot continue without help. ``blocker``: an agent's name or a task's id."""

    reason: str
    blocker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextThreshold(Words):
    """The worker hands its work over. ``checkpoint`` None: it has reached its threshold, but has no checkpoint yet.

    Also the answer to a checkpoint_request, and to a shutdown in the middle of work.
    """

    context_usage: float | None = None
    checkpoint: Checkpoint | None = None


Said: TypeAlias = Heartbeat | Progressed | Completed | Failed | Blocked | ContextThreshold
