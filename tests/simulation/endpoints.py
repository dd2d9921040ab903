"""Endpoints of the simulation: a terminal with a ladder, and commands whose runs outlive the daemon.

``ports.Endpoint`` in the place of tmux and of child processes. A run's directory below ``state/runs/`` is written and
read back by ackd's own code: what a command does while the daemon is dead is found by the real recovery. Inboxes and
handlers need no stand-ins.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from ackd.core.events import AgentShowed, EndpointAway, LetGo, NotTold, Outcome, RunEnded, Told
from ackd.core.ports import Inhabited
from ackd.endpoints.exec.endpoint import ExecEndpoint
from ackd.endpoints.exec.run_files import read_status, verdict, write_private, write_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.core.effects import AskCheckpoint, CallOff, NudgeAgent, ProbeAgent, RemindAgent, RenewAgent, TellAgent
    from ackd.core.idleness import Doing
    from ackd.core.ports import LeftRun, Post
    from tests.simulation.agents import Agents


class PaneEndpoint(Inhabited):
    def __init__(self, name: str, agents: Agents, post: Post) -> None:
        self._name, self._agents, self._post = name, agents, post
        self._shown: Doing | None = None

    async def tell(self, order: TellAgent) -> Told | NotTold | EndpointAway:
        await anyio.sleep(self._agents.reach_s())
        trouble = self._agents.trouble(self._name, order.key)
        if trouble is None:
            self._agents.hear(self._name, order.message, order.place)
            self._shown = None
        return trouble or Told(order.key, "typed, and Enter was taken")

    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        await anyio.sleep(self._agents.reach_s())
        if self._agents.wakes(self._name):
            self._agents.hear(self._name, order.message, order.place)
        return Told(order.key, "typed once more")

    async def probe(self, order: ProbeAgent) -> Told | NotTold:
        await anyio.sleep(self._agents.reach_s())
        return self._agents.trouble_asking(self._name, order.key) or Told(order.key, "asked")

    async def remind(self, order: RemindAgent) -> Told | NotTold:
        await anyio.sleep(self._agents.reach_s())
        trouble = self._agents.trouble_asking(self._name, order.key)
        if trouble is None and self._agents.wakes(self._name):
            self._agents.hear(self._name, order.message, order.place)
        self._shown = None
        return trouble or Told(order.key, "reminded")

    def call_off(self, order: CallOff) -> None:
        """It is told when it is ready, or never, if nobody is there."""
        loop = asyncio.get_running_loop()
        if self._agents.trouble_asking(self._name, order.key) is None:
            loop.call_later(10 * self._agents.reach_s(), self._post, LetGo(order.key, "typed", order.attempt))

    async def ask_checkpoint(self, order: AskCheckpoint) -> Told | NotTold:
        return NotTold(order.key, "nothing here fills up")

    async def renew(self, order: RenewAgent) -> None:
        await self.restart(order.why)

    async def restart(self, why: str) -> None:
        await anyio.sleep(self._agents.reach_s())

    def pulse(self) -> str | None:
        """A look at its screen as well."""
        doing = self._agents.doing(self._name)
        if doing is not self._shown:
            self._shown = doing
            self._post(AgentShowed(self._name, doing))
        return "the pane changed" if self._agents.stirs(self._name) else None

    async def stop(self, drain_s: float) -> None:
        """Agents in terminals live on."""


@dataclass(eq=False)
class Process:
    """A command at work. ``ended`` is whoever watches it, of whichever daemon."""

    path: Path
    lock_fd: int
    ended: Callable[[], None] | None = None
    over: bool = False

    def exit(self, code: int | None) -> None:
        """None: killed, without a word."""
        if self.over:
            return
        self.over = True
        with contextlib.suppress(OSError):  # someone has removed its directory
            if code is not None:
                write_private(self.path / "status", f"{code}\n".encode())
        os.close(self.lock_fd)
        if self.ended is not None:
            self.ended()


@dataclass(kw_only=True, eq=False)
class RunEndpoint(ExecEndpoint):
    agents: Agents
    _processes: dict[int, Process] = field(default_factory=dict, init=False)
    _over: dict[int, asyncio.Event] = field(default_factory=dict, init=False)

    async def tell(self, order: TellAgent) -> Told | NotTold | EndpointAway:
        if self._stopping:
            return EndpointAway(order.key, "ackd is stopping")
        if order.key in self._processes:
            return NotTold(order.key, "its last run has not ended")
        trouble = self.agents.trouble(self.agent, order.key)
        if trouble is not None:
            return trouble
        self.forget(order.key)
        path = self.runs_dir / f"{self.agent}--{secrets.token_hex(8)}"
        try:
            path.mkdir(mode=0o700)
            write_spec(path, order, self.agent, self.agents.timeline.wall, self.timeout_s)
            process = self._started(path)
        except OSError as error:
            return NotTold(order.key, f"could not start: {error}")
        self._watch_process(order.key, process, order.attempt)
        self.agents.work(self.agent, order.message, process)
        return Told(order.key, "exec pid 7", seen=True)

    def adopt(self, key: int | None, run: LeftRun, *, speaks_for: int | None = 0) -> None:
        process = self.agents.processes.get(str(run.path))
        if run.alive and process is not None and not process.over:
            which, speaks = self._orphan() if key is None else key, speaks_for is not None and key is not None
            self._watch_process(which, process, speaks_for or 0, speaks=speaks)
        elif key is not None:
            self._ended[key] = run.path
        else:
            run.discard()

    def call_off(self, order: CallOff) -> LetGo | None:
        process = self._processes.get(order.key)
        if process is None:
            return LetGo(order.key, "nothing runs", order.attempt)
        if not process.over:
            with contextlib.suppress(OSError):
                write_private(process.path / "cause", b"stopped its command was ended\n")
            process.exit(None)
        return None

    async def stop(self, drain_s: float) -> None:
        self._stopping = True
        with anyio.move_on_after(drain_s):
            for over in list(self._over.values()):
                await over.wait()
        for process in list(self._processes.values()):
            with contextlib.suppress(OSError):
                write_private(process.path / "cause", b"stopped ackd was stopped\n")
            process.exit(None)
        await anyio.sleep(0.01)

    def abandon(self) -> None:
        for process in self._processes.values():
            process.ended = None

    def _watch_process(self, key: int, process: Process, attempt: int, *, speaks: bool = True) -> None:
        loop = asyncio.get_running_loop()
        self._processes[key], self._over[key] = process, asyncio.Event()
        self.agents.processes[str(process.path)] = process

        def ended() -> None:
            if not loop.is_closed():
                loop.call_soon(self._report_end, key, process, attempt if speaks else None)

        process.ended = ended
        self.agents.timeline.after(self.timeout_s, lambda: process.exit(124))

    def _report_end(self, key: int, process: Process, attempt: int | None) -> None:
        """``attempt`` is None for a run that says nothing about its message."""
        outcome, detail = verdict(process.path, read_status(process.path))
        self._processes.pop(key, None)
        self._over.pop(key).set()
        self._ended[key] = process.path
        if attempt is not None:
            self.services.post(RunEnded(key, outcome or Outcome.FAILED, detail, attempt))
        elif key < 0:
            self.forget(key)

    def _started(self, path: Path) -> Process:
        """The lock is the command's own: it outlives us."""
        with self.agents.as_world():
            fd = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
        return Process(path, fd)
