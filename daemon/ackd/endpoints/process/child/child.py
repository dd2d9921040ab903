"""A child that can be started again and again (``Child``), and one process of it at a time (``ChildProcess``).

A ``ChildProcess`` lasts from its start until nothing of it is left: the process itself, its pipes, and everything that
belongs to it. Its death is seen by its pidfd, because asyncio's ``Process.wait()`` hangs while a grandchild holds
stdout (cpython gh-119710). It stays a zombie of ours until everything that it left behind is ended, so that its pid,
which is also that of its group and its session, cannot be given to another process before.

Keeping the child alive is the supervisor's; what the lines say is the endpoint's. Starting fails with ``CannotStart``,
and then nothing of it is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import secrets
import signal
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core import faults
from ackd.core.daemon_facts import io_error
from ackd.core.errors import CannotStart
from ackd.core.ports import Exit
from ackd.endpoints.process.child import leftovers
from ackd.endpoints.process.child.leftovers import ChildRecord
from ackd.endpoints.process.child.pipes import LineWriter, PipeReader, StderrLog, TextReader
from ackd.endpoints.process.child.python_path import with_worker_sdk
from ackd.endpoints.process.child.spawning import Cgroup, spawn
from ackd.system import process_tree, processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from ackd.core.ports import Record
    from ackd.endpoints.process.child.pipes import OutputLine
    from ackd.endpoints.process.child.spawning import Spawned


@dataclass(kw_only=True, eq=False)
class Child:
    """``directory``: state/children. ``logs``: where its stderr goes. ``cgroup``: ours, if we may divide it."""

    agent: str
    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    directory: Path
    logs: Path
    record: Record
    extra_env: Mapping[str, str] = field(default_factory=dict)
    cgroup: Path | None = None
    _walkers: anyio.CapacityLimiter = field(default_factory=partial(anyio.CapacityLimiter, 2), init=False)

    def __post_init__(self) -> None:
        self._log = StderrLog(self.logs / f"{self.agent}.stderr.log", partial(self._trouble, "stderr"))

    def start(self, generation: int) -> ChildProcess:
        """Raises CannotStart."""
        mark = f"{self.agent}--{secrets.token_hex(8)}"
        cgroup = self._cgroup(mark)
        entry = ChildRecord(
            self.agent, mark, processes.boot_id(), cgroup=str(cgroup.path) if cgroup is not None else None
        )
        self._write_record(entry)  # first: should we be killed in between, its mark is known
        try:
            spawned = spawn(self._command(cgroup), cwd=self.cwd, env=self._environment(mark, generation))
        except (processes.NoProgramError, OSError, ValueError) as error:
            leftovers.remove_record(self.directory, self.agent)
            if cgroup is not None:
                cgroup.remove()
            raise self._refusal(error) from error
        pid = spawned.process.pid
        entry = dataclasses.replace(entry, pid=pid, start_ticks=_start_ticks(pid))
        self._write_record(entry)
        self._log.begin(f"[ackd] {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {self.agent} started, pid {pid}")
        return ChildProcess(
            spawned,
            entry,
            self.directory,
            self._log,
            self._walkers,
            cgroup,
            partial(self._trouble, "what is left"),
        )

    def _refusal(self, error: Exception) -> CannotStart:
        if isinstance(error, processes.NoProgramError):
            return CannotStart(str(error))
        nobodys = isinstance(error, OSError) and faults.is_nobodys(error)
        return CannotStart(f"could not start {self.command[0]}: {error}", nobodys=nobodys)

    def _command(self, cgroup: Cgroup | None) -> list[str]:
        program = processes.find_program(self.command[0], self.cwd, self.env)
        return [*(cgroup.joining() if cgroup is not None else ()), program, *self.command[1:]]

    def _environment(self, mark: str, generation: int) -> dict[str, str]:
        own = {"ACKD_AGENT": self.agent, "ACKD_GENERATION": str(generation), processes.CHILD_MARK: mark}
        return with_worker_sdk({**os.environ, **self.env, **self.extra_env, **own})

    def _cgroup(self, mark: str) -> Cgroup | None:
        cgroup = Cgroup(self.cgroup / f"ackd-{mark}") if self.cgroup is not None else None
        return cgroup if cgroup is not None and cgroup.make() else None

    def _write_record(self, entry: ChildRecord) -> None:
        """Write down the child. On a full disk it is started all the same: only if we are killed meanwhile, its
        leftovers are not found."""
        try:
            leftovers.write_record(self.directory, entry)
        except OSError as error:
            self._trouble("state/children", error)

    def _trouble(self, what: str, error: OSError) -> None:
        self.record(io_error(what=f"{what} of {self.agent}", error=str(error)))


def _start_ticks(pid: int) -> int | None:
    try:
        return processes.identity_of(pid).start_ticks
    except (OSError, ValueError, IndexError):
        return None


# --- one process ------------------------------------------------------------------------------------------------------
_WHY_CHARS: Final = 300


@dataclass(eq=False)
class ChildProcess:
    spawned: Spawned
    entry: leftovers.ChildRecord
    directory: Path
    log: StderrLog
    walkers: anyio.CapacityLimiter
    cgroup: Cgroup | None = None
    #: Called with the reason when leftover processes cannot be listed; the end is reported only after they could be.
    hindered: Callable[[OSError], None] = lambda _error: None
    exit: Exit | None = field(default=None, init=False)
    _since: float = field(default_factory=time.monotonic, init=False)
    _dead: anyio.Event = field(default_factory=anyio.Event, init=False)
    _ending: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _over: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._stdin = LineWriter(self.spawned.stdin)
        self._stdout = PipeReader(self.spawned.stdout)
        self._stderr = TextReader(self.spawned.stderr, self.log.write)
        asyncio.get_running_loop().add_reader(self.spawned.pidfd, self._note_death)

    @property
    def pid(self) -> int:
        return self.spawned.process.pid

    @property
    def mark(self) -> str:
        """The value of ``ACKD_CHILD`` in the environment of this process and all that it starts."""
        return self.entry.mark

    @property
    def alive(self) -> bool:
        return self.exit is None and not self._over and not process_tree.is_dead(self.spawned.pidfd)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since

    @property
    def heard_bytes(self) -> int:
        """The number of bytes read from both pipes so far."""
        return self._stdout.heard_bytes + self._stderr.heard_bytes

    @property
    def can_hear(self) -> bool:
        return not self._stdin.closed

    @property
    def can_speak(self) -> bool:
        return not self._stdout.closed

    def write(self, line: bytes) -> None:
        """Raises StdinRefused."""
        self._stdin.write(line)

    def close_stdin(self) -> None:
        self._stdin.close_when_read()

    def lines(self) -> AsyncIterator[OutputLine]:
        """The lines of its stdout, until that is closed or the process is dead. For one listener."""
        return self._stdout.lines()

    def interrupt(self) -> None:
        """Send SIGINT to its whole group, as Control-C at a terminal does."""
        if self.alive:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGINT)

    async def died(self) -> Exit:
        """Wait for the death of the process itself. Processes that it started may go on: see ``end``."""
        await self._dead.wait()
        assert self.exit is not None
        return self.exit

    async def end(self, stop_timeout_s: float) -> Exit:
        """Send TERM to everything that belongs to it, and KILL after ``stop_timeout_s``. Nothing of it is left then,
        unless no KILL ends it."""
        async with self._ending:
            if not self._over:
                with anyio.CancelScope(shield=True):  # it always ends; stopping half way would leave a zombie
                    await self._end(stop_timeout_s)
        return await self.died()

    async def _end(self, stop_timeout_s: float) -> None:
        tree = process_tree.ProcessTree(
            f"{processes.CHILD_MARK}={self.entry.mark}",
            session=lambda: self.pid,
            group=lambda: self.pid,
            others=self.cgroup.pids if self.cgroup is not None else tuple,
            kill=self.cgroup.kill if self.cgroup is not None else None,
            hindered=self.hindered,
        )
        cleared = await process_tree.end_tree(tree, stop_timeout_s, self.walkers)
        self._note_death()
        self._close()
        if self.cgroup is not None:
            self.cgroup.remove()
        if cleared.gone:
            leftovers.remove_record(self.directory, self.entry.agent)

    def _note_death(self) -> None:
        if self.exit is None:
            asyncio.get_running_loop().remove_reader(self.spawned.pidfd)
            code = _peek(self.pid) if process_tree.is_dead(self.spawned.pidfd) else None
            self._stdin.close()
            self._stdout.finish()
            self._stderr.finish()
            self.exit = Exit(self._why(code), code, anyio.current_time())
            self._dead.set()

    def _why(self, code: int | None) -> str:
        if code is None:
            return "no KILL ends it"
        tail = processes.last_lines(self.log.tail, _WHY_CHARS) if code else ""
        return f"{processes.exit_words(code)}: {tail}" if tail else processes.exit_words(code)

    def _close(self) -> None:
        """Close everything but stdout, which its listener closes at its end: the last lines may still be to come."""
        self._over = True
        self._stdin.close()
        self._stderr.close()
        self.log.close()
        self.spawned.process.poll()
        os.close(self.spawned.pidfd)

    def close_stdout(self) -> None:
        """Close stdout; called by its listener."""
        self._stdout.close()


def _peek(pid: int) -> int:
    """The exit code, as a shell counts it; the process stays a zombie."""
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if info is None:
        return 255
    return info.si_status if info.si_code == os.CLD_EXITED else 128 + info.si_status
