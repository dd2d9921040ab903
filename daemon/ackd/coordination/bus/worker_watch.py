"""Watches a track's workers: reads worker-status.json, and notices who has fallen silent.

The file is read however it is written (half a file is read again). Workers that are agents give the engine signs of
life. A worker is reported once when it is stale, and once when it is back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ackd.coordination.bus import notices as telling
from ackd.coordination.bus.facts import bus_bad_file, worker_back, worker_stale
from ackd.coordination.bus.files import state_files
from ackd.coordination.bus.rules.words import WorkerDoing
from ackd.coordination.bus.wire.reading import MAX_STATUS_BYTES, decode_status
from ackd.core.errors import BadBusLine, UnknownAgent
from ackd.core.events import SignOfLife

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.rules.track import BusWorker, TrackView
    from ackd.coordination.bus.rules.words import WorkerStatus
    from ackd.coordination.bus.settings import BusSettings
    from ackd.coordination.gateway import GatewayServices

#: The time after which a file that makes no sense is read again: it is probably being written.
_LOOK_AGAIN_S: Final = 0.05
#: The time after which nobody can be writing it any more.
_TORN_S: Final = 2.0


@dataclass
class WorkerWatch:
    track: Track
    config: BusSettings
    services: GatewayServices
    orchestrator: str
    agent_of: Callable[[str], str | None]
    #: Workers that were reported stale, and when each had last been heard.
    stale: dict[str, float] = field(default_factory=dict, init=False)
    _history_before: float = field(default=0.0, init=False)
    _entries: dict[str, WorkerStatus] = field(default_factory=dict, init=False)
    _identity: tuple[int, int, int] | None = field(default=None, init=False)
    _earlier: TrackView | None = field(default=None, init=False)
    _torn_since: float | None = field(default=None, init=False)
    _look_at: float = field(default=0.0, init=False)

    def begin(self, stale: Mapping[str, float], history_before: float, earlier: TrackView) -> None:
        """``history_before``: workers last heard before this are not reported. ``earlier``: the view from before the
        same lines are read again."""
        self.stale, self._history_before, self._earlier = dict(stale), history_before, earlier
        self._entries, self._identity, self._torn_since = {}, None, None

    def move(self, by_s: float) -> None:
        """Shift all times, because the wall clock was set."""
        self.stale = {name: heard + by_s for name, heard in self.stale.items()}
        self._history_before += by_s

    async def look(self, view: TrackView) -> None:
        self._read_status(view)
        for name in [name for name, heard in self.stale.items() if _is_back(view, name, heard)]:
            del self.stale[name]
            if (worker := view.workers.get(name)) is not None:
                self.services.record(worker_back(**{**self._facts(worker), "worker": name}))
        wall = self.services.clock.now().wall
        for worker in view.quiet(wall - self.config.heartbeat_timeout_s):
            if worker.name not in self.stale:
                if worker.heard >= self._history_before:
                    await self._tell(worker)
                self.stale[worker.name] = worker.heard

    def next_look_s(self, view: TrackView) -> float | None:
        if self._torn_since is not None:
            return self._look_at - time.monotonic()
        awaited = [worker.heard for worker in view.workers.values() if worker.at_work and worker.name not in self.stale]
        if not awaited:
            return None
        return min(awaited) + self.config.heartbeat_timeout_s + 0.001 - self.services.clock.now().wall

    def page(self, view: TrackView) -> dict[str, Any]:
        counts = {doing.value: 0 for doing in WorkerDoing}
        for worker in view.workers.values():
            counts[worker.doing.value] += 1
        open_tasks = sum(task.ended is None for task in view.tasks.values())
        return {"workers": counts, "stale": sorted(self.stale), "tasks": len(view.tasks), "open_tasks": open_tasks}

    # --- worker-status.json -------------------------------------------------------------------------------------------
    def _read_status(self, view: TrackView) -> None:
        identity = state_files.identity_of(self.track.status)
        if identity == self._identity and self._torn_since is None:
            return
        found = state_files.read_file(self.track.status, MAX_STATUS_BYTES)
        if found is None:
            self._identity, self._torn_since = identity, None
            return
        try:
            entries, wrong = decode_status(found.data, float("inf"))
        except BadBusLine as bad:
            self._maybe_torn(found.identity, bad)
            return
        self._identity, self._torn_since = found.identity, None
        if wrong:
            self._say_bad("; ".join(wrong[:3]))
        met = set(view.workers)
        for name, status in entries.items():
            if self._entries.get(name) != status:  # the same entry says nothing new, although the clocks have moved
                self._hear(view, status, found.written_at)
        if self._earlier is not None:
            view.heard_as_in(self._earlier, but=met)
        self._entries, self._earlier = entries, None

    def _maybe_torn(self, identity: tuple[int, int, int], bad: BadBusLine) -> None:
        """Log a file that makes no sense once it has been so for long; then it is read again when it has changed."""
        now = time.monotonic()
        self._look_at = now + _LOOK_AGAIN_S
        if self._torn_since is None or identity != self._identity:
            self._torn_since, self._identity = now, identity
        elif now - self._torn_since > _TORN_S:
            self._torn_since = None
            if identity[2]:  # an empty file is no error
                self._say_bad(bad.detail)

    def _hear(self, view: TrackView, status: WorkerStatus, written_at: float) -> None:
        wall = self.services.clock.now().wall
        said_at = view.status_said_at(status, self._entries.get(status.worker), written_at, wall)
        if not view.hear_status(status, said_at):
            return
        agent = self.agent_of(status.worker)
        if agent is not None and said_at >= wall - self.config.heartbeat_timeout_s:
            self.services.post(SignOfLife(agent, f"worker-status.json: {status.doing.value}"))

    def _say_bad(self, error: str) -> None:
        self.services.record(bus_bad_file(track=self.track.name, file="worker-status.json", error=error))

    # --- silence ------------------------------------------------------------------------------------------------------
    async def _tell(self, worker: BusWorker) -> None:
        """Send the mail first: a crash in between sends the same mail again, which is recognised."""
        to = self.services.called(self.orchestrator)
        timeout_s = self.config.heartbeat_timeout_s
        if to is not None and to != self.agent_of(worker.name):
            try:
                await self.services.mail(telling.stale(self.track.name, self.track.bus, worker, timeout_s, to))
            except UnknownAgent:  # the agent has left the team since
                to = None
        silent_s = round(self.services.clock.now().wall - worker.heard)
        told = {"to": to} if to is not None else {}
        self.services.record(worker_stale(**self._facts(worker), silent_s=silent_s, **told))

    def _facts(self, worker: BusWorker) -> dict[str, Any]:
        agent = self.agent_of(worker.name)
        about = {"task_id": worker.task} if worker.task else {}
        whose = {"agent": agent} if agent is not None else {}
        return {"track": self.track.name, "worker": worker.name, "status": worker.doing.value, **about, **whose}


def _is_back(view: TrackView, name: str, heard: float) -> bool:
    worker = view.workers.get(name)
    return worker is None or not worker.at_work or worker.heard > heard
