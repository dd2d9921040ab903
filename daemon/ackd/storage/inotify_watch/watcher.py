"""``ports.Watcher`` on inotify: one instance, read whenever it has events.

The meaning of an event is decided in ``tree``. Without inotify, or at one of its limits, WatchFailed is posted and
``run`` returns, perhaps without having called ``ready``.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from ackd.core.message import RESERVED_NAMES
from ackd.core.ports import Hint, WatchFailed
from ackd.storage.inotify_watch.tree import Tree
from ackd.storage.inotify_watch.watches import CannotWatch, new_instance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.core.message import Place

#: A turn may come this much later than planned.
_TIMELY_S: Final = 0.001


class InotifyWatcher:
    """``ports.Watcher`` on inotify. ``beats`` grows with every wake-up, at least once in ``HEARTBEAT_S``."""

    def __init__(
        self,
        queue_dir: Path,
        receipts_dir: Path,
        reserved: frozenset[str] = RESERVED_NAMES,
        begins: Callable[[], None] = lambda: None,
        through: Callable[[], None] = lambda: None,
    ) -> None:
        """``begins`` is called before each turn, and ``through`` after it, when all its hints are posted."""
        self._queue_dir = queue_dir
        self._receipts_dir = receipts_dir
        self._reserved = reserved
        self._begins = begins
        self._through = through
        self.beats = 0
        self._tree: Tree | None = None  # while it runs

    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None:
        try:
            with new_instance() as inotify:
                tree = Tree(inotify, self._queue_dir, self._receipts_dir, post, self._reserved)
                with contextlib.closing(tree):
                    tree.begin()
                    self._tree = tree
                    await self._follow(tree, inotify.fileno(), ready)
        except CannotWatch as failure:
            post(WatchFailed(failure.reason))
        finally:
            self._tree = None

    def own_move(self, source: Place, target: Place) -> None:
        if self._tree is not None:
            self._tree.own_move(source, target)

    async def _follow(self, tree: Tree, fd: int, ready: Callable[[], None]) -> None:
        """Run turns until cancelled. They are callbacks, because waking a task for every event would take longer than
        handling the event."""
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()
        next_turn: asyncio.TimerHandle | None = None

        def turn() -> None:
            nonlocal next_turn
            self.beats += 1
            self._begins()
            try:
                busy = tree.turn()
            except Exception as error:  # noqa: BLE001 - raised where somebody waits for it
                loop.remove_reader(fd)
                if not failed.done():
                    failed.set_exception(error)
                self._through()
                return
            # A timer that fires too early costs only an empty turn, which sets the next one, so it is not reset.
            due = loop.time() + (0.0 if busy else tree.patience_s())
            if next_turn is not None and next_turn.when() > due + _TIMELY_S:
                next_turn.cancel()
                next_turn = None
            if next_turn is None:
                next_turn = loop.call_at(due, time_is_up)
            self._through()

        def time_is_up() -> None:
            nonlocal next_turn
            next_turn = None
            turn()

        loop.add_reader(fd, turn)
        try:
            ready()
            turn()
            await failed
        finally:
            loop.remove_reader(fd)
            if next_turn is not None:
                next_turn.cancel()
