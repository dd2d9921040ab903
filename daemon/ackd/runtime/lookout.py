"""The watcher in use, and the other one when it cannot go on.

Owns the choice between inotify and polling and the change from one to the other, said once. Refuses to know what a hint
means (intake). If the config insists on inotify and it cannot be had, ``fail`` is told why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from ackd import ports
from ackd.adapters.inotify_watch import InotifyWatcher
from ackd.adapters.polling_watch import PollingWatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from ackd.config import Watch
    from ackd.ports import Hint, Watcher
    from ackd.runtime.intake import Intake
    from ackd.site import Site


@dataclass
class Lookout:
    site: Site
    config: Watch
    intake: Intake
    tasks: TaskGroup
    record: Callable[[str, dict[str, object]], None]
    fail: Callable[[str], None]
    mode: str = field(default="none", init=False)

    async def begin(self) -> None:
        """Returns when it watches. Before the scan: what comes in between is told twice rather than never."""
        if self.config.mode == "polling":
            await self._poll()
        else:
            self.mode = "inotify"
            await self._run(InotifyWatcher(self.site.queue, self.site.receipts))

    @property
    def beats(self) -> int:
        return self._watcher.beats

    async def _poll(self) -> None:
        self.mode = "polling"
        await self._run(PollingWatcher(self.site.queue, self.site.receipts, self.config.poll_interval_s))

    async def _run(self, watcher: Watcher) -> None:
        ready = anyio.Event()
        self._watcher = watcher
        self.tasks.start_soon(
            watcher.run, lambda hint: self.hear(hint, ready), ready.set, name=f"watcher ({self.mode})"
        )
        await ready.wait()

    def hear(self, hint: Hint, ready: anyio.Event) -> None:
        if not isinstance(hint, ports.WatchFailed):
            self.intake.hint(hint)
            return
        self.record("watch_degraded", {"reason": hint.reason, "mode": "polling"})
        ready.set()  # it may have failed before it was ever ready
        if self.config.mode == "inotify":
            self.fail(f"[watch] mode is inotify, and it cannot be had: {hint.reason}")
        else:
            self.tasks.start_soon(self._fall_back, name="fall back to polling")

    async def _fall_back(self) -> None:
        await self._poll()
        await self.intake.scan()  # what came between the two
