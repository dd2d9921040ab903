"""Reads a line that holds a JSON object: returns a dict, or raises a named reason why the line is none.

The author of an unreadable line can act on the reason; it is worded the same for a line of a worker and of a bus.
Fields are not looked at. Pure; the only error raised is ``BadLine``.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from ackd.core.errors import BadLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

MAX_LINE_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 64
MAX_PROBLEMS: Final = 3
_TEXTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')


class Flaw(enum.StrEnum):
    """The reason why a line cannot be read: the ``code`` of ``BadLine``."""

    TOO_LONG = "too_long"
    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"  # NaN, Infinity and half a surrogate pair are not, either
    NOT_AN_OBJECT = "not_an_object"
    TOO_DEEP = "too_deep"
    DUPLICATE_KEY = "duplicate_key"
    UNKNOWN_TYPE = "unknown_type"
    MISSING_FIELD = "missing_field"
    BAD_FIELD = "bad_field"


def object_in(line: bytes, most_bytes: int = MAX_LINE_BYTES) -> dict[str, Any]:
    """Return the object in the line, which may end with a line end."""
    if len(line) > most_bytes:
        raise too_long(most_bytes)
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _no_json(line, error) from None
    if not isinstance(document, dict):
        raise BadLine(Flaw.NOT_AN_OBJECT, "a line must be one JSON object")
    if _is_too_deep(line):
        raise _too_deep()
    return document


def too_long(most_bytes: int = MAX_LINE_BYTES) -> BadLine:
    """Return the refusal of a line that is too long, for a reader of a pipe that need not gather it first."""
    return BadLine(Flaw.TOO_LONG, f"more than {most_bytes} bytes in one line")


def bad_fields(errors: Sequence[ErrorDetails]) -> BadLine:
    """Return what pydantic found wrong with the fields: the first few."""
    said = [problem(one) for one in errors[:MAX_PROBLEMS]]
    more = f"; and {len(errors) - MAX_PROBLEMS} more" if len(errors) > MAX_PROBLEMS else ""
    code = Flaw.MISSING_FIELD if errors[0]["type"] == "missing" else Flaw.BAD_FIELD
    return BadLine(code, "; ".join(said) + more)


def problem(error: ErrorDetails) -> str:
    """Return one problem in words."""
    where = ".".join(map(str, error["loc"])) + ": " if error["loc"] else ""
    if error["type"] == "missing":
        return f"{where}is required, and missing"
    words = error["msg"].removeprefix("Value error, ")
    return f"{where}{words[:1].lower()}{words[1:]}"


def _no_json(line: bytes, error: orjson.JSONDecodeError) -> BadLine:
    try:
        line.decode()
    except UnicodeDecodeError as why:
        return BadLine(Flaw.NOT_UTF8, f"not UTF-8 from byte {why.start + 1} on")
    if not line.strip():
        return BadLine(Flaw.NOT_JSON, "an empty line")
    if _is_too_deep(line):
        return _too_deep()
    return BadLine(Flaw.NOT_JSON, f"not JSON: {error.msg}")


def _too_deep() -> BadLine:
    return BadLine(Flaw.TOO_DEEP, f"nested more than {MAX_DEPTH} deep")


def _is_too_deep(line: bytes) -> bool:
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:  # nearly always the case
        return False
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", _TEXTS.sub(b"", line)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False
