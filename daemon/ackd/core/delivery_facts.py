"""Facts about deliveries: the fields of a log line, taken from the message and its agent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ackd.core import agent_facts, message_facts
from ackd.core.effects import RecordFact
from ackd.core.escalations import stamp
from ackd.core.events import NotTold, Told
from ackd.core.signals import MessageMet, TaskEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.effects import NudgeAgent, ProbeAgent
    from ackd.core.events import NotTold
    from ackd.core.fact import Fact
    from ackd.core.message import Message, Progress
    from ackd.core.state import Delivery

#: Work, in the seeds' words: being told one of these makes a worker's task.
TASK_TYPES = frozenset({"task_assignment", "improvement_request", "github_task"})


def about(delivery: Delivery) -> dict[str, Any]:
    """The fields that every fact about a delivery has. ``pool``: its agent has it as a member of that pool."""
    message = delivery.message
    if message.pool:
        return {"message_id": message.message_id, "agent": delivery.agent, "pool": message.pool}
    return {"message_id": message.message_id, "agent": delivery.agent}


def probed(order: ProbeAgent, answer: Told | NotTold) -> Fact:
    """The fact that says what came of a status check. That the check was due is a fact before this one."""
    return agent_facts.probed(message_id=order.message.message_id, agent=order.lane, done=_done(answer))


def nudged(order: NudgeAgent, answer: Told | NotTold) -> Fact:
    """The fact that says what was done and seen. That a rung of the ladder was due is a fact before this one."""
    return agent_facts.nudged(
        message_id=order.message.message_id, agent=order.lane, rung=order.rung, done=_done(answer)
    )


def _done(answer: Told | NotTold) -> str:
    return answer.proof if isinstance(answer, Told) else f"{agent_facts.NOT_DONE}{answer.reason}"


def queued(delivery: Delivery, *, recovered: bool, logged: bool = False) -> RecordFact:
    message = delivery.message
    return RecordFact(
        message_facts.message_queued(
            message_id=message.message_id,
            agent=delivery.agent,
            pool=message.pool or None,
            from_=message.sender,
            message_type=message.type,
            priority=message.priority.value,
            file=str(delivery.place),
            thread_id=message.thread_id,
            in_reply_to=message.in_reply_to,
            task_id=message.task_id,
            part_of=message.part_of,
            root=message.root,
            notify=message.notify,
            expires=stamp(message.expires_at) if message.expires_at is not None else None,
            deadline=stamp(message.deadline_at) if message.deadline_at is not None else None,
            recovered=recovered or None,
        ),
        signal=MessageMet(message.message_id, delivery.addressee),
        logged=logged,
    )


def progress(message: Message, said: Progress, *, recovered: bool = False) -> RecordFact:
    return RecordFact(
        message_facts.progress(
            agent=message.recipient,
            from_=message.sender,
            message_id=message.message_id,
            stage=said.stage,
            percent=said.percent,
            message=said.message,
            final=said.final,
            recovered=recovered or None,
        )
    )


def worker_progress(delivery: Delivery, said: Progress) -> RecordFact:
    """A worker's word about its own work, by its own pipe or receipt."""
    return RecordFact(
        message_facts.progress(
            **about(delivery),
            from_=delivery.agent,
            stage=said.stage,
            percent=said.percent,
            message=said.message,
            final=said.final or None,
        )
    )


def review_result(delivery: Delivery, *, recovered: bool) -> RecordFact:
    message = delivery.message
    return RecordFact(
        message_facts.review_result(
            **about(delivery),
            from_=message.sender,
            result=message.verdict,
            task_id=message.task_id,
            recovered=recovered or None,
        )
    )


def task_ended(fact: Callable[..., Fact], delivery: Delivery, **more: object) -> RecordFact:
    return replace(work(fact, delivery, in_lane=True, **more), signal=TaskEnded(delivery.agent))


def work(fact: Callable[..., Fact], delivery: Delivery, *, in_lane: bool = False, **more: object) -> RecordFact:
    """A fact about the work that a message is. ``in_lane``: written only after what precedes it in the agent's lane, so
    that no end overtakes its beginning."""
    message = delivery.message
    made = fact(**about(delivery), message_type=message.type, task_id=message.task_id, **more)
    return RecordFact(made, lane=delivery.agent if in_lane else None)


def is_task(delivery: Delivery) -> bool:
    return delivery.message.type in TASK_TYPES


def is_review(delivery: Delivery) -> bool:
    return delivery.message.type == "evaluation_request"
