"""The watcher in use, and the other one when it cannot go on.

Owns the choice between inotify and polling and each change from one to the other, said once: polling where inotify
cannot go on, and inotify again when it can (its limits are shared with every program of the user, and come and go).
Refuses to know what a hint means (intake). If the config insists on inotify and it cannot be had, ``fail`` is told why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ackd import ports
from ackd.adapters.inotify_watch import InotifyWatcher
from ackd.adapters.polling_watch import PollingWatcher

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.config import Watch
    from ackd.core.message import Place
    from ackd.ports import Hint, Watcher
    from ackd.runtime.intake import Intake
    from ackd.site import Site

    Ready = Callable[[], None]

#: Each fall makes the wait before inotify is tried again twice as long, this many times: a limit that is just reached
#: must not fill the log.
_DOUBLINGS: Final = 6


@dataclass
class Lookout:
    site: Site
    config: Watch
    intake: Intake
    tasks: TaskGroup
    record: Callable[[str, dict[str, object]], None]
    fail: Callable[[str], None]
    #: Told before hints that came together are heard, and when all of them were.
    begins: Callable[[], None] = lambda: None
    through: Callable[[], None] = lambda: None
    mode: str = field(default="none", init=False)
    _falls: int = field(default=0, init=False)

    async def begin(self) -> None:
        """Returns when it watches. Before the scan: what comes in between is told twice rather than never."""
        if self.config.mode == "polling":
            await self._poll()
        else:
            self.mode = "inotify"
            await self._run(self._inotify())

    @property
    def beats(self) -> int:
        return self._watcher.beats

    def own_move(self, source: Place, target: Place) -> None:
        """Its hints would be about what we know."""
        if self.mode != "none":
            self._watcher.own_move(source, target)

    def _where(self) -> tuple[Path, Path]:
        return self.site.queue, self.site.receipts

    def _inotify(self) -> Watcher:
        return InotifyWatcher(*self._where(), self.site.reserved, self.begins, self.through)

    async def _poll(self) -> None:
        self.mode = "polling"
        self._polling = anyio.CancelScope()
        await self._run(PollingWatcher(*self._where(), self.config.poll_interval_s, self.site.reserved))

    async def _run(self, watcher: Watcher) -> None:
        ready = anyio.Event()
        self._watcher = watcher
        scope = self._polling if self.mode == "polling" else anyio.CancelScope()
        self.tasks.start_soon(
            _within, scope, watcher, partial(self.hear, ready), ready.set, name=f"watcher ({self.mode})"
        )
        await ready.wait()

    def hear(self, ready: anyio.Event, hint: Hint) -> None:
        if not isinstance(hint, ports.WatchFailed):
            self.intake.hint(hint)
            return
        self.record("watch_degraded", {"reason": hint.reason, "mode": "polling"})
        ready.set()  # it may have failed before it was ever ready
        if self.config.mode == "inotify":
            self.fail(f"[watch] mode is inotify, and it cannot be had: {hint.reason}")
        else:
            self._falls += 1
            self.tasks.start_soon(self._fall_back, name="fall back to polling")

    async def _fall_back(self) -> None:
        await self._poll()
        await self.intake.scan()  # what came between the two
        wait_s = self.config.reconcile_interval_s * 2 ** min(self._falls - 1, _DOUBLINGS)
        held = False
        while not held:
            await anyio.sleep(wait_s)
            held = await self._try_inotify()

    async def _try_inotify(self) -> bool:
        """Whether it watches now. Refused again is no news."""
        watcher, ready, held = self._inotify(), anyio.Event(), anyio.Event()

        def hear(hint: Hint) -> None:
            if isinstance(hint, ports.WatchFailed) and not ready.is_set():
                ready.set()
            else:
                self.hear(ready, hint)

        def restored() -> None:
            ready.set()
            held.set()
            self._restored(watcher)

        self.tasks.start_soon(watcher.run, hear, restored, name="watcher (inotify, again)")
        await ready.wait()
        return held.is_set()

    def _restored(self, watcher: Watcher) -> None:
        """At once, not in a task: it may fail again before any other task has run."""
        self.mode, self._watcher = "inotify", watcher
        self.record("watch_restored", {"mode": "inotify"})
        self._polling.cancel()
        self.tasks.start_soon(self.intake.scan, name="scan after a change of watchers")


async def _within(scope: anyio.CancelScope, watcher: Watcher, hear: Callable[[Hint], None], ready: Ready) -> None:
    with scope:
        await watcher.run(hear, ready)
