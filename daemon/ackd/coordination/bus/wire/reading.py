"""Reads the files of a bus that anybody writes: a line of queue.jsonl, and worker-status.json.

A line that cannot be read is refused in words that its author can act on. Values that agents leave out are filled in:
an id (from the line's place), a time (when it was read), the voter (the source). If a writer died in the middle of a
line and another's message follows on it, that message is read. An entry of worker-status.json that makes
no sense is left out and named, and the others count. Fails with ``BadBusLine`` only.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

import orjson
from pydantic import ValidationError

from ackd.coordination.bus.rules.words import NOTICES, SPELLINGS, BusLine, BusType, WorkerDoing, WorkerStatus
from ackd.coordination.bus.wire.models import MODELS, moment
from ackd.core.errors import BadBusLine, BadLine
from ackd.formats.json_line import Flaw, bad_fields, object_in, problem

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_NAME_CHARS: Final = 200
#: The most beginnings of an object that are tried in a broken line, and its greatest length: both bound the time.
_MAX_TRIES: Final = 32
_MAX_GLUED_BYTES: Final = 65_536
#: The source of a line about the bus itself that names none.
NOBODY: Final = "unnamed"
_ENVELOPE: Final = frozenset({"id", "type", "source", "timestamp", "payload"})


def read(
    raw: bytes, offset: int, end: int, wall: float, written_at: float | None = None
) -> Iterator[BusLine | BadBusLine]:
    """Yield everything in one line of the file: nothing for a blank line, mostly one message, and two results where a
    torn message stands before a whole one.

    ``wall``: the time of reading; a later time in the line does not count. ``written_at``: the time of a line that has
    none.
    """
    at = wall if written_at is None else min(wall, written_at)
    if not raw.strip():
        return
    try:
        yield decode(raw, offset, end, wall, at)
    except BadBusLine as bad:
        glued = _glued(raw, offset, end, wall, at) if bad.code in (Flaw.NOT_JSON, Flaw.NOT_UTF8) else None
        if glued is None:
            yield bad
        else:
            yield BadBusLine(bad.code, bad.detail, offset, glued.offset)
            yield glued


def decode(raw: bytes, offset: int, end: int, wall: float, written_at: float) -> BusLine:
    """The message in the line, with or without its line end. Raises BadBusLine."""
    try:
        document = _object(raw)
        type_ = _type(document)
        source = _source(document, type_)
        payload = _payload(type_, document, source)
    except BadLine as bad:
        raise BadBusLine(bad.code, bad.detail, offset, end) from None
    said_at = moment(document.get("timestamp"))
    at = written_at if said_at is None else min(said_at, wall)
    return BusLine(offset, end, _id(document, raw, offset), BusType(type_), source, at, payload)


def problems(type_: str, payload: dict[str, Any]) -> list[str]:
    """The problems of a payload, in words; empty: none."""
    try:
        MODELS[type_].model_validate(payload)
    except ValidationError as error:
        return [problem(one) for one in error.errors(include_url=False, include_input=False)]
    return []


def _glued(raw: bytes, offset: int, end: int, wall: float, written_at: float) -> BusLine | None:
    """The whole message at the end of a line that begins with the rest of another."""
    if len(raw) > _MAX_GLUED_BYTES:
        return None
    starts = [found.start() for found in re.finditer(rb'\{\s*"', raw)][1 : _MAX_TRIES + 1]
    for start in starts:
        try:
            document = _object(raw[start:])
            if document.keys() >= {"type", "source", "payload"}:
                return decode(raw[start:], offset + start, end, wall, written_at)
        except (BadLine, BadBusLine):
            continue
    return None


# --- from bytes to an object ------------------------------------------------------------------------------------------
def _object(raw: bytes) -> dict[str, Any]:
    document = object_in(raw)
    json.loads(raw, object_pairs_hook=_once, parse_int=_nothing, parse_float=_nothing)
    return document


def _once(pairs: list[tuple[str, object]]) -> None:
    """Refuse two values for one key, because readers differ in which of them they take."""
    if len({key for key, _ in pairs}) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for number, key in enumerate(names) if key in names[:number])
        raise BadLine(Flaw.DUPLICATE_KEY, f"the key {twice!r:.60} stands there twice")


def _nothing(_text: str) -> None:
    """Skip a number, which may have thousands of digits: only the keys are asked for here."""


# --- from an object to a message--- -----------------------------------------------------------------------------------
def _type(document: dict[str, Any]) -> str:
    type_ = document.get("type")
    if type_ is None:
        raise BadLine(Flaw.MISSING_FIELD, "type: is required, and missing")
    if not isinstance(type_, str) or type_ not in MODELS:
        raise BadLine(Flaw.UNKNOWN_TYPE, f"type {type_!r:.60}: known are {', '.join(MODELS)}")
    return type_


def _source(document: dict[str, Any], type_: str) -> str:
    """The speaker, under whichever key it is named. Lines about the bus itself often have none."""
    payload = document.get("payload")
    inner = payload if isinstance(payload, dict) else document
    candidates = (document.get("source"), document.get("worker_id"), document.get("from"))
    for name in (*candidates, inner.get("director"), inner.get("worker_id"), inner.get("from")):
        if isinstance(name, str) and name.strip():
            return name.strip()[:MAX_NAME_CHARS]
    if BusType(type_) in NOTICES:
        return NOBODY
    raise BadLine(Flaw.MISSING_FIELD, "source: is required, and missing")


def _payload(type_: str, document: dict[str, Any], source: str) -> dict[str, object]:
    payload = document.get("payload", {key: value for key, value in document.items() if key not in _ENVELOPE})
    if payload is None:
        payload = {}
    if not isinstance(payload, dict):
        raise BadLine(Flaw.BAD_FIELD, "payload: must be an object")
    if type_ == "BOARD_VOTE" and "final_verdict" not in payload and "verdict" in payload:
        payload = {**payload, "final_verdict": payload["verdict"]}
    try:
        read_ = MODELS[type_].model_validate(payload)
    except ValidationError as error:
        raise bad_fields(error.errors(include_url=False, include_input=False)) from None
    return {**_left_out(type_, source), **read_.model_dump(by_alias=True, exclude_none=True)}


def _left_out(type_: str, source: str) -> dict[str, object]:
    match type_:
        case "FILE_LOCK":
            return {"lock_type": "exclusive"}
        case "TASK_COMPLETE":
            return {"files_modified": [], "unblocks": []}
        case "BOARD_ASSESS":
            return {"director": source, "concerns": [], "recommendations": []}
        case "BOARD_DISCUSS":
            return {"from": source, "to": "ALL", "changes_my_verdict": False}
        case "BOARD_VOTE":
            return {"director": source, "conditions": []}
        case "BOARD_RESOLVE":
            return {"vote_summary": {}, "conditions": [], "dissent": []}
        case _:
            return {}


def _id(document: dict[str, Any], raw: bytes, offset: int) -> str:
    given = document.get("id")
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if isinstance(given, str) and 1 <= len(given) <= MAX_NAME_CHARS:
        return given
    return f"line-{offset}-{hashlib.blake2b(raw.strip(), digest_size=6).hexdigest()}"


# --- worker-status.json -----------------------------------------------------------------------------------------------
MAX_STATUS_BYTES: Final = 4 * 1_048_576
MAX_WORKERS: Final = 10_000


def decode_status(data: bytes, wall: float) -> tuple[dict[str, WorkerStatus], list[str]]:
    """The entries by worker, and the problems of those that are left out. An empty file says nothing yet.
    ``BadBusLine`` where the whole file is no JSON object: half of it may just be being written.

    ``wall``: a later heartbeat does not count.
    """
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadBusLine(Flaw.NOT_JSON, f"not JSON: {error.msg}") from None
    if not isinstance(document, dict):
        raise BadBusLine(Flaw.NOT_AN_OBJECT, "must be one JSON object")
    found: dict[str, WorkerStatus] = {}
    wrong: list[str] = []
    for worker, entry in list(document.items())[:MAX_WORKERS]:
        status = _status(worker, entry, wall)
        if isinstance(status, str):
            wrong.append(f"{worker[:60]!r}: {status}")
        else:
            found[worker] = status
    return found, wrong


def _status(worker: str, entry: Any, wall: float) -> WorkerStatus | str:
    if not 1 <= len(worker) <= MAX_NAME_CHARS:
        return "no name for a worker"
    if not isinstance(entry, dict):
        return "must be an object"
    said = str(entry.get("status", "RUNNING")).strip().upper()
    if said not in SPELLINGS:
        return f"status {said!r:.40}: known are {', '.join(WorkerDoing.__members__)}"
    heartbeat = moment(entry.get("last_heartbeat"))
    percent = entry.get("progress_pct")
    return WorkerStatus(
        worker=worker,
        doing=SPELLINGS[said],
        task=_text(entry.get("task_id")),
        heartbeat=None if heartbeat is None else min(heartbeat, wall),
        progress=float(percent) if isinstance(percent, int | float) and 0 <= percent <= 100 else None,
        waiting_for=_names(entry.get("waiting_for")),
    )


def _text(value: object) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value[:MAX_NAME_CHARS] if isinstance(value, str) and value else None


def _names(value: object) -> tuple[str, ...]:
    several = value if isinstance(value, list) else [value]
    return tuple(name for one in several[:100] if (name := _text(one)) is not None)
