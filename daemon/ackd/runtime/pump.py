"""The one loop: events in, decisions out, lines to the kernel.

Owns the order of things: an event is decided, its effects are begun, what they gathered is done together when no event
is left (``gathered``), and what was recorded reaches the kernel before anything slow starts, because a slow effect is a
task and tasks run only after the turn. Refuses to know what the events
are about. A turn is bounded, so that a flood does not keep the watcher and the timers waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from ackd.core.events import Arrived, Ticked

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.effects import Effect
    from ackd.core.engine import Engine
    from ackd.core.events import Event
    from ackd.ports import Clock

EVENTS_A_TURN: Final = 256


class Pump:
    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        carry_out: Callable[[list[Effect]], None],
        gathered: Callable[[], None],
        commit: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._carry_out = carry_out
        self._gathered = gathered
        self._commit = commit
        self._inbox: deque[Event] = deque()
        #: New messages come after everything that is said of those in hand: a flood of them holds up no answer.
        self._arrivals: deque[Arrived] = deque()
        self._wake = asyncio.Event()
        self.turns = 0  # the watchdog looks whether it grows

    def post(self, event: Event) -> None:
        if isinstance(event, Arrived):
            self._arrivals.append(event)
        else:
            self._inbox.append(event)
        self._wake.set()

    def wake(self) -> None:
        """Come round once, though no event came: a fact was recorded, or the watchdog asks whether we can."""
        self._wake.set()

    def idle(self) -> bool:
        return not self._inbox and not self._arrivals

    async def run(self) -> None:
        while True:
            await self._something()
            self.turn()
            await anyio.lowlevel.checkpoint()

    def turn(self) -> None:
        for _ in range(EVENTS_A_TURN):
            event = self._next()
            if event is None:
                break
            self._handle(event)
        deadline = self._engine.next_deadline()
        if deadline is not None and deadline <= self._clock.now().mono:
            self._handle(Ticked())
        self._gathered()
        self._commit()
        self._wake.clear()  # whatever was said up to here is the kernel's; events that are left are looked at first
        self.turns += 1

    def _next(self) -> Event | None:
        if self.idle():
            self._gathered()
        if self._inbox:
            return self._inbox.popleft()
        return self._arrivals.popleft() if self._arrivals else None

    def _handle(self, event: Event) -> None:
        self._carry_out(self._engine.handle(event, self._clock.now()))

    async def _something(self) -> None:
        if not self.idle():
            return
        deadline = self._engine.next_deadline()
        wait_s = None if deadline is None else max(0.0, deadline - self._clock.now().mono)
        with anyio.move_on_after(wait_s):
            await self._wake.wait()
