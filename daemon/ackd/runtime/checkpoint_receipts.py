"""Where work stands, said through receipts/: kept, said to the engine, and only then the receipt removed.

Owns that order, and that of two words about one message the later stays. Refuses to know which message a receipt means
(letterbox) and what is done with a checkpoint (the engine, and whoever is told next).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from ackd.core.events import CheckpointCame

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from ackd.adapters.checkpoints import Checkpoints
    from ackd.adapters.spool import Spool
    from ackd.core.book import Delivery
    from ackd.core.message import Receipt, ReceiptFile
    from ackd.ports import Post


@dataclass
class CheckpointReceipts:
    spool: Spool
    kept: Checkpoints
    post: Post
    tasks: TaskGroup
    record: Callable[[str, dict[str, object]], None]
    _under_way: set[ReceiptFile] = field(default_factory=set)
    #: Fair: whoever comes first writes first.
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    def take(self, receipt: Receipt, delivery: Delivery) -> None:
        if receipt.paper not in self._under_way:
            self._under_way.add(receipt.paper)
            self.tasks.start_soon(self._keep, receipt, delivery, name=f"checkpoint {receipt.name}")

    def refuse(self, receipt: Receipt) -> None:
        """Its message is over, or never was: nobody will go on with it."""
        about: dict[str, object] = {"message_id": receipt.message_id, "agent": receipt.agent}
        self.record("message_warning", {**about, "warning": "checkpoint for a message that is not open here"})
        self._remove(receipt.paper)

    async def _keep(self, receipt: Receipt, delivery: Delivery) -> None:
        said: dict[str, object] = {"text": receipt.text}
        if receipt.step is not None:
            said["current_step"] = receipt.step  # as a worker's checkpoint calls it
        try:
            async with self._writing:
                await self.kept.keep(delivery.agent, receipt.message_id, said)
        except OSError as error:  # the receipt stays, and the next scan meets it
            self.record("io_error", {"what": f"keep {receipt.name}", "error": str(error), "agent": delivery.agent})
        else:
            self.post(CheckpointCame(delivery.key))
            self._remove(receipt.paper)
        finally:
            self._under_way.discard(receipt.paper)

    def _remove(self, paper: ReceiptFile) -> None:
        try:
            self.spool.remove_receipt(*paper)
        except OSError as error:  # kept once more by the next scan, which changes nothing
            self.record("io_error", {"what": f"receipt {paper.name}", "error": str(error)})
