"""The state of a bus, from its files: its workers, its tasks, and who waits for whom.

Works without a daemon, and says what the daemon would: both read the files by ``rules/track``. Fails with OSError.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not.
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.coordination.bus.files import state_files
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.rules.track import TrackView
from ackd.coordination.bus.wire.reading import MAX_STATUS_BYTES, decode_status
from ackd.core.errors import BadBusLine

if TYPE_CHECKING:
    from ackd.bus import Bus

_TRIES: Final = 5
_AGAIN_S: Final = 0.05


class WorkerStanding(NamedTuple):
    """A worker of a bus. Times are wall-clock seconds. ``is_stale``: it should be at work, and has been silent for too
    long."""

    status: str
    task: str | None
    since: float
    last_heard: float
    silent_s: int
    progress_pct: float | None
    waiting_for: tuple[str, ...]
    is_stale: bool


class TaskStanding(NamedTuple):
    """``state``: open, COMPLETE or FAILED."""

    worker: str | None
    state: str
    since: float


class BusWait(NamedTuple):
    """A worker that waits for another, and for what."""

    worker: str
    waits_for: str
    what: str


class BusStanding(NamedTuple):
    """``trouble``: what is wrong with worker-status.json."""

    track: Track
    messages: int
    bad_lines: int
    workers: Mapping[str, WorkerStanding]
    tasks: Mapping[str, TaskStanding]
    waits: tuple[BusWait, ...]
    trouble: tuple[str, ...]


def standing(bus: "Bus", wall: float, stale_after_s: float) -> BusStanding:
    """Read the whole bus. ``wall``: the time now."""
    view, bad, messages = TrackView(), 0, 0
    for line in bus.read():
        if isinstance(line, BadBusLine):
            bad += 1
        else:
            messages += 1
            view.take(line)
    trouble = _hear_status(bus, view, wall)
    return BusStanding(
        track=bus.track,
        messages=messages,
        bad_lines=bad,
        workers={name: _worker(view, name, wall, stale_after_s) for name in sorted(view.workers)},
        tasks={
            name: TaskStanding(task.holder, task.ended.value if task.ended else "open", task.since)
            for name, task in sorted(view.tasks.items())
        },
        waits=tuple(BusWait(one.waiter, one.holder, one.what) for one in view.blocked()),
        trouble=tuple(trouble),
    )


def _worker(view: TrackView, name: str, wall: float, stale_after_s: float) -> WorkerStanding:
    worker = view.workers[name]
    return WorkerStanding(
        status=worker.doing.value,
        task=worker.task,
        since=worker.since,
        last_heard=worker.heard,
        silent_s=max(0, round(wall - worker.heard)),
        progress_pct=worker.progress,
        waiting_for=tuple(worker.waits),
        is_stale=worker.at_work and wall - worker.heard > stale_after_s,
    )


def _hear_status(bus: "Bus", view: TrackView, wall: float) -> list[str]:
    """Read worker-status.json into the view; returns what is wrong with it. Half a file is read again: somebody is
    writing it."""
    for left in reversed(range(_TRIES)):
        found = state_files.read_file(bus.track.status, MAX_STATUS_BYTES)
        if found is None or not found.data.strip():
            return []
        try:
            entries, wrong = decode_status(found.data, wall)
        except BadBusLine as bad:
            if not left:
                return [f"worker-status.json: {bad.detail}"]
            time.sleep(_AGAIN_S)
            continue
        for status in entries.values():
            view.hear_status(status, view.status_said_at(status, None, found.written_at, wall))
        return [f"worker-status.json: {one}" for one in wrong]
    return []
