"""A worker: a child that is told by lines and answers by lines, one life after the other.

Owns the life that is current, its generation, and the one who listens to it. Refuses to know what the lines say
(``heard``) and what it has in hand (``ended``). A ``ports.Living``: the supervisor decides about its starts.

It can be told when it has said its first word, or has lived for ``ready_after_s`` without one: a worker that breaks at
its start takes no message with it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from ackd.adapters.child import CannotWrite
from ackd.core.errors import CannotStart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from ackd.adapters.child import Child, Life, Line
    from ackd.ports import Exit

READY_AFTER_S: Final = 1.0
#: Asked to leave, before it is made to.
LEAVE_S: Final = 1.0
#: For acting on what it said last; a disk that takes longer makes them late.
_LAST_WORDS_S: Final = 30.0
#: A flood of lines is heard at this pace; who says more waits at its own write.
_LINES_AT_ONCE: Final = 100
_LINES_PER_S: Final = 500


@dataclass(kw_only=True, eq=False)
class Worker:
    """``ended`` hears of the end of each life once, after its last words; with True if it was us who ended it."""

    agent: str
    child: Child
    tasks: TaskGroup
    record: Callable[[str, dict[str, object]], None]
    heard: Callable[[Line], Awaitable[None]]
    ended: Callable[[Exit, bool], None]
    farewell: Callable[[], bytes]
    stop_timeout_s: float = 10
    ready_after_s: float = READY_AFTER_S
    generation: int = field(default=0, init=False)
    life: Life | None = field(default=None, init=False)
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
        self.record("child_started", {"agent": self.agent, "pid": life.pid, "generation": self.generation})
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
        """Its last life has ended, however long its remains take to be cleared away."""
        return self.life is not None and not self.life.alive

    def write(self, line: bytes) -> None:
        """Raises CannotWrite."""
        if self.life is None or not self.life.alive:
            raise CannotWrite("its worker does not run", closed=True)
        self.life.write(line)

    def say_farewell(self) -> None:
        """Asks it to end by itself; once."""
        if not self._said_farewell and self.life is not None and self.life.alive:
            self._said_farewell = True
            with contextlib.suppress(CannotWrite):
                self.life.write(self.farewell())

    # --- listening
    async def _listen(self, life: Life) -> None:
        """In order, one at a time: while a word is acted on, the next waits in the pipe."""
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
                        await life.died()  # the last words of the dead need no pace
                    since = anyio.current_time()
        finally:
            life.close_stdout()
            listened.set()

    async def _speaks_or_dies(self, life: Life) -> None:
        async with anyio.create_task_group() as race:

            async def dies() -> None:
                await life.died()
                race.cancel_scope.cancel()

            race.start_soon(dies, name=f"start of {self.agent}")
            await self._spoke.wait()
            race.cancel_scope.cancel()

    # --- ending
    async def _ask_to_leave(self, life: Life, patience_s: float) -> None:
        self.say_farewell()
        life.close_stdin()
        with anyio.move_on_after(patience_s):
            await life.died()

    async def _see_out(self, life: Life) -> Exit:
        """Its last words, the report of its end, the end of all that it left; whoever comes first."""
        ended = await life.died()
        with anyio.move_on_after(_LAST_WORDS_S):
            await self._listened.wait()
        if life is self.life and not self._reported:
            self._reported = True
            facts: dict[str, object] = {"agent": self.agent, "pid": life.pid, "seconds": round(life.seconds, 3)}
            if ended.code is not None:
                facts["exit"] = ended.code
            self.record("child_ended", facts | {"why": ended.why})
            self.ended(ended, self.leaving)
        await life.end(self.stop_timeout_s)
        return ended
