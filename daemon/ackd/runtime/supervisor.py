"""Keeps alive what agents live in: one task for each, which starts it, waits for its end, and starts it again.

Owns when something is started, and whether again (core/restarts says how soon). Refuses to know what it is: a
``ports.Living``, a child or a pane. Fails by telling: ``AgentDied`` says whether it comes back, ``CannotStart`` whoever
waits for it.

Start order: as configured, several at a time. None waits for the one before it, for agents meet in their queues only,
where mail waits; but 50 interpreters that start at once would keep each other from getting ready.

An ``on-failure`` child that ends by itself with exit 0 is at rest, not dead: it is started again when it is told.
"""

from __future__ import annotations

import contextlib
import enum
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

import anyio

from ackd.core.errors import CannotStart
from ackd.core.events import AgentDied, AgentStarted
from ackd.core.restarts import GiveUp, RestartAfter, RestartMode, RestartPolicy, decide
from ackd.ports import Exit

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from ackd.ports import Living, Post

#: Who is told that it comes back in a while asks again just then: so close to it a restart is waited for.
A_MOMENT_S: Final = 0.5
#: Started side by side; the others wait for their turn.
STARTS_AT_A_TIME: Final = 8
#: A machine that refused is asked again after this, for as long as it refuses.
HINDERED_S: Final = 5.0


class Standing(enum.Enum):
    STARTING = "starting"
    UP = "up"
    WAITING = "waiting"  # it died, and is started again in a while
    RESTING = "resting"  # it ended by itself, and is started when it is told
    GIVEN_UP = "given up"  # it died too often, or is never started again
    STOPPED = "stopped"  # by hand, or by our own end


@dataclass(eq=False)
class _Kept:
    agent: str
    living: Living
    policy: RestartPolicy
    standing: Standing = Standing.STARTING
    why: str = "it has not been started yet"
    detail: str = ""
    #: Set while its end is of our own making: what it is told as.
    replaced: _Replaced | None = None
    retired: bool = False
    hindered: bool = False  # by the machine, at its last start
    in_life: bool = False
    again_at: float = 0.0
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    changed: anyio.Event = field(default_factory=anyio.Event)
    asking: anyio.Lock = field(default_factory=anyio.Lock)

    def become(self, standing: Standing, why: str = "") -> None:
        self.standing, self.why = standing, why
        self.stir()

    def is_awaited(self) -> bool:
        """It was not asked to end while it started."""
        return self.standing is Standing.STARTING and self.replaced is None

    def stir(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


@dataclass(frozen=True, slots=True)
class _Replaced:
    why: str
    quiet: bool
    wanted: bool


@dataclass(kw_only=True, eq=False)
class Supervisor:
    """``tasks`` must outlive it. What it keeps is ended by ``shutdown``; a cancelled task ends its own at once."""

    tasks: TaskGroup
    post: Post
    record: Callable[[str, dict[str, object]], None]
    rng: random.Random
    stop_timeout_s: float = 10
    starts_at_a_time: int = STARTS_AT_A_TIME
    _kept: dict[str, _Kept] = field(default_factory=dict, init=False)
    _closing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._turns = anyio.Semaphore(self.starts_at_a_time)

    # --- what is asked ------------------------------------------------------------------------------------------------
    def keep(self, agent: str, living: Living, policy: RestartPolicy, *, start: bool = True) -> None:
        """From now on. ``start`` False: it was stopped by hand, and waits for ``start``."""
        kept = self._kept[agent] = _Kept(agent, living, policy)
        if not start:
            kept.become(Standing.STOPPED, "it was stopped by hand")
        self.tasks.start_soon(self._tend, kept, name=f"life of {agent}")

    def keeps(self, agent: str) -> bool:
        return agent in self._kept

    def standing(self, agent: str) -> Standing:
        return self._kept[agent].standing

    async def ready(self, agent: str) -> None:
        """Returns when it can be told; who is at rest or given up is tried again for that. Raises CannotStart."""
        kept = self._kept[agent]
        match kept.standing:
            case Standing.UP:
                return
            case Standing.STARTING:
                await self._settled(kept)
            case Standing.RESTING:
                await self.start(agent)
            case Standing.GIVEN_UP if kept.policy.mode is not RestartMode.NEVER:
                await self.start(agent)
            case Standing.WAITING if kept.again_at <= anyio.current_time() + A_MOMENT_S:
                await self._due(kept)
            case Standing.WAITING:
                in_s = max(0.0, kept.again_at - anyio.current_time())
                raise CannotStart(f"{kept.why}; it is started again in {in_s:.0f} s")
            case Standing.STOPPED | Standing.GIVEN_UP:
                raise CannotStart(kept.why)
            case _:
                assert_never(kept.standing)

    async def start(self, agent: str) -> str:
        """Returns when it can be told, with what to call it; with a clean slate. Raises CannotStart."""
        kept = self._kept[agent]
        async with kept.asking:
            if kept.standing not in (Standing.UP, Standing.STARTING):
                self._begin(kept)
            return await self._settled(kept)

    async def restart(self, agent: str, why: str, *, quiet: bool = False, wanted: bool = False) -> str:
        """Ended, if it lives, and started again. ``quiet``: the same work goes on, and nobody need hear of a death.
        ``wanted``: a person wishes it, so that it is nobody's failure. Raises CannotStart."""
        kept = self._kept[agent]
        async with kept.asking:
            if kept.in_life:
                kept.replaced = _Replaced(why, quiet, wanted)
                kept.become(Standing.STARTING, why)
                await kept.living.stop(self.stop_timeout_s)
            elif kept.standing is not Standing.STARTING:
                self._begin(kept)
            return await self._settled(kept)

    async def replace(self, agent: str, why: str, *, quiet: bool = False) -> None:
        """As ``restart``, for whoever need not hear that it cannot be started: ``AgentDied`` tells of that."""
        with contextlib.suppress(CannotStart):
            await self.restart(agent, why, quiet=quiet)

    async def stop(self, agent: str, why: str = "it was stopped by hand") -> None:
        """It stays down until ``start`` or ``restart``."""
        kept = self._kept[agent]
        async with kept.asking:
            was_down = kept.standing in (Standing.STOPPED, Standing.GIVEN_UP)
            await self._end(kept, why)
            if not was_down and not self._closing and not kept.retired:
                self.post(AgentDied(agent, why, wanted=True))

    def retire(self, agent: str) -> None:
        """It may finish what it does, and is not started again."""
        kept = self._kept[agent]
        kept.retired = True
        if not kept.in_life:
            kept.become(Standing.STOPPED, "ackd is stopping")

    async def shutdown(self) -> None:
        """Everything that ends with us, side by side, within ``stop_timeout_s`` and what KILL takes."""
        self._closing = True
        async with anyio.create_task_group() as ending:
            for kept in self._kept.values():
                if not kept.living.outlives_us:
                    ending.start_soon(self._end, kept, "ackd is stopping")

    # --- one life after the other -------------------------------------------------------------------------------------
    async def _tend(self, kept: _Kept) -> None:
        try:
            while not self._closing:
                if kept.standing is Standing.STARTING:
                    await self._live(kept)
                else:
                    await self._wait(kept)
        finally:
            if not kept.living.outlives_us:
                with anyio.CancelScope(shield=True):  # nothing else lives longer than who watches it
                    await kept.living.stop(0)
            kept.in_life = False
            kept.stir()

    async def _live(self, kept: _Kept) -> None:
        exit_: Exit | None = None
        async with self._turns:
            if kept.standing is not Standing.STARTING:  # stopped while it waited for its turn
                return
            kept.in_life, kept.hindered, kept.replaced = True, False, None
            try:
                detail = await kept.living.start()
            except CannotStart as error:
                exit_ = Exit(error.why)
                kept.hindered = error.nobodys
        if exit_ is None:
            if kept.is_awaited():
                kept.detail = detail
                kept.become(Standing.UP)
                self.post(AgentStarted(kept.agent, detail))
            exit_ = await kept.living.exited()
        kept.in_life = False
        self._after(kept, exit_)
        kept.stir()

    def _after(self, kept: _Kept, exit_: Exit) -> None:
        replaced, kept.replaced = kept.replaced, None
        if kept.standing is Standing.STOPPED or kept.retired:
            kept.become(Standing.STOPPED, kept.why or exit_.why)
        elif replaced is not None:
            self.record("child_restart", {"agent": kept.agent, "in_s": 0, "why": replaced.why})
            if not replaced.quiet:
                self.post(AgentDied(kept.agent, replaced.why, again_in_s=0.0, wanted=replaced.wanted))
            kept.become(Standing.STARTING, replaced.why)
        elif exit_.code == 0 and kept.standing is Standing.UP and kept.policy.mode is not RestartMode.ALWAYS:
            rests = kept.policy.mode is RestartMode.ON_FAILURE
            kept.become(Standing.RESTING if rests else Standing.GIVEN_UP, f"it ended by itself ({exit_.why})")
        else:
            self._died(kept, exit_)

    def _died(self, kept: _Kept, exit_: Exit) -> None:
        why, now = exit_.why, anyio.current_time()
        if kept.hindered:  # not its fault, and not counted against it
            self._wait_for(kept, why, HINDERED_S)
            return
        kept.deaths.append(now)
        if kept.policy.mode is RestartMode.NEVER:
            kept.become(Standing.GIVEN_UP, f'{why}; it is never started again (restart = "never")')
            self.post(AgentDied(kept.agent, kept.why))
            return
        decision = decide(kept.deaths, now, kept.policy, self.rng)
        match decision:
            case RestartAfter(delay_s):
                self._wait_for(kept, why, delay_s, now - exit_.at if exit_.at is not None else 0.0)
            case GiveUp(count, within_s):
                kept.become(Standing.GIVEN_UP, f"{why}; restarted {count} times in {within_s:g} s, and given up")
                self.post(AgentDied(kept.agent, kept.why))
            case _:
                assert_never(decision)

    def _wait_for(self, kept: _Kept, why: str, delay_s: float, spent_s: float = 0.0) -> None:
        """The wait counts from its death: ``spent_s`` of it went by while what it left was cleared away."""
        facts = {"agent": kept.agent, "in_s": round(delay_s, 3), "count": len(kept.deaths), "why": why}
        self.record("child_restart", facts)
        left_s = max(0.0, delay_s - spent_s)
        kept.again_at = anyio.current_time() + left_s
        kept.become(Standing.WAITING, why)
        self.post(AgentDied(kept.agent, why, again_in_s=left_s))

    async def _wait(self, kept: _Kept) -> None:
        if kept.standing is not Standing.WAITING:
            await kept.changed.wait()
            return
        with anyio.CancelScope(deadline=kept.again_at):
            await kept.changed.wait()
            return
        kept.become(Standing.STARTING, kept.why)

    # --- for those above ----------------------------------------------------------------------------------------------
    def _begin(self, kept: _Kept) -> None:
        if kept.retired or self._closing:
            raise CannotStart("ackd is stopping")
        kept.deaths.clear()
        kept.become(Standing.STARTING)

    async def _due(self, kept: _Kept) -> None:
        while kept.standing is Standing.WAITING:
            await kept.changed.wait()
        await self._settled(kept)

    async def _settled(self, kept: _Kept) -> str:
        while kept.standing is Standing.STARTING:
            await kept.changed.wait()
        if kept.standing is not Standing.UP:
            raise CannotStart(kept.why)
        return kept.detail

    async def _end(self, kept: _Kept, why: str) -> None:
        kept.become(Standing.STOPPED, why)
        await kept.living.stop(self.stop_timeout_s)
        while kept.in_life:
            await kept.changed.wait()
