"""litequeue: one SQLite table. By itself it asks for WAL with synchronous = NORMAL, which costs the last messages in a
power cut; for durable work its connection is told FULL, a flush per transaction.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from typing import TYPE_CHECKING, Any

from tests.bench.contender import ASK_EVERY_S, Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

LOCK_PATIENCE_S = 120.0


def contender() -> Contender:
    return Contender("litequeue", "SQLite WAL, synchronous = FULL; pop, done", "litequeue", _serving)


@contextlib.contextmanager
def _serving(place: Path) -> Iterator[Callable[[], _Table]]:
    _Table(place).close()  # makes the table, once; SQLite's connections do not survive a fork
    yield lambda: _Table(place)


class _Table:
    def __init__(self, place: Path) -> None:
        module = importlib.import_module("litequeue")
        self._queue: Any = module.LiteQueue(str(place / "queue.sqlite3"), timeout=LOCK_PATIENCE_S)
        self._queue.conn.execute("PRAGMA synchronous = FULL")

    def close(self) -> None:
        self._queue.conn.close()

    def put(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._queue.put(payload.decode())

    def take(self, count: int, handle: Callable[[bytes], None]) -> None:
        done = 0
        while done < count:
            message = self._queue.pop()
            if message is None:
                time.sleep(ASK_EVERY_S)
                continue
            handle(message.data.encode())
            self._queue.done(message.message_id)
            done += 1
