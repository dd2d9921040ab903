"""Reads a worker's line into one of the values of ``said``.

A line that cannot be read is described in words that the author of a worker can act on. A time without a zone is read
as local time, and marked. A field that is missing at the top of a line is looked for in its payload, where the seed's
base message has everything. Texts for people are cut. Whether a line is true, and whether it concerns work that is in
hand, is decided by the caller. The only error raised is ``BadLine``.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict, assert_never

from pydantic import ValidationError

from ackd.core.errors import BadLine
from ackd.endpoints.process.wire import models
from ackd.endpoints.process.wire.said import (
    Blocked,
    Checkpoint,
    Completed,
    ContextThreshold,
    Failed,
    Heartbeat,
    Progressed,
)
from ackd.formats.json_line import MAX_LINE_BYTES, Flaw, bad_fields, object_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.endpoints.process.wire.said import Said

#: Large enough for every checkpoint that came in a line: numbers may become longer when they are written again.
MAX_CHECKPOINT_BYTES: Final = 8 * MAX_LINE_BYTES
MAX_TEXT: Final = 4_096


def decode(line: bytes) -> Said:
    """Read a line, with or without its line end. Raises BadLine."""
    document = object_in(line)
    model = _model(document)
    try:
        read = model.model_validate(_with_fields_at_the_top(model, document))
    except ValidationError as error:
        raise bad_fields(error.errors(include_url=False, include_input=False)) from None
    return _said(read, line)


def _said(read: models.AnyLine, line: bytes) -> Said:
    """Convert a validated model. ``line`` is the original text: a checkpoint is kept as it was written there, because
    validation may have changed it."""
    match read:
        case models.HeartbeatLine():
            return Heartbeat(
                **_words(read, read.payload.task_id),
                context_usage=_either(read.context_usage, read.payload.context_usage),
                current_step=_cut(read.current_step) or _step_in_words(read.payload),
                state=read.payload.state,
            )
        case models.ProgressLine():
            return Progressed(
                **_words(read, read.task_id),
                step=read.step,
                total_steps=read.total_steps,
                description=_cut(read.description),
                percent=_percent(read.step, read.total_steps),
                context_usage=read.payload.context_usage,
                state=read.payload.state,
                checkpoint=_kept(json.loads(line)["payload"]["checkpoint"]) if read.payload.checkpoint else None,
            )
        case models.ProgressInPayload(payload=told):
            counted = told.step if isinstance(told.step, int) else None
            in_words = told.step if isinstance(told.step, str) else None
            return Progressed(
                **_words(read, told.task_id),
                step=counted,
                total_steps=told.total_steps,
                description=_cut(told.description) or _cut(in_words) or _step_in_words(told),
                percent=_percent(counted, told.total_steps),
                context_usage=told.context_usage,
                state=told.state,
                checkpoint=_kept(json.loads(line)["payload"]["checkpoint"]) if told.checkpoint else None,
            )
        case models.CompleteLine():
            return Completed(
                **_words(read, read.task_id),
                verification_passed=read.verification_passed,
                verification_output=_end_of(read.verification_output),
                files_created=read.files_created,
                files_modified=read.files_modified,
            )
        case models.FailedLine():
            return Failed(
                **_words(read, read.task_id),
                error=read.error[:MAX_TEXT],
                recoverable=read.recoverable,
                checkpoint=_checkpoint_of_failure(read, line),
            )
        case models.BlockedLine():
            return Blocked(**_words(read, read.task_id), reason=read.reason[:MAX_TEXT], blocker=read.blocking_task_id)
        case models.BlockedInPayload(payload=stuck):
            reason = (stuck.reason or "")[:MAX_TEXT]
            return Blocked(**_words(read, stuck.task_id), reason=reason, blocker=stuck.blocking_task_id)
        case models.ContextThresholdLine():
            return ContextThreshold(
                **_words(read, read.payload.task_id),
                context_usage=read.payload.context_usage,
                checkpoint=_kept(json.loads(line)["payload"]) if read.payload.checkpoint_ready else None,
            )
        case _:
            assert_never(read)


def read_checkpoint(data: bytes) -> Checkpoint:
    """Read a stored checkpoint: the bytes of ``Checkpoint.json``, from a file. Raises BadLine if they are damaged."""
    object_in(data, MAX_CHECKPOINT_BYTES)
    return _kept(json.loads(data))


def checkpoint(value: Mapping[str, object]) -> Checkpoint:
    """Make a checkpoint from a stored object, whose values JSON can express."""
    return _kept(dict(value))


def _model(document: dict[str, Any]) -> type[models.AnyLine]:
    kind = document.get("type")
    if kind is None:
        raise BadLine(Flaw.MISSING_FIELD, "type: is required, and missing")
    model = models.FROM_WORKER.get(kind) if isinstance(kind, str) else None
    if model is None:
        known = "known are " + ", ".join(models.FROM_WORKER)
        ours = isinstance(kind, str) and kind in models.FROM_ACKD
        raise BadLine(Flaw.UNKNOWN_TYPE, f"type {kind!r:.60}: {'ackd says that, no worker' if ours else known}")
    if kind in models.IN_PAYLOAD and document.get("payload") and not models.own_fields(model) & document.keys():
        return models.IN_PAYLOAD[kind]
    return model


def _with_fields_at_the_top(model: type[models.AnyLine], document: dict[str, Any]) -> dict[str, Any]:
    """Take fields that the line lacks from its payload. A line that lacks no required field stays as it is, because its
    payload may use the same names for something else."""
    own, payload = models.own_fields(model), document.get("payload")
    lacks = any(model.model_fields[name].is_required() and name not in document for name in own)
    if not lacks or not isinstance(payload, dict):
        return document
    return {name: payload[name] for name in own if name in payload} | document


# --- from an object to values -----------------------------------------------------------------------------------------
class _Words(TypedDict):
    task_id: str | None
    worker_id: str | None
    said_at: float | None
    naive_time: bool
    message_id: str | None
    attempt: int | None
    generation: int | None


def _words(line: models.FromWorker, task_id: str | None) -> _Words:
    moment = datetime.fromisoformat(line.timestamp) if line.timestamp is not None else None
    return _Words(
        task_id=task_id,
        worker_id=line.worker_id,
        said_at=moment.timestamp() if moment is not None else None,  # a time without a zone is read as local
        naive_time=moment is not None and moment.tzinfo is None,
        message_id=line.payload.message_id,
        attempt=line.payload.attempt,
        generation=line.payload.generation,
    )


def _checkpoint_of_failure(read: models.FailedLine, line: bytes) -> Checkpoint | None:
    if read.payload.checkpoint is not None:
        return _kept(json.loads(line)["payload"]["checkpoint"])
    if read.checkpoint_path is not None:  # the worker's own file: its name is passed on, and ackd never opens it
        return _kept({"task_id": read.task_id, "checkpoint_path": read.checkpoint_path})
    return None


def _kept(value: dict[str, Any]) -> Checkpoint:
    """Make a checkpoint. Uses ``json``, because orjson rounds integers above 64 bits and a checkpoint must come back
    unchanged."""
    step = value.get("current_step")
    counted = step if isinstance(step, int) and not isinstance(step, bool) and step >= 0 else None
    return Checkpoint(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(), counted)


def _percent(step: int | None, total: int | None) -> int | None:
    return step * 100 // total if step is not None and total else None


def _step_in_words(payload: models.Echo) -> str | None:
    """The payload's ``current_step``, if it is a name, as in the seed's heartbeat. In a checkpoint it is a number."""
    step = (payload.model_extra or {}).get("current_step")
    return _cut(step) if isinstance(step, str) else None


def _either(first: float | None, second: float | None) -> float | None:
    return first if first is not None else second


def _cut(text: str | None) -> str | None:
    return text[:MAX_TEXT] or None if text is not None else None


def _end_of(output: str | None) -> str | None:
    """The end of a tool's output, cut to the limit: the result stands at the end."""
    return output[-MAX_TEXT:] or None if output is not None else None
