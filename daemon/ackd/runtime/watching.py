"""Watches the spool, by inotify or by polling, and hands the watcher's hints to the intake.

When inotify cannot go on, polling takes over, and inotify is tried again later: its limits are shared with the user's
other programs, and come and go. Each change is logged once. If the config insists on inotify and it is not available,
``fail`` is called with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core import ports
from ackd.core.daemon_facts import watch_degraded, watch_restored
from ackd.storage.inotify_watch import InotifyWatcher
from ackd.storage.polling_watch import PollingWatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.config.live import LiveConfig
    from ackd.config.site import Site
    from ackd.core.message import Place
    from ackd.core.ports import Hint, Services, Watcher
    from ackd.runtime.intake.intake import Intake

    Ready = Callable[[], None]

#: Each failure of inotify doubles the wait before it is tried again, at most this many times, so that a limit that is
#: reached again and again does not fill the log.
_DOUBLINGS: Final = 6


@dataclass(kw_only=True)
class SpoolWatch:
    site: Site
    config: LiveConfig
    intake: Intake
    services: Services
    fail: Callable[[str], None]
    #: Called before and after a batch of hints that came together.
    begins: Callable[[], None] = lambda: None
    through: Callable[[], None] = lambda: None
    mode: str = field(default="none", init=False)
    #: ``watch.mode`` of the config at the start. It cannot change while the daemon runs: a watcher runs by it.
    _chosen: str = field(init=False)
    _falls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._chosen = self.config.now.watch.mode

    async def begin(self) -> None:
        """Start watching, and return when the watcher is ready. Called before the first scan: a file that comes in
        between is then met twice rather than never."""
        if self._chosen == "polling":
            await self._poll()
        else:
            self.mode = "inotify"
            await self._run(self._inotify())

    def config_changed(self) -> None:
        """Poll at the interval of the config that has just been put in force."""
        if isinstance(self._watcher, PollingWatcher):
            self._watcher.interval_s = self.config.now.watch.poll_interval_s

    @property
    def beats(self) -> int:
        return self._watcher.beats

    def own_move(self, source: Place, target: Place) -> None:
        """Tell the watcher of a rename of our own, so that it gives no hints about it."""
        if self.mode != "none":
            self._watcher.own_move(source, target)

    def _inotify(self) -> Watcher:
        return InotifyWatcher(self.site.queue, self.site.receipts, self.site.reserved, self.begins, self.through)

    async def _poll(self) -> None:
        self.mode = "polling"
        self._polling = anyio.CancelScope()
        interval_s = self.config.now.watch.poll_interval_s
        await self._run(PollingWatcher(self.site.queue, self.site.receipts, interval_s, self.site.reserved))

    async def _run(self, watcher: Watcher) -> None:
        ready = anyio.Event()
        self._watcher = watcher
        scope = self._polling if self.mode == "polling" else anyio.CancelScope()
        self.services.tasks.start_soon(
            _within, scope, watcher, partial(self.hear, ready), ready.set, name=f"watcher ({self.mode})"
        )
        await ready.wait()

    def hear(self, ready: anyio.Event, hint: Hint) -> None:
        if not isinstance(hint, ports.WatchFailed):
            self.intake.hint(hint)
            return
        self.services.record(watch_degraded(reason=hint.reason, mode="polling"))
        ready.set()  # the watcher may have failed before it was ever ready
        if self._chosen == "inotify":
            self.fail(f"[watch] mode is inotify, and it cannot be had: {hint.reason}")
        else:
            self._falls += 1
            self.services.tasks.start_soon(self._fall_back, name="fall back to polling")

    async def _fall_back(self) -> None:
        await self._poll()
        await self.intake.scan()  # finds files that came between the two watchers
        wait_s = self.config.now.watch.reconcile_interval_s * 2 ** min(self._falls - 1, _DOUBLINGS)
        held = False
        while not held:
            await anyio.sleep(wait_s)
            held = await self._try_inotify()

    async def _try_inotify(self) -> bool:
        """Try inotify again. Returns True if it watches now. A second refusal is not logged."""
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

        self.services.tasks.start_soon(watcher.run, hear, restored, name="watcher (inotify, again)")
        await ready.wait()
        return held.is_set()

    def _restored(self, watcher: Watcher) -> None:
        """Switch to the inotify watcher. Not done in a task, because it may fail again before one runs."""
        self.mode, self._watcher = "inotify", watcher
        self.services.record(watch_restored(mode="inotify"))
        self._polling.cancel()
        self.services.tasks.start_soon(self.intake.scan, name="scan after a change of watchers")


async def _within(scope: anyio.CancelScope, watcher: Watcher, hear: Callable[[Hint], None], ready: Ready) -> None:
    with scope:
        await watcher.run(hear, ready)
