"""Calling a person: the ``on_escalation`` command, with the message on its stdin.

Never through a shell, never in the way of a delivery. A command that fails or hangs is reported by ``record``, because
a bell that does not ring must be heard of.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import TaskGroup

PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class Notifier:
    command: Sequence[str]
    cwd: str
    env: dict[str, str]
    tasks: TaskGroup
    record: Callable[[str, dict[str, object]], None]

    def ring(self, message_id: str, message: bytes) -> None:
        if self.command:
            self.tasks.start_soon(self._ring, message_id, message, name=f"on_escalation {message_id}")

    async def _ring(self, message_id: str, message: bytes) -> None:
        why = await self._run(message)
        if why is not None:
            self.record("notify_failed", {"message_id": message_id, "command": list(self.command), "error": why})

    async def _run(self, message: bytes) -> str | None:
        # No pipe but stdin: a grandchild that keeps stdout open must not keep us waiting.
        try:
            with anyio.move_on_after(PATIENCE_S):
                ended = await anyio.run_process(
                    list(self.command),
                    input=message,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=self.cwd,
                    env=self.env,
                    check=False,
                    start_new_session=True,
                )
                return None if ended.returncode == 0 else f"exit {ended.returncode}"
        except OSError as error:
            return str(error)
        return f"still running after {PATIENCE_S:.0f} s: ended"
