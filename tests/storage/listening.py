"""Collects what a watcher posts, for every test of a ``ports.Watcher``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

import anyio

from ackd.core.ports import FileGone, FileReady, Hint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ackd.core.message import Place

DEADLINE_S = 60.0


class BeatingWatcher(Protocol):
    beats: int

    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None: ...


class Heard(list[Hint]):
    """Everything that a watcher has posted, and a way to wait for more."""

    def __init__(self) -> None:
        super().__init__()
        self._more = anyio.Event()

    def post(self, hint: Hint) -> None:
        self.append(hint)
        self._more.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        with anyio.move_on_after(DEADLINE_S):
            while not happened():
                self._more = anyio.Event()
                await self._more.wait()
        assert happened(), f"not heard; the last that was: {self[-20:]}"

    async def of(self, *expected: Hint) -> None:
        await self.until(lambda: set(expected) <= set(self))

    async def ready(self, place: Place) -> None:
        await self.until(lambda: place in self.ready_places())

    async def gone(self, place: Place) -> None:
        await self.of(FileGone(place))

    def ready_places(self) -> set[Place]:
        return {hint.place for hint in self if isinstance(hint, FileReady)}


@contextlib.asynccontextmanager
async def listening_to(watcher: BeatingWatcher) -> AsyncIterator[Heard]:
    heard = Heard()
    ready = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(watcher.run, heard.post, ready.set)
        with anyio.fail_after(DEADLINE_S):
            await ready.wait()
        yield heard
        group.cancel_scope.cancel()
