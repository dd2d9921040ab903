"""Carries out a person's requests about an agent, which come through receipts/: pause, resume, start, stop, restart,
nudge.

Requests about one agent are carried out in order, those about several side by side. Each is answered by a log line
(``agent_request``), which the command that asked waits for; when the line is there, the status page says the same. A
receipt is removed when its effect is on disk, or when there can be none: after a crash before that it is heard again.

Paused agents are kept by ``Pauses``. The engine is told of a pause as soon as the agent joins, so that nothing is
offered to it after a restart. A stopped agent is paused, too: its mail waits, and its end alarms nobody. Processes are
started and ended by the ``Supervision``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from ackd.config.site import ALWAYS
from ackd.core import events
from ackd.core.agent_facts import agent_request
from ackd.core.daemon_facts import io_error
from ackd.core.errors import CannotStart
from ackd.core.escalations import stamp
from ackd.core.message import MONITOR, USER, ReceiptKind
from ackd.core.requests import refusal
from ackd.endpoints import registry
from ackd.storage.paused import BadPauses, Pause
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.core.message import Receipt, ReceiptFile
    from ackd.core.ports import Services
    from ackd.core.state import Deliveries
    from ackd.storage.paused import Pauses
    from ackd.storage.spool import Spool

K = ReceiptKind

#: The reason that the log gives for a restart by a person.
BY_HAND = "by hand"


class Supervision(Protocol):
    """Starts and ends agents. Each call returns when it is done, where that makes sense with a name for the result
    ("pid 4242"), or raises ``CannotStart`` with the reason."""

    def keeps(self, agent: str) -> bool:
        """Tell whether ackd may start and end the agent. A pane that was only found is not ours."""

    def start(self, agent: str) -> Awaitable[str | None]: ...

    def stop(self, agent: str) -> Awaitable[str | None]: ...

    def restart(self, agent: str, why: str, *, wanted: bool) -> Awaitable[str | None]: ...


class NoSupervision:
    """Supervises no agent, and refuses every request."""

    def keeps(self, agent: str) -> bool:  # noqa: ARG002 - the protocol's signature
        return False

    async def start(self, agent: str) -> str | None:
        raise CannotStart(f"nobody keeps {agent} alive")

    stop = start

    async def restart(self, agent: str, why: str, *, wanted: bool) -> str | None:  # noqa: ARG002
        return await self.start(agent)


@dataclass(frozen=True, slots=True)
class _Answer:
    words: str
    refused: bool = False


@dataclass(kw_only=True)
class AgentRequests:
    spool: Spool
    deliveries: Deliveries
    services: Services
    #: Returns the agent of that name, or None.
    called: Callable[[str], str | None]
    pauses: Pauses
    supervisor: Supervision
    #: Returns when everything posted so far is decided, and shown on the status page.
    shown: Callable[[], Awaitable[None]]
    #: Receipts that are being carried out, and answered ones whose removal the disk refused.
    _under_way: set[ReceiptFile] = field(default_factory=set)
    _answered: set[ReceiptFile] = field(default_factory=set)
    _turns: dict[str, anyio.Lock] = field(default_factory=dict)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)
    #: Agents that the engine knows to be paused.
    _said: set[str] = field(default_factory=set)
    _loaded: bool = False
    #: The error if the file of pauses cannot be read. All agents are then paused.
    unknown: str = ""

    # --- at start -----------------------------------------------------------------------------------------------------
    def load(self) -> None:
        """Load the pauses. From now on, agents that join are paused if they were before.

        Called when the log has its first line, which must not be about a pause.
        """
        self._loaded = True
        try:
            self.pauses.load()
        except (OSError, BadPauses) as error:
            self.unknown = str(error)
            self.services.record(io_error(what="who is paused", error=self.unknown))

    def joined(self, agent: str) -> None:
        """Pause an agent that was paused before this start. Called before any of its mail is met.

        If the pauses cannot be read, every agent counts as paused, because a broken file must not undo a person's
        request. Excepted are the agents that are always there: the person, who is told of it, and ackd's own.
        """
        if self._loaded and self.unknown and agent not in ALWAYS:
            pause = Pause(stamp(self.services.clock.now().wall), MONITOR, stopped=self.supervisor.keeps(agent))
            self.pauses.assume(agent, pause)
        if self._loaded and agent in self.pauses and agent not in self._said:
            self._said.add(agent)
            self.services.post(events.AgentPaused(agent))

    # --- requests -----------------------------------------------------------------------------------------------------
    def take(self, receipt: Receipt) -> None:
        if receipt.receipt_file in self._answered:
            self._remove(receipt.receipt_file)
        elif receipt.receipt_file not in self._under_way:
            self._under_way.add(receipt.receipt_file)
            self.services.tasks.start_soon(self._answer, receipt, name=f"{receipt.kind.value} {receipt.agent}")

    async def _answer(self, receipt: Receipt) -> None:
        name = receipt.agent or ""
        try:
            async with self._turn_of(self.called(name)):
                answer = await self._fulfil(receipt, self.called(name))
                await self.shown()
                self._say(receipt, self.called(name) or name, answer)
        except OSError as error:  # the disk refused: the receipt stays, and the next scan finds it again
            self.services.record(io_error(what=f"{receipt.kind.value} {name}", error=str(error), agent=name))
        else:
            self._answered.add(receipt.receipt_file)
            self._remove(receipt.receipt_file)
        finally:
            self._under_way.discard(receipt.receipt_file)

    def _turn_of(self, agent: str | None) -> anyio.Lock:
        """Return the lock that orders the agent's requests. For an unknown name it is a new one that is not kept:
        there is no end of unknown names."""
        return anyio.Lock() if agent is None else self._turns.setdefault(agent, anyio.Lock())

    async def _fulfil(self, receipt: Receipt, agent: str | None) -> _Answer:
        if agent is None:
            return _Answer("no agent of that name", refused=True)
        endpoint = self.deliveries.agents[agent].endpoint
        if (why_not := refusal(receipt.kind, agent, endpoint, registry.lifeless(endpoint))) is not None:
            return _Answer(why_not, refused=True)
        match receipt.kind:
            case K.PAUSE:
                return await self._pause(agent, receipt.by or USER)
            case K.RESUME:
                return await self._resume(agent)
            case K.NUDGE:
                self.services.post(events.NudgeAsked(agent))
                return _Answer("asked")  # the engine logs the result in a line of its own
            case _:
                return await self._change_life(receipt.kind, agent, receipt.by or USER)

    async def _pause(self, agent: str, by: str, *, stopped: bool = False) -> _Answer:
        pause = Pause(stamp(self.services.clock.now().wall), by, stopped)
        new = await self._written(self.pauses.add, agent, pause)
        self._said.add(agent)
        self.services.post(events.AgentPaused(agent))
        return _Answer("paused: its mail waits" if new else "was paused already")

    async def _resume(self, agent: str) -> _Answer:
        """Resume an agent that is paused, parked or down: a person calls it fit. A stopped agent is started."""
        if self.pauses.is_stopped(agent) and self.supervisor.keeps(agent):  # else its endpoint is another one now
            return await self._change_life(K.START, agent, USER)
        before = "paused" if agent in self.pauses else self.deliveries.agents[agent].state.value
        await self._end_pause(agent)
        return _Answer(f"resumed: it was {before}")

    async def _end_pause(self, agent: str) -> None:
        await self._written(self.pauses.remove, agent)
        self._said.discard(agent)
        self.services.post(events.AgentResumed(agent))

    async def _written(self, change: Callable[..., bool], *about: object) -> bool:
        """Change the file of pauses in a thread, because the change is flushed.

        Changes are made one after the other, because all pauses are in one file. A change that has begun is finished
        even if the task is cancelled; otherwise it could be on disk without anybody having been told.
        """
        async with self._writing:
            with anyio.CancelScope(shield=True):
                changed = await in_thread(change, *about)
        return changed

    # --- start, stop, restart -----------------------------------------------------------------------------------------
    async def _change_life(self, kind: ReceiptKind, agent: str, by: str) -> _Answer:
        if not self.supervisor.keeps(agent):
            return _Answer(f"ackd did not start {agent}: start and end it where it lives", refused=True)
        try:
            match kind:
                case K.STOP:
                    return await self._stop(agent, by)
                case K.START:
                    return await self._started("started", agent, await self.supervisor.start(agent))
                case _:
                    detail = await self.supervisor.restart(agent, BY_HAND, wanted=True)
                    return await self._started("restarted", agent, detail)
        except CannotStart as error:
            return _Answer(str(error), refused=True)

    async def _stop(self, agent: str, by: str) -> _Answer:
        """Pause the agent, then end it. Once it is paused, nobody is alarmed by its end."""
        await self._pause(agent, by, stopped=True)
        await self.supervisor.stop(agent)
        return _Answer("stopped: its mail waits")

    async def _started(self, done: str, agent: str, detail: str | None) -> _Answer:
        words = f"{done}: {detail}" if detail else done
        if self.pauses.is_stopped(agent):
            await self._end_pause(agent)
        elif agent in self.pauses:
            words += "; it is paused still"
        return _Answer(words)

    # --- answers ------------------------------------------------------------------------------------------------------
    def _say(self, receipt: Receipt, agent: str, answer: _Answer) -> None:
        data: dict[str, Any] = {"agent": agent, "request": receipt.kind.value, "by": receipt.by or USER}
        data |= {"answer": answer.words, "receipt": receipt.name}
        self.services.record(agent_request(**({**data, "refused": True} if answer.refused else data)))

    def _remove(self, receipt_file: ReceiptFile) -> None:
        try:
            self.spool.remove_receipt(*receipt_file)
        except OSError as error:
            self.services.record(io_error(what=f"receipt {receipt_file.name}", error=str(error)))
        else:
            self._answered.discard(receipt_file)
