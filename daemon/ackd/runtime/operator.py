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
from ackd.core.message import Folder, Place, ReceiptKind, identity
from ackd.dialects import ignite

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.adapters.spool import Spool
    from ackd.core.message import Receipt
    from ackd.ports import Post


@dataclass
class Operator:
    spool: Spool
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
        if _folder(receipt) is Folder.CORRUPT:
            self._requeue_corrupt(receipt.file or "")
        elif len(letters := self._letters(receipt)) > 1:
            self._note(receipt, f"requeue: {_several(letters)}")
        elif (found := self.dig_up(receipt)) is not None:
            message_id, agent = found
            self.post(events.ReceiptCame(replace(receipt, message_id=message_id, agent=agent)))
            return
        else:
            self._note(receipt, "requeue: no such dead letter")
        self.spool.remove_receipt(*receipt.paper)

    def _requeue_corrupt(self, name: str) -> None:
        place = self.spool.requeue_corrupt(name)
        self.record("message_requeued", {"agent": place.box, "file": str(place), "kept_as": name})
        self.purged(Folder.CORRUPT)

    def _purge(self, receipt: Receipt) -> None:
        folder = _folder(receipt)
        names = self._letters(receipt) if folder is Folder.DEAD else self._quarantined(receipt)
        if not names:
            self._note(receipt, "purge: no such dead letter or quarantined file")
        elif len(names) > 1:
            self._note(receipt, f"purge: {_several(names)}")
        else:
            letter = _letter(self.spool.graves.head(names[0])) if folder is Folder.DEAD else None
            self.spool.purge(folder, names[0])
            self.purged(folder)
            if letter is not None:
                self.post(letter)
            self.record("message_purged", {"file": str(Place("", folder, names[0])), **_named(receipt)})
        self.spool.remove_receipt(*receipt.paper)

    def _letters(self, receipt: Receipt) -> list[str]:
        """Names of those that are meant. By an id several may be: it died at several recipients."""
        names = self.letters_of(receipt.message_id, receipt.file)
        if not receipt.message_id:  # no message any more, or never one
            return names
        return [name for name in names if _is_meant(receipt, self.spool.graves.head(name))]

    def _quarantined(self, receipt: Receipt) -> list[str]:
        name = receipt.file
        return [name] if name is not None and self.spool.exists(Place("", Folder.CORRUPT, name)) else []

    def _note(self, receipt: Receipt, warning: str) -> None:
        self.record("message_warning", {"warning": warning, **_named(receipt)})


def _named(receipt: Receipt) -> dict[str, object]:
    """What the request says of its message; what it leaves out is absent from the line, too."""
    said = {"message_id": receipt.message_id, "agent": receipt.agent}
    return {key: value for key, value in said.items() if value}


def _folder(receipt: Receipt) -> Folder:
    """An id says that a dead letter is meant. A mere name says so little that it must be said where the file lies, or a
    quarantined one is meant: heard again after a crash, when that is gone, it must not mean the letter of its name."""
    if receipt.folder is not None:
        return receipt.folder
    return Folder.DEAD if receipt.message_id or receipt.file is None else Folder.CORRUPT


def _is_meant(receipt: Receipt, head: bytes | None) -> bool:
    """By its id; and unless the file was named, by whose it is, if that is said."""
    letter = _letter(head)
    if letter is None or letter.message_id != receipt.message_id:
        return False
    return receipt.agent is None or receipt.file is not None or identity(receipt.agent) == identity(letter.agent)


def _letter(head: bytes | None) -> events.LetterPurged | None:
    """Which letter it is, if it is one: its id, and for whom it died."""
    try:
        fields = ignite.split_head(head or b"").fields
    except BadMessage:
        return None
    whose = fields.get("x-ignite-recipient") or fields.get("to", "").split(",")[0].strip()
    return events.LetterPurged(ignite.bare_id(fields.get("message-id", "")), whose)


def _several(names: list[str]) -> str:
    return f"{len(names)} dead letters have that id: name the file, {' or '.join(names[:5])}"
