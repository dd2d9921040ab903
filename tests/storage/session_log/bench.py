"""Logs with facts in them: written by a SessionLog, or put there line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from ackd.storage.session_log import Line, SessionLog, read_lines

if TYPE_CHECKING:
    from pathlib import Path

AT = 1_794_791_723.123456  # 2026-11-16T01:15:23.123456Z
STEM = "20261116-011523"


def written(log: SessionLog) -> list[Line]:
    return list(read_lines(log.path))


def fill(log: SessionLog, count: int, **data: object) -> None:
    for number in range(count):
        log.record("fact", {"n": number, **data}, AT + number)


def put(logs: Path, name: str, *lines: bytes | dict[str, Any]) -> Path:
    logs.mkdir(parents=True, exist_ok=True)
    path = logs / name
    with path.open("ab") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else orjson.dumps(line) + b"\n")
    return path


def fact(number: int, **data: object) -> dict[str, Any]:
    return {
        "timestamp": f"2026-11-16T01:00:{number % 60:02d}.000000Z",
        "session_id": "s",
        "seq": number,
        "writer": "daemon",
        "type": "fact",
        "data": data,
    }
