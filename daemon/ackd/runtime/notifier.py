"""Calls a person: runs the ``on_escalation`` command with the message on its stdin.

The command runs without a shell, and beside the deliveries. One that fails or hangs is logged, because otherwise nobody
would know that notifications do not arrive. At a stop the command is given a while to finish: the next daemon does not
run it again for the same message.

The message is handed over as an open file, not through a pipe: a command that does not read it causes no broken pipe,
and one that keeps its stdin open keeps nobody waiting.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core.daemon_facts import notify_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import Process, TaskGroup

    from ackd.config.live import LiveConfig
    from ackd.core.ports import Record

PATIENCE_S: Final = 60.0


@dataclass(eq=False, kw_only=True)
class Notifier:
    config: LiveConfig
    env: dict[str, str]
    tasks: TaskGroup
    record: Record
    patience_s: float = PATIENCE_S
    _ringing: set[anyio.Event] = field(default_factory=set, init=False)

    def ring(self, message_id: str, message: bytes) -> None:
        if command := self.config.now.on_escalation:
            over = anyio.Event()
            self._ringing.add(over)
            self.tasks.start_soon(self._ring, command, message_id, message, over, name=f"on_escalation {message_id}")

    async def stop(self, drain_s: float) -> None:
        """Give running commands ``drain_s`` to finish. The task group ends the rest."""
        with anyio.move_on_after(drain_s):
            for over in list(self._ringing):
                await over.wait()

    async def _ring(self, command: Sequence[str], message_id: str, message: bytes, over: anyio.Event) -> None:
        try:
            why = await self._run(command, message)
        finally:
            self._ringing.discard(over)
            over.set()
        if why is not None:
            self.record(notify_failed(message_id=message_id, command=list(command), error=why))

    async def _run(self, command: Sequence[str], message: bytes) -> str | None:
        try:
            process = await self._start(command, message)
        except (OSError, ValueError) as error:
            return str(error)
        try:
            with anyio.move_on_after(self.patience_s):
                code = await process.wait()
                return None if code == 0 else f"exit {code}"
        finally:
            await _end(process)
        return f"still running after {self.patience_s:g} s: ended"

    async def _start(self, command: Sequence[str], message: bytes) -> Process:
        stdin = _as_file(message)
        try:
            return await anyio.open_process(
                list(command),
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=str(self.config.now.base_dir),
                env=self.env,
                start_new_session=True,
            )
        finally:
            os.close(stdin)


def _as_file(message: bytes) -> int:
    fd = os.memfd_create("ackd-escalation", os.MFD_CLOEXEC)
    os.write(fd, message)  # one write is enough: the file is in memory, and a message has a few megabytes at most
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def _end(process: Process) -> None:
    """Kill the command with all its children, if it still runs. It leads a session of its own."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with anyio.CancelScope(shield=True):
        await process.wait()
