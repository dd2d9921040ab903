"""kombu's filesystem transport. It never flushes. What is taken is kept in its processed folder (store_processed).

A file has its final name before its content is written, and the consumer takes what it finds: one that it meets empty is
moved away and never delivered. Such messages count as handled here, and how many there were is said.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from tests.bench.contender import ASK_EVERY_S, Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

QUEUE = "bench"


def contender() -> Contender:
    return Contender(
        "kombu filesystem", "no flushes; store_processed, ack; what it meets half-written is lost", "kombu", _serving
    )


@contextlib.contextmanager
def _serving(place: Path) -> Iterator[Callable[[], _Folder]]:
    for name in ("mail", "processed", "control"):
        (place / name).mkdir()
    yield lambda: _Folder(place)


class _Folder:
    def __init__(self, place: Path) -> None:
        options = {
            "data_folder_in": str(place / "mail"),
            "data_folder_out": str(place / "mail"),
            "processed_folder": str(place / "processed"),
            "control_folder": str(place / "control"),
            "store_processed": True,
            "polling_interval": ASK_EVERY_S,
        }
        connection = importlib.import_module("kombu").Connection("filesystem://", transport_options=options)
        self._connection = connection
        self._queue = connection.SimpleQueue(QUEUE)

    def put(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._queue.put(payload.decode())

    def take(self, count: int, handle: Callable[[bytes], None]) -> None:
        done = 0

        def called(body: str, message: Any) -> None:
            nonlocal done
            handle(body.encode())
            message.ack()
            done += 1

        self._queue.consumer.callbacks = [called]
        self._queue.consumer.consume()
        lost = 0
        while done + lost < count:
            try:
                self._connection.drain_events(timeout=1)
            except TimeoutError:
                continue
            except ValueError:  # no JSON: nothing was written yet
                lost += 1
        if lost:
            print(f"kombu lost {lost} of {count} messages", file=sys.stderr)
