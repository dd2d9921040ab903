"""The effect of a receipt, and the time for which its file is kept.

A receipt is dropped only when what it says is on disk in another way: an ack when the status is written, a done when
the file is archived. Until then it is read again after a crash, and says the same again. A hint may come twice, but a
receipt counts once; another file under its name is another receipt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import agent_rules, alerts, delivery_facts, endings, holding
from ackd.core.arrivals import hear_out
from ackd.core.delivery import IN_DEAD_LETTER, MOVING, SHOWN, Completion, Happening, State
from ackd.core.effects import DropReceipt
from ackd.core.message import USER, Receipt, ReceiptKind, identity
from ackd.core.message_facts import message_cancel, message_warning
from ackd.core.policy import asks_for_work
from ackd.core.state import Cancellation
from ackd.core.transitions import IN_HAND, apply, fail

if TYPE_CHECKING:
    from ackd.core.message import ReceiptFile
    from ackd.core.state import Delivery, EngineState

H, S = Happening, State

_HAPPENS: Final = {
    ReceiptKind.SEEN: H.SEEN,
    ReceiptKind.ACK: H.ACKED,
    ReceiptKind.DONE: H.DONE,
    ReceiptKind.REFUSE: H.REFUSED,
    ReceiptKind.DEFER: H.FAILED,
    ReceiptKind.REQUEUE: H.REQUEUED,
    ReceiptKind.CANCEL: H.CANCELLED,
}
#: Happenings that say nothing about the agent that has the message, or were not said by it.
_BY_OTHERS: Final = frozenset({H.SEEN, H.REQUEUED, H.CANCELLED})
#: States in which a cancellation comes too late, or has come before.
_OVER: Final = frozenset({S.FINISHING, S.BURYING, S.REVIVING, *IN_DEAD_LETTER})


def heard(state: EngineState, receipt: Receipt) -> None:
    if state.recovering:
        hear_out(state)
    agent = state.agent_called(receipt.agent) if receipt.agent else None
    delivery = _meant(state, receipt, agent) if agent else None
    happening = _HAPPENS.get(receipt.kind)
    if delivery is not None and receipt.kind is ReceiptKind.RELEASE:
        if receipt.receipt_file not in delivery.heard:
            delivery.heard.add(receipt.receipt_file)
            holding.release(state, delivery, receipt.by or "a person")
        state.emit(DropReceipt.of(delivery.agent, receipt.receipt_file))
    elif delivery is None and agent is not None and _answers_escalation(state, receipt, agent):
        state.emit(DropReceipt.of(agent, receipt.receipt_file))
    elif delivery is None or happening is None:
        _drop_unknown(state, receipt, agent)
    elif happening is H.ACKED and delivery.state is S.QUEUED and state.agents[delivery.agent].pool is not None:
        _pass_over(
            state, delivery, receipt, f"ack: it lies in queue/{delivery.agent}/, and no member of the pool has it"
        )
    elif receipt.receipt_file not in delivery.heard and happening is H.CANCELLED:
        _cancel(state, delivery, receipt)
    elif receipt.receipt_file not in delivery.heard:
        _believe(state, delivery, receipt, happening)
    elif receipt.receipt_file not in delivery.receipts:  # it was to be dropped, and the disk refused
        state.emit(DropReceipt.of(delivery.agent, receipt.receipt_file))
    letter = state.deliveries.dead_one(receipt.message_id, agent) if agent is not None else None
    if letter is None and agent is not None:
        given_back = state.deliveries.given_back(receipt.message_id, agent)
        letter = given_back if given_back is not None and given_back.state in IN_DEAD_LETTER else None
    if letter is not None:
        endings.put_back(state, letter)  # looked up for this receipt, which has changed nothing


def _meant(state: EngineState, receipt: Receipt, agent: str) -> Delivery | None:
    letter = state.deliveries.dead_one(receipt.message_id, agent) if receipt.kind is ReceiptKind.REQUEUE else None
    if letter is not None:
        return letter
    # A hint may come twice: the receipt must not be heard again by another message with a copied id.
    same = state.deliveries.of_id(receipt.message_id, agent)
    heard = next((one for one in same if receipt.receipt_file in one.heard), None)
    found = heard or state.deliveries.addressed(receipt.message_id, agent)
    if found is None and receipt.kind is ReceiptKind.DONE:  # it gave the message back, and has done it after all
        found = state.deliveries.given_back(receipt.message_id, agent)
    if found is None and receipt.kind is ReceiptKind.CANCEL:  # it had the message when that was asked for
        found = next(iter(state.deliveries.of_pools(receipt.message_id, agent)), None)
    return found


def _answers_escalation(state: EngineState, receipt: Receipt, agent: str) -> bool:
    """Close an escalation whose mail was seen and has ended, when whoever it went to says that it is done."""
    one = state.escalations.called(receipt.message_id)
    if one is None or receipt.kind is not ReceiptKind.DONE or agent not in alerts.readers(state, one.to):
        return False
    return alerts.close_answered(state, one.escalation_id, agent, "answered")


def _drop_unknown(state: EngineState, receipt: Receipt, agent: str | None) -> None:
    state.record(
        message_warning(
            message_id=receipt.message_id,
            agent=agent or receipt.agent,
            warning=f"{receipt.kind.value} for a message that is not open here",
        ),
    )
    state.emit(DropReceipt.of(agent or receipt.agent or "", receipt.receipt_file))


def _cancel(state: EngineState, delivery: Delivery, receipt: Receipt) -> None:
    """Cancel the message, if whoever asks may do that and it is not over. The receipt is kept until the end is on
    disk."""
    delivery.heard.add(receipt.receipt_file)
    by = receipt.by or ""
    allowed = {identity(delivery.message.sender), identity(USER)}
    if identity(by) not in allowed and receipt.of is None:
        _pass_over(state, delivery, receipt, f"cancel by {by}, who is neither its sender nor {USER}: nothing was done")
    elif receipt.of is not None and not _is_work(delivery):
        _pass_over(state, delivery, receipt, f"cancel with {receipt.of}: it is nobody's work, and stays")
    elif delivery.state in _OVER:
        _pass_over(state, delivery, receipt, f"cancel by {by}: too late, it is {SHOWN[delivery.state]}")
    else:
        delivery.receipts.append(receipt.receipt_file)
        if delivery.cancellation is None or delivery.state not in (S.CANCELLING, S.ANNULLING, S.WITHDRAWING):
            delivery.cancellation = Cancellation(by, receipt.reason, receipt.of)
            state.record(
                message_cancel(
                    **delivery_facts.about(delivery),
                    by=by,
                    state=SHOWN[delivery.state],
                    reason=receipt.reason,
                    of=receipt.of,
                )
            )
        apply(state, delivery, H.CANCELLED, delivery.cancellation.words)


def _is_work(delivery: Delivery) -> bool:
    message = delivery.message
    return asks_for_work(message.sender, message.type, automatic=message.automatic)


def _pass_over(state: EngineState, delivery: Delivery, receipt: Receipt, warning: str) -> None:
    state.record(message_warning(**delivery_facts.about(delivery), warning=warning))
    state.emit(DropReceipt.of(delivery.agent, receipt.receipt_file))


def _believe(state: EngineState, delivery: Delivery, receipt: Receipt, happening: Happening) -> None:
    delivery.heard.add(receipt.receipt_file)
    delivery.receipts.append(receipt.receipt_file)
    said = f"ackd {receipt.kind.value}" + (f": {receipt.reason}" if receipt.reason else "")
    if happening is H.REQUEUED and delivery.state not in (*IN_DEAD_LETTER, S.REVIVING):
        warning = f"requeue: it is not dead but {delivery.state.value}"
        state.record(message_warning(**delivery_facts.about(delivery), warning=warning))
    if happening is H.FAILED and delivery.state not in (*IN_HAND, S.RETRYING):  # else it is tried again
        warning = f"defer: nobody has it in hand, it is {SHOWN[delivery.state]}"
        state.record(message_warning(**delivery_facts.about(delivery), warning=warning))
    if happening is H.FAILED:
        fail(state, delivery, happening, said)
    else:
        apply(state, delivery, happening, said)
    if happening not in _BY_OTHERS:
        speaker = state.agent_called(receipt.agent or "") or delivery.agent
        agent_rules.sign_of_life(state, state.agents[speaker])
    if happening is H.DONE and delivery.completion is Completion.BY_SIGHT:
        delivery.completion = Completion.DEALT_WITH
    if _is_on_disk(delivery, happening):
        _drop_now(state, delivery, receipt.receipt_file)


def _is_on_disk(delivery: Delivery, happening: Happening) -> bool:
    """Return whether the receipt is no longer needed: nothing that it says waits for a move."""
    if delivery.state not in MOVING or happening is H.FAILED:
        return True
    completes = delivery.state is S.FINISHING or (
        delivery.pending_event is not None and delivery.pending_event[0] is H.ENOUGH
    )
    return happening is H.SEEN and not completes


def _drop_now(state: EngineState, delivery: Delivery, file: ReceiptFile) -> None:
    if file in delivery.receipts:
        delivery.receipts.remove(file)
        state.emit(DropReceipt.of(delivery.agent, file))
