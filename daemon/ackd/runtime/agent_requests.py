"""What a person asks of an agent through receipts/: pause, resume, start, stop, restart, nudge.

Owns turning each into a call, in order for one agent and side by side for several, and the line that says what came of
it (``agent_request``), which whoever asked waits for: when it is there, the status page says the same. A receipt is
removed when its effect is on disk, or cannot be: a crash before that has it heard again. Who is paused is kept by
``Pauses``, and said to the engine as soon as the agent joins, so that nothing is offered to it after a restart. Who is
stopped is paused, too: its mail waits, and nobody need be told that it is gone. Refuses to know how a life is started
and ended (``Lives``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import anyio

from ackd.core import events
from ackd.core.errors import CannotStart
from ackd.core.escalations import stamp
from ackd.core.message import MONITOR, USER, ReceiptKind
from ackd.core.requests import refusal
from ackd.runtime.pauses import BadPauses, Pause
from ackd.site import ALWAYS
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from ackd.adapters.spool import Spool
    from ackd.core.book import Book
    from ackd.core.message import Receipt, ReceiptFile
    from ackd.ports import Clock, Post
    from ackd.runtime.pauses import Pauses

K = ReceiptKind

#: Why a restart by hand happens, for the log.
BY_HAND = "by hand"


class Lives(Protocol):
    """Whoever keeps agents alive. Each returns when it is done, with what to call it ("pid 4242") where that makes
    sense; ``CannotStart`` says why not."""

    def keeps(self, agent: str) -> bool:
        """Whether it is ours to start and end: a pane that was found is not."""

    def start(self, agent: str) -> Awaitable[str | None]: ...

    def stop(self, agent: str) -> Awaitable[str | None]: ...

    def restart(self, agent: str, why: str, *, wanted: bool) -> Awaitable[str | None]: ...


class NoLives:
    """For a team that nobody keeps alive."""

    def keeps(self, agent: str) -> bool:  # noqa: ARG002 - as its betters
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


@dataclass
class AgentRequests:
    spool: Spool
    book: Book
    clock: Clock
    post: Post
    tasks: TaskGroup
    #: The agent of that name, or None.
    called: Callable[[str], str | None]
    record: Callable[[str, dict[str, object]], None]
    pauses: Pauses
    lives: Lives
    #: Returns when what was posted so far is decided, and on the status page.
    shown: Callable[[], Awaitable[None]]
    #: Receipts in our hands, and those whose removal the disk refused.
    _under_way: set[ReceiptFile] = field(default_factory=set)
    _answered: set[ReceiptFile] = field(default_factory=set)
    _turns: dict[str, anyio.Lock] = field(default_factory=dict)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)
    #: Of whom the engine knows that they are paused.
    _said: set[str] = field(default_factory=set)
    _loaded: bool = False
    #: Why nobody knows who is paused: then everybody is.
    unknown: str = ""

    # --- at start -----------------------------------------------------------------------------------------------------
    def load(self) -> None:
        """From now on whoever joins hears of it. Not before there is a log whose first line is not a pause."""
        self._loaded = True
        try:
            self.pauses.load()
        except (OSError, BadPauses) as error:
            self.unknown = str(error)
            self.record("io_error", {"what": "who is paused", "error": self.unknown})

    def joined(self, agent: str) -> None:
        """Before any mail of its is met: it may have been paused before we were there. If nobody knows, it was: a
        person's word is not taken back by a broken file. Not the person, who hears of it, nor who answers for ackd
        itself."""
        if self._loaded and self.unknown and agent not in ALWAYS:
            pause = Pause(stamp(self.clock.now().wall), MONITOR, stopped=self.lives.keeps(agent))
            self.pauses.assume(agent, pause)
        if self._loaded and agent in self.pauses and agent not in self._said:
            self._said.add(agent)
            self.post(events.AgentPaused(agent))

    # --- requests -----------------------------------------------------------------------------------------------------
    def take(self, receipt: Receipt) -> None:
        if receipt.paper in self._answered:
            self._remove(receipt.paper)
        elif receipt.paper not in self._under_way:
            self._under_way.add(receipt.paper)
            self.tasks.start_soon(self._answer, receipt, name=f"{receipt.kind.value} {receipt.agent}")

    async def _answer(self, receipt: Receipt) -> None:
        name = receipt.agent or ""
        try:
            async with self._turn_of(self.called(name)):
                answer = await self._fulfil(receipt, self.called(name))
                await self.shown()
                self._say(receipt, self.called(name) or name, answer)
        except OSError as error:  # the disk: the receipt stays, and the next scan asks again
            self.record("io_error", {"what": f"{receipt.kind.value} {name}", "error": str(error), "agent": name})
        else:
            self._answered.add(receipt.paper)
            self._remove(receipt.paper)
        finally:
            self._under_way.discard(receipt.paper)

    def _turn_of(self, agent: str | None) -> anyio.Lock:
        """Requests in a name that nobody has, of which there is no end, wait for nobody."""
        return anyio.Lock() if agent is None else self._turns.setdefault(agent, anyio.Lock())

    async def _fulfil(self, receipt: Receipt, agent: str | None) -> _Answer:
        if agent is None:
            return _Answer("no agent of that name", refused=True)
        if (why_not := refusal(receipt.kind, agent, self.book.agents[agent].endpoint)) is not None:
            return _Answer(why_not, refused=True)
        match receipt.kind:
            case K.PAUSE:
                return await self._pause(agent, receipt.by or USER)
            case K.RESUME:
                return await self._resume(agent)
            case K.NUDGE:
                self.post(events.NudgeAsked(agent))
                return _Answer("asked")  # the engine says what came of it: a line of its own
            case _:
                return await self._change_life(receipt.kind, agent, receipt.by or USER)

    async def _pause(self, agent: str, by: str, *, stopped: bool = False) -> _Answer:
        pause = Pause(stamp(self.clock.now().wall), by, stopped)
        new = await self._written(self.pauses.add, agent, pause)
        self._said.add(agent)
        self.post(events.AgentPaused(agent))
        return _Answer("paused: its mail waits" if new else "was paused already")

    async def _resume(self, agent: str) -> _Answer:
        """Also one that is parked or down: a person says that it is fit. One that was stopped is started for it."""
        if self.pauses.is_stopped(agent):
            return await self._change_life(K.START, agent, USER)
        before = "paused" if agent in self.pauses else self.book.agents[agent].state.value
        await self._let_go_on(agent)
        return _Answer(f"resumed: it was {before}")

    async def _let_go_on(self, agent: str) -> None:
        await self._written(self.pauses.remove, agent)
        self._said.discard(agent)
        self.post(events.AgentResumed(agent))

    async def _written(self, change: Callable[..., bool], *about: object) -> bool:
        """Flushed, so in a thread; one after the other, for all are one file. Begun is finished, or a cancelled one
        would have happened unsaid."""
        async with self._writing:
            with anyio.CancelScope(shield=True):
                changed = await in_thread(change, *about)
        return changed

    # --- lives --------------------------------------------------------------------------------------------------------
    async def _change_life(self, kind: ReceiptKind, agent: str, by: str) -> _Answer:
        if not self.lives.keeps(agent):
            return _Answer(f"ackd did not start {agent}: start and end it where it lives", refused=True)
        try:
            match kind:
                case K.STOP:
                    return await self._stop(agent, by)
                case K.START:
                    return await self._started("started", agent, await self.lives.start(agent))
                case _:
                    detail = await self.lives.restart(agent, BY_HAND, wanted=True)
                    return await self._started("restarted", agent, detail)
        except CannotStart as error:
            return _Answer(str(error), refused=True)

    async def _stop(self, agent: str, by: str) -> _Answer:
        """Paused first: from then on nobody is alarmed by its end."""
        await self._pause(agent, by, stopped=True)
        await self.lives.stop(agent)
        return _Answer("stopped: its mail waits")

    async def _started(self, done: str, agent: str, detail: str | None) -> _Answer:
        words = f"{done}: {detail}" if detail else done
        if self.pauses.is_stopped(agent):
            await self._let_go_on(agent)
        elif agent in self.pauses:
            words += "; it is paused still"
        return _Answer(words)

    # --- saying -------------------------------------------------------------------------------------------------------
    def _say(self, receipt: Receipt, agent: str, answer: _Answer) -> None:
        data: dict[str, object] = {"agent": agent, "request": receipt.kind.value, "by": receipt.by or USER}
        data |= {"answer": answer.words, "receipt": receipt.name}
        self.record("agent_request", {**data, "refused": True} if answer.refused else data)

    def _remove(self, paper: ReceiptFile) -> None:
        try:
            self.spool.remove_receipt(*paper)
        except OSError as error:
            self.record("io_error", {"what": f"receipt {paper.name}", "error": str(error)})
        else:
            self._answered.discard(paper)
