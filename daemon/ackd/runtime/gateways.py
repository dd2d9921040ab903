"""Calls each gateway when one of its directories changes, when one of its timers is due, and periodically anyway.

The gateways' directories are watched together (or polled, where inotify is not available). Each gateway has a task of
its own, so that a slow one delays no other. An error of the disk is logged once, and the look is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.coordination.gateway import LookRefused
from ackd.coordination.registry import CAPABILITIES, load
from ackd.core.daemon_facts import watch_degraded, watch_restored
from ackd.storage.inotify_watch import CannotWatch, DirectoryWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.config.live import LiveConfig
    from ackd.coordination.gateway import Gateway, GatewayContext
    from ackd.core.signals import Signal
    from ackd.runtime.recorder import Recorder
    from ackd.runtime.signals import Signals

#: Shortest pause between two looks, whatever the gateway asks for: a bug in one must not become a busy loop.
LEAST_PAUSE_S: Final = 0.01
#: Lock files of boards and stories. A look takes the lock, and closing the lock file is an event (IN_CLOSE_WRITE) that
#: would make the daemon look again, for ever. Opening it for reading only would avoid the event, but NFS locks only
#: files that are open for writing.
LOCKS: Final = frozenset({".lock"})


@dataclass
class _ServedGateway:
    """A gateway, and the directories that it is to look at next."""

    gateway: Gateway
    #: None: all of them.
    changed: set[str] | None = None
    woken: anyio.Event = field(default_factory=anyio.Event)
    places: frozenset[str] = frozenset()

    def wake(self, where: frozenset[str]) -> None:
        if self.changed is not None:
            self.changed |= where
        self.woken.set()

    def hear(self, signal: Signal) -> None:
        self.gateway.heard(signal)
        self.woken.set()

    def take_changed(self) -> frozenset[str] | None:
        changed, self.changed, self.woken = self.changed, set(), anyio.Event()
        return None if changed is None else frozenset(changed)


def make_gateways(context: GatewayContext) -> list[Gateway]:
    """Make the team's gateways, in the order of the registry. A capability's code is imported only here."""
    made: dict[str, Gateway] = {}
    for capability in CAPABILITIES:
        if capability.gateway_by_table and context.config.settings(load(capability.settings)) is None:
            continue
        if capability.gateway and (gateway := load(capability.gateway)(context, made)) is not None:
            made[capability.name] = gateway
    return list(made.values())


@dataclass(kw_only=True)
class Gateways:
    gateways: Sequence[Gateway]
    config: LiveConfig
    recorder: Recorder
    signals: Signals
    #: Returns how the spool is watched. Its watcher meets the same limits of the kernel, and logs them.
    mode: Callable[[], str] = lambda: "inotify"
    _served: list[_ServedGateway] = field(init=False)
    _watch: DirectoryWatch | None = field(default=None, init=False)
    _may_watch: bool = field(init=False)
    _degraded: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._may_watch = self.config.now.watch.mode != "polling"  # for good, as with the spool's watcher
        self._served = [_ServedGateway(gateway) for gateway in self.gateways]
        for served in self._served:
            for kind in served.gateway.listens:
                self.signals.subscribe(kind, served.hear)

    def prepare(self) -> None:
        for gateway in self.gateways:
            gateway.prepare()

    def log_directory(self) -> Path | None:
        """A directory outside the root in which the session log is shown too, if a gateway wants that."""
        return next((path for one in self.gateways if (path := one.log_directory()) is not None), None)

    def start(self, tasks: TaskGroup) -> None:
        self._watch_if_possible()
        for served in self._served:
            tasks.start_soon(self._serve, served, name=f"gateway {served.gateway.name}")

    def close(self) -> None:
        self._may_watch = False
        self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    @property
    def is_watching(self) -> bool:
        """True while directories are watched by inotify. Otherwise the gateways poll."""
        return self._watch is not None

    def page(self) -> dict[str, object]:
        return {served.gateway.name: page for served in self._served if (page := served.gateway.page())}

    def _changed(self, where: frozenset[str]) -> None:
        for served in self._served:
            if mine := where & served.places:
                served.wake(mine)

    async def _serve(self, served: _ServedGateway) -> None:
        full_at = anyio.current_time()  # the next look at everything, with or without a hint
        while True:
            if anyio.current_time() >= full_at:
                served.changed = None
                self._watch_if_possible()
            where, wait_s = served.take_changed(), None
            with self.recorder.reporting(f"gateway {served.gateway.name}"):
                try:
                    wait_s = await served.gateway.look(where)
                except LookRefused as refused:
                    wait_s = refused.next_look_s
                    raise
            found = self._follow(served)
            if where is None:
                full_at = anyio.current_time() + self._longest_s()
            if found:  # files may have come into a new directory before it was watched
                full_at = anyio.current_time()
                continue
            pause_s = max(LEAST_PAUSE_S, full_at - anyio.current_time())
            with anyio.move_on_after(pause_s if wait_s is None else max(LEAST_PAUSE_S, min(pause_s, wait_s))):
                await served.woken.wait()

    def _longest_s(self) -> float:
        watch = self.config.now.watch
        return watch.reconcile_interval_s if self.is_watching else watch.poll_interval_s

    def _follow(self, served: _ServedGateway) -> bool:
        """Watch the gateway's directories. Returns True if they have changed."""
        before, served.places = served.places, served.gateway.places()
        if self._watch is not None:
            try:
                self._watch.follow(frozenset().union(*(one.places for one in self._served)))
            except CannotWatch as failure:
                self._degrade(failure.reason)
        return served.places != before

    def _watch_if_possible(self) -> None:
        """Start inotify if it is not running. Tried at every full look: its limits are shared with the user's other
        programs, and come and go."""
        if self.is_watching or not self._may_watch:
            return
        self._watch = DirectoryWatch(self._changed, passed_over=LOCKS)
        try:
            self._watch.open()
            self._watch.follow(frozenset().union(*(one.places for one in self._served)))
        except CannotWatch as failure:
            self._degrade(failure.reason)
        else:
            self._restore()

    def _degrade(self, reason: str) -> None:
        """Fall back to polling. Logged once, and not at all if the spool's watcher has logged the same limit."""
        self._stop_watching()
        if not self._degraded and self.mode() == "inotify":
            self._degraded = True
            self.recorder.record(watch_degraded(reason=reason, mode="polling", what="gateways"))

    def _restore(self) -> None:
        if self._degraded:
            self._degraded = False
            self.recorder.record(watch_restored(mode="inotify", what="gateways"))
