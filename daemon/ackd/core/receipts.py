"""What a receipt does, and how long its file is kept.

A receipt is dropped only when what it says is on disk some other way: an ack when the status is written, a done when
the file is archived. Until then it is read again after a crash, and says the same again. A hint may come twice; a
receipt is heard once; another file under its name is another receipt. Refuses to know how receipts are written or read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import calling, endings, facts, holding
from ackd.core.acts import IN_HAND, apply, fail
from ackd.core.arrivals import hear_out
from ackd.core.delivery import MOVING, SHOWN, Happening, State
from ackd.core.effects import DropReceipt, RecordFact
from ackd.core.message import Receipt, ReceiptKind

if TYPE_CHECKING:
    from ackd.core.book import Delivery
    from ackd.core.desk import Desk
    from ackd.core.message import ReceiptFile

H, S = Happening, State

_HAPPENS: Final = {
    ReceiptKind.SEEN: H.SEEN,
    ReceiptKind.ACK: H.ACKED,
    ReceiptKind.DONE: H.DONE,
    ReceiptKind.REFUSE: H.REFUSED,
    ReceiptKind.DEFER: H.FAILED,
    ReceiptKind.REQUEUE: H.REQUEUED,
}


def heard(desk: Desk, receipt: Receipt) -> None:
    if desk.recovering:
        hear_out(desk)
    agent = desk.agent_called(receipt.agent) if receipt.agent else None
    delivery = _meant(desk, receipt, agent) if agent else None
    happening = _HAPPENS.get(receipt.kind)
    if delivery is not None and receipt.kind is ReceiptKind.RELEASE:
        if receipt.paper not in delivery.heard:
            delivery.heard.add(receipt.paper)
            holding.release(desk, delivery, receipt.by or "a person")
        desk.put(DropReceipt(delivery.agent, *receipt.paper))
    elif delivery is None and agent is not None and _answers_escalation(desk, receipt, agent):
        desk.put(DropReceipt(agent, *receipt.paper))
    elif delivery is None or happening is None:
        _drop_unknown(desk, receipt, agent)
    elif receipt.paper not in delivery.heard:
        _believe(desk, delivery, receipt, happening)
    elif receipt.paper not in delivery.receipts:  # it was to be dropped, and the disk refused
        desk.put(DropReceipt(delivery.agent, *receipt.paper))
    if agent is not None and (letter := desk.book.dead_one(receipt.message_id, agent)) is not None:
        endings.put_back(desk, letter)  # looked up for this receipt, which has changed nothing


def _meant(desk: Desk, receipt: Receipt, agent: str) -> Delivery | None:
    letter = desk.book.dead_one(receipt.message_id, agent) if receipt.kind is ReceiptKind.REQUEUE else None
    return letter or desk.book.addressed(receipt.message_id, agent)


def _answers_escalation(desk: Desk, receipt: Receipt, agent: str) -> bool:
    """An escalation whose mail was seen, and is away: it is dealt with when whoever it went to says so."""
    one = desk.escalations.called(receipt.message_id)
    if one is None or receipt.kind is not ReceiptKind.DONE or one.to != agent:
        return False
    return endings.answered(desk, one.escalation_id, agent, "answered")


def _drop_unknown(desk: Desk, receipt: Receipt, agent: str | None) -> None:
    desk.fact(
        "message_warning",
        message_id=receipt.message_id,
        agent=agent or receipt.agent,
        warning=f"{receipt.kind.value} for a message that is not open here",
    )
    desk.put(DropReceipt(agent or receipt.agent or "", *receipt.paper))


def _believe(desk: Desk, delivery: Delivery, receipt: Receipt, happening: Happening) -> None:
    delivery.heard.add(receipt.paper)
    delivery.receipts.append(receipt.paper)
    said = f"ackd {receipt.kind.value}" + (f": {receipt.reason}" if receipt.reason else "")
    if happening is H.REQUEUED and delivery.state not in (S.DEAD, S.REVIVING):
        warning = f"requeue: it is not dead but {delivery.state.value}"
        desk.put(RecordFact("message_warning", facts.about(delivery, warning=warning)))
    if happening is H.FAILED and delivery.state not in (*IN_HAND, S.RETRYING):  # else it is tried again
        warning = f"defer: nobody has it in hand, it is {SHOWN[delivery.state]}"
        desk.put(RecordFact("message_warning", facts.about(delivery, warning=warning)))
    if happening is H.FAILED:
        fail(desk, delivery, happening, said)
    else:
        apply(desk, delivery, happening, said)
    if happening not in (H.SEEN, H.REQUEUED):
        calling.lived(desk, desk.book.agents[delivery.agent])
    if happening is H.DONE:
        delivery.only_seen = False
    if _is_on_disk(delivery, happening):
        _drop_now(desk, delivery, receipt.paper)


def _is_on_disk(delivery: Delivery, happening: Happening) -> bool:
    """Whether what it says needs the receipt no longer: nothing of it waits for a move."""
    if delivery.state not in MOVING or happening is H.FAILED:
        return True
    completes = delivery.state is S.FINISHING or (delivery.wish is not None and delivery.wish[0] is H.ENOUGH)
    return happening is H.SEEN and not completes


def _drop_now(desk: Desk, delivery: Delivery, paper: ReceiptFile) -> None:
    if paper in delivery.receipts:
        delivery.receipts.remove(paper)
        desk.put(DropReceipt(delivery.agent, *paper))
