"""A line of a session log: made of a fact, and read back.

The keys of a line and their order are fixed here. Never fails: a value that JSON has no place for is written as text,
and bytes that are no line give None.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

_STAMP: Final = slice(len('{"timestamp":"'), len('{"timestamp":"2026-11-16T01:02:03.123456Z'))
_DEEPEST: Final = 32
_DEEPEST_READ: Final = 256  # orjson writes 254


@dataclass(frozen=True, slots=True)
class Line:
    """A fact as it stands in the log. ``raw`` is the line itself, without its end."""

    timestamp: str
    session_id: str
    seq: int
    writer: str
    type: str
    data: dict[str, Any]
    raw: bytes

    @property
    def at(self) -> float:
        """Wall-clock seconds."""
        return datetime.fromisoformat(self.timestamp).timestamp()


def parse_line(raw: bytes) -> Line | None:
    """Parse a line; None for bytes that are no line of a session log: torn, foreign or garbage."""
    try:
        content = orjson.loads(raw)
        timestamp, type_, data = content["timestamp"], content["type"], content["data"]
        datetime.fromisoformat(timestamp).timestamp()  # raises for a date that has no Unix time
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    if not (isinstance(type_, str) and isinstance(data, dict)) or _is_too_deep(raw, data):
        return None
    seq = content.get("seq")
    return Line(
        timestamp,
        str(content.get("session_id", "")),
        seq if isinstance(seq, int) else 0,
        str(content.get("writer", "")),
        type_,
        data,
        raw,
    )


def _is_too_deep(raw: bytes, data: dict[str, Any]) -> bool:
    """Say whether the data is nested deeper than any line that ackd writes: showing it would exhaust the stack."""
    if raw.count(b"[") + raw.count(b"{") <= _DEEPEST_READ:
        return False
    level: list[Any] = [data]
    for _ in range(_DEEPEST_READ):
        inner = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def encode_line(timestamp: str, session_id: str, seq: int, writer: str, type_: str, data: dict[str, object]) -> bytes:
    """Return the line with its end. ``stamp_of`` relies on how a line begins."""
    line = {
        "timestamp": timestamp,
        "session_id": session_id,
        "seq": seq,
        "writer": writer,
        "type": type_,
        "data": data,
    }
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # lone surrogates, keys that are not text, huge integers, circular references
        return orjson.dumps(_writable(line), option=orjson.OPT_APPEND_NEWLINE)


def stamp_of(encoded: bytes) -> str:
    """Return the timestamp of a line that ``encode_line`` made, without parsing it."""
    return encoded[_STAMP].decode()


def _writable(value: object, depth: int = 0) -> Any:
    """Return the value in a form that orjson accepts; parts that it cannot take are replaced by text."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else str(value)
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {_writable(str(key)): _writable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_writable(item, depth + 1) for item in value]
    return _writable(str(value))
