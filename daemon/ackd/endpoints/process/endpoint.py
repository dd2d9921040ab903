"""The endpoint of a process agent: it tells by a line on its worker's stdin, and posts what the worker answers.

It knows what work its worker has in hand and for how long (``timeout_seconds``), and decides what becomes of that when
the worker ends. The supervisor keeps the worker alive; ``outbound`` writes lines, ``inbound`` gives those of the
worker a meaning. Nothing is raised: a worker that does not run, does not read or has closed its stdin is
``EndpointAway``, a message that cannot be read ``NotTold``, an exhausted machine ``Hindered``.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ackd.core import delivery_facts, faults
from ackd.core.errors import BadLine, CannotStart, TheirFault
from ackd.core.events import Absence, EndpointAway, Hindered, LetGo, NotTold, Outcome, RunEnded, SignOfLife, Told
from ackd.core.ports import Inhabited
from ackd.endpoints.process import wire as worker_json
from ackd.endpoints.process.assignments import Assignments, work_of
from ackd.endpoints.process.child import StdinRefused
from ackd.endpoints.process.facts import bad_line, naive_time
from ackd.endpoints.process.inbound import InboundLines, RateLimit, shown
from ackd.endpoints.process.outbound import OutboundLines
from ackd.endpoints.process.worker import READY_AFTER_S, SignsOfLife, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ackd.config.live import LiveConfig
    from ackd.core.effects import AskCheckpoint, CallOff, NudgeAgent, ProbeAgent, RemindAgent, RenewAgent, TellAgent
    from ackd.core.message import Message, Place
    from ackd.core.ports import Exit, Keeper, Services, TellAnswer
    from ackd.endpoints.process.assignments import AgentCheckpoints, Work
    from ackd.endpoints.process.child import Child, OutputLine
    from ackd.system.process_tree import ProcessTable


@dataclass(kw_only=True, eq=False)
class ProcessEndpoint(Inhabited):
    """``worker`` is kept alive by the supervisor. ``read`` gives the values of a message's body; its OSError and
    TheirFault become answers. ``timeout_s`` counts where the body says nothing."""

    agent: str
    child: Child
    keeper: Keeper
    services: Services
    config: LiveConfig
    read: Callable[[Message, Place], Mapping[str, object]]
    resolve: Callable[[Place], Path]
    checkpoints: AgentCheckpoints
    table: ProcessTable
    timeout_s: float = 600
    context_threshold: float = 0.70
    ready_after_s: float = READY_AFTER_S
    #: Called with a line that is no word of the protocol; True: it was meant for somebody else, who has taken it.
    aside: Callable[[bytes], bool] = field(default=lambda _: False)
    worker: Worker = field(init=False)
    _assignments: Assignments = field(default_factory=Assignments, init=False)
    _bad_lines: RateLimit = field(default_factory=RateLimit, init=False)
    _unacked: dict[int, Work] = field(default_factory=dict, init=False)
    #: The outcome, and why, of the work that is in hand when we end the worker ourselves.
    _blame: tuple[Outcome, str] | None = field(default=None, init=False)
    _carrying: bool = field(default=False, init=False)
    _stopping: bool = field(default=False, init=False)
    _ends_because: str = field(default="ackd is stopping", init=False)
    #: There while a worker whose time was up is being ended, and is told nothing more; set when it is gone.
    _outgoing: anyio.Event | None = field(default=None, init=False)
    _eased: anyio.Event = field(default_factory=anyio.Event, init=False)
    _naive_time_told: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._signs = SignsOfLife(self.table)
        self.worker = Worker(
            agent=self.agent,
            child=self.child,
            tasks=self.services.tasks,
            record=self.services.record,
            heard=self._heard,
            ended=self._ended,
            farewell=self._farewell,
            config=self.config,
            ready_after_s=self.ready_after_s,
        )
        self._outbound = OutboundLines(
            self.agent, self.worker, self.services.clock, self.checkpoints, self.context_threshold
        )
        self._inbound = InboundLines(
            agent=self.agent,
            assignments=self._assignments,
            checkpoints=self.checkpoints,
            post=self.services.post,
            record=self.services.record,
            context_threshold=self.context_threshold,
            acked=self._acked,
            clock_rings=self._time_is_up,
            leaving=lambda: self.worker.leaving or self._stopping,
        )

    # --- telling
    async def tell(self, order: TellAgent) -> TellAnswer:
        if self._stopping:
            # Not gone: the engine, which is about to hear of another endpoint, need not tell anybody.
            return EndpointAway(order.key, self._ends_because, attempt=order.attempt, why=Absence.BUSY)
        try:
            work = await self._told(order)
        except CannotStart as error:
            return EndpointAway(order.key, error.why, attempt=order.attempt)
        except StdinRefused as error:
            return EndpointAway(order.key, error.why, attempt=order.attempt)
        except (OSError, TheirFault) as error:
            why = f"could not read {order.place}: {error}"
            nobodys = isinstance(error, OSError) and faults.is_nobodys(error)
            return (Hindered if nobodys else NotTold)(order.key, why, attempt=order.attempt)
        self._assignments.take(work)
        work.run_clock(self._time_is_up)
        return Told(order.key, f"assign written to {self._name()}", attempt=order.attempt)

    async def _told(self, order: TellAgent) -> Work:
        """Write the assignment. A worker that has closed a pipe, and has nothing in hand, is replaced by a fresh one
        first."""
        if self._outgoing is not None:
            await self._outgoing.wait()
        await self.keeper.ready(self.agent)
        while self.worker.is_over():  # the supervisor is about to learn of that, and decides what comes next
            await self.worker.exited()
            await anyio.lowlevel.checkpoint()
            await self.keeper.ready(self.agent)
        work, life = self._work(order), self.worker.life
        free = life is not None and life.alive and not self._assignments
        if free and life is not None and not life.can_speak:
            await self.keeper.restart(self.agent, "it has closed its stdout", quiet=True)
        try:
            self._outbound.assign(work)
        except StdinRefused as error:
            if not (free and error.closed):
                raise
            await self.keeper.restart(self.agent, "it has closed its stdin", quiet=True)
            self._outbound.assign(work)
        return work

    def _work(self, order: TellAgent) -> Work:
        body = self.read(order.message, order.place)
        task_id = self._assignments.task_id_for(order.key, order.message)
        return work_of(order, task_id, body, self.resolve(order.place), self.child.cwd, self.timeout_s)

    # --- waking, asking
    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        work = self._assignments.get(order.key)
        if work is None or order.attempt not in (0, work.attempt):
            return NotTold(order.key, "its worker does not have it in hand", attempt=order.attempt)
        try:
            if order.rung >= 3:
                await self._begin_anew(f"silent about {work.task_id}")
                done = "restarted, "
            else:
                done = self._wake(work, interrupt=order.rung == 2)
        except (CannotStart, StdinRefused) as error:
            return NotTold(order.key, error.why, attempt=order.attempt)
        return Told(order.key, f"{done}assign written to {self._name()}", attempt=order.attempt)

    def _wake(self, work: Work, *, interrupt: bool) -> str:
        if interrupt and self.worker.life is not None:
            self.worker.life.interrupt()
        self._outbound.ask(f"Status check: are you still working on {work.task_id}?", work)
        self._outbound.assign(work)
        return "interrupted, status_check and " if interrupt else "status_check and "

    async def _begin_anew(self, why: str) -> None:
        """Start a fresh worker with the same work, from its checkpoint. To the engine nothing has ended."""
        self._carrying = True
        try:
            await self.keeper.restart(self.agent, why, quiet=True)
        except CannotStart as error:
            self._give_back(Outcome.FAILED, f"its worker could not be started again: {error.why}")
            raise
        finally:
            self._carrying = False
        for work in self._assignments:
            self._outbound.assign(work)

    async def probe(self, order: ProbeAgent) -> Told | NotTold:
        answer = self._say(
            order.key, order.attempt, lambda: self._outbound.ask(order.text, self._assignments.get(order.key))
        )
        self.services.record(delivery_facts.probed(order, answer))
        return answer

    async def remind(self, order: RemindAgent) -> Told | NotTold:
        """Refuse: a worker has no prompt to be idle at, and is asked by ``probe``."""
        return NotTold(order.key, "a worker is asked, not reminded", order.attempt)

    async def ask_checkpoint(self, order: AskCheckpoint) -> Told | NotTold:
        work = self._assignments.get(order.key)
        return self._say(order.key, order.attempt, lambda: self._outbound.ask_for_checkpoint(work))

    def ask(self, text: str) -> None:
        """Write a status check about nothing in particular. A worker that does not read does not get it."""
        with contextlib.suppress(StdinRefused):
            self._outbound.ask(text, None)

    def acknowledge(self, of: str) -> None:
        """Acknowledge something that is about no task. A worker that does not read does not get it."""
        self._outbound.ack(of, None)

    def _say(self, key: int, attempt: int, write: Callable[[], None]) -> Told | NotTold:
        try:
            write()
        except StdinRefused as error:
            return NotTold(key, error.why, attempt=attempt)
        return Told(key, f"written to {self._name()}", attempt=attempt)

    # --- cancelled
    def call_off(self, order: CallOff) -> LetGo | None:
        """Tell the worker to stop working on it. One that has not within ``stop_timeout_s``, or does not read, is
        restarted."""
        work = self._assignments.get(order.key)
        if work is None:
            return LetGo(order.key, "its worker does not have it in hand", order.attempt)
        work.called_off = True
        patience_s = self.config.now.daemon.stop_timeout_s
        try:
            self._outbound.cancel(work, order.why, patience_s)
        except StdinRefused:
            self._give_up_on(work, Outcome.STOPPED, "its worker does not read, and was restarted")
        else:
            asyncio.get_running_loop().call_later(patience_s, self._not_let_go, work, patience_s)
        return None

    def _not_let_go(self, work: Work, patience_s: float) -> None:
        if self._assignments.get(work.key) is work:
            why = f"its worker did not let go of it within {patience_s:g} s, and was restarted"
            self._give_up_on(work, Outcome.STOPPED, why)

    # --- a fresh one
    async def renew(self, order: RenewAgent) -> None:
        """Replace the worker. Work that it hands over is told to the next by an order of its own; other work is offered
        again."""
        await self._replace((Outcome.STOPPED, f"its worker was replaced: {order.why}"), order.why, quiet=True)

    async def restart(self, why: str) -> None:
        await self._replace((Outcome.FAILED, f"its worker was restarted: {why}"), why, quiet=False)

    async def _replace(self, blame: tuple[Outcome, str], why: str, *, quiet: bool) -> None:
        if self._stopping:
            return
        self._blame = blame
        try:
            await self.keeper.replace(self.agent, why, quiet=quiet)
        finally:
            self._blame = None

    # --- from outside
    def pulse(self) -> str | None:
        return self._signs.take(self.worker.life)

    def let_go(self, key: int) -> None:
        """Acknowledge the worker's completion, now that it is on disk. A worker that still has a message which was
        cancelled is restarted: nobody waits for its answer any more, and it must not be given the next one."""
        work = self._unacked.pop(key, None)
        if work is not None:
            self._outbound.ack("complete", work)
        held = self._assignments.drop(key)
        if held is not None and held.called_off:
            self._give_up_on(held, Outcome.STOPPED, "was cancelled, and its worker had not let go of it")

    # --- the end
    async def drain(self, drain_s: float) -> None:
        self._ends_because = "it is no longer in ackd.toml"
        await self.stop(drain_s)

    async def stop(self, drain_s: float) -> None:
        """Ask the worker to end. It may finish or hand over its work for ``drain_s``; the rest is offered again."""
        self._stopping = True
        self.keeper.retire(self.agent)
        self.worker.say_farewell()
        with anyio.move_on_after(drain_s):
            while self.has_work():
                self._eased = anyio.Event()
                await self._eased.wait()
        self._blame = (Outcome.STOPPED, f"its worker was ended: {self._ends_because}")
        await self.keeper.stop(self.agent, self._ends_because)

    def has_work(self) -> bool:
        return any(not work.handed_over for work in self._assignments)

    # --- what the worker says and how it ends
    async def _heard(self, line: OutputLine) -> None:
        now = self.services.clock.now()
        try:
            if line.cut:
                raise worker_json.too_long()
            said = worker_json.decode(line.data)
        except BadLine as bad:  # a worker that writes one is alive
            self.services.post(SignOfLife(self.agent, "a line that says nothing"))
            if not self.aside(line.data):
                self._answer_bad(line.data, bad, now.mono)
            return
        if said.naive_time and not self._naive_time_told:
            self._naive_time_told = True
            self.services.record(naive_time(agent=self.agent, text=shown(line.data)))
        await self._inbound.hear(said, line.data, self.worker.generation, now.mono)
        self._eased.set()

    def _answer_bad(self, line: bytes, bad: BadLine, now: float) -> None:
        held = self._bad_lines.let_through(now)
        if held is None:
            return
        said: dict[str, Any] = {"agent": self.agent, "text": shown(line), "error": str(bad)}
        self.services.record(bad_line(**(said | ({"held_back": held} if held else {}))))
        self._outbound.complain(bad, line)

    def _acked(self, of: str, work: Work) -> None:
        """Acknowledge a completion when it is committed (``let_go``), everything else at once."""
        if of == "complete":
            self._unacked[work.key] = work
        else:
            self._outbound.ack(of, work)

    def _ended(self, ended: Exit, asked: bool) -> None:
        """Called after the last words of a worker that has ended: give back its work."""
        self._unacked.clear()
        if self._carrying:
            return
        for work in [work for work in self._assignments if work.handed_over and (asked or ended.code == 0)]:
            self._give_back_one(work, Outcome.STOPPED, "its worker handed over, and ended")
        if asked:
            self._give_back(*(self._blame or (Outcome.STOPPED, "its worker was stopped")))
        elif ended.code == 0:
            self._give_back(Outcome.FAILED, "its worker ended (exit 0) before it was through")
        else:
            self._give_back(Outcome.FAILED, f"its worker died: {ended.why}")

    def _time_is_up(self, work: Work) -> None:
        self._give_up_on(work, Outcome.FAILED, f"timed out after {work.timeout_s:g} s")

    def _give_up_on(self, work: Work, outcome: Outcome, why: str) -> None:
        """Give back the work and restart the worker: it is still busy with it, and only its end frees it.

        The work of a pool is given back after that end: another member may be told of it at once.
        """
        ended = RunEnded(work.key, outcome, why, work.attempt)
        is_new = not self._stopping and self._outgoing is None
        waits = is_new and bool(work.message.pool)
        self._assignments.drop(work.key)
        self._eased.set()
        if not waits:
            self.services.post(ended)
        if is_new:
            self._outgoing = anyio.Event()
            said = f"{work.task_id} {why}"
            self.services.tasks.start_soon(
                self._see_off, said, ended if waits else None, name=f"restart of {self.agent}"
            )

    async def _see_off(self, why: str, then: RunEnded | None) -> None:
        outgoing = self._outgoing
        try:
            await self.restart(why)
        finally:
            self._outgoing = None
            if then is not None:
                self.services.post(then)
            if outgoing is not None:
                outgoing.set()

    def _give_back(self, outcome: Outcome, detail: str) -> None:
        for work in self._assignments:
            self._give_back_one(work, outcome, detail)

    def _give_back_one(self, work: Work, outcome: Outcome, detail: str) -> None:
        self._assignments.drop(work.key)
        self._eased.set()
        self.services.post(RunEnded(work.key, outcome, detail, work.attempt))

    # --- small
    def _farewell(self) -> bytes:
        return self._outbound.farewell(self._ends_because if self._stopping else "a fresh worker takes over")

    def _name(self) -> str:
        return f"pid {self.worker.life.pid}" if self.worker.life is not None else "nobody"
