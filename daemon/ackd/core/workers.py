"""Where each agent's worker stands, written down step by step.

Owns the walk from state to state (worker.py has the table) and its lines in the log. Agents behind whose endpoint
nothing lives have no worker. Refuses to know why a worker moves. A step that the table does not have is written down as
refused, and changes nothing: what a worker says of itself may be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.worker import WorkerState, way

if TYPE_CHECKING:
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk

S = WorkerState


def walk(desk: Desk, agent: Agent, to: WorkerState, about: Delivery | None = None) -> None:
    """By the legal way, every step of it written down."""
    if not agent.is_watched:
        return
    steps = way(agent.worker, to)
    if steps is None:
        desk.fact("worker_state", agent=agent.name, state=agent.worker.value, refused=to.value, **_whose(about))
        return
    for step in steps:
        _stand(desk, agent, step, about)


def force(desk: Desk, agent: Agent, to: WorkerState, about: Delivery | None = None) -> None:
    """What happened to it, whatever it was doing: only for who supervises it."""
    if agent.is_watched and agent.worker is not to:
        _stand(desk, agent, to, about)


def assigned(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """Told. One that has a window of several is at work already."""
    if agent.worker is S.IDLE:
        walk(desk, agent, S.ASSIGNED, delivery)


def begun(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """Seen, or acknowledged."""
    if agent.worker in (S.IDLE, S.ASSIGNED):
        walk(desk, agent, S.EXECUTING, delivery)


def let_go(desk: Desk, agent: Agent, delivery: Delivery, end: WorkerState) -> None:
    """The work is no longer its own. ``end``: COMPLETE, FAILED, or IDLE where it was taken away."""
    if not agent.is_watched or agent.worker is S.IDLE or len(agent.window - {delivery.key}) > 0:
        return
    if end is not S.IDLE:
        walk(desk, agent, end, delivery)
    force(desk, agent, S.IDLE, delivery)


def _stand(desk: Desk, agent: Agent, state: WorkerState, about: Delivery | None) -> None:
    agent.worker = state
    desk.fact("worker_state", agent=agent.name, state=state.value, **_whose(about))


def _whose(about: Delivery | None) -> dict[str, object]:
    return {} if about is None else {"message_id": about.message.message_id}
