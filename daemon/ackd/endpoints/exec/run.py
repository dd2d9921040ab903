"""A run under watch, from its start or its adoption until nothing of it is left.

A run has the shim's pid and pidfd, a time limit, and a way to end everything that belongs to it: TERM to each process
once, then KILL. Nothing here fails: a shim that cannot be held by a pidfd is watched by its lock, and a process that no
KILL ends is given up.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.endpoints.exec.run_files import lock_held, read_leader, read_status, write_private
from ackd.system import process_tree, processes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.core.events import Outcome

_ADOPT_WAIT_S: Final = 2.0
_LOCK_POLL_S: Final = 0.25


@dataclass(slots=True, eq=False)
class Run:
    """A run. ``ours``: this daemon started it, so ``pid`` is safe to signal as a group: our zombie keeps the number.

    ``speaks``: its end is posted. If its outcome is known already, or its message is gone, it is only waited for.
    ``forgotten``: its message has ended before it. ``left``: the processes that no KILL has ended.
    """

    key: int
    message_id: str
    digest: str
    path: Path
    timeout_s: float
    started_at: float
    attempt: int = 0
    pid: int | None = None
    pidfd: int | None = None
    ours: bool = False
    speaks: bool = True
    forgotten: bool = False
    left: frozenset[int] = frozenset()
    cause: tuple[Outcome, str] | None = None
    cut_bytes: int = 0  # bytes that were cut from its output
    since: float = field(default_factory=time.monotonic)
    time_limit: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    watch: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)

    async def gone(self) -> None:
        """Wait until the shim is dead."""
        if self.pidfd is not None:
            await process_tree.died(self.pidfd)
        while self.pidfd is None and lock_held(self.path):  # noqa: ASYNC110 - no event tells of a released flock
            await anyio.sleep(_LOCK_POLL_S)

    def is_gone(self) -> bool:
        return process_tree.is_dead(self.pidfd) if self.pidfd is not None else not lock_held(self.path)

    async def identify(self) -> None:
        """Find the shim of an adopted run, and its deadline. A shim that cannot be named is watched by its lock."""
        leader = read_leader(self.path)
        with anyio.move_on_after(_ADOPT_WAIT_S):
            while leader is None and lock_held(self.path):
                await anyio.sleep(0.02)
                leader = read_leader(self.path)
        if leader is not None:
            self.hold(leader)
        self.time_limit.deadline = anyio.current_time() + self.time_left_s(leader)

    def hold(self, leader: processes.Identity) -> None:
        """Open a pidfd of an adopted shim, if the process of that pid is still the one that wrote it down."""
        try:
            fd = os.pidfd_open(leader.pid)
        except OSError:
            return
        with contextlib.suppress(OSError, ValueError, IndexError):  # the process ended while we looked
            if processes.identity_of(leader.pid) == leader:
                self.pid, self.pidfd = leader.pid, fd
                return
        os.close(fd)

    def blame(self, outcome: Outcome, why: str) -> None:
        """Write down why we are about to end the run, unless its command has already come to its own end."""
        if self.cause is None and read_status(self.path) is None:
            self.cause = (outcome, why)
            with contextlib.suppress(OSError):  # a full disk: after a crash its exit status is then all there is
                write_private(self.path / "cause", f"{outcome.value} {why}\n".encode())

    def time_left_s(self, leader: processes.Identity | None) -> float:
        """The time that an adopted run has left: by the age of its process, which no wall clock can falsify; else by
        its spec, but never more than its whole time."""
        age = time.time() - self.started_at
        if leader is not None:
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - leader.start_ticks / os.sysconf("SC_CLK_TCK")
        return min(max(self.timeout_s - age, 0.0), self.timeout_s)

    async def clear_away(
        self, stop_timeout_s: float, walkers: anyio.CapacityLimiter, hindered: Callable[[OSError], None]
    ) -> None:
        """End all that is left of the run; mostly there is nothing. ``hindered`` is called with the reason when
        leftover processes cannot be listed."""
        mark, group = f"ACKD_RUN={self.path.name}", lambda: self.pid if self.ours else None
        tree = process_tree.ProcessTree(mark, self._session, group, hindered=hindered)
        self.left = (await process_tree.end_tree(tree, stop_timeout_s, walkers)).left

    def _session(self) -> int | None:
        return self.pid if self.ours or not self.is_gone() else None

    def reap(self) -> int | None:
        """The shim's exit status, negative for a signal; None if it was not ours to reap."""
        if not self.ours or self.pid is None:
            return None
        with contextlib.suppress(ChildProcessError):
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return None

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
