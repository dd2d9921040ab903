"""Keeps effects in order: those of one agent one after the other, agents side by side, so that none delays another.

``do`` does a quick effect at once, and returns a coroutine for a slow one. While a slow one runs, the later effects of
its lane wait behind it. ``do_row`` does several statuses at a time. A long lane gives the event loop a turn now and
then. Effects report their own errors; an exception here is a bug, and ends the daemon.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio.lowlevel

from ackd.core.effects import ArchiveMessage, WriteStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ackd.core.effects import Effect
    from ackd.core.ports import Tasks

#: Effects of a lane that are done before the event loop is given a turn.
SLICE: Final = 64


@dataclass
class Lanes:
    do: Callable[[Effect], Coroutine[None, None, None] | None]
    do_row: Callable[[list[WriteStatus]], Coroutine[None, None, None]]
    tasks: Tasks
    #: Waiting effects, by lane. A lane exists only while a slow effect of it runs.
    _waiting: dict[str, deque[Effect]] = field(default_factory=dict, init=False)
    _to_archive: set[int] = field(default_factory=set, init=False)

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def archives_soon(self, key: int) -> bool:
        """True if the message's archiving waits in its lane: nobody would read a status that is written before it."""
        return key in self._to_archive

    def carry_out(self, asked: list[Effect]) -> None:
        for effect in asked:
            lane = effect.lane
            if lane is not None and lane in self._waiting:
                self._queue_up(lane, effect)
            elif (slow := self.do(effect)) is not None:
                assert lane is not None
                self._waiting[lane] = deque()
                self.tasks.start_soon(self._drain, lane, slow, name=f"lane {lane}")

    def _queue_up(self, lane: str, effect: Effect) -> None:
        self._waiting[lane].append(effect)
        if isinstance(effect, ArchiveMessage):
            self._to_archive.add(effect.key)

    async def _drain(self, lane: str, slow: Coroutine[None, None, None] | None) -> None:
        """Finish the slow effect, then those that queued up behind it."""
        waiting, done = self._waiting[lane], 0
        while True:
            if slow is not None:
                await slow
            elif done % SLICE == SLICE - 1:
                await anyio.lowlevel.checkpoint()
            if not waiting:
                break
            slow, done = self._next(waiting), done + 1
        del self._waiting[lane]

    def _next(self, waiting: deque[Effect]) -> Coroutine[None, None, None] | None:
        row = _statuses_in_a_row(waiting)
        if len(row) > 1:
            return self.do_row(row)
        effect = row[0] if row else waiting.popleft()
        if isinstance(effect, ArchiveMessage):
            self._to_archive.discard(effect.key)
        return self.do(effect)


def _statuses_in_a_row(waiting: deque[Effect]) -> list[WriteStatus]:
    """Take statuses of several messages in a row off the lane. They are written together, sharing a flush."""
    row: dict[int, WriteStatus] = {}
    while waiting and len(row) < SLICE:
        effect = waiting[0]
        if not isinstance(effect, WriteStatus) or effect.key in row:
            break
        row[effect.key] = effect
        waiting.popleft()
    return list(row.values())
