"""``ports.Watcher`` on inotify: one instance, read whenever it has something to say.

Owns the instance and the waiting. Refuses to know what an event means (tree). How it fails: without inotify, or at one
of its limits, WatchFailed is posted and ``run`` returns, perhaps without having called ``ready``.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

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
        """Turns are callbacks: to wake a task for every event would take longer than the event."""
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()
        next_turn: asyncio.Handle | None = None

        def turn() -> None:
            nonlocal next_turn
            if next_turn is not None:
                next_turn.cancel()
            self.beats += 1
            try:
                busy = tree.turn()
            except Exception as error:  # noqa: BLE001 - raised where somebody waits for it
                loop.remove_reader(fd)
                if not failed.done():
                    failed.set_exception(error)
                return
            next_turn = loop.call_soon(turn) if busy else loop.call_later(tree.patience_s(), turn)

        loop.add_reader(fd, turn)
        try:
            ready()
            turn()
            await failed
        finally:
            loop.remove_reader(fd)
            if next_turn is not None:
                next_turn.cancel()
