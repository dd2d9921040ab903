"""The three ways in which a stage worker runs: as one run of a command, as a child process, in a tmux pane.

Each kind wraps the endpoint that agents of that kind have anyway, and adds what the pipeline needs of a worker:
starting it, asking for its status, reading the reports that it prints, and ending it. The engine is not told of these
workers' lives, because the pipeline itself decides when to check on one and when to replace it. Nothing here knows
about stories.

Starting fails with ``CannotStart``. A message that cannot be told fails by the answer, as with every endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from ackd.coordination.pipeline import wire as stage_text
from ackd.coordination.pipeline.rules.record import Result
from ackd.coordination.pipeline.rules.stage_words import StandsAt
from ackd.coordination.pipeline.wire import BadStageText
from ackd.core.errors import CannotStart
from ackd.core.events import Outcome
from ackd.system.process_tree import SIGN_CPU_S
from ackd.system.processes import NoProgramError, find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ackd.coordination.pipeline.rules.stage_names import TextRules
    from ackd.core.effects import TellAgent
    from ackd.core.message import Message
    from ackd.core.ports import Keeper, TellAnswer
    from ackd.endpoints.exec.endpoint import ExecEndpoint
    from ackd.endpoints.making import FoundRun
    from ackd.endpoints.process.endpoint import ProcessEndpoint
    from ackd.endpoints.tmux.endpoint import TerminalEndpoint
    from ackd.system.process_tree import ProcessTable

#: The key of a run that a restart has found. The daemon that told it is gone, so no message key is known for it.
RUN: Final = 1
#: Runs are found by their session id. The mark is for children; processes without one have the empty mark, so a mark
#: that nobody has selects by session alone.
_NO_MARK: Final = "none"
#: The most pieces of a run's output that are read in one look: while it runs, and when it is over.
_PIECES: Final = 16
_PIECES_OVER: Final = 1_000
#: An unfinished line is kept up to this length. A longer one is no report.
_LONGEST_BYTES: Final = 262_144


# --- printed lines ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PrintedWord:
    """A printed line that is meant for the lead: the ``nth`` of its worker, from 1.

    ``clear``: the lead understands it. Otherwise it only resembles a report, and the lead asks about it.
    """

    text: str
    nth: int
    clear: bool


@dataclass(eq=False)
class PrintedWords:
    """Finds the lines for the lead among everything that a worker prints.

    The lines are numbered. Output that is read again after a restart gets the same numbers, and so becomes mail with
    the same ids. Of several unclear lines that nobody has taken yet only the last is kept, and a clear one replaces
    them.

    ``reports``: a report is passed on as soon as it is printed. Otherwise only statuses are, and the last report counts
    when the worker ends.
    """

    rules: TextRules
    reports: bool
    #: Lines that nobody has taken yet, in order.
    waiting: list[PrintedWord] = field(default_factory=list, init=False)
    _count: int = field(default=0, init=False)
    _rest: bytes = field(default=b"", init=False)

    def read_line(self, line: bytes) -> bool:
        """Return whether the line was meant for the lead."""
        text = line.decode(errors="replace").strip()
        word = stage_text.word_in(text, *self.rules)
        if word is None:
            return False
        self._count += 1
        said = PrintedWord(text, self._count, clear=not isinstance(word, BadStageText))
        self.waiting = [one for one in self.waiting if one.clear]
        if not said.clear or self.reports or isinstance(word, StandsAt):
            self.waiting.append(said)
        return True

    def read(self, data: bytes, *, last: bool) -> None:
        """Read a piece of the output. ``last``: nothing follows, so the last line needs no line end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.read_line(line)
        if last and self._rest:
            self.read_line(self._rest)
            self._rest = b""
        self._rest = self._rest[-_LONGEST_BYTES:]

    def mark_taken(self, said: PrintedWord) -> None:
        self.waiting = [one for one in self.waiting if one is not said]


# --- the kinds --------------------------------------------------------------------------------------------------------
class WorkerProcess(Protocol):
    """A worker of any kind."""

    #: True if all mail is told to it, False if only its Execute is. Then its command line and hooks ask for the
    #: rest.
    reads_mail: bool
    #: True if a later daemon finds it by a mark of its own. Otherwise it is known by the files of its run, or has ended
    #: with the daemon.
    is_marked: bool
    #: True if a worker that shows no sign of life may just be working. Then only its own table says how long it may be
    #: quiet.
    works_silently: bool

    async def start(self) -> None:
        """Return when it can be told. CannotStart."""

    async def tell(self, order: TellAgent) -> TellAnswer: ...

    async def ask(self, text: str) -> None:
        """Pass on a status check, if this kind has a way besides mail."""

    def acknowledge(self, text: str) -> None:
        """Pass on the ACK, if this kind has a way besides mail."""

    def pulse(self) -> str | None:
        """Return the sign of life since the last call, if there was one."""

    async def end(self, why: str) -> None:
        """End it; nothing of it is left when this returns."""

    async def stop(self, drain_s: float) -> None:
        """Stop serving it because the daemon ends. A kind that outlives the daemon goes on."""

    def has_work(self) -> bool:
        """Tell whether ``stop`` would let something finish."""

    def printed(self, key: int) -> str:
        """Return the output that may hold its last report; empty for kinds whose reports are passed on when printed."""

    def words(self) -> list[PrintedWord]:
        """Return the printed lines for the lead that nobody has taken yet."""

    def mark_taken(self, said: PrintedWord) -> None: ...


class CommandProcess:
    """A single run of a command. It outlives the daemon, under its shim."""

    reads_mail = False
    is_marked = False
    works_silently = True

    def __init__(self, *, endpoint: ExecEndpoint, table: ProcessTable, rules: TextRules) -> None:
        self.endpoint, self.table = endpoint, table
        self.printed_words = PrintedWords(rules, reports=False)
        self._measured: tuple[int, float] = (0, 0.0)
        self._read_bytes, self._key = 0, RUN

    async def start(self) -> None:
        """Only check that the program exists: the run begins with its Execute."""
        try:
            find_program(self.endpoint.command[0], self.endpoint.cwd, self.endpoint.env)
        except NoProgramError as missing:
            raise CannotStart(str(missing)) from None

    async def tell(self, order: TellAgent) -> TellAnswer:
        self._key = order.key
        return await self.endpoint.tell(order)

    async def ask(self, text: str) -> None:
        """Do nothing: a command looks for the flag file that ACKD_STATUS_CHECK names."""

    def acknowledge(self, text: str) -> None:
        """Do nothing: `ackd stage report` waits for the ACK in the story's record."""

    def words(self) -> list[PrintedWord]:
        over = self._key in self.endpoint.ended_keys()
        for _ in range(_PIECES_OVER if over else _PIECES):  # a flood of output is read on with the next look
            data, self._read_bytes = self.endpoint.printed_since(self._key, self._read_bytes)
            self.printed_words.read(data, last=over and not data)
            if not data:
                break
        return list(self.printed_words.waiting)

    def mark_taken(self, said: PrintedWord) -> None:
        self.printed_words.mark_taken(said)

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
        for key in list(self.endpoint.ended_keys()):
            self.endpoint.forget(key)

    def has_work(self) -> bool:
        return self.endpoint.has_work()

    async def stop(self, drain_s: float) -> None:
        await self.endpoint.stop(drain_s)


class StdinProcess:
    """A child that is told by lines on its stdin. It ends with the daemon.

    A printed line for the lead is kept from the worker protocol, and ``spoke`` is called at once.
    """

    reads_mail = False
    is_marked = False
    works_silently = False

    def __init__(
        self,
        *,
        agent: str,
        endpoint: ProcessEndpoint,
        supervisor: Keeper,
        rules: TextRules,
        spoke: Callable[[], None],
    ) -> None:
        self.agent, self.endpoint, self.supervisor = agent, endpoint, supervisor
        self.printed_words = PrintedWords(rules, reports=True)
        self._spoke = spoke
        endpoint.aside = self._read_line

    def _read_line(self, line: bytes) -> bool:
        if not self.printed_words.read_line(line):
            return False
        self._spoke()
        return True

    def printed(self, key: int) -> str:  # noqa: ARG002 - its reports were passed on when they were printed
        return ""

    def words(self) -> list[PrintedWord]:
        return list(self.printed_words.waiting)

    def mark_taken(self, said: PrintedWord) -> None:
        self.printed_words.mark_taken(said)

    async def start(self) -> None:
        await self.supervisor.ready(self.agent)

    async def tell(self, order: TellAgent) -> TellAnswer:
        return await self.endpoint.tell(order)

    async def ask(self, text: str) -> None:
        self.endpoint.ask(text)

    def acknowledge(self, text: str) -> None:
        self.endpoint.acknowledge(text)

    def pulse(self) -> str | None:
        return self.endpoint.pulse()

    async def end(self, why: str) -> None:  # noqa: ARG002 - the shutdown_request has told the child why
        await self.endpoint.stop(0)
        await self.supervisor.shutdown()

    def has_work(self) -> bool:
        return self.endpoint.has_work()

    async def stop(self, drain_s: float) -> None:
        await self.endpoint.stop(drain_s)
        await self.supervisor.shutdown()


class PaneProcess:
    """An agent in a tmux pane of its own. It outlives the daemon, and reads its mail as every agent in a pane does."""

    reads_mail = True
    is_marked = True
    works_silently = False

    def __init__(
        self,
        *,
        agent: str,
        endpoint: TerminalEndpoint,
        supervisor: Keeper,
        line: Callable[[Message, Path], str],
    ) -> None:
        self.agent, self.endpoint, self.supervisor = agent, endpoint, supervisor
        endpoint.opening = line

    async def start(self) -> None:
        await self.supervisor.ready(self.agent)

    async def is_open(self) -> bool:
        """Return whether a live pane carries this worker's mark. One that cannot be looked for counts as gone."""
        try:
            panes = await self.endpoint.tmux.panes()
        except OSError:
            return False
        return any(pane.agent == self.endpoint.finder.owner and not pane.dead for pane in panes)

    async def tell(self, order: TellAgent) -> TellAnswer:
        return await self.endpoint.tell(order)

    async def ask(self, text: str) -> None:
        """Do nothing: the status check is typed as mail."""

    def acknowledge(self, text: str) -> None:
        """Do nothing: the ACK is typed as mail."""

    def words(self) -> list[PrintedWord]:
        """Return nothing: a screen is not read for reports."""
        return []

    def mark_taken(self, said: PrintedWord) -> None: ...

    def printed(self, key: int) -> str:  # noqa: ARG002 - a screen is not read for reports
        return ""

    def pulse(self) -> str | None:
        return self.endpoint.pulse()

    async def end(self, why: str) -> None:
        await self.endpoint.stop(0)
        await self.supervisor.stop(self.agent, why)
        await self.supervisor.shutdown()

    def has_work(self) -> bool:
        return self.endpoint.has_work()

    async def stop(self, drain_s: float) -> None:
        await self.endpoint.stop(drain_s)
        await self.supervisor.shutdown()


#: The kinds, by the word in ``[pipeline.worker] endpoint``.
KINDS: Final[Mapping[str, type[CommandProcess | StdinProcess | PaneProcess]]] = {
    "exec": CommandProcess,
    "process": StdinProcess,
    "tmux": PaneProcess,
}


def result_of_end(outcome: Outcome) -> Result:
    """Tell a lost worker from a crashed one. A run that we ended, or that was hindered, is not the worker's fault."""
    return Result.LOST if outcome in (Outcome.STOPPED, Outcome.HINDERED) else Result.CRASHED
