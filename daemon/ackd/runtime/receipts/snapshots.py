"""Takes a snapshot of the root when ``ackd backup`` asks for one through receipts/.

All of it happens between two turns of the loop, without giving the loop a chance: nothing is moved, claimed or archived
meanwhile, and what lies on disk is what a crash at this moment would leave, which every start can go on from. The
lines and journal entries that were made so far are written first. The answer is ``taken.json`` in the snapshot's
directory, and a line of the log.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackd.core.daemon_facts import io_error, snapshot_taken
from ackd.storage.backup import snapshot
from ackd.storage.backup.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.core.message import Receipt, ReceiptFile
    from ackd.core.ports import Services
    from ackd.storage.spool import Spool


@dataclass(kw_only=True)
class SnapshotRequests:
    root: Path
    spool: Spool
    services: Services
    #: Writes the lines and journal entries that were made so far.
    commit: Callable[[], None]
    #: Receipts that were heard, of which there are as many as backups.
    _heard: set[ReceiptFile] = field(default_factory=set, init=False)

    def take(self, receipt: Receipt) -> None:
        if receipt.receipt_file in self._heard:
            self._remove(receipt)  # the disk refused to, or a hint came twice
            return
        self._heard.add(receipt.receipt_file)
        self.services.tasks.start_soon(self._take, receipt, name=f"snapshot {receipt.file}")

    async def _take(self, receipt: Receipt) -> None:
        """Take it. Nothing here may wait: the loop stands still until it is done."""
        began, files, error = time.monotonic(), 0, None
        try:
            files = self._snapshot(receipt.file or "")
        except OSError as refused:
            error = f"{refused.filename or receipt.file}: {refused.strerror or refused}"
        seconds = round(time.monotonic() - began, 3)
        self.services.record(snapshot_taken(receipt=receipt.name, files=files, seconds=seconds, error=error))
        self._remove(receipt)

    def _snapshot(self, name: str) -> int:
        if not snapshot.is_name(name):
            raise FileNotFoundError(2, "no name of a snapshot", name)
        self.commit()
        return Snapshot(self.root, name).take(self.services.clock.now().wall)

    def _remove(self, receipt: Receipt) -> None:
        try:
            self.spool.remove_receipt(*receipt.receipt_file)
        except OSError as error:
            self.services.record(io_error(what=f"receipt {receipt.name}", error=str(error)))
