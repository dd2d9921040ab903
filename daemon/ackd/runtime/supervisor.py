"""Keeps agents alive: one task for each starts its process or pane, waits for the end, and starts it again.

The supervisor decides when to start, and whether again (``core/restarts`` says how soon). It knows the process or pane
only as a ``ports.Living``. An end is reported by ``AgentDied``, which says whether the agent comes back; a caller that
waits for a start gets ``CannotStart``.

Agents are started in the order of the config, several at a time. None has to wait for the one before it, because agents
meet in their queues only, where mail waits. But 50 interpreters that start at once would keep each other from getting
ready.

An ``on-failure`` child that ends by itself with exit 0 is at rest, not dead: it is started again for its next message.
"""

from __future__ import annotations

import contextlib
import enum
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

import anyio

from ackd.core.agent_facts import child_restart
from ackd.core.errors import CannotStart
from ackd.core.events import AgentDied, AgentStarted
from ackd.core.ports import Exit
from ackd.core.restarts import RestartAfter, RestartMode, RestartPolicy, StaysDown, decide_restart

if TYPE_CHECKING:
    import random

    from ackd.config.live import LiveConfig
    from ackd.core.ports import Living, Post, Record, Tasks

#: A restart that is due within this time is waited for: a caller that was told to come back then comes at that moment.
A_MOMENT_S: Final = 0.5
#: Number of agents that are started at the same time. The others wait for their turn.
STARTS_AT_A_TIME: Final = 8
#: Wait before the next start when the machine (not the agent) refused the last one, for as long as it refuses.
HINDERED_S: Final = 5.0


class KeptStanding(enum.Enum):
    STARTING = "starting"
    UP = "up"
    WAITING = "waiting"  # died, and is started again in a while
    RESTING = "resting"  # ended by itself, and is started for its next message
    GIVEN_UP = "given up"  # died too often, or is never started again
    STOPPED = "stopped"  # by hand, or because the daemon ends


@dataclass(eq=False)
class _Kept:
    agent: str
    living: Living
    policy: RestartPolicy
    standing: KeptStanding = KeptStanding.STARTING
    why: str = "it has not been started yet"
    detail: str = ""
    #: Set while we end it ourselves for a restart: how that end is reported.
    replaced: _Replaced | None = None
    retired: bool = False
    hindered: bool = False  # the machine refused the last start
    in_life: bool = False
    again_at: float = 0.0
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    changed: anyio.Event = field(default_factory=anyio.Event)
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    #: The scope of the task that starts it and waits for its end.
    tending: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def become(self, standing: KeptStanding, why: str = "") -> None:
        self.standing, self.why = standing, why
        self.stir()

    def is_awaited(self) -> bool:
        """True while it starts, unless it was asked to end meanwhile."""
        return self.standing is KeptStanding.STARTING and self.replaced is None

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
    """Starts and ends the agents. ``tasks`` must outlive the supervisor.

    ``shutdown`` ends all agents in time; if an agent's task is cancelled, the agent is ended at once.
    """

    tasks: Tasks
    post: Post
    record: Record
    rng: random.Random
    config: LiveConfig
    starts_at_a_time: int = STARTS_AT_A_TIME
    _kept: dict[str, _Kept] = field(default_factory=dict, init=False)
    _closing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._turns = anyio.Semaphore(self.starts_at_a_time)

    # --- requests -----------------------------------------------------------------------------------------------------
    def keep(self, agent: str, living: Living, policy: RestartPolicy, *, start: bool = True) -> None:
        """Keep the agent alive from now on. With ``start=False`` it was stopped by hand, and waits for ``start``."""
        kept = self._kept[agent] = _Kept(agent, living, policy)
        if not start:
            kept.become(KeptStanding.STOPPED, "it was stopped by hand")
        self.tasks.start_soon(self._tend, kept, name=f"life of {agent}")

    def keeps(self, agent: str) -> bool:
        return agent in self._kept

    def standing(self, agent: str) -> KeptStanding:
        return self._kept[agent].standing

    async def ready(self, agent: str) -> None:
        """Return when the agent can be given mail. One at rest or given up is started again. Raises CannotStart."""
        kept = self._kept[agent]
        match kept.standing:
            case KeptStanding.UP:
                return
            case KeptStanding.STARTING:
                await self._settled(kept)
            case KeptStanding.RESTING:
                await self.start(agent)
            case KeptStanding.GIVEN_UP if kept.policy.mode is not RestartMode.NEVER:
                await self.start(agent)
            case KeptStanding.WAITING if kept.again_at <= anyio.current_time() + A_MOMENT_S:
                await self._due(kept)
            case KeptStanding.WAITING:
                in_s = max(0.0, kept.again_at - anyio.current_time())
                raise CannotStart(f"{kept.why}; it is started again in {in_s:.0f} s")
            case KeptStanding.STOPPED | KeptStanding.GIVEN_UP:
                raise CannotStart(kept.why)
            case _:
                assert_never(kept.standing)

    async def start(self, agent: str) -> str:
        """Start the agent, with its earlier deaths forgotten. Returns when it can be given a message, with a name for
        it ("pid 4242"). Raises CannotStart."""
        kept = self._kept[agent]
        async with kept.asking:
            if kept.standing not in (KeptStanding.UP, KeptStanding.STARTING):
                self._begin(kept)
            return await self._settled(kept)

    async def restart(self, agent: str, why: str, *, quiet: bool = False, wanted: bool = False) -> str:
        """End the agent if it lives, and start it again. Raises CannotStart.

        ``quiet``: the same work goes on, and no death is reported. ``wanted``: a person asked for it, so that it does
        not count as a failure.
        """
        kept = self._kept[agent]
        async with kept.asking:
            if kept.in_life:
                kept.replaced = _Replaced(why, quiet, wanted)
                kept.become(KeptStanding.STARTING, why)
                await kept.living.stop(self.config.now.daemon.stop_timeout_s)
            elif kept.standing is not KeptStanding.STARTING:
                self._begin(kept)
            return await self._settled(kept)

    async def replace(self, agent: str, why: str, *, quiet: bool = False) -> None:
        """Restart without raising CannotStart: ``AgentDied`` reports that the agent cannot be started."""
        with contextlib.suppress(CannotStart):
            await self.restart(agent, why, quiet=quiet)

    async def stop(self, agent: str, why: str = "it was stopped by hand") -> None:
        """End the agent. It stays down until ``start`` or ``restart``."""
        kept = self._kept[agent]
        async with kept.asking:
            was_down = kept.standing in (KeptStanding.STOPPED, KeptStanding.GIVEN_UP)
            await self._end(kept, why)
            if not was_down and not self._closing and not kept.retired:
                self.post(AgentDied(agent, why, wanted=True))

    async def forget(self, agent: str, *, end: bool) -> None:
        """Keep the agent alive no longer: its config has another endpoint for it. It is ended unless it outlives the
        daemon; with ``end`` also then. Whoever waits for its start gets CannotStart."""
        kept = self._kept[agent]
        kept.retired = True
        async with kept.asking:
            if end or not kept.living.outlives_us:
                await self._end(kept, "its table in ackd.toml has changed")
            else:
                kept.become(KeptStanding.STOPPED, "its table in ackd.toml has changed")
        if self._kept.get(agent) is kept:
            del self._kept[agent]
        kept.tending.cancel()

    def retire(self, agent: str) -> None:
        """Let the agent finish its work, and do not start it again."""
        kept = self._kept[agent]
        kept.retired = True
        if not kept.in_life:
            kept.become(KeptStanding.STOPPED, "ackd is stopping")

    async def shutdown(self) -> None:
        """End all agents that do not outlive the daemon, side by side, within ``stop_timeout_s`` plus the time that
        SIGKILL takes."""
        self._closing = True
        async with anyio.create_task_group() as ending:
            for kept in self._kept.values():
                if not kept.living.outlives_us:
                    ending.start_soon(self._end, kept, "ackd is stopping")

    # --- starting again and again -------------------------------------------------------------------------------------
    async def _tend(self, kept: _Kept) -> None:
        with kept.tending:
            await self._tend_until_forgotten(kept)

    async def _tend_until_forgotten(self, kept: _Kept) -> None:
        try:
            while not self._closing:
                if kept.standing is KeptStanding.STARTING:
                    await self._live(kept)
                else:
                    await self._wait(kept)
        finally:
            if not kept.living.outlives_us:
                with anyio.CancelScope(shield=True):  # a process must not outlive the task that watches it
                    await kept.living.stop(0)
            kept.in_life = False
            kept.stir()

    async def _live(self, kept: _Kept) -> None:
        exit_: Exit | None = None
        async with self._turns:
            if kept.standing is not KeptStanding.STARTING:  # stopped while it waited for its turn
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
                kept.become(KeptStanding.UP)
                self.post(AgentStarted(kept.agent, detail))
            exit_ = await kept.living.exited()
        kept.in_life = False
        self._after(kept, exit_)
        kept.stir()

    def _after(self, kept: _Kept, exit_: Exit) -> None:
        replaced, kept.replaced = kept.replaced, None
        if kept.standing is KeptStanding.STOPPED or kept.retired:
            kept.become(KeptStanding.STOPPED, kept.why or exit_.why)
        elif replaced is not None:
            self.record(child_restart(agent=kept.agent, in_s=0, why=replaced.why))
            if not replaced.quiet:
                self.post(AgentDied(kept.agent, replaced.why, again_in_s=0.0, wanted=replaced.wanted))
            kept.become(KeptStanding.STARTING, replaced.why)
        elif exit_.code == 0 and kept.standing is KeptStanding.UP and kept.policy.mode is not RestartMode.ALWAYS:
            rests = kept.policy.mode is RestartMode.ON_FAILURE
            kept.become(KeptStanding.RESTING if rests else KeptStanding.GIVEN_UP, f"it ended by itself ({exit_.why})")
        else:
            self._died(kept, exit_)

    def _died(self, kept: _Kept, exit_: Exit) -> None:
        why, now = exit_.why, anyio.current_time()
        if kept.hindered:  # not the agent's fault, and so not counted
            self._wait_for(kept, why, HINDERED_S)
            return
        kept.deaths.append(now)
        if kept.policy.mode is RestartMode.NEVER:
            kept.become(KeptStanding.GIVEN_UP, f'{why}; it is never started again (restart = "never")')
            self.post(AgentDied(kept.agent, kept.why))
            return
        decision = decide_restart(kept.deaths, now, kept.policy, self.rng)
        match decision:
            case RestartAfter(delay_s):
                self._wait_for(kept, why, delay_s, now - exit_.at if exit_.at is not None else 0.0)
            case StaysDown(count, within_s):
                kept.become(KeptStanding.GIVEN_UP, f"{why}; restarted {count} times in {within_s:g} s, and given up")
                self.post(AgentDied(kept.agent, kept.why))
            case _:
                assert_never(decision)

    def _wait_for(self, kept: _Kept, why: str, delay_s: float, spent_s: float = 0.0) -> None:
        """Wait ``delay_s`` from the death, then start again. ``spent_s`` of it has passed already, while the processes
        that the agent left behind were ended."""
        self.record(child_restart(agent=kept.agent, in_s=round(delay_s, 3), count=len(kept.deaths), why=why))
        left_s = max(0.0, delay_s - spent_s)
        kept.again_at = anyio.current_time() + left_s
        kept.become(KeptStanding.WAITING, why)
        self.post(AgentDied(kept.agent, why, again_in_s=left_s))

    async def _wait(self, kept: _Kept) -> None:
        if kept.standing is not KeptStanding.WAITING:
            await kept.changed.wait()
            return
        with anyio.CancelScope(deadline=kept.again_at):
            await kept.changed.wait()
            return
        kept.become(KeptStanding.STARTING, kept.why)

    # --- parts of the requests ----------------------------------------------------------------------------------------
    def _begin(self, kept: _Kept) -> None:
        if kept.retired or self._closing:
            raise CannotStart("ackd is stopping")
        kept.deaths.clear()
        kept.become(KeptStanding.STARTING)

    async def _due(self, kept: _Kept) -> None:
        while kept.standing is KeptStanding.WAITING:
            await kept.changed.wait()
        await self._settled(kept)

    async def _settled(self, kept: _Kept) -> str:
        while kept.standing is KeptStanding.STARTING:
            await kept.changed.wait()
        if kept.standing is not KeptStanding.UP:
            raise CannotStart(kept.why)
        return kept.detail

    async def _end(self, kept: _Kept, why: str) -> None:
        kept.become(KeptStanding.STOPPED, why)
        await kept.living.stop(self.config.now.daemon.stop_timeout_s)
        while kept.in_life:
            await kept.changed.wait()
