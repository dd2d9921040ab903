"""Huey's FileHuey: tasks as pickled files under one lock. It never flushes, and has no setting that would."""

from __future__ import annotations

import contextlib
import importlib
import time
from typing import TYPE_CHECKING

from tests.bench.contender import ASK_EVERY_S, Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def contender() -> Contender:
    return Contender("Huey FileHuey", "no flushes; a task that is taken is gone", "huey", _serving)


@contextlib.contextmanager
def _serving(place: Path) -> Iterator[Callable[[], _Tasks]]:
    yield lambda: _Tasks(place)


class _Tasks:
    def __init__(self, place: Path) -> None:
        (place / "huey").mkdir(parents=True, exist_ok=True)  # it makes it, too, and fails when another was quicker
        self._huey = importlib.import_module("huey").FileHuey("bench", path=str(place / "huey"), results=False)
        self._task = self._huey.task(name="handle")(self._called)
        self._handle: Callable[[bytes], None] | None = None

    def put(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._task(payload)

    def take(self, count: int, handle: Callable[[bytes], None]) -> None:
        self._handle = handle
        done = 0
        while done < count:
            task = self._huey.dequeue()
            if task is None:
                time.sleep(ASK_EVERY_S)
                continue
            self._huey.execute(task)
            done += 1

    def _called(self, payload: bytes) -> None:
        assert self._handle is not None
        self._handle(payload)
