"""The watcher of the simulation: hints of what changed on the memory disk; lost, repeated, late and out of order.

``ports.Watcher``, in the place of inotify's. It says what that one says: a name that was closed by its writer or came by
a rename, a name that went, and directories.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio

from ackd.core import ports
from ackd.core.message import RESERVED_NAMES, Folder, Place

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.simulation.faults import Swarm
    from tests.simulation.memory_disk import MemoryDisk


class HintWatcher:
    def __init__(self, root: str, disk: MemoryDisk, rng: random.Random, swarm: Swarm) -> None:
        self.beats = 0
        self._root, self._disk, self._rng, self._swarm = root, disk, rng, swarm

    async def run(self, post: Callable[[ports.Hint], None], ready: Callable[[], None]) -> None:
        self._post, self._loop = post, asyncio.get_running_loop()
        self._disk.listeners.append(self._notice)
        try:
            ready()
            await anyio.sleep_forever()
        finally:
            self.leave()

    def own_move(self, source: Place, target: Place) -> None:
        """Hinted at all the same, which a daemon must bear."""

    def leave(self) -> None:
        if self._notice in self._disk.listeners:
            self._disk.listeners.remove(self._notice)

    def _notice(self, what: str, path: str, is_dir: bool) -> None:
        hint = _hint(path[len(self._root) + 1 :].split("/"), came=what == "came", is_dir=is_dir)
        if hint is None:
            return
        chance, swarm = self._rng.random(), self._swarm
        if self._rng.random() < swarm.watch_fails:
            self.leave()
            self._say(ports.WatchFailed("the limit of watches was reached"))
        elif self._rng.random() < swarm.overflow:
            self._say(ports.HintsLost())
        elif chance < swarm.hint_lost:
            return
        else:
            self._say(hint)
            if self._rng.random() < swarm.hint_twice:
                self._say(hint)

    def _say(self, hint: ports.Hint) -> None:
        late = self._rng.random() < self._swarm.hint_late
        delay_s = self._rng.expovariate(1 / 10) if late else self._rng.uniform(0.0001, 0.002)
        self._loop.call_later(delay_s, self._post, hint)


def _hint(parts: list[str], *, came: bool, is_dir: bool) -> ports.Hint | None:
    if parts[-1].startswith("."):
        return None
    match parts:
        case ["receipts", name] if came and not is_dir:
            return ports.ReceiptReady(name)
        case ["queue", box] if is_dir and box not in RESERVED_NAMES:
            return ports.BoxAppeared(box) if came else ports.BoxGone(box)
        case ["queue", box, "processed"] if is_dir and not came:
            return ports.BoxGone(box)
        case ["queue", box, name] if not is_dir and box not in RESERVED_NAMES:
            place = Place(box, Folder.QUEUE, name)
        case ["queue", box, "processed", name] if not is_dir:
            place = Place(box, Folder.PROCESSED, name)
        case _:
            return None
    return ports.FileReady(place, closed=True) if came else ports.FileGone(place)


class BlindWatch:
    """In the place of the watch on directories that are not ours: no hint ever comes, and scans find everything."""

    def __init__(
        self, _changed: Callable[[frozenset[str]], None], passed_over: frozenset[str] = frozenset()
    ) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def follow(self, directories: frozenset[str]) -> None: ...
