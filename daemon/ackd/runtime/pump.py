"""The one loop: events in, decisions out, lines to the kernel.

Owns the order of things: an event is decided, its effects are begun, what they gathered is done together when no event
is left (``gathered``), and what was recorded reaches the kernel before anything slow starts, because a slow effect is a
task and tasks run only after the turn. Refuses to know what the events are about. A turn is bounded, so that a flood
does not keep the watcher and the timers waiting. A deadline that is met late (SIGSTOP, a frozen cgroup) waits until
what happened meanwhile was heard: an answer lies there unread, and silence would be believed first.

An event has one time: the clocks are read once for it, and whatever is written down of it goes by that reading.

Turns are callbacks of the event loop, not a task that waits for them: waking a task and timing its wait cost more than
deciding a message. A bug in a turn ends ``run``.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from ackd.core.events import Arrived, Ticked
from ackd.core.message import Folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.core.effects import Effect
    from ackd.core.engine import Engine
    from ackd.core.events import Event, Now
    from ackd.core.message import Place
    from ackd.ports import Clock

#: Four times as many cost the same within what can be measured, but a burst's messages then wait for each other between
#: being told and being through (p50 30 ms instead of 6), and their headers become due to be written.
EVENTS_A_TURN: Final = 64
#: A deadline met later than this: the watcher is given a moment to read what it was told.
LATE_S: Final = 0.05
HINTS_FIRST_S: Final = 0.01
#: And later than this: we did not run at all.
OVERSLEPT_S: Final = 2.0


async def _nothing_to_look_at(_late_s: float) -> None:
    pass


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
        #: Events, and those who wait until all before them were decided on.
        self._inbox: deque[Event | asyncio.Event] = deque()
        #: Waiting mail comes after everything that is said of messages in hand: a flood of it holds up no answer. (A
        #: dead letter does not: the receipt that asked for it is behind it.)
        #: By which they are: a file that is met twice before it is decided on is one message, and no duplicate.
        self._arrivals: OrderedDict[tuple[Place, str, str], Arrived] = OrderedDict()
        self._reading: Now | None = None  # while an event is handled
        self._bug: asyncio.Future[None] | None = None  # while it runs
        self._coming = False  # a round is asked for, or under way
        self._soon: asyncio.Handle | None = None  # of the event loop, if that was asked for it
        self._held = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_for = 0.0  # the deadline that it was set for
        self._catching_up: asyncio.Task[None] | None = None
        #: While a start reads what was said in its absence: a deadline that is over long since rings after that.
        self.clocks_wait = False
        self._turned = asyncio.Event()
        self.turns = 0  # the watchdog looks whether it grows
        #: Looks for itself at what happened while we did not run; told how late we are.
        self.overslept: Callable[[float], Awaitable[None]] = _nothing_to_look_at

    def post(self, event: Event) -> None:
        if isinstance(event, Arrived) and event.place.folder is Folder.QUEUE:
            self._arrivals.setdefault(_which(event), event)
        else:
            self._inbox.append(event)
        self.wake()

    def wake(self) -> None:
        """Come round once, though no event came: a fact was recorded, or the watchdog asks whether we can."""
        if self._coming or self._bug is None:
            return
        self._coming = True
        if not self._held:
            self._soon = self._bug.get_loop().call_soon(self._come_round)

    def hold(self) -> None:
        """Of whoever has something to post, and calls ``come_round`` when that is all: the event loop need not be asked
        for its next lap, which is a twentieth of what one message takes."""
        self._held = True

    def come_round(self) -> None:
        """At once, if there is anything to come round for."""
        self._held = False
        if self._coming:
            if self._soon is not None:
                self._soon.cancel()
            self._come_round()

    def idle(self) -> bool:
        return not self._inbox and not self._arrivals

    async def heard(self) -> None:
        """Returns when everything was decided that was posted before, waiting mail apart."""
        mark = asyncio.Event()
        self._inbox.append(mark)
        self.wake()
        await mark.wait()

    async def turned(self) -> None:
        """Returns when there was a turn since it returned last. For one listener."""
        await self._turned.wait()
        self._turned.clear()

    async def run(self) -> None:
        self._bug = asyncio.get_running_loop().create_future()
        self.wake()
        try:
            await self._bug
        finally:
            self._bug = None
            for pending in (self._soon, self._timer, self._catching_up):
                if pending is not None:
                    pending.cancel()
            self._soon = self._timer = self._catching_up = None
            self._coming = False

    def turn(self, began: Now | None = None) -> None:
        """``began``: when, if that was asked already. What falls due meanwhile is a later turn's: we may be frozen at
        any point of this one, and an answer that came then is not heard yet."""
        until = (began or self._clock.now()).mono
        self._hear()
        deadline = self._engine.next_deadline() if not self.clocks_wait else None
        if deadline is not None and deadline <= until and self._catching_up is None:
            self._handle(Ticked(until))
        self._gathered()
        self._commit()
        self.turns += 1
        self._turned.set()

    def _hear(self) -> None:
        inbox, arrivals = self._inbox, self._arrivals
        for _ in range(EVENTS_A_TURN):
            if not inbox and not arrivals:
                self._gathered()
            if inbox:
                self._handle(inbox.popleft())
            elif arrivals:
                self._handle(arrivals.popitem(last=False)[1])
            else:
                break

    def _handle(self, event: Event | asyncio.Event) -> None:
        if isinstance(event, asyncio.Event):
            event.set()
            return
        now = self._reading = self._clock.now()
        try:
            self._carry_out(self._engine.handle(event, now))
        finally:
            self._reading = None

    def now(self) -> Now:
        """The clock of whoever carries effects out: what comes of an event, lines and all, has the event's own time."""
        return self._reading or self._clock.now()

    def _come_round(self) -> None:
        assert self._bug is not None
        now, deadline = self._clock.now(), self._engine.next_deadline()
        late_s = now.mono - deadline if deadline is not None and not self.clocks_wait else 0.0
        if late_s > LATE_S and self._catching_up is None:
            self._catching_up = self._bug.get_loop().create_task(self._catch_up(now, late_s), name="catch up")
            self._catching_up.add_done_callback(self._caught_up)
        try:
            self.turn(now)
        except Exception as bug:  # noqa: BLE001 - raised where somebody waits for it
            if not self._bug.done():
                self._bug.set_exception(bug)
            return
        self._soon, self._coming = None, False  # whatever was said up to here is the kernel's
        if self.idle():
            if self._catching_up is None:
                self._set_timer()
        else:
            self.wake()

    def _set_timer(self) -> None:
        """A timer that comes too early costs an empty turn, which sets the next: so it is left alone if it does."""
        deadline = self._engine.next_deadline()
        if deadline is None or self._bug is None or self.clocks_wait:
            return
        if self._timer is not None:
            if self._timer_for <= deadline:
                return
            self._timer.cancel()
        self._timer_for = deadline
        wait_s = max(0.0, deadline - self._clock.now().mono)
        self._timer = self._bug.get_loop().call_later(wait_s, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self.wake()

    # --- late -------------------------------------------------------------------------------------------------------
    async def _catch_up(self, began: Now, late_s: float) -> None:
        """Turns go on meanwhile; only the clocks wait. What was said before ``began`` is heard when they go on."""
        await anyio.sleep(HINTS_FIRST_S)
        if late_s > OVERSLEPT_S:
            await self.overslept(late_s)
            began = self._clock.now()  # that took its time, in which we ran: what fell due meanwhile is not late
            await anyio.sleep(HINTS_FIRST_S)
        while len(self._inbox) > EVENTS_A_TURN:
            await anyio.lowlevel.checkpoint()
        self._catching_up = None
        self.turn(began)
        self.wake()

    def _caught_up(self, task: asyncio.Task[None]) -> None:
        bug = None if task.cancelled() else task.exception()
        if bug is not None and self._bug is not None and not self._bug.done():
            self._bug.set_exception(bug)


def _which(event: Arrived) -> tuple[Place, str, str]:
    return event.place, event.message.message_id, event.message.digest
