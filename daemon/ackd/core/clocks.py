"""What is done when time is up.

A clock belongs to one state of a message and stops when it leaves it; one that rings for a state that is over means
nothing. Refuses to know what time it is, and who keeps the deadlines (deadlines.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import arrivals, calling, endings, lives, silence, trouble
from ackd.core.acts import apply, claim_acked, fail, line_up, watch_return, write_status
from ackd.core.delivery import Happening, State
from ackd.core.effects import RemindPerson

if TYPE_CHECKING:
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk

H, S = Happening, State

#: In which states each clock runs. Two of one message may ring in one breath, and the first may end the second's state.
_RUNS_IN: Final = {
    "ack": {S.DELIVERED, S.ACKED},  # ACKED: it took the work, and was found hanging
    "status": {S.DELIVERED},
    "remind": {S.DELIVERED},
    "processing": {S.PROCESSING},
    "task": {S.DELIVERED, S.ACKED},
    "retry": {S.RETRYING},
    "disk": {S.QUEUED, S.FINISHING, S.BURYING, S.REVIVING},
}


def rang(desk: Desk, kind: str, of: int | str) -> None:
    if kind == "heard out":
        arrivals.recovered(desk)
    elif kind == "summary":
        trouble.sum_up(desk)
    elif isinstance(of, str):
        _rang_for_agent(desk, kind, desk.book.agents[of])
    else:
        delivery = desk.book.get(of)
        if delivery is not None and delivery.state in _RUNS_IN[kind]:
            _rang_for(desk, kind, delivery)


def _rang_for_agent(desk: Desk, kind: str, agent: Agent) -> None:
    match kind:
        case "unpark":
            if calling.park_ended(desk, agent):
                _tell_of_work(desk, agent)
        case "life":
            lives.look(desk, agent)
        case "checkpoint":
            lives.no_checkpoint(desk, agent)
        case "offer":
            pass  # the rest of a long line: to be touched is all it takes
        case _:
            raise AssertionError(kind)
    desk.touch(agent.name)


def _tell_of_work(desk: Desk, agent: Agent) -> None:
    trouble.tell(
        desk,
        "busy",
        agent.name,
        f"{agent.name} has been at work on something else for {agent.policy.busy_timeout_s:.0f} s. "
        f"{calling.what_waits(agent)}",
        f"Nothing was interrupted. Look at it with `ackd agent attach {agent.name}`",
        agent=agent.name,
    )


def _rang_for(desk: Desk, kind: str, delivery: Delivery) -> None:
    match kind:
        case "ack":
            silence.heard_nothing(desk, delivery)
        case "processing":
            waited_s = desk.book.agents[delivery.agent].policy.processing_timeout_s
            fail(desk, delivery, H.NOT_TOLD, f"could not be told within {waited_s:.0f} s")
        case "task":
            apply(desk, delivery, H.OVERDUE)
        case "retry":
            line_up(desk, delivery)
        case "status":
            write_status(desk, delivery, "delivered")
            watch_return(desk, delivery)
        case "remind":
            _remind(desk, delivery)
        case "disk" if delivery.state is S.QUEUED:
            claim_acked(desk, delivery)
        case "disk":
            endings.ask_for_move(desk, delivery)
        case _:
            raise AssertionError(kind)


def _remind(desk: Desk, delivery: Delivery) -> None:
    """Once per agent until it looks: a hundred unread messages are one reminder. The others wait on: whoever looks and
    leaves one of them unread is reminded of that one."""
    agent = desk.book.agents[delivery.agent]
    if agent.reminded:
        desk.alarm("remind", delivery.key, agent.policy.remind_after_s)
        return
    agent.reminded = True
    desk.fact("reminder", agent=agent.name, message_id=delivery.message.message_id)
    desk.put(RemindPerson(agent.name, delivery.key, delivery.message, delivery.place))
