"""worker-status.json: what workers say of themselves, by whatever hand.

Owns reading it tolerantly: an entry that makes no sense is left out and named, the others count. Fails with
``BadBusLine`` only where the whole file is no JSON object: half of it may just be being written.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from ackd.core.bus_words import SPELLINGS, Doing, WorkerStatus
from ackd.core.errors import BadBusLine
from ackd.dialects.bus.moments import moment
from ackd.dialects.bus.reading import MAX_NAME_CHARS
from ackd.json_line import Flaw

MAX_STATUS_BYTES: Final = 4 * 1_048_576
MAX_WORKERS: Final = 10_000


def decode_status(data: bytes, wall: float) -> tuple[dict[str, WorkerStatus], list[str]]:
    """The entries by worker, and what is wrong with those that are not among them. An empty file says nothing yet.

    ``wall``: no heartbeat counts that is later.
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
        return f"status {said!r:.40}: known are {', '.join(Doing.__members__)}"
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
