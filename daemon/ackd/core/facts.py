"""The session log's lines, as the engine words them.

Owns which keys a line has. Absent means unknown: no line carries null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.effects import RecordFact
from ackd.core.events import NotTold

if TYPE_CHECKING:
    from ackd.core.book import Delivery
    from ackd.core.effects import ProbeAgent
    from ackd.core.events import Told
    from ackd.core.message import Message, Progress

#: Work, in the seeds' words: being told one of these makes a worker's task.
TASK_TYPES = frozenset({"task_assignment", "improvement_request", "github_task"})


def about(delivery: Delivery, **more: object) -> dict[str, object]:
    data: dict[str, object] = {"message_id": delivery.message.message_id, "agent": delivery.agent, **more}
    if None in more.values():
        return {key: value for key, value in data.items() if value is not None}
    return data


def probed(order: ProbeAgent, answer: Told | NotTold) -> dict[str, object]:
    """What came of a status check. That it was due is a line before this; who is at work, or at a prompt, gets none."""
    done = f"not done: {answer.reason}" if isinstance(answer, NotTold) else answer.proof
    return {"message_id": order.message.message_id, "agent": order.lane, "done": done}


def queued(delivery: Delivery, *, recovered: bool) -> RecordFact:
    message = delivery.message
    known: dict[str, object] = {
        "message_id": message.message_id,
        "agent": delivery.agent,
        "from": message.sender,
        "message_type": message.type,
        "priority": message.priority.value,
        "file": str(delivery.place),
    }
    perhaps: dict[str, object] = {
        "thread_id": message.thread_id,
        "in_reply_to": message.in_reply_to,
        "task_id": message.task_id,
        "recovered": True if recovered else None,
    }
    return RecordFact("message_queued", known | {key: value for key, value in perhaps.items() if value is not None})


def progress(message: Message, said: Progress, *, recovered: bool = False) -> RecordFact:
    data: dict[str, object] = {"agent": message.recipient, "from": message.sender, "message_id": message.message_id}
    words = {"stage": said.stage, "percent": said.percent, "message": said.message, "final": said.final}
    words["recovered"] = True if recovered else None
    return RecordFact("progress", data | {key: value for key, value in words.items() if value is not None})


def worker_progress(delivery: Delivery, said: Progress) -> RecordFact:
    """What a worker says of its own work, by its own door."""
    words = {"stage": said.stage, "percent": said.percent, "message": said.message, "final": said.final or None}
    return RecordFact("progress", about(delivery, **{"from": delivery.agent}, **words))


def review_result(delivery: Delivery, *, recovered: bool) -> RecordFact:
    message = delivery.message
    flag = True if recovered else None
    said = {"from": message.sender, "result": message.verdict}
    data = about(delivery, **said, task_id=message.task_id, recovered=flag)
    return RecordFact("review_result", data)


def work(type_: str, delivery: Delivery, *, in_lane: bool = False, **more: object) -> RecordFact:
    """``in_lane``: not before what precedes it in the agent's lane, so that no end overtakes its beginning."""
    message = delivery.message
    task = {"task_id": message.task_id} if message.task_id is not None else {}
    data = about(delivery, message_type=message.type, **task, **more)
    return RecordFact(type_, data, lane=delivery.agent if in_lane else None)


def is_task(delivery: Delivery) -> bool:
    return delivery.message.type in TASK_TYPES


def is_review(delivery: Delivery) -> bool:
    return delivery.message.type == "evaluation_request"
