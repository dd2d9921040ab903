"""Keeps gateways looking: when a directory of theirs changes, when a clock of theirs is due, and now and then anyway.

Owns the watch on foreign directories (polling where inotify cannot be had) and one task for each gateway, so that a
slow one delays nobody. Refuses to know what a gateway looks for. Trouble with the disk is a line, once, and a new look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.adapters.inotify_watch import CannotWatch, DirectoryWatch
from ackd.runtime.gateways.gateway import LookRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import TaskGroup

    from ackd.config import Watch
    from ackd.runtime.chronicle import Chronicle
    from ackd.runtime.gateways.gateway import Gateway

#: However short a gateway's own wish: a bug in one must not become a busy loop.
LEAST_PAUSE_S: Final = 0.01
#: Boards and stories: who looks takes the lock, and closing it is an event (IN_CLOSE_WRITE). Told of it, the daemon
#: would look again, for ever. Opened for reading it would not be one, but NFS locks only what may be written.
LOCKS: Final = frozenset({".lock"})


@dataclass
class _Post:
    """Where one gateway is to look next; None: everywhere."""

    gateway: Gateway
    changed: set[str] | None = None
    rung: anyio.Event = field(default_factory=anyio.Event)
    places: frozenset[str] = frozenset()

    def ring(self, where: frozenset[str]) -> None:
        if self.changed is not None:
            self.changed |= where
        self.rung.set()

    def hear(self, type_: str, data: dict[str, object]) -> None:
        self.gateway.heard(type_, data)
        self.rung.set()

    def take(self) -> frozenset[str] | None:
        changed, self.changed, self.rung = self.changed, set(), anyio.Event()
        return None if changed is None else frozenset(changed)


@dataclass
class Gateways:
    gateways: Sequence[Gateway]
    config: Watch
    chronicle: Chronicle
    #: How the spool is watched. It meets the same limits, and says so.
    mode: Callable[[], str] = lambda: "inotify"
    _posts: list[_Post] = field(init=False)
    _watch: DirectoryWatch | None = field(default=None, init=False)
    _may_watch: bool = field(init=False)
    _degraded: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._may_watch = self.config.mode != "polling"
        self._posts = [_Post(gateway) for gateway in self.gateways]
        for post in self._posts:
            for type_ in post.gateway.listens:
                self.chronicle.listeners.setdefault(type_, []).append(post.hear)

    def start(self, tasks: TaskGroup) -> None:
        self._watch_if_possible()
        for post in self._posts:
            tasks.start_soon(self._attend, post, name=f"gateway {post.gateway.name}")

    def close(self) -> None:
        self._may_watch = False
        self._blind()

    def _blind(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    @property
    def is_watching(self) -> bool:
        """Else every look is one that nobody has asked for."""
        return self._watch is not None

    def page(self) -> dict[str, object]:
        return {post.gateway.name: page for post in self._posts if (page := post.gateway.page())}

    def _changed(self, where: frozenset[str]) -> None:
        for post in self._posts:
            if mine := where & post.places:
                post.ring(mine)

    async def _attend(self, post: _Post) -> None:
        full_at = anyio.current_time()  # when everything is to be looked at, hinted at or not
        while True:
            if anyio.current_time() >= full_at:
                post.changed = None
                self._watch_if_possible()
            where, wish = post.take(), None
            with self.chronicle.reporting(f"gateway {post.gateway.name}"):
                try:
                    wish = await post.gateway.look(where)
                except LookRefused as refused:
                    wish = refused.wish_s
                    raise
            found = self._follow(post)
            if where is None:
                full_at = anyio.current_time() + self._longest_s()
            if found:  # what came into a new place before it was watched
                full_at = anyio.current_time()
                continue
            pause_s = max(LEAST_PAUSE_S, full_at - anyio.current_time())
            with anyio.move_on_after(pause_s if wish is None else max(LEAST_PAUSE_S, min(pause_s, wish))):
                await post.rung.wait()

    def _longest_s(self) -> float:
        return self.config.reconcile_interval_s if self.is_watching else self.config.poll_interval_s

    def _follow(self, post: _Post) -> bool:
        """Whether there are others to watch than before."""
        before, post.places = post.places, post.gateway.places()
        if self._watch is not None:
            try:
                self._watch.follow(frozenset().union(*(one.places for one in self._posts)))
            except CannotWatch as failure:
                self._degrade(failure.reason)
        return post.places != before

    def _watch_if_possible(self) -> None:
        """Limits are shared with every program of the user, and come and go: tried again at every full look."""
        if self.is_watching or not self._may_watch:
            return
        self._watch = DirectoryWatch(self._changed, passed_over=LOCKS)
        try:
            self._watch.open()
            self._watch.follow(frozenset().union(*(one.places for one in self._posts)))
        except CannotWatch as failure:
            self._degrade(failure.reason)
        else:
            self._restore()

    def _degrade(self, reason: str) -> None:
        """Said once, and not if the spool's watcher has met the same limit and said so."""
        self._blind()
        if not self._degraded and self.mode() == "inotify":
            self._degraded = True
            self.chronicle.record("watch_degraded", {"reason": reason, "mode": "polling", "what": "gateways"})

    def _restore(self) -> None:
        if self._degraded:
            self._degraded = False
            self.chronicle.record("watch_restored", {"mode": "inotify", "what": "gateways"})
