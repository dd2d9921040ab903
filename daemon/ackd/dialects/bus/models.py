"""The payloads as pydantic sees them: what each of the types says, to the leaves.

Tolerant where the seed's own snippets leave something out, and where a shell writes a number for a name (``1.1``) or
one value for a list of one; keys beyond these stay. Required is only what a reader cannot do without. Who speaks is
filled in by the reader (reading). Fails with pydantic's ValidationError.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from ackd.dialects.bus.moments import moment
from ackd.dialects.bus.shapes import MAX_ID_CHARS, MAX_IDS


def _name(value: object) -> object:
    """Task 1.1 is a number to jq and to a shell that leaves its quotes out."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _one_is_a_list(value: object) -> object:
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else value


def _number(value: object) -> object:
    """``"45"`` and ``"45%"`` are numbers to whoever wrote them."""
    if not isinstance(value, str):
        return value
    try:
        return float(value.strip().removesuffix("%"))
    except ValueError:
        return value


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _moment(value: object) -> object:
    if moment(value) is None:
        raise ValueError("a time as in 2026-11-16T12:00:00Z")
    return value


Id = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS), BeforeValidator(_name)]
Ids = Annotated[list[Id], Field(max_length=MAX_IDS), BeforeValidator(_one_is_a_list)]
Items = Annotated[list[Any], BeforeValidator(_one_is_a_list)]
Note = Annotated[str, BeforeValidator(_name)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), BeforeValidator(_number)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_number)]
#: Of 10, as `ackd bus post` has it; who writes by hand may mean percents, as in the board's files.
Score = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), BeforeValidator(_number)]
LockType = Annotated[Literal["exclusive", "shared"], BeforeValidator(_lower)]
Tone = Annotated[Literal["CHALLENGE", "AGREE", "QUESTION", "CLARIFY"], BeforeValidator(_upper)]
Vote = Annotated[Literal["APPROVE", "REJECT"], BeforeValidator(_upper)]
Moment = Annotated[Any, BeforeValidator(_moment)]


class Payload(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True, populate_by_name=True)


class Progress(Payload):
    """Without a task it is a sign of life."""

    task_id: Id | None = None
    progress_pct: Percent | None = None
    current_subtask: Note | None = None


class TaskComplete(Payload):
    """``unblocks``: tasks or workers."""

    task_id: Id
    commit_sha: Note | None = None
    files_modified: Items | None = None
    unblocks: Ids | None = None


class TaskFailed(Payload):
    task_id: Id
    error: Note | None = None
    stack_trace: Note | None = None


class FileLock(Payload):
    """The seed's snippet says no more than the path."""

    filepath: Id
    lock_type: LockType | None = None
    expires_at: Moment | None = None


class FileUnlock(Payload):
    filepath: Id


class Blocked(Payload):
    """``waiting_for``: a task, a worker, a path, or several of them."""

    task_id: Id | None = None
    waiting_for: Ids | None = None
    resource: Id | None = None


class BoardAssess(Payload):
    director: Id | None = None
    verdict: Id
    score: Score | None = None
    concerns: Items | None = None
    recommendations: Items | None = None


class BoardDiscuss(Payload):
    from_: Annotated[Id | None, Field(alias="from")] = None
    to: Id | None = None
    type: Tone | None = None
    message: Note
    changes_my_verdict: bool | None = None


class BoardVote(Payload):
    """The seed posts the vote as it stands in votes.json, which does not say whose it is."""

    director: Id | None = None
    final_verdict: Vote
    confidence: Share | None = None
    conditions: Items | None = None


class BoardResolve(Payload):
    verdict: Id
    vote_summary: dict[str, Any] | None = None
    conditions: Items | None = None
    dissent: Items | None = None


class Notice(Payload):
    """Whatever who leads has to say of the bus or of others: it is read by people."""


MODELS: Final[dict[str, type[Payload]]] = {
    "PROGRESS": Progress,
    "TASK_COMPLETE": TaskComplete,
    "TASK_FAILED": TaskFailed,
    "FILE_LOCK": FileLock,
    "FILE_UNLOCK": FileUnlock,
    "BLOCKED": Blocked,
    "BOARD_ASSESS": BoardAssess,
    "BOARD_DISCUSS": BoardDiscuss,
    "BOARD_VOTE": BoardVote,
    "BOARD_RESOLVE": BoardResolve,
    "BUS_INIT": Notice,
    "WORKER_DISPATCHED": Notice,
    "TASK_BLOCKED": Notice,
    "DEADLOCK_RESOLVED": Notice,
}
