"""Mail to people and agents about events on a bus.

The ids derive from the line: mail made again after a crash is the same to the byte, and recognised. So nothing here may
depend on the time at which it is made. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackd.coordination.bus.rules.words import BusType, WorkerDoing
from ackd.core.escalations import derived_id, stamp
from ackd.core.message import MONITOR, Draft, Priority

if TYPE_CHECKING:
    from ackd.coordination.bus.rules.track import BusWorker, Woken
    from ackd.coordination.bus.rules.words import BusLine

_MAX_CHARS: Final = 2_000
_MAX_NAMES: Final = 50
_MAX_KEYS: Final = 20

#: The types of lines that the orchestrator gets mail about.
TOLD_OF: Final = frozenset({BusType.TASK_COMPLETE, BusType.TASK_FAILED, BusType.BLOCKED})


def to_orchestrator(track: str, line: BusLine, cause: tuple[object, ...], to: str) -> Draft:
    urgent = line.type is not BusType.TASK_COMPLETE
    body: dict[str, object] = {"content": f"Track {track}: {_said(line)}.", "bus": _facts(track, line)}
    ident = derived_id("bus_line", to, *cause)
    return Draft(ident, MONITOR, to, "message", Priority.HIGH if urgent else Priority.NORMAL, body)


def to_woken(track: str, line: BusLine, cause: tuple[object, ...], woken: Woken, to: str) -> Draft:
    how = {WorkerDoing.COMPLETE: "is complete", WorkerDoing.FAILED: "has failed", None: "is free"}[
        woken.ended if woken.ended in (WorkerDoing.COMPLETE, WorkerDoing.FAILED) else None
    ]
    if woken.by in (woken.worker, line.payload.get("task_id")) or woken.ended is None:
        words = f"{_subject(line)} {how}"
    else:
        words = f"{_subject(line)} {how}, and unblocks {_cut(woken.by)}"
    body: dict[str, object] = {
        "content": f"Track {track}: {words} (said by {_cut(line.source)}). You need not wait for it any longer.",
        "bus": {**_facts(track, line), "worker": woken.worker, "waited_for": _cut(woken.by)},
    }
    return Draft(derived_id("bus_woken", woken.worker, *cause), MONITOR, to, "message", Priority.HIGH, body)


def stale(track: str, bus: str, worker: BusWorker, timeout_s: float, to: str) -> Draft:
    at = f" with task {_cut(worker.task)}" if worker.task else ""
    body: dict[str, object] = {
        "content": f"Track {track}: worker {_cut(worker.name)} is {worker.doing.value}{at}, and was last heard "
        f"{stamp(worker.heard)} (limit: {timeout_s:g} s).",
        "bus": {
            "track": track,
            "worker": worker.name,
            "status": worker.doing.value,
            "task_id": worker.task,
            "last_heard": stamp(worker.heard),
        },
    }
    ident = derived_id("worker_stale", int(worker.heard), bus, worker.name)
    return Draft(ident, MONITOR, to, "message", Priority.HIGH, body)


def facts(track: str, line: BusLine) -> dict[str, Any]:
    """The ids and names of a line, for the session log, without any text of its author."""
    found = {"track": track, "message_id": line.message_id, "bus_type": line.type.value, "source": line.source}
    named = {key: line.payload.get(key) for key in ("task_id", "filepath", "director")}
    more = {key: _cut(value, 200) for key, value in named.items() if isinstance(value, str)}
    again = {"recovered": True} if line.again else {}
    where: dict[str, object] = {"event": line.event} if line.event else {"offset": line.offset}
    return {**found, **more, **where, **again}


def _said(line: BusLine) -> str:
    payload = line.payload
    match line.type:
        case BusType.TASK_COMPLETE:
            sha = payload.get("commit_sha")
            return f"{_subject(line)} is complete, says {_cut(line.source)}" + (f" (commit {_cut(sha)})" if sha else "")
        case BusType.TASK_FAILED:
            error = payload.get("error")
            return f"{_subject(line)} has failed, says {_cut(line.source)}" + (f": {_cut(error)}" if error else "")
        case BusType.BLOCKED:
            named = payload.get("waiting_for")
            names = [_cut(name, 200) for name in named[:_MAX_NAMES]] if isinstance(named, list) else []
            waits = ", ".join(names) or _cut(payload.get("resource") or "something it does not name")
            about = f" with task {_cut(payload['task_id'])}" if "task_id" in payload else ""
            return f"{_cut(line.source)} is blocked{about}, and waits for {waits}"
        case _:
            return f"{_cut(line.source)} says {line.type.value}"


def _subject(line: BusLine) -> str:
    if line.type is BusType.FILE_UNLOCK:
        return f"the file {_cut(line.payload.get('filepath'))}"
    return f"task {_cut(line.payload.get('task_id'))}" if "task_id" in line.payload else f"what {line.source} waits for"


def _facts(track: str, line: BusLine) -> dict[str, object]:
    plain = [(key, value) for key, value in line.payload.items() if not isinstance(value, dict)]
    kept = {_cut(key, 100): _short(value) for key, value in plain[:_MAX_KEYS]}
    return {"track": track, "id": line.message_id, "type": line.type.value, "source": line.source, "payload": kept}


def _short(value: object) -> object:
    if isinstance(value, list):
        return [_cut(one, 200) for one in value[:_MAX_NAMES]]
    return _cut(value) if isinstance(value, str) else value


def _cut(value: object, most: int = _MAX_CHARS) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}…"
