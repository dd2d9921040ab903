"""The state of a bus, from its files, for `ackd bus status`. Works without a daemon, and says what the daemon would."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ackd.cli.output import say
from ackd.coordination.bus.files import state_files
from ackd.coordination.bus.rules.track import TrackView
from ackd.coordination.bus.wire.reading import MAX_STATUS_BYTES, decode_status
from ackd.core.errors import BadBusLine
from ackd.core.escalations import stamp
from ackd.facts import duration

if TYPE_CHECKING:
    from ackd.bus import Bus

_TRIES = 5
_AGAIN_S = 0.05


def picture(bus: Bus, wall: float, stale_after_s: float) -> dict[str, Any]:
    view, bad, messages = TrackView(), 0, 0
    for line in bus.read():
        if isinstance(line, BadBusLine):
            bad += 1
        else:
            messages += 1
            view.take(line)
    trouble = _hear_status(bus, view, wall)
    waits = [{"worker": one.waiter, "for": one.holder, "what": one.what} for one in view.blocked()]
    return {
        "track": bus.track.name,
        "bus": bus.track.bus,
        "messages": messages,
        "bad_lines": bad,
        "workers": {name: _worker(view, name, wall, stale_after_s) for name in sorted(view.workers)},
        "tasks": {
            name: {
                "worker": task.holder,
                "state": task.ended.value if task.ended else "open",
                "since": stamp(task.since),
            }
            for name, task in sorted(view.tasks.items())
        },
        "waits": waits,
        **({"trouble": trouble} if trouble else {}),
    }


def _worker(view: TrackView, name: str, wall: float, stale_after_s: float) -> dict[str, Any]:
    worker = view.workers[name]
    return {
        "status": worker.doing.value,
        "task": worker.task,
        "since": stamp(worker.since),
        "last_heard": stamp(worker.heard),
        "silent_s": max(0, round(wall - worker.heard)),
        "progress_pct": worker.progress,
        "waiting_for": list(worker.waits),
        "stale": worker.at_work and wall - worker.heard > stale_after_s,
    }


def _hear_status(bus: Bus, view: TrackView, wall: float) -> list[str]:
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


def print_picture(found: dict[str, Any]) -> None:
    bad = f", {found['bad_lines']} lines that cannot be read" if found["bad_lines"] else ""
    say(f"{found['track']} ({found['bus']}): {found['messages']} messages{bad}")
    for name, worker in found["workers"].items():
        task = f"  task {worker['task']}" if worker["task"] else ""
        percent = f"  {worker['progress_pct']:g}%" if worker["progress_pct"] is not None else ""
        waits = f"  waits for {', '.join(worker['waiting_for'])}" if worker["waiting_for"] else ""
        heard = f"  {'STALE: ' if worker['stale'] else ''}heard {duration(worker['silent_s'])} ago"
        say(f"  {name:<20} {worker['status']:<9}{task}{percent}{waits}{heard}")
    tasks = found["tasks"].values()
    if tasks:
        ended = {state: sum(task["state"] == state for task in tasks) for state in ("open", "COMPLETE", "FAILED")}
        say(f"  {len(tasks)} tasks: {ended['open']} open, {ended['COMPLETE']} complete, {ended['FAILED']} failed")
    for trouble in found.get("trouble", []):
        say(f"  ! {trouble}")
