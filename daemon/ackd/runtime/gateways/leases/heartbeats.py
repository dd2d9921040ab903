"""worker-status.json, as far as leases go by it: who was alive when, and who says that it is through.

Written by anyone, in place: what cannot be read at the moment says nothing, and is read again at the next change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from ackd.core import utc_times
from ackd.core.bus_words import SPELLINGS, Doing

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_BYTES: Final = 16 * 1024 * 1024
_THROUGH: Final = frozenset({Doing.COMPLETE, Doing.FAILED})


class Beat(NamedTuple):
    worker: str
    at: float
    through: bool


def read_beats(path: str) -> list[Beat]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of the bus, as text
            found = orjson.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return []
    return list(_beats(found)) if isinstance(found, dict) else []


def _beats(found: dict[str, object]) -> Iterator[Beat]:
    for worker, said in found.items():
        at = utc_times.read(said.get("last_heartbeat")) if isinstance(said, dict) else None
        if at is not None and isinstance(said, dict):
            yield Beat(worker, at, SPELLINGS.get(str(said.get("status", "")).strip().upper()) in _THROUGH)
