"""The main loop: hands events to the engine, has its effects carried out, and writes the log lines.

A turn handles a bounded number of events, so that a flood does not keep the watcher and the timers waiting. For each
event the engine decides, and its effects are begun. Effects that are better done together are gathered, and done when
no event is left (``gathered``). At the end of the turn its log lines reach the kernel (``commit``). That is before
anything slow starts, because a slow effect is a task, and tasks run only after the turn.

A deadline that is met late (SIGSTOP, a frozen cgroup) waits until the events of the meantime have been handled.
Otherwise the engine would act on a timeout although the answer already lies on disk, unread.

An event has one time: the clock is read once for it, and all its lines and effects use that reading.

Turns are callbacks of the event loop, not a task that waits for events: waking a task and timing its wait cost more
than deciding a message. A bug in a turn ends ``run``.
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
    from ackd.core.ports import Clock

#: A turn of four times as many events has the same measured cost per event, but the messages of a burst then wait for
#: each other between delivery and completion (p50 30 ms instead of 6), and their headers become due to be written.
EVENTS_A_TURN: Final = 64
#: If a deadline is met later than this, the watcher is first given a moment (HINTS_FIRST_S) to read its hints.
LATE_S: Final = 0.05
HINTS_FIRST_S: Final = 0.01
#: If a deadline is met later than this, the process did not run at all, and ``overslept`` is called.
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
        #: Events, and marks of callers (``heard``) that wait until everything before them was decided.
        self._inbox: deque[Event | asyncio.Event] = deque()
        #: Arrivals in queues, handled after all other events, so that a flood of mail holds up no answer about a
        #: message in hand. (A dead letter goes to ``_inbox``, because the receipt that asked for it follows there.)
        #: They are keyed by place and content: a file that is met twice before it is decided is one message, and no
        #: duplicate.
        self._arrivals: OrderedDict[tuple[Place, str, str], Arrived] = OrderedDict()
        self._reading: Now | None = None  # the time of the event that is being handled
        self._bug: asyncio.Future[None] | None = None  # set while ``run`` runs; gets the exception that ends it
        self._coming = False  # a round is asked for, or under way
        self._soon: asyncio.Handle | None = None  # the event loop's callback for the next round, if one was asked for
        self._held = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_for = 0.0  # the deadline that the timer was set for
        self._catching_up: asyncio.Task[None] | None = None
        #: True while a start reads what was written while no daemon ran: deadlines that passed long ago come after it.
        self.timers_wait = False
        self._turned = asyncio.Event()
        self.turns = 0  # the watchdog checks that it grows
        #: Called with the delay in seconds when the process did not run: looks on disk for what happened meanwhile.
        self.overslept: Callable[[float], Awaitable[None]] = _nothing_to_look_at

    def post(self, event: Event) -> None:
        if isinstance(event, Arrived) and event.place.folder is Folder.QUEUE:
            self._arrivals.setdefault(_which(event), event)
        else:
            self._inbox.append(event)
        self.wake()

    def wake(self) -> None:
        """Ask for a round, even without an event: a fact was recorded, or the watchdog checks that rounds happen."""
        if self._coming or self._bug is None:
            return
        self._coming = True
        if not self._held:
            self._soon = self._bug.get_loop().call_soon(self._come_round)

    def hold(self) -> None:
        """Collect events without asking the event loop for a round. The caller posts, and then calls ``come_round``.

        That saves a callback of the event loop, which is a twentieth of the cost of one message.
        """
        self._held = True

    def come_round(self) -> None:
        """End ``hold``, and do the round at once if one was asked for."""
        self._held = False
        if self._coming:
            if self._soon is not None:
                self._soon.cancel()
            self._come_round()

    def idle(self) -> bool:
        return not self._inbox and not self._arrivals

    async def heard(self) -> None:
        """Return when everything posted so far was decided, except arrivals in queues."""
        mark = asyncio.Event()
        self._inbox.append(mark)
        self.wake()
        await mark.wait()

    async def turned(self) -> None:
        """Return when there was a turn since the last return. There may be only one listener."""
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
        """Handle a bounded number of events, then the deadlines that were due when the turn began.

        ``began``: that time, if the caller has already read the clock. A deadline that falls due during the turn is
        left to a later turn: the process may be frozen at any point, and an answer that came then is not read yet.
        """
        until = (began or self._clock.now()).mono
        self._hear()
        deadline = self._engine.next_deadline() if not self.timers_wait else None
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
        """Return the time of the event being handled, else the current time.

        The recorder and the runner use this as their clock, so that an event's lines and effects bear its own time.
        """
        return self._reading or self._clock.now()

    def _come_round(self) -> None:
        assert self._bug is not None
        now, deadline = self._clock.now(), self._engine.next_deadline()
        late_s = now.mono - deadline if deadline is not None and not self.timers_wait else 0.0
        if late_s > LATE_S and self._catching_up is None:
            self._catching_up = self._bug.get_loop().create_task(self._catch_up(now, late_s), name="catch up")
            self._catching_up.add_done_callback(self._caught_up)
        try:
            self.turn(now)
        except Exception as bug:  # noqa: BLE001 - raised where somebody waits for it
            if not self._bug.done():
                self._bug.set_exception(bug)
            return
        self._soon, self._coming = None, False  # all lines recorded up to here have reached the kernel
        if self.idle():
            if self._catching_up is None:
                self._set_timer()
        else:
            self.wake()

    def _set_timer(self) -> None:
        """Set the timer for the next deadline. A timer that is too early is left alone: it only costs an empty turn,
        which sets the next one."""
        deadline = self._engine.next_deadline()
        if deadline is None or self._bug is None or self.timers_wait:
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

    # --- late deadlines -----------------------------------------------------------------------------------------------
    async def _catch_up(self, began: Now, late_s: float) -> None:
        """Let hints and receipts of the meantime be handled, then the deadlines that were due at ``began``.

        Turns go on while this waits; only deadlines are held back.
        """
        await anyio.sleep(HINTS_FIRST_S)
        if late_s > OVERSLEPT_S:
            await self.overslept(late_s)
            began = self._clock.now()  # the look took time in which we ran: deadlines of that time are not late
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
