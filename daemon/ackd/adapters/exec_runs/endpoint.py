"""The endpoint of an exec agent: it tells by starting a run, and posts what came of it.

Owns ``state/runs/``, the runs of one agent, and the watch over each until nothing of it is left. Refuses to know what
becomes of the message: it answers ``Told`` and later posts ``RunEnded``; a run's directory stays until ``forget``, so
that a crash before the outcome is committed loses nothing. A command that means to leave something behind starts it
with ``env -u ACKD_RUN setsid …``: all else that a run started is ended with it.

Fails by answering: a program that is not there is ``EndpointAway``, a full disk or an exhausted machine ``Hindered``,
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

from ackd.adapters.exec_runs import output, shim
from ackd.adapters.exec_runs.run import Run
from ackd.adapters.exec_runs.run_files import NO_STATUS, read_status, write_private, write_spec
from ackd.adapters.exec_runs.verdict import NOT_RUN, killed_detail, verdict
from ackd.core import faults
from ackd.core.events import EndpointAway, Hindered, NotTold, Outcome, RunEnded, Told
from ackd.processes import KILLED_WAIT_S, NoProgramError, find_program
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.adapters.exec_runs.found import FoundRun
    from ackd.core.effects import NudgeAgent, TellAgent
    from ackd.core.message import Place
    from ackd.ports import Post

#: From the KILL of what ignored TERM until it is seen to be gone.
KILL_TAKES_S: Final = 1.0


@dataclass(kw_only=True, eq=False)
class ExecEndpoint:
    """Runs ``command`` once per message. ``tasks`` carries one watching task per run and must outlive the endpoint."""

    agent: str
    command: list[str]
    cwd: Path
    env: Mapping[str, str]
    runs_dir: Path
    resolve: Callable[[Place], Path]
    post: Post
    record: Callable[[str, dict[str, object]], None]
    tasks: TaskGroup
    extra_env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 600
    stop_timeout_s: float = 10
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
        self.forget(order.key)  # told again: what came before was committed
        try:
            run = self._start(order)
        except NoProgramError as away:
            return EndpointAway(order.key, str(away), attempt=order.attempt)
        except (OSError, ValueError) as error:
            why = f"could not start {self.command[0]}: {error}"
            nobodys = isinstance(error, OSError) and faults.is_nobodys(error)
            return (Hindered if nobodys else NotTold)(order.key, why, attempt=order.attempt)
        self.record("child_started", {"agent": self.agent, "message_id": run.message_id, "pid": run.pid})
        run.patience.deadline = anyio.current_time() + run.timeout_s
        self._watch_over(run)
        return Told(order.key, f"exec pid {run.pid}", seen=True, attempt=order.attempt)

    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        return NotTold(order.key, "exec agents have no ladder", attempt=order.attempt)

    async def stop(self, drain_s: float) -> None:
        """After the drain what still runs is ended. What even KILL cannot end is left to adoption."""
        self._stopping = True
        with anyio.move_on_after(drain_s):
            await self._all_over()
        for run in self._running.values():
            run.blame(Outcome.STOPPED, "ackd was stopped")
            run.patience.cancel()
        with anyio.move_on_after(self.stop_timeout_s + 2 * KILLED_WAIT_S):
            await self._all_over()
        self.abandon()

    # --- beyond the port
    def abandon(self) -> None:
        """Watch no more, at once; what runs goes on, and the next daemon adopts it."""
        self._stopping = True
        for run in self._running.values():
            run.watch.cancel()

    def adopt(self, key: int | None, found: FoundRun, *, speaks_for: int | None = 0) -> None:
        """Take over a run of a daemon that is gone.

        One that lives is watched, and RunEnded follows for the attempt that it ``speaks_for`` (0: whichever it is by
        then, None: it has nothing more to say); one that is over waits for ``forget``. Of both, what they started and
        left is ended, and until then the message is not told again. Without a key the message is nobody's any more, and
        the run's directory goes when the run has.
        """
        which = (self._orphan() if key is None else key, found.message_id, found.digest)
        run = Run(*which, found.path, found.timeout_s, found.started_at, speaks_for or 0)
        run.speaks = speaks_for is not None and key is not None
        if found.alive:
            self._watch_over(run)
            return
        self._running[run.key], self._ended[run.key] = run, run.path
        self.tasks.start_soon(self._tidy, run, name=f"exec {run.path.name}, over")

    async def end(self, why: str) -> None:
        """What runs, at once: it is of no use any more. RunEnded(STOPPED) follows for it."""
        for run in self._running.values():
            run.blame(Outcome.STOPPED, why)
            run.patience.cancel()
        with anyio.move_on_after(self.stop_timeout_s + 2 * KILLED_WAIT_S):
            await self._all_over()

    def leaders(self) -> list[tuple[int, int]]:
        """Of what runs: its session, and how much it has printed so far."""
        return [(run.pid, output.size_of(run.path)) for run in self._running.values() if run.pid is not None]

    def ended_keys(self) -> list[int]:
        """Of runs that are over and not forgotten."""
        return list(self._ended)

    def printed(self, key: int) -> bytes:
        """The end of what a run has printed that is over and not forgotten."""
        path = self._ended.get(key)
        return output.end_of(path) if path is not None else b""

    def printed_since(self, key: int, offset: int, limit_bytes: int = output.KEPT_BYTES) -> tuple[bytes, int]:
        """The next piece of what a run has printed, whether it is over or not, and where the one after it begins."""
        run = self._running.get(key)
        path = run.path if run is not None else self._ended.get(key)
        return output.piece_of(path, offset, limit_bytes) if path is not None else (b"", offset)

    def _orphan(self) -> int:
        """A key that no message has."""
        self._orphans -= 1
        return self._orphans

    def forget(self, key: int) -> None:
        """The outcome is committed: the run's directory may go."""
        path = self._ended.pop(key, None)
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)

    def let_go(self, key: int) -> None:
        """The message has ended. A run of it that has not is seen through, and then its directory goes, too."""
        if key in self._running:
            self._running[key].forgotten = True
        self.forget(key)

    # --- starting
    async def _is_free(self, order: TellAgent) -> bool:
        """A command that says ``defer`` may be told again before it has come to its exit, and what a dead run left may
        have to be killed: wait for that a while. One that was refused and dug up, or moved back into the queue by hand,
        is another delivery of the same message."""
        with anyio.move_on_after(self.stop_timeout_s + KILL_TAKES_S):
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
        which = (order.key, order.message.message_id, order.message.digest)
        run = Run(*which, path, self.timeout_s, time.time(), order.attempt, ours=True)
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
        self.tasks.start_soon(self._watch, run, name=f"exec {run.path.name}")
        if not self._cutting:
            self._cutting = True
            self.tasks.start_soon(self._keep_outputs_short, name=f"outputs of {self.agent}")

    async def _keep_outputs_short(self) -> None:
        """While anything runs, also after we have asked it to end."""
        while self._running:
            await anyio.sleep(output.LOOK_EVERY_S)
            for run in [run for run in self._running.values() if output.is_too_long(run.path)]:
                with contextlib.suppress(OSError):  # its directory is gone
                    self._cut(run, await in_thread(output.cut, run.path))
        self._cutting = False

    def _cut(self, run: Run, dropped_bytes: int) -> None:
        if not run.cut_bytes:
            facts = {"agent": self.agent, "message_id": run.message_id, "limit_bytes": output.LIMIT_BYTES}
            self.record("output_cut", facts)
        run.cut_bytes += dropped_bytes

    async def _watch(self, run: Run) -> None:
        with self._watched(run):
            await self._see_through(run)
        if not run.watch.cancelled_caught:
            self._report(run)
            self._forget_ended(run)

    async def _tidy(self, run: Run) -> None:
        """It ended while nobody looked: what it left behind goes on until somebody does."""
        with self._watched(run):
            await run.clear_away(self.stop_timeout_s, self._walkers, self._hindered)
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
            facts = {"agent": self.agent, "message_id": run.message_id, "pid": run.pid, "adopted": True}
            self.record("child_started", {name: fact for name, fact in facts.items() if fact is not None})
        with run.patience:
            await run.gone()
        if not run.is_gone():
            run.blame(Outcome.FAILED, f"timed out after {run.timeout_s:g} s")
        await run.clear_away(self.stop_timeout_s, self._walkers, self._hindered)
        await run.gone()

    def _hindered(self, error: OSError) -> None:
        """Its message waits meanwhile, and somebody must know why."""
        self.record("io_error", {"what": f"look for what a run of {self.agent} left", "error": str(error)})

    def _report(self, run: Run) -> None:
        """Reap the shim and say what came of the run. Its own status counts before its exit, which is only a copy."""
        exited = run.reap()
        status = read_status(run.path)
        code = exited if status is None and exited is not None and exited >= 0 else status
        outcome, detail = run.cause or verdict(run.path, code)
        if outcome is None:
            outcome, detail = Outcome.FAILED, killed_detail(exited)
        if code in NOT_RUN and run.cause is None and (missing := self._what_is_missing()):
            outcome, detail = Outcome.STOPPED, missing  # offered again, uncounted, and then found away
        facts: dict[str, object] = {"agent": self.agent, "message_id": run.message_id, "pid": run.pid, "exit": code}
        facts |= {"outcome": outcome.value, "seconds": round(time.monotonic() - run.since, 3)}
        if run.cut_bytes:
            facts["output_cut_bytes"] = run.cut_bytes
        if run.left:
            facts["left"] = sorted(run.left)
        self.record("child_ended", {name: fact for name, fact in facts.items() if fact is not None})
        self._ended[run.key] = run.path
        if run.speaks:
            self.post(RunEnded(run.key, outcome, detail, run.attempt))

    def _what_is_missing(self) -> str | None:
        """Asked after 126 and 127, which may be the shell's word or the command's own."""
        try:
            self._program()
        except NoProgramError as missing:
            return str(missing)
        return None

    async def _all_over(self) -> None:
        for run in list(self._running.values()):
            await run.over.wait()
