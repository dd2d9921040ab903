"""ACK files: ``queue/ack/<task>.ack``, which count if they are newer than their task.

A file that counts becomes a receipt, as if the worker had typed `ackd ack`; one from an earlier run is said once and
changes nothing. An ACK is its file's being there: it is never opened. Refuses to know what a receipt does. Fails with
OSError, when the receipt could not be dropped: the file is met again at the next look.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ackd.adapters import maildrop
from ackd.core import dispatches
from ackd.core.dispatches import End
from ackd.core.message import ReceiptKind
from ackd.dialects import ensemble
from ackd.threads import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.dispatches import Dispatch
    from ackd.runtime.gateways.ensemble.register import Register
    from ackd.runtime.gateways.ensemble.shelf import Found
    from ackd.runtime.gateways.ensemble.voice import Voice


@dataclass(frozen=True)
class Acks:
    place: str
    receipts: Path
    durable: bool
    register: Register
    voice: Voice

    async def take(self, found: Found) -> None:
        if not found.name.endswith(ensemble.ACK):
            return
        task = dispatches.called(self.register.tasks, ensemble.stem(found.name))
        if not found.regular:
            self.voice.stray(self.place, found, "it is not a regular file: no ACK")
        elif task is None or task.acked:
            return
        elif found.mtime_ns <= task.given_ns:
            self.voice.stale_ack(self.place, found, task)
        else:
            await self._acknowledge(found, task)

    async def _acknowledge(self, found: Found, task: Dispatch) -> None:
        """What is over by now needs none: who runs one command for a task is through before we look."""
        if task.end is End.NOT_YET:
            shown = self.voice.shown(self.place, found)
            reason = shown if shown.isprintable() else None
            say = partial(maildrop.drop_receipt, fsync=self.durable)
            await in_thread(say, self.receipts, ReceiptKind.ACK, task.message_id, task.agent, reason)
        self.register.change(dispatches.changed(self.register.tasks, task.message_id, acked=True))
