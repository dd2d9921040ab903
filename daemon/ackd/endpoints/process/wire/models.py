"""Pydantic models of the worker protocol: every object that a worker or ackd may write, with all its fields.

Fields that a reader cannot do without are required. The worker's id and the time may be left out: the pipe tells the
one, the clock the other. The seed has no class for progress and blocked, so a worker written after it has all of their
fields in ``payload``: that form is accepted too (``IN_PAYLOAD``), and in it nothing is required. Other keys are allowed
everywhere, since foreign workers have keys of their own; values are taken strictly: "0.7" is no number. ``reading``
reads lines with these models, and ``said`` has the values that they become. Fails with pydantic's ValidationError. The
docstrings of the models are the descriptions in the JSON Schemas that `ackd worker schema` prints.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema, model_validator

from ackd.core.worker import WorkerState


def _moment(text: str) -> str:
    try:
        year = datetime.fromisoformat(text).year
    except ValueError:
        year = 0
    if not 2000 <= year < 2100:
        raise ValueError("a time as in 2026-11-16T12:00:00Z")
    return text


#: The form is checked here, but the time is read in ``reading``, which also judges whether it has a zone.
Moment = Annotated[str, AfterValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Id = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Count = Annotated[int, Field(ge=0)]
Usage = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, description="share of the context in use")]
State = Annotated[WorkerState, Field(strict=False)]
Files = Annotated[tuple[str, ...], Field(strict=False)]


class Wire(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True, defer_build=True)


# --- from a worker ----------------------------------------------------------------------------------------------------
class Echo(Wire):
    """Fields of its assign that a worker may repeat, so that its words are known to be about that assign."""

    task_id: Id | None = None
    message_id: Id | None = None
    attempt: Count | None = None
    generation: Count | None = None


class Told(Echo):
    state: State | None = None
    context_usage: Usage | None = None


class ToldOnTheWay(Told):
    checkpoint: dict[str, Any] | None = None


class FromWorker(Wire):
    worker_id: str | None = None
    timestamp: Moment | None = None
    payload: Echo = Echo()


class HeartbeatLine(FromWorker):
    """I live. Also the answer to a status_check."""

    type: Literal["heartbeat"]
    context_usage: Usage | None = None
    current_step: str | None = None
    payload: Told = Told()


class ProgressLine(FromWorker):
    """So many steps are done. A checkpoint is kept, should the worker die; it goes on."""

    type: Literal["progress"]
    task_id: Id
    step: Count
    total_steps: Annotated[int, Field(ge=1)] | None = None
    description: str | None = None
    payload: ToldOnTheWay = ToldOnTheWay()

    @model_validator(mode="after")
    def _within_the_total(self) -> ProgressLine:
        if self.total_steps is not None and self.step > self.total_steps:
            raise ValueError(f"step {self.step} is beyond total_steps {self.total_steps}")
        return self


class ProgressPayload(ToldOnTheWay):
    step: Count | str | None = None
    total_steps: Annotated[int, Field(ge=1)] | None = None
    description: str | None = None


class ProgressInPayload(FromWorker):
    """Progress in the seed's own form: a base message, everything in its payload. A step in words is a description."""

    type: Literal["progress"]
    payload: ProgressPayload

    @model_validator(mode="after")
    def _within_the_total(self) -> ProgressInPayload:
        step, total = self.payload.step, self.payload.total_steps
        if isinstance(step, int) and total is not None and step > total:
            raise ValueError(f"payload.step {step} is beyond total_steps {total}")
        return self


class CompleteLine(FromWorker):
    """The task is done, and verified or not: a worker that says nothing of that has not completed it."""

    type: Literal["complete"]
    task_id: Id
    files_created: Files = ()
    files_modified: Files = ()
    verification_passed: bool
    verification_output: str | None = None


class WithCheckpoint(Echo):
    checkpoint: dict[str, Any] | None = None


class FailedLine(FromWorker):
    """``recoverable`` false refuses for good. A checkpoint, or where one lies, is handed to the next try."""

    type: Literal["failed"]
    task_id: Id
    error: str
    recoverable: bool
    checkpoint_path: str | None = None
    payload: WithCheckpoint = WithCheckpoint()


class BlockedLine(FromWorker):
    """I cannot go on by myself. ``blocking_task_id``: a task, or an agent."""

    type: Literal["blocked"]
    task_id: Id
    reason: str
    blocking_task_id: Id | None = None


class BlockedPayload(Echo):
    reason: str | None = None
    blocking_task_id: Id | None = None


class BlockedInPayload(FromWorker):
    """Blocked in the seed's own form: a base message, everything in its payload."""

    type: Literal["blocked"]
    payload: BlockedPayload


class CheckpointPayload(Echo):
    """The checkpoint itself; all of it comes back in the assign that goes on with the work."""

    task_id: Id
    current_step: Annotated[int, Field(ge=0, description="so many steps are done")]
    files_created: Files = ()
    files_modified: Files = ()
    checkpoint_ready: bool = True
    context_usage: Usage | None = None


class ContextThresholdLine(FromWorker):
    """I stop here, and someone fresh shall go on. Also the answer to a checkpoint_request."""

    type: Literal["context_threshold"]
    payload: CheckpointPayload


# --- from ackd --------------------------------------------------------------------------------------------------------
class About(Wire):
    task_id: Id | None = None


class FromAckd(Wire):
    worker_id: str
    timestamp: Moment


class AssignPayload(Wire):
    message_id: Id
    sender: Annotated[str, Field(alias="from")]
    message_type: str
    priority: Literal["critical", "high", "normal", "low"]
    attempt: Count
    generation: Count
    context_threshold: Usage | None = None
    checkpoint: dict[str, Any] | None = None


class AssignLine(FromAckd):
    """Do this. Again for the same message and attempt: are you sure that you have it?"""

    type: Literal["assign"]
    task_id: Id
    spec_path: str
    worktree_path: str
    timeout_seconds: Annotated[int, Field(ge=1)]
    payload: AssignPayload


class StatusCheckPayload(About):
    text: str


class StatusCheckLine(FromAckd):
    """Are you still at work? A heartbeat is the answer."""

    type: Literal["status_check"]
    payload: StatusCheckPayload


class AckPayload(About):
    of: str


class AckLine(FromAckd):
    """Confirms that ackd has kept what the worker said."""

    type: Literal["ack"]
    payload: AckPayload


class ReasonPayload(About):
    reason: str


class CheckpointRequestPayload(ReasonPayload):
    #: True: ackd stops, and a worker of the next one goes on, also if no step is done yet.
    stopping: bool | None = None
    #: With ``stopping``: how long the worker has before it is ended.
    ends_in_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class CheckpointRequestLine(FromAckd):
    """Write down where you stand, and stop there. A context_threshold is the answer."""

    type: Literal["checkpoint_request"]
    payload: CheckpointRequestPayload


class CancelPayload(ReasonPayload):
    message_id: Id
    let_go_within_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CancelLine(FromAckd):
    """Stop working on it: it was cancelled. A failed is the answer, or a complete if it is done already; without either
    in time the worker is restarted."""

    type: Literal["cancel"]
    payload: CancelPayload


class ShutdownLine(FromAckd):
    """End by yourself; hand over first what you have in hand."""

    type: Literal["shutdown"]
    payload: ReasonPayload


class ErrorPayload(Wire):
    code: str
    detail: str
    line: str


class ErrorLine(FromAckd):
    """A line of yours could not be read, and counts for nothing."""

    type: Literal["error"]
    payload: ErrorPayload


AnyLine = (
    HeartbeatLine
    | ProgressLine
    | ProgressInPayload
    | CompleteLine
    | FailedLine
    | BlockedLine
    | BlockedInPayload
    | ContextThresholdLine
)

FROM_WORKER: Final[dict[str, type[AnyLine]]] = {
    "heartbeat": HeartbeatLine,
    "progress": ProgressLine,
    "complete": CompleteLine,
    "failed": FailedLine,
    "blocked": BlockedLine,
    "context_threshold": ContextThresholdLine,
}
#: The seed's own form of the lines for which it has no class.
IN_PAYLOAD: Final[dict[str, type[ProgressInPayload | BlockedInPayload]]] = {
    "progress": ProgressInPayload,
    "blocked": BlockedInPayload,
}
FROM_ACKD: Final[dict[str, type[FromAckd]]] = {
    "assign": AssignLine,
    "status_check": StatusCheckLine,
    "ack": AckLine,
    "checkpoint_request": CheckpointRequestLine,
    "cancel": CancelLine,
    "shutdown": ShutdownLine,
    "error": ErrorLine,
}


KINDS: Final = (*FROM_WORKER, *FROM_ACKD)


def own_fields(model: type[Wire]) -> frozenset[str]:
    """The fields of one type of line that not every line has."""
    return frozenset(model.model_fields) - frozenset(FromWorker.model_fields) - {"type"}


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of one type of line. Raises KeyError for a type that does not exist."""
    model: type[Wire] = {**FROM_WORKER, **FROM_ACKD}[kind]
    described = model.model_json_schema(by_alias=True)
    if kind in IN_PAYLOAD:
        described = _either_form(described, IN_PAYLOAD[kind].model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described, "title": kind}


def _either_form(flat: dict[str, Any], in_payload: dict[str, Any]) -> dict[str, Any]:
    """The schema that accepts either form: the required fields at the top, or a payload that may have all of them."""
    needed = [name for name in flat["required"] if name != "type"]
    payload = in_payload["properties"]["payload"]
    second = {"required": ["payload"], "properties": {"payload": payload}, "description": in_payload["description"]}
    return {
        **flat,
        "$defs": {**in_payload["$defs"], **flat["$defs"]},
        "required": ["type"],
        "anyOf": [{"required": needed}, second],
    }
