"""What a person asks for through receipts/: digging a dead letter or quarantined file up, or removing one for good.

Only the holder of the root's lock moves files, so ``ackd dead`` asks the daemon when one is running. A dead letter goes
back through the engine; a quarantined file was never a message, so it is moved here and met by the watcher like any
other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ackd.core import events
from ackd.core.errors import BadMessage, BadName
from ackd.core.message import Folder, Place, ReceiptKind
from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.adapters.spool import Spool
    from ackd.core.book import Book
    from ackd.core.message import Receipt
    from ackd.ports import Post


@dataclass
class Operator:
    spool: Spool
    book: Book
    post: Post
    record: Callable[[str, dict[str, object]], None]
    #: Puts the dead letter a receipt means before the engine: its (message id, agent), or None.
    dig_up: Callable[[Receipt], tuple[str, str] | None]
    purged: Callable[[Folder], None]
    #: Names of the dead letters that may be meant by an id, or by a file's name.
    letters_of: Callable[[str, str | None], list[str]]

    def operate(self, receipt: Receipt) -> None:
        try:
            if receipt.kind is ReceiptKind.PURGE:
                self._purge(receipt)
            else:
                self._requeue(receipt)
        except (OSError, BadName) as error:
            self._note(receipt, f"{receipt.kind.value} failed: {error}")
        else:
            return
        self.spool.remove_receipt(*receipt.paper)

    def _requeue(self, receipt: Receipt) -> None:
        found = None if self._is_quarantined(receipt) else self.dig_up(receipt)
        if found is not None:
            message_id, agent = found
            self.post(events.ReceiptCame(_addressed(receipt, message_id, agent)))
            return
        if receipt.file is None:
            self._note(receipt, "requeue: no such dead letter")
        else:
            place = self.spool.requeue_corrupt(receipt.file)
            self.record("message_requeued", {"agent": place.box, "file": str(place), "kept_as": receipt.file})
            self.purged(Folder.CORRUPT)
        self.spool.remove_receipt(*receipt.paper)

    def _purge(self, receipt: Receipt) -> None:
        folder, name = self._grave(receipt)
        if name is None:
            self._note(receipt, "purge: no such dead letter or quarantined file")
        else:
            self.spool.purge(folder, name)
            self.purged(folder)
            self.record("message_purged", {"file": str(Place("", folder, name)), **_named(receipt)})
        self.spool.remove_receipt(*receipt.paper)

    def _grave(self, receipt: Receipt) -> tuple[Folder, str | None]:
        if self._is_quarantined(receipt):
            return Folder.CORRUPT, receipt.file
        if receipt.file is not None and not receipt.message_id:  # no message any more, or never one
            there = self.spool.exists(Place("", Folder.DEAD, receipt.file))
            return Folder.DEAD, receipt.file if there else None
        for name in self.letters_of(receipt.message_id, receipt.file):
            if _id_of(self.spool.graves.head(name)) == receipt.message_id:
                return Folder.DEAD, name
        return Folder.DEAD, None

    def _is_quarantined(self, receipt: Receipt) -> bool:
        """An id says that a dead letter is meant, though a quarantined file may bear the same name."""
        if receipt.message_id or receipt.file is None:
            return False
        return self.spool.exists(Place("", Folder.CORRUPT, receipt.file))

    def _note(self, receipt: Receipt, warning: str) -> None:
        self.record("message_warning", {"warning": warning, **_named(receipt)})


def _named(receipt: Receipt) -> dict[str, object]:
    """What the request says of its message; what it leaves out is absent from the line, too."""
    said = {"message_id": receipt.message_id, "agent": receipt.agent}
    return {key: value for key, value in said.items() if value}


def _id_of(head: bytes | None) -> str | None:
    if head is None:
        return None
    try:
        fields = ignite.split_head(head).fields
    except BadMessage:
        return None
    return ignite.bare_id(fields.get("message-id", ""))


def _addressed(receipt: Receipt, message_id: str, agent: str) -> Receipt:
    return replace(receipt, message_id=message_id, agent=agent)
