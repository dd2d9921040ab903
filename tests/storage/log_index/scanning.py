"""The reference that the index is held against: every line of every log, read and asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from ackd.storage.session_log import read_lines, session_files

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.storage.log_index import LineQuery

T0 = "2026-11-18T10:00:{:02d}.{:06d}Z"


def scan(logs: Path, query: LineQuery) -> list[bytes]:
    return [line.raw for path in session_files(logs) for line in read_lines(path) if query.takes(line)]


def counts(logs: Path, types: tuple[str, ...]) -> dict[str, int]:
    found = dict.fromkeys(types, 0)
    for path in session_files(logs):
        for line in read_lines(path):
            if line.type in found:
                found[line.type] += 1
    return found


def encoded(seq: int, type_: str, at_s: int, **data: Any) -> bytes:
    """A line that no other line equals, because of its number."""
    stamp = T0.format(at_s % 60, seq % 1_000_000)
    line = {"timestamp": stamp, "session_id": "s", "seq": seq, "writer": "w", "type": type_, "data": data}
    return orjson.dumps(line) + b"\n"


def write(path: Path, *lines: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        log.write(b"".join(lines))
    return path
