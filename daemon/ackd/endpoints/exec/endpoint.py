"""The endpoint of an exec agent: it tells by starting a run, and posts the outcome.

``Told`` is answered when the run has started, and ``RunEnded`` is posted when nothing of the run is left. A run's
directory in ``state/runs/`` stays until ``forget``, so that a crash before the outcome is committed loses nothing. A
command that means to leave something behind starts it with ``env -u ACKD_RUN setsid …``: everything else that a run
started is ended with it.

Failures are answers: a program that is not there is ``EndpointAway``, a full disk or an exhausted machine ``Hindered``,
anything else that stops a run from starting ``NotTold``. A cancelled watch (``abandon``, a crash) leaves the run alone,
to be adopted by the next daemon.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core import faults
from ackd.core.agent_facts import child_ended, child_started
from ackd.core.daemon_facts import io_error
from ackd.core.events import EndpointAway, Hindered, LetGo, NotTold, Outcome, RunEnded, Told
from ackd.core.ports import Endpoint
from ackd.core.signals import RunFinished, RunStarted
from ackd.endpoints.exec import run_files, shim
from ackd.endpoints.exec.facts import output_cut
from ackd.endpoints.exec.run import Run
from ackd.endpoints.exec.run_files import (
    NO_STATUS,
    NOT_RUN,
    killed_detail,
    read_status,
    verdict,
    write_private,
    write_spec,
)
from ackd.system.process_tree import KILLED_WAIT_S
from ackd.system.processes import NoProgramError, find_program
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ackd.config.live import LiveConfig
    from ackd.core.effects import CallOff, NudgeAgent, TellAgent
    from ackd.core.message import Place
    from ackd.core.ports import LeftRun, Services

#: From the KILL of a process that ignored TERM until it is seen to be gone.
KILL_TAKES_S: Final = 1.0


@dataclass(kw_only=True, eq=False)
class ExecEndpoint(Endpoint):
    """Runs ``command`` once per message. One task of ``services.tasks`` watches each run."""

    agent: str
    command: list[str]
    cwd: Path
    env: Mapping[str, str]
    runs_dir: Path
    resolve: Callable[[Place], Path]
    services: Services
    config: LiveConfig
    extra_env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 600
    _running: dict[int, Run] = field(default_factory=dict, init=False)
    _ended: dict[int, Path] = field(default_factory=dict, init=False)
    _stopping: bool = field(default=False, init=False)
    _orphans: int = field(default=0, init=False)
    _cutting: bool = field(default=False, init=False)
    _walkers: anyio.CapacityLimiter = field(default_factory=partial(anyio.CapacityLimiter, 4), init=False)

    # --- the port
    async def tell(self, order: TellAgent) -> Told | NotTold | EndpointAway | Hindered:
        if self._stopping:
            return EndpointAway(order.key, "ackd is stopping", attempt=order.attempt)
        if not await self._is_free(order):
            return NotTold(order.key, "its last run has not ended", attempt=order.attempt)
        self.forget(order.key)  # if it is told again, the outcome of the run before is committed
        try:
            run = self._start(order)
        except NoProgramError as away:
            return EndpointAway(order.key, str(away), attempt=order.attempt)
        except (OSError, ValueError) as error:
            why = f"could not start {self.command[0]}: {error}"
            nobodys = isinstance(error, OSError) and faults.is_nobodys(error)
            return (Hindered if nobodys else NotTold)(order.key, why, attempt=order.attempt)
        self.services.record(child_started(agent=self.agent, message_id=run.message_id, pid=run.pid))
        self.services.emit(RunStarted(self.agent))
        run.time_limit.deadline = anyio.current_time() + run.timeout_s
        self._watch_over(run)
        return Told(order.key, f"exec pid {run.pid}", seen=True, attempt=order.attempt)

    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        return NotTold(order.key, "exec agents have no ladder", attempt=order.attempt)

    def call_off(self, order: CallOff) -> LetGo | None:
        """End the run: TERM, and KILL after ``stop_timeout_s``. RunEnded follows, for a command that has come to its
        own end as well."""
        run = self._running.get(order.key)
        if run is None:
            return LetGo(order.key, "no command of it runs", order.attempt)
        run.blame(Outcome.STOPPED, "its command was ended")
        run.time_limit.cancel()
        return None if run.speaks else LetGo(order.key, "its command is being ended", order.attempt)

    async def stop(self, drain_s: float) -> None:
        """End what still runs after the drain. What even KILL cannot end is left for the next daemon to adopt."""
        self._stopping = True
        with anyio.move_on_after(drain_s):
            await self._all_over()
        for run in self._running.values():
            run.blame(Outcome.STOPPED, "ackd was stopped")
            run.time_limit.cancel()
        with anyio.move_on_after(self.config.now.daemon.stop_timeout_s + 2 * KILLED_WAIT_S):
            await self._all_over()
        self.abandon()

    async def leave(self, drain_s: float) -> None:  # noqa: ARG002 - nothing has to finish: the next daemon adopts it
        """Leave what runs to the next daemon, except for runs that are being ended."""
        self._stopping = True
        for run in self._running.values():
            if run.cause is None:
                run.watch.cancel()
        with anyio.move_on_after(self.config.now.daemon.stop_timeout_s + 2 * KILLED_WAIT_S):
            await self._all_over()
        self.abandon()

    def has_work(self) -> bool:
        return any(not run.is_gone() for run in self._running.values())

    def leaves_work(self) -> bool:
        return any(run.cause is None and not run.is_gone() for run in self._running.values())

    # --- beyond the port
    def abandon(self) -> None:
        """Stop watching at once. What runs goes on, and the next daemon adopts it."""
        self._stopping = True
        for run in self._running.values():
            run.watch.cancel()

    def adopt(self, key: int | None, run: LeftRun, *, speaks_for: int | None = 0) -> None:
        """Take over a run of a daemon that is gone.

        A run that is alive is watched, and RunEnded follows for the attempt that it ``speaks_for`` (0: the current one
        by then, None: it has nothing more to say). A run that is over waits for ``forget``. Of both, everything that
        they started and left behind is ended, and until then the message is not told again. Without a key the message
        is nobody's any more, and the run's directory is removed when the run is over.
        """
        ours = Run(
            key=self._orphan() if key is None else key,
            message_id=run.message_id,
            digest=run.digest,
            path=run.path,
            timeout_s=run.timeout_s,
            started_at=run.started_at,
            attempt=speaks_for or 0,
        )
        ours.speaks = speaks_for is not None and key is not None
        if run.alive:
            self._watch_over(ours)
            return
        self._running[ours.key], self._ended[ours.key] = ours, ours.path
        self.services.tasks.start_soon(self._tidy, ours, name=f"exec {ours.path.name}, over")

    async def end(self, why: str) -> None:
        """End everything that runs, at once, because it is of no use any more. RunEnded(STOPPED) follows for it."""
        for run in self._running.values():
            run.blame(Outcome.STOPPED, why)
            run.time_limit.cancel()
        with anyio.move_on_after(self.config.now.daemon.stop_timeout_s + 2 * KILLED_WAIT_S):
            await self._all_over()

    def leaders(self) -> list[tuple[int, int]]:
        """For each run: its session, and how many bytes it has printed so far."""
        return [(run.pid, run_files.output_size(run.path)) for run in self._running.values() if run.pid is not None]

    def ended_keys(self) -> list[int]:
        """The keys of runs that are over and not forgotten."""
        return list(self._ended)

    def printed(self, key: int) -> bytes:
        """The end of the output of a run that is over and not forgotten."""
        path = self._ended.get(key)
        return run_files.output_end(path) if path is not None else b""

    def printed_since(self, key: int, offset: int, limit_bytes: int = run_files.KEPT_BYTES) -> tuple[bytes, int]:
        """The next piece of a run's output, whether it is over or not, and where the one after it begins."""
        run = self._running.get(key)
        path = run.path if run is not None else self._ended.get(key)
        return run_files.output_piece(path, offset, limit_bytes) if path is not None else (b"", offset)

    def _orphan(self) -> int:
        """A key that no message has, for a run whose message is nobody's."""
        self._orphans -= 1
        return self._orphans

    def forget(self, key: int) -> None:
        """Remove the run's directory: its outcome is committed."""
        path = self._ended.pop(key, None)
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)

    def let_go(self, key: int) -> None:
        """Drop a message that has ended. If a run of it goes on, its directory is removed when that is over."""
        if key in self._running:
            self._running[key].forgotten = True
        self.forget(key)

    # --- starting
    async def _is_free(self, order: TellAgent) -> bool:
        """Wait a while until no run of the message is left.

        A command that says ``defer`` may be told again before it has come to its exit, and processes that a dead run
        left may have to be killed. A message that was refused and revived, or moved back into the queue by hand, is
        another delivery of the same message, so it is looked for by id as well.
        """
        with anyio.move_on_after(self.config.now.daemon.stop_timeout_s + KILL_TAKES_S):
            while (run := self._run_of(order)) is not None:
                await run.over.wait()
        return self._run_of(order) is None

    def _run_of(self, order: TellAgent) -> Run | None:
        message = order.message
        same = (
            run
            for run in self._running.values()
            if run.key == order.key or (run.message_id, run.digest) == (message.message_id, message.digest)
        )
        return next(same, None)

    def _start(self, order: TellAgent) -> Run:
        program = self._program()
        self.runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.runs_dir.absolute() / f"{self.agent}--{secrets.token_hex(8)}"
        path.mkdir(mode=0o700)
        run = Run(
            key=order.key,
            message_id=order.message.message_id,
            digest=order.message.digest,
            path=path,
            timeout_s=self.timeout_s,
            started_at=time.time(),
            attempt=order.attempt,
            ours=True,
        )
        try:
            run.pid = self._spawn(program, order, run)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        with contextlib.suppress(OSError):  # out of descriptors: the lock is polled instead
            run.pidfd = os.pidfd_open(run.pid)
        return run

    def _spawn(self, program: str, order: TellAgent, run: Run) -> int:
        with contextlib.ExitStack() as fds:
            message = shim.open_message(self.resolve(order.place), fds)
            write_spec(run.path, order, self.agent, run.started_at, run.timeout_s)
            write_private(run.path / "body", shim.body_of(message))
            write_private(run.path / "status", NO_STATUS)
            command = [program, *self.command[1:]]
            env = self._environment(order, run.path)
            return shim.spawn(run.path, command, cwd=self.cwd, env=env, message=message, fds=fds)

    def _environment(self, order: TellAgent, path: Path) -> dict[str, str]:
        message = order.message
        return {
            **os.environ,
            **self.env,
            **self.extra_env,
            "ACKD_MESSAGE": str(self.resolve(order.place).absolute()),
            "ACKD_MESSAGE_ID": message.message_id,
            "ACKD_AGENT": self.agent,
            "ACKD_FROM": message.sender,
            "ACKD_TYPE": message.type,
            "ACKD_BODY": str(path / "body"),
            "ACKD_RUN": path.name,
        }

    def _program(self) -> str:
        return find_program(self.command[0], self.cwd, self.env)

    # --- watching
    def _watch_over(self, run: Run) -> None:
        self._running[run.key] = run
        self.services.tasks.start_soon(self._watch, run, name=f"exec {run.path.name}")
        if not self._cutting:
            self._cutting = True
            self.services.tasks.start_soon(self._keep_outputs_short, name=f"outputs of {self.agent}")

    async def _keep_outputs_short(self) -> None:
        """Cut outputs that grow too long, while anything runs: also after it was asked to end."""
        while self._running:
            await anyio.sleep(run_files.OUTPUT_LOOK_EVERY_S)
            for run in [run for run in self._running.values() if run_files.output_is_too_long(run.path)]:
                with contextlib.suppress(OSError):  # its directory is gone
                    self._cut(run, await in_thread(run_files.cut_output, run.path))
        self._cutting = False

    def _cut(self, run: Run, dropped_bytes: int) -> None:
        if not run.cut_bytes:
            self.services.record(
                output_cut(agent=self.agent, message_id=run.message_id, limit_bytes=run_files.OUTPUT_LIMIT_BYTES)
            )
        run.cut_bytes += dropped_bytes

    async def _watch(self, run: Run) -> None:
        with self._watched(run):
            await self._see_through(run)
        if not run.watch.cancelled_caught:
            self._report(run)
            self._forget_ended(run)

    async def _tidy(self, run: Run) -> None:
        """Clear away after a run that ended while no daemon was there: processes that it left go on until somebody
        looks."""
        with self._watched(run):
            await run.clear_away(self.config.now.daemon.stop_timeout_s, self._walkers, self._hindered)
        if not run.watch.cancelled_caught:
            self._forget_ended(run)

    @contextlib.contextmanager
    def _watched(self, run: Run) -> Iterator[None]:
        try:
            with run.watch:
                yield
        finally:
            run.close()
            del self._running[run.key]
            run.over.set()

    def _forget_ended(self, run: Run) -> None:
        if run.key < 0 or run.forgotten:
            self.forget(run.key)

    async def _see_through(self, run: Run) -> None:
        if not run.ours:
            await run.identify()
            self.services.record(child_started(agent=self.agent, message_id=run.message_id, pid=run.pid, adopted=True))
            self.services.emit(RunStarted(self.agent))
        with run.time_limit:
            await run.gone()
        if not run.is_gone():
            run.blame(Outcome.FAILED, f"timed out after {run.timeout_s:g} s")
        await run.clear_away(self.config.now.daemon.stop_timeout_s, self._walkers, self._hindered)
        await run.gone()

    def _hindered(self, error: OSError) -> None:
        """Record why leftover processes cannot be listed: the message waits until they can be."""
        self.services.record(io_error(what=f"look for what a run of {self.agent} left", error=str(error)))

    def _report(self, run: Run) -> None:
        """Reap the shim and post the outcome of the run. The status file counts before the shim's exit, which is a
        copy."""
        exited = run.reap()
        status = read_status(run.path)
        code = exited if status is None and exited is not None and exited >= 0 else status
        outcome, detail = run.cause or verdict(run.path, code)
        if outcome is None:
            outcome, detail = Outcome.FAILED, killed_detail(exited)
        if code in NOT_RUN and run.cause is None and (missing := self._what_is_missing()):
            # Offered again without counting the attempt; telling then finds the agent away.
            outcome, detail = Outcome.STOPPED, missing
        self.services.record(
            child_ended(
                agent=self.agent,
                message_id=run.message_id,
                pid=run.pid,
                exit=code,
                outcome=outcome.value,
                seconds=round(time.monotonic() - run.since, 3),
                output_cut_bytes=run.cut_bytes or None,
                left=sorted(run.left) or None,
            )
        )
        self.services.emit(RunFinished(self.agent))
        self._ended[run.key] = run.path
        if run.speaks:
            self.services.post(RunEnded(run.key, outcome, detail, run.attempt))

    def _what_is_missing(self) -> str | None:
        """The program that is missing, if one is. Called after exit codes 126 and 127, which may come from the shell or
        from the command itself."""
        try:
            self._program()
        except NoProgramError as missing:
            return str(missing)
        return None

    async def _all_over(self) -> None:
        for run in list(self._running.values()):
            await run.over.wait()
