"""Reads the files that people and agents drop into receipts/, matches each with its message, and hands it on.

Three kinds of receipt have to wait. One that is still being written is read when it has settled. One whose message has
not been met yet waits as long as a file may take to settle, and is heard as soon as its message is met. One for a
message that is over may mean a dead letter, which is then shown to the engine.

A person's requests go to ``dead_letter_requests`` or ``agent_requests``, checkpoints to ``checkpoints``. A file that is
no receipt ends in queue/corrupt/.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.lowlevel

from ackd.core import events
from ackd.core.daemon_facts import io_error
from ackd.core.errors import BadReceipt
from ackd.core.events import CheckpointCame
from ackd.core.message import Place, ReceiptKind, Rejection
from ackd.core.message_facts import message_rejected, message_warning
from ackd.core.message_files import is_message_file
from ackd.core.words import AGENT_REQUESTS
from ackd.formats import ignite
from ackd.runtime.receipts.dead_letters import DeadLetters
from ackd.storage import maildrop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ackd.config.live import LiveConfig
    from ackd.core.message import Receipt, ReceiptFile
    from ackd.core.ports import Services
    from ackd.core.signals import MessageMet
    from ackd.core.state import Deliveries, Delivery
    from ackd.storage.checkpoints import CheckpointFiles
    from ackd.storage.spool import Spool

#: Receipts read before the event loop is given a turn.
SLICE: Final = 64
#: Age up to which a list of a queue's unread files is used again. A receipt that has waited once waits so long, too.
LIST_AGAIN_S: Final = 1.0
_DEAD_LETTER_REQUESTS: Final = frozenset({ReceiptKind.REQUEUE, ReceiptKind.PURGE})


class TakesReceipts(Protocol):
    """Acts on receipts of some kinds, and removes each when its effect is on disk."""

    def take(self, receipt: Receipt) -> None: ...


@dataclass(kw_only=True)
class Receipts:
    spool: Spool
    deliveries: Deliveries
    services: Services
    config: LiveConfig
    #: Returns the agent of that name, or None. A name in a receipt or a header does not make an agent known.
    called: Callable[[str], str | None]
    dead_letters: DeadLetters
    dead_letter_requests: TakesReceipts
    agent_requests: TakesReceipts
    reload_requests: TakesReceipts
    checkpoints: CheckpointReceipts
    #: Names of receipts that wait, and of those that have waited once for their message.
    _waiting: set[str] = field(default_factory=set)
    _waited: set[str] = field(default_factory=set)
    #: By message id: the receipts in ``_waiting`` that are about that message.
    _awaited: dict[str, set[str]] = field(default_factory=dict)
    #: Receipts for which the dead letters were searched.
    _searched: set[str] = field(default_factory=set)
    #: By box: when it was last listed, and the files in it that the engine did not know then.
    _listed: dict[str, tuple[float, list[Place]]] = field(default_factory=dict)

    @property
    def settle_s(self) -> float:
        return self.config.now.watch.settle_s

    def take(self, name: str) -> None:
        if name in self._waiting:
            return
        try:
            self._read(name)
        except FileNotFoundError:
            return
        except OSError as error:  # the next scan finds it again
            self.services.record(io_error(what=f"receipt {name}", error=str(error)))

    def _read(self, name: str) -> None:
        try:
            receipt = maildrop.read_receipt(self.spool.receipt_path(name))
        except BadReceipt as bad:
            self._refuse_if_settled(name, bad)
        else:
            self._match(receipt)

    async def scan(self) -> None:
        async for name in self._names():
            self.take(name)

    async def named(self) -> set[str]:
        """Return the ids of all messages that receipts are about, without acting on them. Unreadable ones are left
        out."""
        found: set[str] = set()
        async for name in self._names():
            with contextlib.suppress(OSError, BadReceipt):  # ``take`` reports the error
                found.add(maildrop.read_receipt(self.spool.receipt_path(name)).message_id)
        return found - {""}

    async def _names(self) -> AsyncIterator[str]:
        try:
            names = [entry.name for entry in self.spool.scan_receipts()]
        except OSError as error:
            self.services.record(io_error(what="list receipts", error=str(error)))
            return
        for number, name in enumerate(sorted(names, key=_time_of)):
            if number % SLICE == SLICE - 1:
                await anyio.lowlevel.checkpoint()
            yield name

    def was_met(self, met: MessageMet) -> None:
        """Hear the receipts that wait for this message, before anything is done with it."""
        if self._awaited and (names := self._awaited.pop(met.message_id, None)):
            for name in sorted(names, key=_time_of):
                self._waiting.discard(name)
                self.take(name)

    # --- matching -----------------------------------------------------------------------------------------------------
    def _match(self, receipt: Receipt) -> None:
        if receipt.kind is ReceiptKind.RELOAD:
            self.reload_requests.take(receipt)
        elif receipt.kind in AGENT_REQUESTS:
            self.agent_requests.take(receipt)
        elif receipt.kind is ReceiptKind.CHECKPOINT:
            self._match_checkpoint(receipt)
        elif self._may_mean_dead_letter(receipt) and not self.dead_letters.is_fresh():
            self._put_off(receipt)
            self.services.tasks.start_soon(self._search_dead_letters, receipt, name=f"dead letters for {receipt.name}")
        elif receipt.kind in _DEAD_LETTER_REQUESTS:
            self._searched.discard(receipt.name)
            self.dead_letter_requests.take(receipt)
        elif self.dead_letters.reopen(receipt) is not None or (
            receipt.name in self._waited and not self._still_to_come(receipt)
        ):
            self._waited.discard(receipt.name)
            self._searched.discard(receipt.name)
            self.services.post(events.ReceiptCame(receipt))
        else:
            self._put_off(receipt)
            self.services.tasks.start_soon(self._hear_later, receipt, name=f"receipt {receipt.name}")

    def _match_checkpoint(self, receipt: Receipt) -> None:
        """Keep the checkpoint of an open message. For a message that is over nobody will need it."""
        agent = self.called(receipt.agent) if receipt.agent else None
        delivery = self.deliveries.addressed(receipt.message_id, agent) if agent is not None else None
        if delivery is not None:
            self._waited.discard(receipt.name)
            self.checkpoints.take(receipt, delivery)
        elif receipt.name in self._waited and not self._still_to_come(receipt):
            self._waited.discard(receipt.name)
            self.checkpoints.refuse(receipt)
        else:
            self._put_off(receipt)
            self.services.tasks.start_soon(self._hear_later, receipt, name=f"receipt {receipt.name}")

    def _put_off(self, receipt: Receipt) -> None:
        self._waiting.add(receipt.name)
        if receipt.kind not in _DEAD_LETTER_REQUESTS:
            self._awaited.setdefault(receipt.message_id, set()).add(receipt.name)

    def _waits_no_longer(self, receipt: Receipt) -> bool:
        """End the receipt's wait. False if its message was met meanwhile, and the receipt was heard then."""
        if receipt.name not in self._waiting:
            return False
        self._waiting.discard(receipt.name)
        names = self._awaited.get(receipt.message_id, set())
        names.discard(receipt.name)
        if not names:
            self._awaited.pop(receipt.message_id, None)
        return True

    def _may_mean_dead_letter(self, receipt: Receipt) -> bool:
        """True if the receipt may mean a dead letter by its id: no open message has that id, and the dead letters were
        not searched for it yet."""
        if receipt.file is not None or receipt.name in self._searched:
            return False
        agent = self.called(receipt.agent) if receipt.agent else None
        return agent is None or not self.deliveries.is_known_to(receipt.message_id, agent)

    async def _search_dead_letters(self, receipt: Receipt) -> None:
        """Index the dead letters, of which very many may never have been read, then take the receipt again."""
        try:
            await self.dead_letters.refresh()
        except OSError as error:  # reported again when the letter is looked for
            self.services.record(io_error(what="list dead_letter", error=str(error)))
        if self._waits_no_longer(receipt):
            self._searched.add(receipt.name)
            self.take(receipt.name)

    async def _hear_later(self, receipt: Receipt) -> None:
        """Take a receipt again later. Its message may have been written in place and not be read yet, or not exist.

        From the second time on the wait is at least LIST_AGAIN_S: the list of unread files is not made more often, and
        ``settle_s`` may be zero.
        """
        await anyio.sleep(max(2 * self.settle_s, LIST_AGAIN_S if receipt.name in self._waited else 0.0))
        if self._waits_no_longer(receipt):
            self._waited.add(receipt.name)
            self.take(receipt.name)

    def _still_to_come(self, receipt: Receipt) -> bool:
        """True if the message lies in its agent's queue and has not been met: its writer has not finished."""
        agent = self.called(receipt.agent) if receipt.agent else None
        for box in (box for box in self.spool.boxes() if agent is not None and self.called(box) == agent):
            for place in self._unmet(box):
                if self.deliveries.at(place) is None and self.spool.mentions(place, receipt.message_id):
                    return True
        return False

    def _unmet(self, box: str) -> list[Place]:
        """List the files of a queue that the engine does not know. Listed at most once in LIST_AGAIN_S: a queue may be
        long, and there may be many receipts without a message."""
        now = self.services.clock.now().mono
        listed_at, places = self._listed.get(box, (-math.inf, []))
        if now - listed_at > LIST_AGAIN_S:
            found = (place for place, _ in self.spool.scan(box) if is_message_file(place.name))
            places = [place for place in found if self.deliveries.at(place) is None]
            self._listed[box] = (now, places)
        return places

    # --- files that are no receipts -----------------------------------------------------------------------------------
    def _refuse_if_settled(self, name: str, bad: BadReceipt) -> None:
        """Refuse a bad receipt if it has settled; else read it again later, for its writer may not have finished."""
        if self.spool.receipt_settled(name, self.services.clock.now().wall, self.settle_s):
            self._refuse(name, bad)
        else:
            self._waiting.add(name)
            self.services.tasks.start_soon(self._wait_until_settled, name, name=f"settle {name}")

    async def _wait_until_settled(self, name: str) -> None:
        try:
            while not self.spool.receipt_settled(name, self.services.clock.now().wall, self.settle_s):  # noqa: ASYNC110
                await anyio.sleep(max(self.settle_s / 4, 0.05))
        except OSError:
            return  # gone, or not readable, which the scan reports
        finally:
            self._waiting.discard(name)
        self.take(name)

    def _refuse(self, name: str, bad: BadReceipt) -> None:
        at = ignite.iso_seconds(self.services.clock.now().wall)
        try:
            kept_as = self.spool.quarantine_receipt(name, Rejection.BAD_RECEIPT.value, str(bad), at)
        except FileNotFoundError:
            return
        except OSError as error:
            self.services.record(io_error(what=f"receipt {name}", error=str(error)))
            return
        why = (
            f"1 receipt, receipts/{name}, could not be understood: {bad}. It was not heard, and is kept as "
            f"queue/corrupt/{kept_as}"
        )
        cure = "Whoever wrote it says it again by `ackd ack`, `done`, `refuse` or `defer`, which get the form right"
        self.services.post(events.TroubleSeen("quarantine", f"receipts/{name}", why, cure))
        self.services.record(
            message_rejected(
                file=f"receipts/{name}", code=Rejection.BAD_RECEIPT.value, reason=str(bad), kept_as=kept_as
            )
        )


def _time_of(name: str) -> str:
    """Return the time in a receipt's name. Of two receipts about one message the later one must be heard later."""
    return name.rpartition("_")[2]


@dataclass(kw_only=True)
class CheckpointReceipts:
    spool: Spool
    kept: CheckpointFiles
    services: Services
    _under_way: set[ReceiptFile] = field(default_factory=set)
    #: Fair: checkpoints are written in the order in which they came.
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    def take(self, receipt: Receipt, delivery: Delivery) -> None:
        if receipt.receipt_file not in self._under_way:
            self._under_way.add(receipt.receipt_file)
            self.services.tasks.start_soon(self._keep, receipt, delivery, name=f"checkpoint {receipt.name}")

    def refuse(self, receipt: Receipt) -> None:
        """Log and remove a checkpoint whose message is over or never existed: nobody will continue from it."""
        self.services.record(
            message_warning(
                message_id=receipt.message_id,
                agent=receipt.agent,
                warning="checkpoint for a message that is not open here",
            )
        )
        self._remove(receipt.receipt_file)

    async def _keep(self, receipt: Receipt, delivery: Delivery) -> None:
        said: dict[str, object] = {"text": receipt.text}
        if receipt.step is not None:
            said["current_step"] = receipt.step  # the field name of a worker's checkpoint
        try:
            async with self._writing:
                await self.kept.keep(delivery.agent, receipt.message_id, said)
        except OSError as error:  # the receipt stays, and the next scan finds it
            self.services.record(io_error(what=f"keep {receipt.name}", error=str(error), agent=delivery.agent))
        else:
            self.services.post(CheckpointCame(delivery.key))
            self._remove(receipt.receipt_file)
        finally:
            self._under_way.discard(receipt.receipt_file)

    def _remove(self, receipt_file: ReceiptFile) -> None:
        try:
            self.spool.remove_receipt(*receipt_file)
        except OSError as error:  # the next scan saves the same checkpoint again, which changes nothing
            self.services.record(io_error(what=f"receipt {receipt_file.name}", error=str(error)))
