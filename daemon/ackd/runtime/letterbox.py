"""What people and agents drop into receipts/: read, matched with its message, handed on.

Owns three patiences: a receipt that is still being written is read when it has settled; one whose message has not been
met yet waits as long as a file may take to settle, and is heard as soon as it is met; one for a message that is over
may mean a dead letter, which is then put before the engine. Requests of a person go to ``operate`` or ``requests``,
checkpoints to ``checkpoints``. What is no receipt ends in queue/corrupt/.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from ackd.adapters import maildrop
from ackd.core import events
from ackd.core.errors import BadMessage, BadReceipt
from ackd.core.message import Folder, Place, ReceiptKind, Rejection
from ackd.core.message_files import is_message_file
from ackd.core.words import AGENT_REQUESTS
from ackd.dialects import ignite
from ackd.runtime.dead_letters import DeadLetters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Container

    from anyio.abc import TaskGroup

    from ackd.adapters.spool import Spool
    from ackd.core.book import Book
    from ackd.core.message import Message, Receipt
    from ackd.ports import Clock, Post
    from ackd.runtime.agent_requests import AgentRequests
    from ackd.runtime.checkpoint_receipts import CheckpointReceipts

#: Receipts read between two breaths of the loop.
SLICE: Final = 64
#: How old a list of a queue's unread files may be for a receipt that has already waited.
LIST_AGAIN_S: Final = 1.0
_OPERATOR: Final = frozenset({ReceiptKind.REQUEUE, ReceiptKind.PURGE})


@dataclass
class Letterbox:
    spool: Spool
    book: Book
    clock: Clock
    post: Post
    tasks: TaskGroup
    settle_s: float
    extra_types: Container[str]
    #: The agent of that name, or None: names in receipts and headers make nobody known.
    called: Callable[[str], str | None]
    record: Callable[[str, dict[str, object]], None]
    operate: Callable[[Receipt], None]
    requests: AgentRequests
    checkpoints: CheckpointReceipts
    _waiting: set[str] = field(default_factory=set)
    _waited: set[str] = field(default_factory=set)
    #: By message: which of those in ``_waiting`` are about it.
    _awaited: dict[str, set[str]] = field(default_factory=dict)
    #: Receipts for which the dead letters were looked through.
    _sought: set[str] = field(default_factory=set)
    #: By box: when it was last listed, and what in it the engine did not know then.
    _listed: dict[str, tuple[float, list[Place]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.letters = DeadLetters(self.spool)

    def take(self, name: str) -> None:
        if name in self._waiting:
            return
        try:
            self._read(name)
        except FileNotFoundError:
            return
        except OSError as error:  # the next scan meets it again
            self.record("io_error", {"what": f"receipt {name}", "error": str(error)})

    def _read(self, name: str) -> None:
        try:
            receipt = maildrop.read_receipt(self.spool.receipt_path(name))
        except BadReceipt as bad:
            self._doubt(name, bad)
        else:
            self._match(receipt)

    async def scan(self) -> None:
        async for name in self._names():
            self.take(name)

    async def named(self) -> set[str]:
        """Ids of messages that receipts are about, none of which is heard by this. What cannot be read names none."""
        found: set[str] = set()
        async for name in self._names():
            with contextlib.suppress(OSError, BadReceipt):  # whoever takes it says why
                found.add(maildrop.read_receipt(self.spool.receipt_path(name)).message_id)
        return found - {""}

    async def _names(self) -> AsyncIterator[str]:
        try:
            names = [entry.name for entry in self.spool.scan_receipts()]
        except OSError as error:
            self.record("io_error", {"what": "list receipts", "error": str(error)})
            return
        for number, name in enumerate(sorted(names, key=_time_of)):
            if number % SLICE == SLICE - 1:
                await anyio.lowlevel.checkpoint()
            yield name

    def was_met(self, _type: str, message: dict[str, object]) -> None:
        """The engine has just met this message, and nothing is done with it yet: what waits for it is heard now."""
        if self._awaited and (names := self._awaited.pop(str(message["message_id"]), None)):
            for name in sorted(names, key=_time_of):
                self._waiting.discard(name)
                self.take(name)

    # --- matching -----------------------------------------------------------------------------------------------------
    def _match(self, receipt: Receipt) -> None:
        if receipt.kind in AGENT_REQUESTS:
            self.requests.take(receipt)
        elif receipt.kind is ReceiptKind.CHECKPOINT:
            self._match_checkpoint(receipt)
        elif self._means_a_letter(receipt) and not self.letters.is_fresh():
            self._put_off(receipt)
            self.tasks.start_soon(self._seek, receipt, name=f"dead letters for {receipt.name}")
        elif receipt.kind in _OPERATOR:
            self._sought.discard(receipt.name)
            self.operate(receipt)
        elif self.dig_up(receipt) is not None or (receipt.name in self._waited and not self._still_to_come(receipt)):
            self._waited.discard(receipt.name)
            self._sought.discard(receipt.name)
            self.post(events.ReceiptCame(receipt))
        else:
            self._put_off(receipt)
            self.tasks.start_soon(self._hear_later, receipt, name=f"receipt {receipt.name}")

    def _match_checkpoint(self, receipt: Receipt) -> None:
        """Of an open message only: for one that is over nobody will need it."""
        agent = self.called(receipt.agent) if receipt.agent else None
        delivery = self.book.addressed(receipt.message_id, agent) if agent is not None else None
        if delivery is not None:
            self._waited.discard(receipt.name)
            self.checkpoints.take(receipt, delivery)
        elif receipt.name in self._waited and not self._still_to_come(receipt):
            self._waited.discard(receipt.name)
            self.checkpoints.refuse(receipt)
        else:
            self._put_off(receipt)
            self.tasks.start_soon(self._hear_later, receipt, name=f"receipt {receipt.name}")

    def _put_off(self, receipt: Receipt) -> None:
        self._waiting.add(receipt.name)
        if receipt.kind not in _OPERATOR:
            self._awaited.setdefault(receipt.message_id, set()).add(receipt.name)

    def _waits_no_longer(self, receipt: Receipt) -> bool:
        """False if its message was met meanwhile: then the receipt was heard."""
        if receipt.name not in self._waiting:
            return False
        self._waiting.discard(receipt.name)
        names = self._awaited.get(receipt.message_id, set())
        names.discard(receipt.name)
        if not names:
            self._awaited.pop(receipt.message_id, None)
        return True

    def _means_a_letter(self, receipt: Receipt) -> bool:
        """By its id, which no open message has, and they were not looked through for it yet."""
        if receipt.file is not None or receipt.name in self._sought:
            return False
        agent = self.called(receipt.agent) if receipt.agent else None
        return agent is None or not self.book.of_id(receipt.message_id, agent)

    async def _seek(self, receipt: Receipt) -> None:
        """It may mean a dead letter, and there may be very many that were never looked at."""
        try:
            await self.letters.refresh()
        except OSError as error:  # said again when the letter is asked for
            self.record("io_error", {"what": "list dead_letter", "error": str(error)})
        if self._waits_no_longer(receipt):
            self._sought.add(receipt.name)
            self.take(receipt.name)

    async def _hear_later(self, receipt: Receipt) -> None:
        """Quicker than its message, which may have been written in place and not be read yet; or for none at all.

        From the second time on at leisure: the list of what is unread is no newer, and ``settle_s`` may be nothing.
        """
        await anyio.sleep(max(2 * self.settle_s, LIST_AGAIN_S if receipt.name in self._waited else 0.0))
        if self._waits_no_longer(receipt):
            self._waited.add(receipt.name)
            self.take(receipt.name)

    def _still_to_come(self, receipt: Receipt) -> bool:
        """Whether its message lies in its agent's queue and has not been met: its writer is still at it."""
        agent = self.called(receipt.agent) if receipt.agent else None
        for box in (box for box in self.spool.boxes() if agent is not None and self.called(box) == agent):
            for place in self._unmet(box):
                if self.book.at(place) is None and self.spool.mentions(place, receipt.message_id):
                    return True
        return False

    def _unmet(self, box: str) -> list[Place]:
        """Listed at most once in a while: a queue may be long, and receipts that mean nothing many."""
        now = self.clock.now().mono
        listed_at, places = self._listed.get(box, (-math.inf, []))
        if now - listed_at > LIST_AGAIN_S:
            found = (place for place, _ in self.spool.scan(box) if is_message_file(place.name))
            places = [place for place in found if self.book.at(place) is None]
            self._listed[box] = (now, places)
        return places

    def dig_up(self, receipt: Receipt) -> tuple[str, str] | None:
        """A receipt for a message the engine has let go may mean a dead letter: a late completion, or a requeue.

        The message's id and agent, once the engine knows of it (or will, when it reads what was posted here).
        """
        agent = self.called(receipt.agent) if receipt.agent else None
        if receipt.agent is not None and agent is None:
            return None  # the engine knows nobody to ask about it, and would keep the letter open
        if agent is not None and self.book.of_id(receipt.message_id, agent):
            return receipt.message_id, agent
        for name in self.letters.named(receipt.message_id, receipt.file):
            found = self._dead(name)
            if found is None or (agent is not None and found[0].recipient != agent):
                continue
            message, place, mtime = found
            if receipt.message_id in ("", message.message_id):
                self.post(events.Arrived(message, place, mtime))
                return message.message_id, message.recipient
        return None

    def _dead(self, name: str) -> tuple[Message, Place, float] | None:
        place = Place("", Folder.DEAD, name)
        try:
            file = self.spool.read(place)
            fields = dict(ignite.headers(file.data))
            recipient = self.called(fields.get("X-IGNITE-Recipient") or fields["To"].split(",")[0].strip())
            if recipient is None:
                return None
            message = ignite.decode(file.data, recipient, extra_types=self.extra_types)
        except (OSError, BadMessage, KeyError):
            return None
        return message, Place(recipient, Folder.DEAD, name), file.mtime

    # --- what is none -------------------------------------------------------------------------------------------------
    def _doubt(self, name: str, bad: BadReceipt) -> None:
        """Whoever writes in place may not be through yet: what is open, or has just changed, is read once more."""
        if self.spool.receipt_settled(name, self.clock.now().wall, self.settle_s):
            self._refuse(name, bad)
        else:
            self._waiting.add(name)
            self.tasks.start_soon(self._wait_until_settled, name, name=f"settle {name}")

    async def _wait_until_settled(self, name: str) -> None:
        try:
            while not self.spool.receipt_settled(name, self.clock.now().wall, self.settle_s):  # noqa: ASYNC110
                await anyio.sleep(max(self.settle_s / 4, 0.05))
        except OSError:
            return  # gone, or not to be looked at: the scan will say so
        finally:
            self._waiting.discard(name)
        self.take(name)

    def _refuse(self, name: str, bad: BadReceipt) -> None:
        at = ignite.iso_seconds(self.clock.now().wall)
        try:
            kept_as = self.spool.quarantine_receipt(name, Rejection.BAD_RECEIPT.value, str(bad), at)
        except FileNotFoundError:
            return
        except OSError as error:
            self.record("io_error", {"what": f"receipt {name}", "error": str(error)})
            return
        why = (
            f"1 receipt, receipts/{name}, could not be understood: {bad}. 1 of 1 (100%) was not heard, and is kept as "
            f"queue/corrupt/{kept_as}"
        )
        cure = "Whoever wrote it says it again by `ackd ack`, `done`, `refuse` or `defer`, which get the form right"
        self.post(events.TroubleSeen("quarantine", f"receipts/{name}", why, cure))
        data = {"file": f"receipts/{name}", "code": Rejection.BAD_RECEIPT.value}
        self.record("message_rejected", {**data, "reason": str(bad), "kept_as": kept_as})


def _time_of(name: str) -> str:
    """What a receipt's name says of when it was written: of two words the later must be heard later."""
    return name.rpartition("_")[2]
