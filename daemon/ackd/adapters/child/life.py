"""One life of a child, from its start until nothing of it is left.

Owns its process, its pipes, and all that belongs to it. Its death is seen by its pidfd: asyncio's ``Process.wait()``
hangs while a grandchild holds stdout (cpython gh-119710). It stays our zombie until all that it left is ended, so that
its number, which is its group's and its session's, cannot become anyone else's before. Refuses to know what is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd import processes
from ackd.adapters.child import remnants
from ackd.adapters.child.pipes import LineReader, LineWriter, TextReader
from ackd.ports import Exit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from ackd.adapters.child.cgroup import Cgroup
    from ackd.adapters.child.pipes import Line
    from ackd.adapters.child.spawning import Spawned
    from ackd.adapters.child.stderr_log import StderrLog

_WHY_CHARS: Final = 300


@dataclass(eq=False)
class Life:
    spawned: Spawned
    remnant: remnants.Remnant
    directory: Path
    log: StderrLog
    walkers: anyio.CapacityLimiter
    cgroup: Cgroup | None = None
    #: Told why it cannot be looked for what it left: its end waits for that.
    hindered: Callable[[OSError], None] = lambda _error: None
    exit: Exit | None = field(default=None, init=False)
    _since: float = field(default_factory=time.monotonic, init=False)
    _dead: anyio.Event = field(default_factory=anyio.Event, init=False)
    _ending: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _over: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._stdin = LineWriter(self.spawned.stdin)
        self._stdout = LineReader(self.spawned.stdout)
        self._stderr = TextReader(self.spawned.stderr, self.log.write)
        asyncio.get_running_loop().add_reader(self.spawned.pidfd, self._note_death)

    @property
    def pid(self) -> int:
        return self.spawned.process.pid

    @property
    def mark(self) -> str:
        """What it and all that it starts carry in their environment, as ``ACKD_CHILD``."""
        return self.remnant.mark

    @property
    def alive(self) -> bool:
        return self.exit is None and not self._over and not processes.is_dead(self.spawned.pidfd)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since

    @property
    def heard_bytes(self) -> int:
        """On either pipe: grows while it says anything."""
        return self._stdout.heard_bytes + self._stderr.heard_bytes

    @property
    def can_hear(self) -> bool:
        return not self._stdin.closed

    @property
    def can_speak(self) -> bool:
        return not self._stdout.closed

    def write(self, line: bytes) -> None:
        """Raises CannotWrite."""
        self._stdin.write(line)

    def close_stdin(self) -> None:
        self._stdin.close_when_read()

    def lines(self) -> AsyncIterator[Line]:
        """Ends with its stdout, or its life. For one listener."""
        return self._stdout.lines()

    def interrupt(self) -> None:
        """As Control-C at a terminal: to its whole group."""
        if self.alive:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGINT)

    async def died(self) -> Exit:
        """Waits for the death of the child itself. What it started may go on: see ``end``."""
        await self._dead.wait()
        assert self.exit is not None
        return self.exit

    async def end(self, stop_timeout_s: float) -> Exit:
        """TERM to all that belongs to it, after ``stop_timeout_s`` KILL. Nothing of it is left then, unless
        no KILL ends it."""
        async with self._ending:
            if not self._over:
                with anyio.CancelScope(shield=True):  # it has an end, and half of it would be a zombie
                    await self._end(stop_timeout_s)
        return await self.died()

    async def _end(self, stop_timeout_s: float) -> None:
        brood = processes.Brood(
            f"{processes.CHILD_MARK}={self.remnant.mark}",
            session=lambda: self.pid,
            group=lambda: self.pid,
            others=self.cgroup.pids if self.cgroup is not None else tuple,
            kill=self.cgroup.kill if self.cgroup is not None else None,
            hindered=self.hindered,
        )
        cleared = await processes.clear_away(brood, stop_timeout_s, self.walkers)
        self._note_death()
        self._close()
        if self.cgroup is not None:
            self.cgroup.remove()
        if cleared.gone:
            remnants.cross_out(self.directory, self.remnant.agent)

    def _note_death(self) -> None:
        if self.exit is None:
            asyncio.get_running_loop().remove_reader(self.spawned.pidfd)
            code = _peek(self.pid) if processes.is_dead(self.spawned.pidfd) else None
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
        """Its stdout is closed by whoever listens, at its end: the last lines may still be to come."""
        self._over = True
        self._stdin.close()
        self._stderr.close()
        self.log.close()
        self.spawned.process.poll()
        os.close(self.spawned.pidfd)

    def close_stdout(self) -> None:
        """For a listener that goes away before the end."""
        self._stdout.close()


def _peek(pid: int) -> int:
    """How it ended, as the shell counts; it stays a zombie."""
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if info is None:
        return 255
    return info.si_status if info.si_code == os.CLD_EXITED else 128 + info.si_status
