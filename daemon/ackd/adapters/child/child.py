"""A child that can be started again and again: what it is started with.

Owns its command, its environment and the names of its lives. Refuses to keep it alive (runtime/supervisor) and to know
what is said. Fails with ``CannotStart``; then nothing of it is left.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ackd import processes
from ackd.adapters.child import remnants
from ackd.adapters.child.cgroup import Cgroup
from ackd.adapters.child.life import Life
from ackd.adapters.child.remnants import Remnant
from ackd.adapters.child.spawning import spawn
from ackd.adapters.child.stderr_log import StderrLog
from ackd.core import faults
from ackd.core.errors import CannotStart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


@dataclass(kw_only=True, eq=False)
class Child:
    """``directory``: state/children. ``logs``: where its stderr goes. ``cgroup``: ours, if we may divide it."""

    agent: str
    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    directory: Path
    logs: Path
    record: Callable[[str, dict[str, object]], None]
    extra_env: Mapping[str, str] = field(default_factory=dict)
    cgroup: Path | None = None
    _walkers: anyio.CapacityLimiter = field(default_factory=partial(anyio.CapacityLimiter, 2), init=False)

    def __post_init__(self) -> None:
        self._log = StderrLog(self.logs / f"{self.agent}.stderr.log", partial(self._trouble, "stderr"))

    def start(self, generation: int) -> Life:
        """Raises CannotStart."""
        mark = f"{self.agent}--{secrets.token_hex(8)}"
        cgroup = self._cgroup(mark)
        remnant = Remnant(
            self.agent, mark, processes.boot_id(), cgroup=str(cgroup.path) if cgroup is not None else None
        )
        self._write_down(remnant)  # first: should we be killed in between, its mark is known
        try:
            spawned = spawn(self._command(cgroup), cwd=self.cwd, env=self._environment(mark, generation))
        except (processes.NoProgramError, OSError, ValueError) as error:
            remnants.cross_out(self.directory, self.agent)
            if cgroup is not None:
                cgroup.remove()
            raise self._refusal(error) from error
        pid = spawned.process.pid
        remnant = dataclasses.replace(remnant, pid=pid, start_ticks=_start_ticks(pid))
        self._write_down(remnant)
        self._log.begin(f"[ackd] {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {self.agent} started, pid {pid}")
        return Life(
            spawned, remnant, self.directory, self._log, self._walkers, cgroup, partial(self._trouble, "what is left")
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
        return {**os.environ, **self.env, **self.extra_env, **own}

    def _cgroup(self, mark: str) -> Cgroup | None:
        cgroup = Cgroup(self.cgroup / f"ackd-{mark}") if self.cgroup is not None else None
        return cgroup if cgroup is not None and cgroup.make() else None

    def _write_down(self, remnant: Remnant) -> None:
        """On a full disk it is started all the same: only if we are killed meanwhile, what it leaves is not found."""
        try:
            remnants.write_down(self.directory, remnant)
        except OSError as error:
            self._trouble("state/children", error)

    def _trouble(self, what: str, error: OSError) -> None:
        self.record("io_error", {"what": f"{what} of {self.agent}", "error": str(error)})


def _start_ticks(pid: int) -> int | None:
    try:
        return processes.identity_of(pid).start_ticks
    except (OSError, ValueError, IndexError):
        return None
