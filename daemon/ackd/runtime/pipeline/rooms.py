"""Where one try's worker lives: a run of a command, a child, a pane. One room for each try, and none after it.

Owns how each kind is started, told, heard and ended, behind the endpoints that agents of that kind have anyway; the
engine hears nothing of their lives, for a worker's ladder is the lead's. Refuses to know stories. Fails with
``CannotStart``; what is told fails by answering, as endpoints do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from ackd.core.errors import CannotStart
from ackd.core.events import Outcome
from ackd.core.story_record import Result
from ackd.processes import NoProgramError, find_program
from ackd.runtime.pipeline.ear import Ear
from ackd.runtime.workers.pulse import SIGN_CPU_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.adapters.exec_runs import ExecEndpoint, FoundRun
    from ackd.adapters.process_tree import ProcessTable
    from ackd.core.effects import TellAgent
    from ackd.core.message import Message
    from ackd.core.stage_words import TextRules
    from ackd.ports import TellAnswer
    from ackd.runtime.pipeline.ear import Printed
    from ackd.runtime.quarters import Quarters
    from ackd.runtime.terminals import TerminalEndpoint
    from ackd.runtime.workers import ProcessEndpoint

#: The key of a run that a restart has found: whoever told it is gone, and its endpoint has no other.
RUN: Final = 1
#: Runs are found by their session; and processes without a mark have the empty one.
_NO_MARK: Final = "none"
#: Of a run's output, so many pieces are read at a look; and of one that is over, all that is ever kept.
_PIECES: Final = 16
_PIECES_OVER: Final = 1_000


@dataclass(frozen=True, slots=True)
class Over:
    """How a worker came to its end, and its report, if it printed one."""

    how: Result
    why: str
    report: str | None = None


@dataclass(eq=False)
class Room:
    """What the lead knows of a worker that lives. ``told``: its Execute was handed over; ``flagged``: the flag that
    stands for that is this daemon's own; ``babbled``: it printed what was meant for its lead, and is no word; times are
    monotonic."""

    story_id: str
    stage: int
    generation: int
    agent: str
    life: Life
    told: bool = False
    flagged: bool = False
    babbled: bool = False
    over: Over | None = None
    seen_at: float = field(default_factory=anyio.current_time)
    asked_at: float | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.story_id, self.generation

    def about(self) -> dict[str, object]:
        return {"story": self.story_id, "stage": self.stage, "agent": self.agent, "generation": self.generation}


class Life(Protocol):
    #: Whether all mail is put before it, or only its Execute: the rest is for its command line and hooks to ask for.
    reads_mail: bool

    async def start(self) -> None:
        """Returns when it can be told. CannotStart."""

    async def tell(self, order: TellAgent) -> TellAnswer: ...

    async def ask(self, text: str) -> None:
        """A status check, where it can be put otherwise than by mail."""

    def pulse(self) -> str | None:
        """A sign of life since this was asked last."""

    async def end(self, why: str) -> None:
        """Nothing of it is left when this returns."""

    async def stop(self, drain_s: float) -> None:
        """The daemon ends: what outlives it is left alone."""

    def printed(self, key: int) -> str:
        """Of all that it printed, what may hold its report; nothing of who is heard while it speaks."""

    def words(self) -> list[Printed]:
        """What it has printed for its lead, and nobody has taken yet: mostly a report or a status."""

    def took(self, said: Printed) -> None: ...

    def acknowledge(self, text: str) -> None:
        """The ACK, where it can be put otherwise than by mail."""

    def forget(self) -> None:
        """What it left behind was heard, and is kept elsewhere."""


class RunLife:
    """One run of a command. It outlives the daemon, under its shim."""

    reads_mail = False

    def __init__(self, endpoint: ExecEndpoint, table: ProcessTable, rules: TextRules) -> None:
        self.endpoint, self.table = endpoint, table
        self.ear = Ear(rules, reports=False)
        self._measured: tuple[int, float] = (0, 0.0)
        self._read_bytes, self._key = 0, RUN

    async def start(self) -> None:
        try:
            find_program(self.endpoint.command[0], self.endpoint.cwd, self.endpoint.env)
        except NoProgramError as missing:
            raise CannotStart(str(missing)) from None

    async def tell(self, order: TellAgent) -> TellAnswer:
        self._key = order.key
        return await self.endpoint.tell(order)

    async def ask(self, text: str) -> None:
        """A command is asked by its flag (ACKD_STATUS_CHECK), as all are."""

    def acknowledge(self, text: str) -> None:
        """Its command line waits for that."""

    def words(self) -> list[Printed]:
        """A report is for its end: the last one counts."""
        over = self._key in self.endpoint.ended_keys()
        for _ in range(_PIECES_OVER if over else _PIECES):  # one that floods is read with the next look
            data, self._read_bytes = self.endpoint.printed_since(self._key, self._read_bytes)
            self.ear.hear_some(data, last=over and not data)
            if not data:
                break
        return list(self.ear.waiting)

    def took(self, said: Printed) -> None:
        self.ear.took(said)

    def adopt(self, found: FoundRun) -> None:
        self.endpoint.adopt(RUN, found)

    def pulse(self) -> str | None:
        before = self._measured
        leaders = self.endpoint.leaders()
        used_s = sum(self.table.cpu_s(pid, _NO_MARK) for pid, _ in leaders)
        self._measured = sum(size for _, size in leaders), used_s
        if self._measured[0] != before[0]:
            return "output"
        return "CPU time" if used_s - before[1] >= SIGN_CPU_S else None

    def printed(self, key: int) -> str:
        return self.endpoint.printed(key).decode(errors="replace")

    async def end(self, why: str) -> None:
        await self.endpoint.end(why)
        self.forget()

    async def stop(self, drain_s: float) -> None:
        await self.endpoint.stop(drain_s)

    def forget(self) -> None:
        for key in list(self.endpoint.ended_keys()):
            self.endpoint.forget(key)


class ChildLife:
    """A child that is told by lines. It ends with the daemon. A line that is meant for its lead is none of the worker
    protocol, and ``spoke`` says at once that it is there."""

    reads_mail = False

    def __init__(
        self, agent: str, endpoint: ProcessEndpoint, quarters: Quarters, rules: TextRules, spoke: Callable[[], None]
    ) -> None:
        self.agent, self.endpoint, self.quarters = agent, endpoint, quarters
        self.ear = Ear(rules, reports=True)
        self._spoke = spoke
        endpoint.aside = self._hear

    def _hear(self, line: bytes) -> bool:
        if not self.ear.hear(line):
            return False
        self._spoke()
        return True

    def printed(self, key: int) -> str:  # noqa: ARG002 - it was heard when it spoke
        return ""

    def words(self) -> list[Printed]:
        return list(self.ear.waiting)

    def took(self, said: Printed) -> None:
        self.ear.took(said)

    async def start(self) -> None:
        await self.quarters.supervisor.ready(self.agent)

    async def tell(self, order: TellAgent) -> TellAnswer:
        return await self.endpoint.tell(order)

    async def ask(self, text: str) -> None:
        self.endpoint.ask(text)

    def acknowledge(self, text: str) -> None:
        self.endpoint.acknowledge(text)

    def pulse(self) -> str | None:
        return self.endpoint.pulse()

    async def end(self, why: str) -> None:  # noqa: ARG002 - a child is told by its farewell
        await self.endpoint.stop(0)
        await self.quarters.supervisor.shutdown()

    async def stop(self, drain_s: float) -> None:
        await self.endpoint.stop(drain_s)
        await self.quarters.supervisor.shutdown()

    def forget(self) -> None: ...


class PaneLife:
    """A pane of its own. It outlives the daemon, and reads its mail as every agent in a pane does."""

    reads_mail = True

    def __init__(
        self, agent: str, endpoint: TerminalEndpoint, quarters: Quarters, line: Callable[[Message, Path], str]
    ) -> None:
        self.agent, self.endpoint, self.quarters = agent, endpoint, quarters
        endpoint.opening = line

    async def start(self) -> None:
        await self.quarters.supervisor.ready(self.agent)

    async def tell(self, order: TellAgent) -> TellAnswer:
        return await self.endpoint.tell(order)

    async def ask(self, text: str) -> None:
        """It is typed, with its mail."""

    def acknowledge(self, text: str) -> None:
        """The same."""

    def words(self) -> list[Printed]:
        """A screen says nothing to the lead."""
        return []

    def took(self, said: Printed) -> None: ...

    def printed(self, key: int) -> str:  # noqa: ARG002 - a screen is no report
        return ""

    def pulse(self) -> str | None:
        return self.endpoint.pulse()

    async def end(self, why: str) -> None:
        await self.endpoint.stop(0)
        await self.quarters.supervisor.stop(self.agent, why)
        await self.quarters.supervisor.shutdown()

    async def stop(self, drain_s: float) -> None:
        await self.endpoint.stop(drain_s)
        await self.quarters.supervisor.shutdown()

    def forget(self) -> None: ...


def how_it_ended(outcome: Outcome, detail: str) -> tuple[Result, str]:
    """A run or a task that is over, without a word about a report. Ended by us, or hindered, is nobody's fault."""
    return (Result.LOST if outcome in (Outcome.STOPPED, Outcome.HINDERED) else Result.CRASHED), detail
