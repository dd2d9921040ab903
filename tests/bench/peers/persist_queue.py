"""persist-queue's SQLiteAckQueue, made for the threads of one process. Each put, get and ack is a transaction of its own,
in WAL and flushed by SQLite's default (synchronous = FULL).
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from typing import TYPE_CHECKING, Any

from tests.bench.contender import Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def contender() -> Contender:
    setting = "SQLiteAckQueue: SQLite WAL, synchronous = FULL; get, ack; senders are threads"
    return Contender("persist-queue", setting, "persistqueue", _serving, threads=True)


@contextlib.contextmanager
def _serving(place: Path) -> Iterator[Callable[[], _Queue]]:
    once = threading.Lock()
    shared: list[_Queue] = []

    def opened() -> _Queue:
        with once:  # in the process that uses it: SQLite's connections do not survive a fork
            if not shared:
                shared.append(_Queue(place))
        return shared[0]

    yield opened


class _Queue:
    def __init__(self, place: Path) -> None:
        module = importlib.import_module("persistqueue")
        self._queue: Any = module.SQLiteAckQueue(str(place), multithreading=True)

    def put(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._queue.put(payload)

    def take(self, count: int, handle: Callable[[bytes], None]) -> None:
        for _ in range(count):
            item = self._queue.get(raw=True)
            handle(item["data"])
            self._queue.ack(id=item["pqid"])
