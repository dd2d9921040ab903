"""Measures against agents that answer each other without an end: somebody is told, and the message may be held.

A held message stays in the queue, out of line, until a person releases it (`ackd loop release`), its agent takes it
unasked, or it is removed. All other mail of its agent flows. Held messages are saved in state/, so that a restart holds
them too. The counting is in loops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core import alerts, delivery_facts
from ackd.core.delivery import State
from ackd.core.escalations import Cause, Over, derived_id
from ackd.core.message import Folder
from ackd.core.message_facts import escalation_closed, loop_detected, message_held, message_released, message_warning
from ackd.core.state import Held
from ackd.core.transitions import line_up

if TYPE_CHECKING:
    from ackd.core.loops import Loop
    from ackd.core.state import Delivery, EngineState


def count(state: EngineState, delivery: Delivery, sender: str) -> None:
    """Count one message from one agent to another."""
    message = delivery.message
    about = message.thread_id or message.task_id
    sender = _speaks_for(state, delivery, sender, about)
    if about is not None and (loop := state.loops.saw(about, sender, delivery.agent)) is not None:
        _tell(state, delivery, about, loop)
    if message.in_reply_to is None or delivery.place.folder is not Folder.QUEUE:
        return
    chain = state.chains.saw(message.message_id, message.in_reply_to, sender, delivery.agent, state.now.mono)
    if chain is not None:
        _hold(state, delivery, chain)


def _speaks_for(state: EngineState, delivery: Delivery, sender: str, about: str | None) -> str:
    """Return the pool for which a member of one speaks, else the sender itself: what goes to a pool and comes back from
    its members goes around, whichever of them it is."""
    agent = state.agents[sender]
    if not agent.served_pools:
        return sender
    asked = delivery.message.in_reply_to
    for one in state.deliveries.of_id(asked, sender) if asked is not None else ():
        if one.message.pool:
            return one.message.pool
    held = (state.deliveries.get(key) for key in sorted(agent.window))
    same = (one.message for one in held if one is not None and one.message.pool)
    return next((one.pool for one in same if about is not None and about in (one.thread_id, one.task_id)), sender)


def _tell(state: EngineState, delivery: Delivery, about: str, loop: Loop) -> None:
    state.record(loop_detected(members=list(loop.members), about=about, rounds=loop.rounds))
    names = " and ".join(loop.members) if len(loop.members) == 2 else ", ".join(loop.members)
    text = (
        f"{names} sent {about} from one to the other and back for {loop.rounds} rounds since this was "
        f"last counted; the newest message is {delivery.place}. 0 of them were held"
    )
    cure = (
        f"Decide for them if they cannot: answer one of them, or `ackd agent pause {delivery.agent}`. "
        f"`ackd tail --message {delivery.message.message_id}` shows the newest"
    )
    alerts.notify(state, "loop", f"{about} {'/'.join(loop.members)}", text, cure, agent=delivery.agent)


def _hold(state: EngineState, delivery: Delivery, loop: Loop) -> None:
    held = Held(loop.members, loop.rounds, state.now.wall)
    state.held[_key(delivery)] = held
    state.held_changes += 1
    release = f"ackd loop release {delivery.message.message_id}"
    members = list(loop.members)
    state.record(
        message_held(
            **delivery_facts.about(delivery), members=members, rounds=loop.rounds, reason=held.words, release=release
        )
    )
    alerts.escalate(
        state,
        delivery.agent,
        Cause.LOOP_HELD,
        derived_id("loop held", delivery.message.message_id, delivery.agent),
        f"{held.words}, each time by answering the message before. 1 message for "
        f"{delivery.agent} is held: it stays in {delivery.place}, and the other mail goes on",
        f"`{release}` lets it go; `ackd done` or `ackd refuse` ends it. Mend whoever answers everything",
        delivery,
    )


def keeps(state: EngineState, delivery: Delivery) -> bool:
    """Return whether the message is held, by this session or from before a restart."""
    delivery.held = _key(delivery) in state.held
    return delivery.held


def release(state: EngineState, delivery: Delivery, by: str) -> None:
    """Let a held message go on because a person says so. Its chain is counted anew."""
    if delivery.state is State.QUEUED and state.end_hold(delivery):  # else it is on its way out
        state.record(message_released(**delivery_facts.about(delivery), by=by))
        _close_escalation(state, delivery.agent, by)
        line_up(state, delivery)
    else:
        warning = "loop release: it is not held"
        state.record(message_warning(**delivery_facts.about(delivery), warning=warning))


def _close_escalation(state: EngineState, agent: str, by: str) -> None:
    """Close the escalation when the last held message of the agent was released."""
    if any(whose == agent for _, whose in state.held):
        return
    for one in state.escalations.all():
        if (one.agent, one.cause) == (agent, Cause.LOOP_HELD) and state.escalations.close(
            one.escalation_id
        ) is not None:
            state.record(
                escalation_closed(
                    agent=agent,
                    cause=one.cause,
                    escalation_id=one.escalation_id,
                    by=by,
                    how="released",
                    counted=one.counted,
                )
            )


def forget_absent(state: EngineState) -> None:
    """Forget held messages that are no longer there, after everything on disk was met at a start."""
    for message_id, agent in list(state.held):
        if not any(one.held for one in state.deliveries.of_id(message_id, agent)):
            del state.held[message_id, agent]
            state.held_changes += 1
            alerts.record_over(
                state, state.escalations.settled(agent, message_id, Over.MESSAGE), f"{message_id} is gone"
            )


def _key(delivery: Delivery) -> tuple[str, str]:
    return (delivery.message.message_id, delivery.agent)
