"""The actions of the engine when a timer is due: one table for timers of messages, one for timers of agents.

A message's timer counts only in the states that the table names. Two timers of one message may be due in the same
moment, and the first may lead to a state in which the second means nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import (
    agent_events,
    agent_rules,
    alerts,
    arrivals,
    deadlines,
    due_times,
    endings,
    parts_told,
    pool_offers,
    silence,
)
from ackd.core.delivery import Happening, State
from ackd.core.effects import RemindPerson
from ackd.core.message import Status
from ackd.core.message_facts import reminder
from ackd.core.timers import TimerKind
from ackd.core.transitions import apply, claim_acked, fail, line_up, watch_return, write_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.state import Agent, Delivery, EngineState

H, S = Happening, State


def timer_due(state: EngineState, kind: TimerKind, owner: int | str) -> None:
    if kind is TimerKind.RECOVERY:
        arrivals.recovered(state)
    elif kind is TimerKind.SUMMARY:
        alerts.send_summaries(state)
    elif kind is TimerKind.PARTS:
        parts_told.look(state, str(owner))
    elif isinstance(owner, str):
        _OF_AGENTS[kind](state, state.agents[owner])
        state.offer_later(owner)
    else:
        delivery = state.deliveries.get(owner)
        states, act = _OF_MESSAGES[kind]
        if delivery is not None and delivery.state in states:
            act(state, delivery)


# --- agents -----------------------------------------------------------------------------------------------------------
def _park_over(state: EngineState, agent: Agent) -> None:
    if agent_rules.park_ended(state, agent):
        _tell_of_work(state, agent)


def _tell_of_work(state: EngineState, agent: Agent) -> None:
    alerts.notify(
        state,
        "busy",
        agent.name,
        f"{agent.name} has been at work on something else for {agent.policy.busy_timeout_s:.0f} s. "
        f"{agent_rules.what_waits(state, agent)}",
        f"Nothing was interrupted. Look at it with `ackd agent attach {agent.name}`",
        agent=agent.name,
    )


def _offer_more(_state: EngineState, _agent: Agent) -> None:
    """Do nothing here: the caller has the agent offered work, and the rest of a long line needs nothing else."""


# --- messages ---------------------------------------------------------------------------------------------------------
def _not_told_in_time(state: EngineState, delivery: Delivery) -> None:
    waited_s = state.agents[delivery.agent].policy.processing_timeout_s
    fail(state, delivery, H.NOT_TOLD, f"could not be told within {waited_s:.0f} s")


def _overdue(state: EngineState, delivery: Delivery) -> None:
    """Warn, unless the agent waits for parts of the message and one of them came or ended lately."""
    if parts_told.are_open(state, delivery):
        again_s = (
            parts_told.moved_at(state, delivery) + state.agents[delivery.agent].policy.task_timeout_s - state.now.mono
        )
        if again_s > 0:
            state.start_timer(TimerKind.TASK, delivery.key, again_s)
            return
    apply(state, delivery, H.OVERDUE)


def _still_delivered(state: EngineState, delivery: Delivery) -> None:
    write_status(state, delivery, Status.DELIVERED)
    watch_return(state, delivery)


def _ask_disk_again(state: EngineState, delivery: Delivery) -> None:
    if delivery.state is S.QUEUED:
        claim_acked(state, delivery)
    else:
        endings.ask_for_move(state, delivery)


def _remind(state: EngineState, delivery: Delivery) -> None:
    """Remind a person once until they look: a hundred unread messages are one reminder.

    The timers of the others run on, so whoever looks and leaves one of them unread is reminded of that one.
    """
    agent = state.agents[delivery.agent]
    if agent.reminded:
        state.start_timer(TimerKind.REMIND, delivery.key, agent.policy.remind_after_s)
        return
    agent.reminded = True
    state.record(reminder(agent=agent.name, message_id=delivery.message.message_id))
    state.emit(RemindPerson(agent.name, delivery.key, delivery.message, delivery.place))


def _not_let_go(state: EngineState, delivery: Delivery) -> None:
    waited_s = state.agents[delivery.agent].policy.cancel_timeout_s
    apply(state, delivery, H.LET_GO, f"not proven within {waited_s:.0f} s")


_OF_AGENTS: Final[dict[TimerKind, Callable[[EngineState, Agent], None]]] = {
    TimerKind.PARK: _park_over,
    TimerKind.LIVENESS: agent_events.look,
    TimerKind.CHECKPOINT: agent_events.no_checkpoint,
    TimerKind.OFFER: _offer_more,
    TimerKind.POOL: pool_offers.nobody_serves,
}

#: The states in which each timer counts, and what is done then.
_OF_MESSAGES: Final[dict[TimerKind, tuple[frozenset[State], Callable[[EngineState, Delivery], None]]]] = {
    TimerKind.PROCESSING: (frozenset({S.PROCESSING}), _not_told_in_time),
    TimerKind.STATUS: (frozenset({S.DELIVERED}), _still_delivered),
    TimerKind.ACK: (
        frozenset({S.DELIVERED, S.ACKED}),
        silence.ack_timed_out,
    ),  # ACKED: it took the work, and was found hanging
    TimerKind.REMIND: (frozenset({S.DELIVERED}), _remind),
    TimerKind.TASK: (frozenset({S.DELIVERED, S.ACKED}), _overdue),
    TimerKind.RETRY: (frozenset({S.RETRYING, S.QUEUED}), line_up),
    TimerKind.DISK: (
        frozenset({S.QUEUED, S.FINISHING, S.BURYING, S.REVIVING, S.RETURNING, S.ANNULLING, S.WITHDRAWING}),
        _ask_disk_again,
    ),
    TimerKind.CANCEL: (frozenset({S.CANCELLING}), _not_let_go),
    TimerKind.EXPIRES: (due_times.WAITING, deadlines.expired),
    TimerKind.NEARLY_DUE: (due_times.HELD, deadlines.nearly_due),
    TimerKind.DEADLINE: (due_times.OPEN, deadlines.passed),
}
