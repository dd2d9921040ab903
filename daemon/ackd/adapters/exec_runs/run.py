"""One run under watch, from its start or its adoption until nothing of it is left.

Owns the shim's pid and pidfd, how long the run may still take, and the ending of all that belongs to it: TERM to each
once, then KILL. Refuses to know what its end means for the message. Fails by going on: a shim that cannot be held by a
pidfd is watched by its lock, and what no KILL ends is given up.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd import processes
from ackd.adapters.exec_runs.run_files import lock_held, read_leader, read_status, write_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.core.events import Outcome

_ADOPT_WAIT_S: Final = 2.0
_LOCK_POLL_S: Final = 0.25


@dataclass(slots=True, eq=False)
class Run:
    """One run under watch. ``pid`` is safe to signal as a group while ``ours``: our zombie keeps the number.

    ``speaks``: its end is the message's; one that was heard before, or whose message is gone, is only seen through.
    ``forgotten``: its message has ended before it. ``left``: what no KILL has ended.
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
    cut_bytes: int = 0  # of its output
    since: float = field(default_factory=time.monotonic)
    patience: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    watch: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)

    async def gone(self) -> None:
        """Wait until the shim is dead."""
        if self.pidfd is not None:
            await processes.died(self.pidfd)
        while self.pidfd is None and lock_held(self.path):  # noqa: ASYNC110 - no event tells of a released flock
            await anyio.sleep(_LOCK_POLL_S)

    def is_gone(self) -> bool:
        return processes.is_dead(self.pidfd) if self.pidfd is not None else not lock_held(self.path)

    async def identify(self) -> None:
        """Find an adopted run's shim, and its deadline. A shim we cannot name is still watched, by its lock."""
        leader = read_leader(self.path)
        with anyio.move_on_after(_ADOPT_WAIT_S):
            while leader is None and lock_held(self.path):
                await anyio.sleep(0.02)
                leader = read_leader(self.path)
        if leader is not None:
            self.hold(leader)
        self.patience.deadline = anyio.current_time() + self.time_left_s(leader)

    def hold(self, leader: processes.Identity) -> None:
        """Take hold of an adopted shim, if the process of that pid is still the one that wrote it down."""
        try:
            fd = os.pidfd_open(leader.pid)
        except OSError:
            return
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended as we looked
            if processes.identity_of(leader.pid) == leader:
                self.pid, self.pidfd = leader.pid, fd
                return
        os.close(fd)

    def blame(self, outcome: Outcome, why: str) -> None:
        """Write down that we are about to end it, unless its command has already come to its own end."""
        if self.cause is None and read_status(self.path) is None:
            self.cause = (outcome, why)
            with contextlib.suppress(OSError):  # a full disk: after a crash its exit status is then all there is
                write_private(self.path / "cause", f"{outcome.value} {why}\n".encode())

    def time_left_s(self, leader: processes.Identity | None) -> float:
        """Of an adopted run: by its process's age, which no wall clock can falsify; else by the spec, within reason."""
        age = time.time() - self.started_at
        if leader is not None:
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - leader.start_ticks / os.sysconf("SC_CLK_TCK")
        return min(max(self.timeout_s - age, 0.0), self.timeout_s)

    async def clear_away(
        self, stop_timeout_s: float, walkers: anyio.CapacityLimiter, hindered: Callable[[OSError], None]
    ) -> None:
        """End all that is left of the run: nothing, mostly. ``hindered``: told why that cannot be looked for."""
        mark, group = f"ACKD_RUN={self.path.name}", lambda: self.pid if self.ours else None
        brood = processes.Brood(mark, self._session, group, hindered=hindered)
        self.left = (await processes.clear_away(brood, stop_timeout_s, walkers)).left

    def _session(self) -> int | None:
        return self.pid if self.ours or not self.is_gone() else None

    def reap(self) -> int | None:
        """The shim's exit, negative for a signal; None if it was not ours to reap."""
        if not self.ours or self.pid is None:
            return None
        with contextlib.suppress(ChildProcessError):
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return None

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
