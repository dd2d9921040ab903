"""What is done when time is up.

A clock belongs to one state of a message and stops when it leaves it; one that rings for a state that is over means
nothing. Refuses to know what time it is, and who keeps the deadlines (deadlines.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from ackd.core import arrivals, calling, endings, facts
from ackd.core.acts import apply, fail, line_up, write_status
from ackd.core.availability import QUIET, AgentHappening
from ackd.core.delivery import Happening, State
from ackd.core.effects import NudgeAgent, RecordFact, RemindPerson
from ackd.core.escalations import derived_id
from ackd.core.ladder import ClimbDecision, EndDecision, WaitDecision, decide
from ackd.core.message import MONITOR

if TYPE_CHECKING:
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk
    from ackd.core.ladder import Ladder

H, S = Happening, State

#: In which states each clock runs. Two of one message may ring in one breath, and the first may end the second's state.
_RUNS_IN: Final = {
    "ack": {S.DELIVERED},
    "status": {S.DELIVERED},
    "remind": {S.DELIVERED},
    "processing": {S.PROCESSING},
    "task": {S.ACKED},
    "retry": {S.RETRYING},
    "disk": {S.FINISHING, S.BURYING, S.REVIVING},
}


def rang(desk: Desk, kind: str, of: int | str) -> None:
    if kind == "heard out":
        arrivals.recovered(desk)
    elif isinstance(of, str):
        if kind == "unpark":
            calling.change(desk, desk.book.agents[of], AgentHappening.PARK_ENDED)
        desk.touch(of)
    else:
        delivery = desk.book.get(of)
        if delivery is not None and delivery.state in _RUNS_IN[kind]:
            _rang_for(desk, kind, delivery)


def _rang_for(desk: Desk, kind: str, delivery: Delivery) -> None:
    match kind:
        case "ack":
            _silence(desk, delivery)
        case "processing":
            waited_s = desk.book.agents[delivery.agent].policy.processing_timeout_s
            fail(desk, delivery, H.NOT_TOLD, f"could not be told within {waited_s:.0f} s")
        case "task":
            apply(desk, delivery, H.OVERDUE)
        case "retry":
            line_up(desk, delivery)
        case "status":
            write_status(desk, delivery, "delivered")
        case "remind":
            _remind(desk, delivery)
        case "disk":
            endings.ask_for_move(desk, delivery)
        case _:
            raise AssertionError(kind)


def _silence(desk: Desk, delivery: Delivery) -> None:
    agent = desk.book.agents[delivery.agent]
    policy, told_at = agent.policy, delivery.told_at if delivery.told_at is not None else desk.now.mono
    if delivery.seen or policy.rungs is None:
        return
    if agent.state not in QUIET:  # down, paused or away: someone knows, and nudging helps nobody
        desk.alarm("ack", delivery.key, policy.ack_timeout_s)
        return
    now, at_work = desk.now.mono, _works_on_another(desk, agent, delivery)
    decision = decide(
        agent.ladder, delivery.key, policy.rungs, told_at, agent.last_life, now, policy.ack_timeout_s, at_work=at_work
    )
    match decision:
        case WaitDecision(until):
            desk.alarm_at("ack", delivery.key, until)
            _tell_of_busy(desk, agent, delivery)
        case ClimbDecision(ladder):
            _climb(desk, agent, delivery, ladder)
        case EndDecision(rungs):
            _give_up(desk, delivery, (rungs + 1) * policy.ack_timeout_s)
        case _:
            assert_never(decision)


def _works_on_another(desk: Desk, agent: Agent, delivery: Delivery) -> bool:
    others = (desk.book.get(key) for key in agent.window if key != delivery.key)
    return any(other is not None and other.state is S.ACKED for other in others)


def _climb(desk: Desk, agent: Agent, delivery: Delivery, ladder: Ladder) -> None:
    wait_s = agent.policy.ack_timeout_s
    agent.ladder, delivery.told_at = ladder, desk.now.mono
    delivery.remember(desk.now.wall, f"silent for {wait_s:.0f} s: rung {ladder.rung}")
    desk.alarm("ack", delivery.key, wait_s)
    desk.put(RecordFact("nudge", facts.about(delivery, rung=ladder.rung)))
    order = (agent.name, delivery.key, delivery.message, delivery.place)
    desk.put(NudgeAgent(*order, ladder.rung, attempt=delivery.tells))


def _give_up(desk: Desk, delivery: Delivery, waited_s: float) -> None:
    """The end of the ladder: the message is dead, the agent down; the rest of its mail waits."""
    agent = desk.book.agents[delivery.agent]
    why = f"silent: told once and woken {agent.policy.rungs} times without an answer in {waited_s:.0f} s"
    delivery.remember(desk.now.wall, why)
    calling.change(desk, agent, AgentHappening.FELL_SILENT, why)
    apply(desk, delivery, H.SILENT, why)


def _tell_of_busy(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """It lives, and does not take the message: left in peace, but not in silence."""
    waited_s = desk.now.mono - delivery.first_told_at
    if delivery.busy_told or waited_s < agent.policy.busy_timeout_s:
        return
    delivery.busy_told = True
    desk.put(RecordFact("message_overdue", facts.about(delivery, seconds=round(waited_s))))
    if delivery.message.sender == MONITOR:
        return
    calling.escalate(
        desk,
        agent.name,
        "busy",
        derived_id("busy", delivery.message.message_id, agent.name, delivery.retries),
        f"{agent.name} shows signs of life and has not taken 1 message in {waited_s:.0f} s: 1 of 1 told (100%), "
        f"{delivery.place}",
        "Nothing was interrupted. Look at what it does, or `ackd defer` the message",
        delivery,
    )


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
