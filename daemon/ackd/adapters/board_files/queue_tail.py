"""Which of our lines are on the bus already: asked before they are written, so that a crash does not say them twice.

Synchronous. Fails with OSError.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHUNK_BYTES: Final = 1 << 20


def queue_size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        return 0


def said_since(path: str, offset: int, ids: Iterable[str]) -> set[str]:
    """Of these ids, those that a whole line from ``offset`` on bears; from the start, if the file is shorter now. A
    line that a full disk cut short does not count."""
    wanted = {f'"{one}"'.encode(): one for one in ids}
    found: set[str] = set()
    if not wanted:
        return found
    for line in _lines(path, offset if offset <= queue_size(path) else 0):
        found |= {one for text, one in wanted.items() if text in line and _id_of(line) == one}
    return found


def _id_of(line: bytes) -> object:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said.get("id") if isinstance(said, dict) else None


def _lines(path: str, offset: int) -> Iterable[bytes]:
    try:
        with open(path, "rb", buffering=_CHUNK_BYTES) as file:  # noqa: PTH123
            file.seek(offset)
            yield from file
    except FileNotFoundError:
        return
