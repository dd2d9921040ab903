"""Requeues or purges a dead letter or a quarantined file, as a person asks through receipts/.

Only the holder of the root's lock moves files, so ``ackd dead`` asks the daemon when one is running. A dead letter goes
back through the engine. A quarantined file was never a message, so it is moved here, and the watcher finds it like any
new file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from ackd.core import events
from ackd.core.errors import BadMessage, BadName
from ackd.core.message import Folder, Place, ReceiptKind, identity
from ackd.core.message_facts import message_purged, message_requeued, message_warning
from ackd.core.names import dead_letter_recipient
from ackd.formats import ignite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.config.live import LiveConfig
    from ackd.core.message import Receipt
    from ackd.core.ports import Post, Services
    from ackd.core.state import Deliveries
    from ackd.storage.spool import Spool

#: Headers read before the event loop is given a turn.
SLICE: Final = 64
#: A directory that changed less than this ago may change again without a new timestamp.
_TICK_NS: Final = 50_000_000


@dataclass(kw_only=True)
class DeadLetters:
    spool: Spool
    deliveries: Deliveries
    #: Returns the agent of that name, or None.
    called: Callable[[str], str | None]
    post: Post
    config: LiveConfig
    #: By file name: the inode number and the message id, which is None for a file that is no message.
    _letters: dict[str, tuple[int, str | None]] = field(default_factory=dict, init=False)
    _by_id: dict[str, set[str]] = field(default_factory=dict, init=False)
    _reading: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _listed_at: int | None = field(default=None, init=False)

    def named(self, message_id: str, file: str | None = None) -> list[str]:
        """Return the names of the dead letters with this id; or, if a file is named, that file, if it is there."""
        if file is not None:
            return [file] if self.spool.exists(Place("", Folder.DEAD, file)) else []
        for _ in self._update():
            pass
        return sorted(self._by_id.get(message_id, ()))

    async def refresh(self) -> None:
        """Bring the index up to date without holding up the loop. Used first, when there may be very many letters."""
        async with self._reading:  # a second caller waits, and finds the index up to date
            for number, _ in enumerate(self._update()):
                if number % SLICE == SLICE - 1:
                    await anyio.lowlevel.checkpoint()

    def is_fresh(self) -> bool:
        return self._listed_at is not None and self._listed_at == self.spool.dead_letters.changed_at()

    def reopen(self, receipt: Receipt) -> tuple[str, str] | None:
        """Show the engine the dead letter that a receipt means, if there is one: a late completion, or a requeue.

        Returns the message's id and agent if the engine knows the message, or will when it handles the event that is
        posted here.
        """
        agent = self.called(receipt.agent) if receipt.agent else None
        if receipt.agent is not None and agent is None:
            return None  # for an unknown agent the engine would keep the letter open for ever
        if agent is not None and self.deliveries.is_known_to(receipt.message_id, agent):
            return receipt.message_id, agent
        for name in self.named(receipt.message_id, receipt.file):
            found = self._dead(name)
            if found is None or (agent is not None and not self._may_mean(receipt, agent, found)):
                continue
            if receipt.message_id in ("", found.message.message_id):
                self.post(found)
                return found.message.message_id, found.message.recipient
        return None

    def _may_mean(self, receipt: Receipt, agent: str, letter: events.Arrived) -> bool:
        """True if the letter is the agent's own, or a pool's whose member completes it after all."""
        to = letter.message.recipient
        had_by = letter.standing.had_by if letter.standing is not None else ()
        return to == agent or (receipt.kind is ReceiptKind.DONE and agent in had_by)

    def _dead(self, name: str) -> events.Arrived | None:
        place = Place("", Folder.DEAD, name)
        try:
            file = self.spool.read(place)
            fields = ignite.split_head(file.data).fields
            named = dead_letter_recipient(fields.get("x-ignite-recipient"), fields.get("to"))
            recipient = self.called(named) if named else None
            if recipient is None:
                return None
            message = ignite.decode(file.data, recipient, extra_types=self.config.now.accepted_types)
        except (OSError, BadMessage):
            return None
        return events.Arrived(message, Place(recipient, Folder.DEAD, name), file.mtime, ignite.standing(file.data))

    def _update(self) -> Iterator[None]:
        """Bring the index up to date. Yields after each header that is read."""
        if self.is_fresh():
            return
        changed_at = self.spool.dead_letters.changed_at()
        there = self.spool.dead_letters.files()
        for name in [name for name, (number, _) in self._letters.items() if there.get(name) != number]:
            self._drop(name)
        for name in there.keys() - self._letters.keys():
            if name not in self._letters:  # ``named`` may have added it while this waited
                self._add(name, there[name])
            yield
        long_ago = changed_at is None or time.time_ns() - changed_at > _TICK_NS
        self._listed_at = changed_at if long_ago else None

    def _add(self, name: str, number: int) -> None:
        message_id = _id_of(self.spool.dead_letters.head(name))
        self._letters[name] = (number, message_id)
        if message_id is not None:
            self._by_id.setdefault(message_id, set()).add(name)

    def _drop(self, name: str) -> None:
        _, message_id = self._letters.pop(name)
        if message_id is not None:
            self._by_id[message_id].discard(name)
            if not self._by_id[message_id]:
                del self._by_id[message_id]


def _id_of(head: bytes | None) -> str | None:
    try:
        return None if head is None else ignite.bare_id(ignite.split_head(head).fields.get("message-id", ""))
    except BadMessage:
        return None


@dataclass(kw_only=True)
class DeadLetterRequests:
    spool: Spool
    services: Services
    dead_letters: DeadLetters
    #: Called with the folder from which a file was removed, so that it is not counted any more.
    purged: Callable[[Folder], None]

    def take(self, receipt: Receipt) -> None:
        try:
            if receipt.kind is ReceiptKind.PURGE:
                self._purge(receipt)
            else:
                self._requeue(receipt)
        except (OSError, BadName) as error:
            self._note(receipt, f"{receipt.kind.value} failed: {error}")
        else:
            return
        self.spool.remove_receipt(*receipt.receipt_file)

    def _requeue(self, receipt: Receipt) -> None:
        if _folder(receipt) is Folder.CORRUPT:
            self._requeue_corrupt(receipt.file or "")
        elif len(letters := self._letters(receipt)) > 1:
            self._note(receipt, f"requeue: {_several(letters)}")
        elif (found := self.dead_letters.reopen(receipt)) is not None:
            message_id, agent = found
            self.services.post(events.ReceiptCame(replace(receipt, message_id=message_id, agent=agent)))
            return
        else:
            self._note(receipt, "requeue: no such dead letter")
        self.spool.remove_receipt(*receipt.receipt_file)

    def _requeue_corrupt(self, name: str) -> None:
        place = self.spool.requeue_corrupt(name)
        self.services.record(message_requeued(agent=place.box, file=str(place), kept_as=name))
        self.purged(Folder.CORRUPT)

    def _purge(self, receipt: Receipt) -> None:
        folder = _folder(receipt)
        names = self._letters(receipt) if folder is Folder.DEAD else self._quarantined(receipt)
        if not names:
            self._note(receipt, "purge: no such dead letter or quarantined file")
        elif len(names) > 1:
            self._note(receipt, f"purge: {_several(names)}")
        else:
            letter = _letter(self.spool.dead_letters.head(names[0])) if folder is Folder.DEAD else None
            self.spool.purge(folder, names[0])
            self.purged(folder)
            if letter is not None:
                self.services.post(letter)
            self.services.record(message_purged(file=str(Place("", folder, names[0])), **_named(receipt)))
        self.spool.remove_receipt(*receipt.receipt_file)

    def _letters(self, receipt: Receipt) -> list[str]:
        """Return the names of the dead letters that are meant. An id may mean several: one for each recipient."""
        names = self.dead_letters.named(receipt.message_id, receipt.file)
        if not receipt.message_id:  # the file is no readable message, and is meant by its name
            return names
        return [name for name in names if _is_meant(receipt, self.spool.dead_letters.head(name))]

    def _quarantined(self, receipt: Receipt) -> list[str]:
        name = receipt.file
        return [name] if name is not None and self.spool.exists(Place("", Folder.CORRUPT, name)) else []

    def _note(self, receipt: Receipt, warning: str) -> None:
        self.services.record(message_warning(warning=warning, **_named(receipt)))


def _named(receipt: Receipt) -> dict[str, Any]:
    """Return the message id and agent that the request names. One that it leaves out is absent from the line, too."""
    said = {"message_id": receipt.message_id, "agent": receipt.agent}
    return {key: value for key, value in said.items() if value}


def _folder(receipt: Receipt) -> Folder:
    """Return the folder of the file that is meant.

    An id means a dead letter. A mere file name means a quarantined file, unless the request names the folder: when the
    request is heard again after a crash, and the quarantined file is gone, it must not mean a dead letter of that name.
    """
    if receipt.folder is not None:
        return receipt.folder
    return Folder.DEAD if receipt.message_id or receipt.file is None else Folder.CORRUPT


def _is_meant(receipt: Receipt, head: bytes | None) -> bool:
    """True if the letter has the id of the request and, unless the request names the file, is for its agent (if it
    names one)."""
    letter = _letter(head)
    if letter is None or letter.message_id != receipt.message_id:
        return False
    return receipt.agent is None or receipt.file is not None or identity(receipt.agent) == identity(letter.agent)


def _letter(head: bytes | None) -> events.LetterPurged | None:
    """Read from the header which letter this is, by id and recipient. None if it is no message."""
    try:
        fields = ignite.split_head(head or b"").fields
    except BadMessage:
        return None
    recipient = dead_letter_recipient(fields.get("x-ignite-recipient"), fields.get("to"))
    return events.LetterPurged(ignite.bare_id(fields.get("message-id", "")), recipient or "")


def _several(names: list[str]) -> str:
    return f"{len(names)} dead letters have that id: name the file, {' or '.join(names[:5])}"
