"""What is done about agents that send one thing around: somebody is told; a chain without an end is held.

Held is a message that stays in the queue, out of line, until a person lets it go (`ackd loop release`), its agent takes
it by itself, or it goes. All other mail of its agent flows. What is held is kept in state/, so that a restart holds it,
too. Counting is ``loops``'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core import calling, facts, trouble
from ackd.core.acts import line_up
from ackd.core.delivery import State
from ackd.core.desk import Held
from ackd.core.effects import RecordFact
from ackd.core.escalations import Over, derived_id
from ackd.core.message import Folder

if TYPE_CHECKING:
    from ackd.core.book import Delivery
    from ackd.core.desk import Desk
    from ackd.core.loops import Loop

CAUSE = "loop_held"


def count(desk: Desk, delivery: Delivery, sender: str) -> None:
    """One message more between two agents."""
    message = delivery.message
    about = message.thread_id or message.task_id
    if about is not None and (loop := desk.loops.saw(about, sender, delivery.agent)) is not None:
        _tell(desk, delivery, about, loop)
    if message.in_reply_to is None or delivery.place.folder is not Folder.QUEUE:
        return
    chain = desk.chains.saw(message.message_id, message.in_reply_to, sender, delivery.agent, desk.now.mono)
    if chain is not None:
        _hold(desk, delivery, chain)


def _tell(desk: Desk, delivery: Delivery, about: str, loop: Loop) -> None:
    desk.fact("loop_detected", members=list(loop.members), about=about, rounds=loop.rounds)
    names = " and ".join(loop.members) if len(loop.members) == 2 else ", ".join(loop.members)
    text = (
        f"{names} sent {about} from one to the other and back for {loop.rounds} rounds, {loop.rounds} of {loop.rounds} "
        f"(100%) since this was last counted; the newest message is {delivery.place}. 0 of them were held"
    )
    cure = (
        f"Decide for them if they cannot: answer one of them, or `ackd agent pause {delivery.agent}`. "
        f"`ackd tail --message {delivery.message.message_id}` shows the newest"
    )
    trouble.tell(desk, "loop", f"{about} {'/'.join(loop.members)}", text, cure, agent=delivery.agent)


def _hold(desk: Desk, delivery: Delivery, loop: Loop) -> None:
    held = Held(loop.members, loop.rounds, desk.now.wall)
    desk.held[_key(delivery)] = held
    desk.held_changes += 1
    release = f"ackd loop release {delivery.message.message_id}"
    data = facts.about(delivery, members=list(loop.members), rounds=loop.rounds, reason=held.words, release=release)
    desk.put(RecordFact("message_held", data))
    calling.escalate(
        desk,
        delivery.agent,
        CAUSE,
        derived_id("loop held", delivery.message.message_id, delivery.agent),
        f"{held.words}, {loop.rounds} of {loop.rounds} (100%) by answering the message before. 1 message for "
        f"{delivery.agent} is held: it stays in {delivery.place}, and the other mail goes on",
        f"`{release}` lets it go; `ackd done` or `ackd refuse` ends it. Mend whoever answers everything",
        delivery,
    )


def keeps(desk: Desk, delivery: Delivery) -> bool:
    """Whether it is held, from now on or from before a restart."""
    delivery.held = _key(delivery) in desk.held
    return delivery.held


def release(desk: Desk, delivery: Delivery, by: str) -> None:
    """A person lets it go. The chain goes on from there, with a new count."""
    if delivery.state is State.QUEUED and desk.unhold(delivery):  # else it is on its way out
        desk.put(RecordFact("message_released", facts.about(delivery, by=by)))
        _close_escalation(desk, delivery.agent, by)
        line_up(desk, delivery)
    else:
        warning = "loop release: it is not held"
        desk.put(RecordFact("message_warning", facts.about(delivery, warning=warning)))


def _close_escalation(desk: Desk, agent: str, by: str) -> None:
    """Whoever let the last one go has dealt with it."""
    if any(whose == agent for _, whose in desk.held):
        return
    for one in desk.escalations.all():
        if (one.agent, one.cause) == (agent, CAUSE) and desk.escalations.close(one.escalation_id) is not None:
            data: dict[str, object] = {"agent": agent, "cause": CAUSE, "escalation_id": one.escalation_id}
            desk.put(RecordFact("escalation_closed", {**data, "by": by, "how": "released", "counted": one.counted}))


def forget_absent(desk: Desk) -> None:
    """After a start has met everything: what is not there any more went while nobody looked."""
    for message_id, agent in list(desk.held):
        if not any(one.held for one in desk.book.of_id(message_id, agent)):
            del desk.held[message_id, agent]
            desk.held_changes += 1
            calling.over(desk, desk.escalations.settled(agent, message_id, Over.MESSAGE), f"{message_id} is gone")


def _key(delivery: Delivery) -> tuple[str, str]:
    return (delivery.message.message_id, delivery.agent)
