"""Makes the lines that ackd sends to a worker: one function per type, each returning a line of JSON with its end.

Lines are ASCII: a path that is not UTF-8 (as ``os.fsdecode`` returns it) survives as an escape, and no character of a
text can be taken for the end of the line. ``at`` is wall seconds. Nothing here fails.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ackd.core.errors import BadLine
    from ackd.endpoints.process.wire.said import Checkpoint

MAX_ECHO: Final = 200


@dataclass(frozen=True, slots=True)
class Assignment:
    """The contents of an assign. ``spec_path`` is the message's file and ``worktree_path`` the agent's directory,
    unless the message's body names others; both are absolute. A worker may repeat ``attempt`` and ``generation`` in its
    lines."""

    task_id: str
    spec_path: str
    worktree_path: str
    timeout_s: float
    message_id: str
    sender: str
    message_type: str
    priority: str
    attempt: int
    generation: int
    context_threshold: float | None = None
    checkpoint: Checkpoint | None = None


def assign(worker_id: str, at: float, work: Assignment) -> bytes:
    payload: dict[str, object] = {
        "message_id": work.message_id,
        "from": work.sender,
        "message_type": work.message_type,
        "priority": work.priority,
        "attempt": work.attempt,
        "generation": work.generation,
    }
    if work.context_threshold is not None:
        payload["context_threshold"] = work.context_threshold
    if work.checkpoint is not None:
        payload["checkpoint"] = json.loads(work.checkpoint.json)
    return _line(
        "assign",
        worker_id,
        at,
        payload,
        task_id=work.task_id,
        spec_path=work.spec_path,
        worktree_path=work.worktree_path,
        timeout_seconds=max(1, math.ceil(work.timeout_s)),
    )


def status_check(worker_id: str, at: float, text: str, task_id: str | None = None) -> bytes:
    """Ask the worker whether it is still at work; a heartbeat is the answer."""
    return _line("status_check", worker_id, at, {"text": text} | _about(task_id))


def ack(worker_id: str, at: float, of: str, task_id: str | None = None) -> bytes:
    """Tell the worker that its line (``of``: "complete", "failed", …) was received and is stored."""
    return _line("ack", worker_id, at, {"of": of} | _about(task_id))


def checkpoint_request(
    worker_id: str, at: float, why: str, task_id: str | None = None, *, ends_in_s: float | None = None
) -> bytes:
    """Ask the worker to write a checkpoint and to stop there; a context_threshold is the answer. ``ends_in_s``: because
    ackd stops, and ends the worker then."""
    stopping = {} if ends_in_s is None else {"stopping": True, "ends_in_s": ends_in_s}
    return _line("checkpoint_request", worker_id, at, {"reason": why} | stopping | _about(task_id))


def cancel(worker_id: str, at: float, why: str, work: tuple[str, str], let_go_within_s: float) -> bytes:
    """Tell the worker to stop working on a task (its id, and the message's); ``failed`` or ``complete`` is the
    answer."""
    task_id, message_id = work
    payload = {"reason": why, "message_id": message_id, "let_go_within_s": let_go_within_s}
    return _line("cancel", worker_id, at, payload | _about(task_id))


def shutdown(worker_id: str, at: float, why: str) -> bytes:
    """Ask the worker to end by itself; it may hand over its work by a context_threshold first."""
    return _line("shutdown", worker_id, at, {"reason": why})


def error(worker_id: str, at: float, bad: BadLine, line: bytes) -> bytes:
    """Answer a line that cannot be read: the reason, and the beginning of the line."""
    begin = line[:MAX_ECHO].decode(errors="backslashreplace").rstrip("\r\n")
    return _line("error", worker_id, at, {"code": bad.code, "detail": bad.detail, "line": begin})


def _about(task_id: str | None) -> dict[str, object]:
    return {} if task_id is None else {"task_id": task_id}


def _line(kind: str, worker_id: str, at: float, payload: dict[str, object], **fields: object) -> bytes:
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"type": kind, "worker_id": worker_id, "timestamp": moment, **fields, "payload": payload}
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
