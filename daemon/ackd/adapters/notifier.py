"""Calling a person: the ``on_escalation`` command, with the message on its stdin.

Never through a shell, never in the way of a delivery. A command that fails or hangs is reported by ``record``, because
a bell that does not ring must be heard of. At a stop it is given a while to finish: what it tells of is not told twice.

The message is handed over as an open file, not through a pipe: a command that does not read it leaves nothing behind
that could break, and one that keeps a pipe open keeps nobody waiting.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import Process, TaskGroup

PATIENCE_S: Final = 60.0


@dataclass(eq=False)
class Notifier:
    command: Sequence[str]
    cwd: str
    env: dict[str, str]
    tasks: TaskGroup
    record: Callable[[str, dict[str, object]], None]
    patience_s: float = PATIENCE_S
    _ringing: set[anyio.Event] = field(default_factory=set, init=False)

    def ring(self, message_id: str, message: bytes) -> None:
        if self.command:
            over = anyio.Event()
            self._ringing.add(over)
            self.tasks.start_soon(self._ring, message_id, message, over, name=f"on_escalation {message_id}")

    async def stop(self, drain_s: float) -> None:
        """Let what rings finish for ``drain_s``; the task group ends the rest."""
        with anyio.move_on_after(drain_s):
            for over in list(self._ringing):
                await over.wait()

    async def _ring(self, message_id: str, message: bytes, over: anyio.Event) -> None:
        try:
            why = await self._run(message)
        finally:
            self._ringing.discard(over)
            over.set()
        if why is not None:
            self.record("notify_failed", {"message_id": message_id, "command": list(self.command), "error": why})

    async def _run(self, message: bytes) -> str | None:
        try:
            process = await self._start(message)
        except (OSError, ValueError) as error:
            return str(error)
        try:
            with anyio.move_on_after(self.patience_s):
                code = await process.wait()
                return None if code == 0 else f"exit {code}"
        finally:
            await _end(process)
        return f"still running after {self.patience_s:g} s: ended"

    async def _start(self, message: bytes) -> Process:
        stdin = _as_file(message)
        try:
            return await anyio.open_process(
                list(self.command),
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.cwd,
                env=self.env,
                start_new_session=True,
            )
        finally:
            os.close(stdin)


def _as_file(message: bytes) -> int:
    fd = os.memfd_create("ackd-escalation", os.MFD_CLOEXEC)
    os.write(fd, message)  # to memory, whole: a message is a few megabytes at most
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def _end(process: Process) -> None:
    """All of it, if it still runs: it leads a session of its own."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with anyio.CancelScope(shield=True):
        await process.wait()
