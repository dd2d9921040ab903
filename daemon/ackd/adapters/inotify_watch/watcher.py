"""``ports.Watcher`` on inotify: one instance, read whenever it has something to say.

Owns the instance and the waiting. Refuses to know what an event means (tree). How it fails: without inotify, or at one
of its limits, WatchFailed is posted and ``run`` returns, perhaps without having called ``ready``.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from ackd.adapters.inotify_watch.limits import CannotWatch, new_instance
from ackd.adapters.inotify_watch.tree import Tree
from ackd.ports import Hint, WatchFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class InotifyWatcher:
    """``ports.Watcher`` on inotify. ``beats`` grows with every wake-up, at least once in ``HEARTBEAT_S``."""

    def __init__(self, queue_dir: Path, receipts_dir: Path) -> None:
        self._queue_dir = queue_dir
        self._receipts_dir = receipts_dir
        self.beats = 0

    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None:
        try:
            with new_instance() as inotify:
                tree = Tree(inotify, self._queue_dir, self._receipts_dir, post)
                with contextlib.closing(tree):
                    tree.begin()
                    await self._follow(tree, inotify.fileno(), ready)
        except CannotWatch as failure:
            post(WatchFailed(failure.reason))

    async def _follow(self, tree: Tree, fd: int, ready: Callable[[], None]) -> None:
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(fd, woken.set)
        try:
            ready()
            while True:
                woken.clear()
                self.beats += 1
                if tree.turn():
                    await anyio.lowlevel.checkpoint()
                else:
                    with anyio.move_on_after(tree.patience_s()):
                        await woken.wait()
        finally:
            loop.remove_reader(fd)
