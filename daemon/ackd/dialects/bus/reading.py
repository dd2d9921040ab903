"""From a line of queue.jsonl to what it says.

Owns what makes a line unreadable, in words that its author can act on, and what is filled in for what agents leave out:
an id (from where the line lies), a time (when it was read), who votes (who speaks). A line that someone died in the
middle of, with another's glued to it, gives that other. Refuses to know whether what was said is true. Fails with
``BadBusLine``, and by no other way.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from ackd.core.bus_words import NOTICES, BusLine, BusType
from ackd.core.errors import BadBusLine, BadLine
from ackd.dialects.bus.models import MODELS
from ackd.dialects.bus.moments import moment
from ackd.json_line import Flaw, bad_fields, object_in, problem

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_NAME_CHARS: Final = 200
#: How many beginnings of an object in a broken line are tried, and how long such a line may be: it all takes time.
_MAX_TRIES: Final = 32
_MAX_GLUED_BYTES: Final = 65_536
#: Who says what nobody has put a name to.
NOBODY: Final = "unnamed"
_ENVELOPE: Final = frozenset({"id", "type", "source", "timestamp", "payload"})


def read(
    raw: bytes, offset: int, end: int, wall: float, written_at: float | None = None
) -> Iterator[BusLine | BadBusLine]:
    """Everything in one line of the file: nothing for a blank one, mostly one, two where a torn one precedes.

    ``wall``: when it is read; no time of its own counts that is later. ``written_at``: when a line was said that does
    not say so.
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
    """What the line says, with or without its line end. Raises BadBusLine."""
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
    """What is wrong with a payload, in words; empty: nothing."""
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
    """Of two values for one key every reader believes another: none is believed."""
    if len({key for key, _ in pairs}) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for number, key in enumerate(names) if key in names[:number])
        raise BadLine(Flaw.DUPLICATE_KEY, f"the key {twice!r:.60} stands there twice")


def _nothing(_text: str) -> None:
    """Only the keys are asked for here; a number may have thousands of digits."""


# --- from an object to what it says -----------------------------------------------------------------------------------
def _type(document: dict[str, Any]) -> str:
    type_ = document.get("type")
    if type_ is None:
        raise BadLine(Flaw.MISSING_FIELD, "type: is required, and missing")
    if not isinstance(type_, str) or type_ not in MODELS:
        raise BadLine(Flaw.UNKNOWN_TYPE, f"type {type_!r:.60}: known are {', '.join(MODELS)}")
    return type_


def _source(document: dict[str, Any], type_: str) -> str:
    """Who speaks, wherever it is said. Of the bus's own beginnings it is often nobody."""
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
