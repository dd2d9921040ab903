"""ACK files: ``queue/ack/<task>.ack``, which count if they are newer than their task.

A file that counts becomes a receipt, as if the worker had typed `ackd ack`; one from an earlier run is logged once and
changes nothing. Only the presence of the file matters: it is never opened. Fails with OSError when the receipt could
not be dropped; then the file is found again at the next look.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ackd.coordination.ensemble import wire as ensemble
from ackd.coordination.ensemble.rules import dispatches
from ackd.coordination.ensemble.rules.dispatches import End
from ackd.core.message import ReceiptKind
from ackd.storage import maildrop
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.coordination.ensemble.directory import FoundFile
    from ackd.coordination.ensemble.notices import EnsembleNotices
    from ackd.coordination.ensemble.rules.dispatches import Dispatch
    from ackd.coordination.ensemble.saved_state import SavedEnsemble


@dataclass(frozen=True)
class Acks:
    place: str
    receipts: Path
    durable: bool
    saved: SavedEnsemble
    notices: EnsembleNotices

    async def take(self, found: FoundFile) -> None:
        if not found.name.endswith(ensemble.ACK):
            return
        task = dispatches.called(self.saved.tasks, ensemble.stem(found.name))
        if not found.regular:
            self.notices.stray(self.place, found, "it is not a regular file: no ACK")
        elif task is None or task.acked:
            return
        elif found.mtime_ns <= task.given_ns:
            self.notices.stale_ack(self.place, found, task)
        else:
            await self._acknowledge(found, task)

    async def _acknowledge(self, found: FoundFile, task: Dispatch) -> None:
        """Drop the receipt, unless the task has ended: one that runs a single command is often over before the look."""
        if task.end is End.NOT_YET:
            shown = self.notices.shown(self.place, found)
            reason = shown if shown.isprintable() else None
            say = partial(maildrop.drop_receipt, fsync=self.durable)
            await in_thread(say, self.receipts, ReceiptKind.ACK, task.message_id, task.agent, reason)
        self.saved.change(dispatches.changed(self.saved.tasks, task.message_id, acked=True))
