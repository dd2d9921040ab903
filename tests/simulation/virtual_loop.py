"""An event loop without a selector, threads or a clock of its own: what runs when follows from the seed alone.

Timers and the happenings of the world share one timeline; when nothing is ready, time jumps to the next of them. What
asyncio would give to a thread is done on the loop after a delay that is drawn. ``kill`` is ``kill -9``: the handle that
runs is the last one, and no coroutine gets to say anything any more that the disk would hear. A daemon that goes round
without waiting is found by its turns, long before anyone would have the patience.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from typing import TYPE_CHECKING, Any

from anyio._backends._asyncio import _task_states

from tests.simulation.verdict import Broken

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Coroutine

    from tests.simulation.kernel import Kernel
    from tests.simulation.timeline import Timeline

#: What a turn of the loop costs, so that the world goes on while the daemon thinks.
TURN_S = 0.0001
#: More turns than that within a simulated minute, and the daemon waits for nothing: it is busy until something happens.
#: Bursts of letters and starts take some hundreds.
BUSY_TURNS = 20_000


class _Task(asyncio.Task[Any]):
    """Sets of tasks are walked in the order of hashes; by address, that would differ from run to run."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, **how: Any) -> None:
        self._number = number
        super().__init__(coro, **how)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    # asyncio's own queues; the stubs do not know of them.
    _ready: Any
    _scheduled: Any
    _stopping: bool

    def __init__(self, timeline: Timeline, kernel: Kernel, thread_delay_s: Callable[[], float]) -> None:
        super().__init__()
        self.killed = False
        self.mishaps: list[str] = []
        self._timeline = timeline
        self._thread_delay_s = thread_delay_s
        self._kernel = kernel
        self._tasks: list[_Task] = []
        self._made = 0
        self._minute = self._turns = 0
        self._signalled = False
        self._signals: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._mishap)

    def time(self) -> float:
        return self._timeline.mono

    def kill(self) -> None:
        self.killed = True

    def bury(self) -> None:
        """What a killed process leaves behind in this one: coroutines that must end without a word.

        anyio keeps the cancel scopes of a task until it ends, and these keep the task: nothing of it would ever be freed.
        """
        self._ready.clear()
        self._scheduled.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
            _task_states.pop(task, None)
        self._tasks.clear()
        self._ready.clear()
        self.close()

    @property
    def stoppable(self) -> bool:
        """Whoever is at it is not asked again: a second signal ends the process, and that is ours."""
        return not self.killed and not self._signalled and bool(self._signals)

    def send_signal(self, number: signal.Signals) -> None:
        self._signalled = True
        callback, args = self._signals[number]
        self.call_soon(callback, *args)

    # --- what asyncio asks of a loop ------------------------------------------------------------------------------
    def _run_once(self) -> None:
        timeline, ready, scheduled = self._timeline, self._ready, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        timer_at = scheduled[0]._when if scheduled else float("inf")
        due = min(timer_at, timeline.next_at())
        if not ready and due > timeline.mono:
            if due == float("inf"):
                raise RuntimeError("nothing will ever happen again")
            timeline.mono = due
        while timeline.next_at() <= timeline.mono:
            timeline.step()
        while scheduled and scheduled[0]._when <= timeline.mono:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        self._run_ready()

    def _run_ready(self) -> None:
        self._kernel.daemon_acts = True
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle._cancelled:
                handle._run()
            if self.killed:
                self._stopping = True
                break
        self._kernel.daemon_acts = False
        self._timeline.mono += TURN_S
        self._count_turn()

    def _count_turn(self) -> None:
        minute = int(self._timeline.mono / 60)
        self._turns = self._turns + 1 if minute == self._minute else 1
        self._minute = minute
        if self._turns > BUSY_TURNS:
            raise Broken(f"busy: {self._turns} turns of the loop within a minute")

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **how: Any) -> _Task:
        self._made += 1
        task = _Task(coro, loop=loop, number=self._made, **how)
        self._tasks.append(task)
        if self._made % 1024 == 0:
            self._tasks = [one for one in self._tasks if not one.done()]
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """A thread cannot be called back: what was asked for is done, whoever still waits for it."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - as an executor hands it on
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_later(self._thread_delay_s(), work)
        return future

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        self._signals[sig] = (callback, args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self._signals.pop(sig, None) is not None

    def _write_to_self(self) -> None:
        """There is no other thread to be woken from."""

    def _process_events(self, event_list: list[Any]) -> None:
        """There is no selector."""

    def _mishap(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.killed:
            self.mishaps.append(f"{context.get('message')}: {context.get('exception')!r}")
