"""A worker: a child that is told by lines and answers by lines, one process after the other.

A ``ports.Living``: the supervisor decides when it is started. The worker can be told when it has said its first word,
or has lived for ``ready_after_s`` without one: a worker that breaks at its start takes no message with it. Its endpoint
gives the lines a meaning (``heard``) and knows what work is affected by its end (``ended``).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from ackd.core.agent_facts import child_ended, child_started
from ackd.core.errors import CannotStart
from ackd.endpoints.process.child import StdinRefused
from ackd.system.process_tree import SIGN_CPU_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.config.live import LiveConfig
    from ackd.core.ports import Exit, Record, Tasks
    from ackd.endpoints.process.child import Child, ChildProcess, OutputLine
    from ackd.system.process_tree import ProcessTable

READY_AFTER_S: Final = 1.0
#: How long a worker that was asked to end may take, before it is ended by force.
LEAVE_S: Final = 1.0
#: How long handling a dead worker's last lines may take; if a disk takes longer, they count as late.
_LAST_WORDS_S: Final = 30.0
#: A flood of lines is read at this pace; a worker that says more waits at its own write.
_LINES_AT_ONCE: Final = 100
_LINES_PER_S: Final = 500


@dataclass(kw_only=True, eq=False)
class Worker:
    """``ended`` is called once for each process, after its last words; with True if it was us who ended it."""

    agent: str
    child: Child
    tasks: Tasks
    record: Record
    heard: Callable[[OutputLine], Awaitable[None]]
    ended: Callable[[Exit, bool], None]
    farewell: Callable[[], bytes]
    config: LiveConfig
    ready_after_s: float = READY_AFTER_S
    generation: int = field(default=0, init=False)
    life: ChildProcess | None = field(default=None, init=False)
    leaving: bool = field(default=False, init=False)
    _spoke: anyio.Event = field(default_factory=anyio.Event, init=False)
    _listened: anyio.Event = field(default_factory=anyio.Event, init=False)
    _said_farewell: bool = field(default=False, init=False)
    _reported: bool = field(default=True, init=False)

    # --- the port
    @property
    def outlives_us(self) -> bool:
        return False

    async def start(self) -> str:
        life = self.child.start(self.generation + 1)
        self.generation, self.life = self.generation + 1, life
        self.leaving = self._said_farewell = self._reported = False
        self._spoke, self._listened = anyio.Event(), anyio.Event()
        self.record(child_started(agent=self.agent, pid=life.pid, generation=self.generation))
        self.tasks.start_soon(self._listen, life, name=f"words of {self.agent}")
        with anyio.move_on_after(self.ready_after_s):
            await self._speaks_or_dies(life)
        if life.exit is not None:
            ended = await self._see_out(life)
            raise CannotStart(f"it ended before it could be told: {ended.why}")
        return f"pid {life.pid}"

    async def exited(self) -> Exit:
        assert self.life is not None
        await self.life.died()
        return await self._see_out(self.life)

    async def stop(self, timeout_s: float) -> None:
        life = self.life
        if life is None:
            return
        if life.exit is None:
            self.leaving = True
            await self._ask_to_leave(life, min(timeout_s, LEAVE_S))
        await life.end(timeout_s)
        await self._see_out(life)

    # --- for its endpoint
    def is_over(self) -> bool:
        """True if its last process has ended, however long clearing away after it takes."""
        return self.life is not None and not self.life.alive

    def write(self, line: bytes) -> None:
        """Raises StdinRefused."""
        if self.life is None or not self.life.alive:
            raise StdinRefused("its worker does not run", closed=True)
        self.life.write(line)

    def say_farewell(self) -> None:
        """Ask the worker to end by itself; once for each process."""
        if not self._said_farewell and self.life is not None and self.life.alive:
            self._said_farewell = True
            with contextlib.suppress(StdinRefused):
                self.life.write(self.farewell())

    # --- listening
    async def _listen(self, life: ChildProcess) -> None:
        """Hear lines in order, one at a time: while one is acted on, the next waits in the pipe."""
        spoke, listened = self._spoke, self._listened
        since, count = anyio.current_time(), 0
        try:
            async for line in life.lines():
                spoke.set()
                await self.heard(line)
                count += 1
                if count % _LINES_AT_ONCE == 0:
                    await anyio.lowlevel.checkpoint()
                    with anyio.CancelScope(deadline=since + _LINES_AT_ONCE / _LINES_PER_S):
                        await life.died()  # the last lines of a dead process are read without a limit
                    since = anyio.current_time()
        finally:
            life.close_stdout()
            listened.set()

    async def _speaks_or_dies(self, life: ChildProcess) -> None:
        async with anyio.create_task_group() as race:

            async def dies() -> None:
                await life.died()
                race.cancel_scope.cancel()

            race.start_soon(dies, name=f"start of {self.agent}")
            await self._spoke.wait()
            race.cancel_scope.cancel()

    # --- ending
    async def _ask_to_leave(self, life: ChildProcess, patience_s: float) -> None:
        self.say_farewell()
        life.close_stdin()
        with anyio.move_on_after(patience_s):
            await life.died()

    async def _see_out(self, life: ChildProcess) -> Exit:
        """Wait for the last words, report the end once, and end everything that the process left."""
        ended = await life.died()
        with anyio.move_on_after(_LAST_WORDS_S):
            await self._listened.wait()
        if life is self.life and not self._reported:
            self._reported = True
            facts: dict[str, Any] = {"agent": self.agent, "pid": life.pid, "seconds": round(life.seconds, 3)}
            if ended.code is not None:
                facts["exit"] = ended.code
            self.record(child_ended(**(facts | {"why": ended.why})))
            self.ended(ended, self.leaving)
        await life.end(self.config.now.daemon.stop_timeout_s)
        return ended


# --- signs of life ----------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class SignsOfLife:
    table: ProcessTable
    _of: ChildProcess | None = field(default=None, init=False)
    _heard_bytes: int = field(default=0, init=False)
    _cpu_s: float = field(default=0.0, init=False)

    def take(self, life: ChildProcess | None) -> str | None:
        """A sign of life since this was asked last: output on either pipe, or CPU time of everything that belongs to
        the worker. None for a worker that is dead, even if another process writes to its pipes, or that is stopped."""
        if life is None or not life.alive:
            return None
        if life is not self._of:
            self._of, self._heard_bytes, self._cpu_s = life, 0, 0.0
        words, used_s = self._words(life), self._used_s(life)
        if words:
            return f"{words} bytes of output"
        return f"{used_s:.2f} s of CPU time" if used_s else None

    def _words(self, life: ChildProcess) -> int:
        before, self._heard_bytes = self._heard_bytes, life.heard_bytes
        return self._heard_bytes - before

    def _used_s(self, life: ChildProcess) -> float:
        """CPU time since the last call. Small amounts do not add up: a worker that hangs may tick on."""
        before, self._cpu_s = self._cpu_s, self.table.cpu_s(life.pid, life.mark)
        used_s = self._cpu_s - before
        return used_s if used_s >= SIGN_CPU_S else 0.0
