"""From a message to what its worker is told of it.

Owns which paths and how much time an assignment names: the message's file, the agent's directory and the agent's time,
unless the message's body says others. What a body says is hostile until read here, and is named to the worker, never
opened by us. Refuses to know how a body is read. Cannot fail: a value that is none is passed over.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Final

from ackd.dialects.worker_json import Assignment
from ackd.runtime.workers.hand import Work

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ackd.core.effects import TellAgent
    from ackd.dialects.worker_json import Checkpoint

_MAX_PATH: Final = 4096
_MAX_TIMEOUT_S: Final = 30 * 86400.0


def work_of(
    order: TellAgent, task_id: str, body: Mapping[str, object], file: Path, cwd: Path, timeout_s: float
) -> Work:
    worktree = os.path.abspath(cwd)  # noqa: PTH100 - resolve() would follow links, and a worker may mind its path
    return Work(
        key=order.key,
        message=order.message,
        place=order.place,
        attempt=order.attempt,
        task_id=task_id,
        spec_path=_path(body.get("spec_path"), worktree) or os.path.abspath(file),  # noqa: PTH100
        worktree_path=_path(body.get("worktree_path"), worktree) or worktree,
        timeout_s=_seconds(body.get("timeout_seconds")) or timeout_s,
    )


def assignment(
    work: Work, generation: int, checkpoint: Checkpoint | None, context_threshold: float | None
) -> Assignment:
    message = work.message
    return Assignment(
        task_id=work.task_id,
        spec_path=work.spec_path,
        worktree_path=work.worktree_path,
        timeout_s=work.timeout_s,
        message_id=message.message_id,
        sender=message.sender,
        message_type=message.type,
        priority=message.priority.value,
        attempt=work.attempt,
        generation=generation,
        context_threshold=context_threshold,
        checkpoint=checkpoint,
    )


def _path(value: object, base: str) -> str | None:
    """A relative one is relative to where the worker works."""
    if not isinstance(value, str) or not value or "\0" in value or len(value) > _MAX_PATH:
        return None
    return os.path.normpath(os.path.join(base, value))  # noqa: PTH118


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    return min(float(value), _MAX_TIMEOUT_S)
