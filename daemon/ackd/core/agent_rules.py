"""Rules for agents: parked when they cannot be told, believed alive or not, and followed in what they work on.

Each function changes an agent's state by its table (availability.py, liveness.py, worker.py), records the change, and
starts or cancels its timers. What becomes of a message is decided in transitions.py, and the events of agents are
handled in agent_events.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from ackd.core import agent_facts, alerts, availability, escalations, idle_time, liveness
from ackd.core.agent_facts import worker_state
from ackd.core.availability import QUIET, AgentHappening, AgentState, Occupied, Parked
from ackd.core.escalations import Cause
from ackd.core.events import Absence
from ackd.core.liveness import Pulse, Vital
from ackd.core.policy import NEVER
from ackd.core.signals import AgentChanged
from ackd.core.timers import TimerKind
from ackd.core.worker import WorkerState, way

if TYPE_CHECKING:
    from ackd.core.ladder import Ladder
    from ackd.core.state import Agent, Delivery, EngineState

_ALIVE, _AWAY = Vital.ALIVE, frozenset({AgentState.DOWN, AgentState.PARKED})
_IDLE, _ASSIGNED, _EXECUTING = WorkerState.IDLE, WorkerState.ASSIGNED, WorkerState.EXECUTING

#: The window of an agent has become full.
FILLED: Final = AgentHappening.FILLED

PARK_BASE_S = 5.0
PARK_CAP_S: Final = 300.0


def change_state(
    state: EngineState, agent: Agent, happening: AgentHappening, reason: str = "", parked: Parked | None = None
) -> None:
    """Apply the availability table. A change between available and busy is ordinary and gets no line in the log."""
    before = agent.state
    agent.state = availability.step(before, happening)
    if agent.state is before:
        return
    agent.reason, agent.parked = ("", None) if agent.state in QUIET else (reason, parked)
    if before not in QUIET:
        idle_time.skip(state, agent)
    if not {agent.state, before} <= QUIET:
        _record_state(state, agent, agent.reason or None)


def _record_state(state: EngineState, agent: Agent, reason: str | None) -> None:
    until = escalations.stamp(agent.parked.until) if agent.parked is not None else None
    signal = AgentChanged(agent.name, down=agent.state is AgentState.DOWN)
    state.record(agent_facts.agent_state(agent=agent.name, state=agent.state.value, reason=reason, until=until), signal)


# --- signs of life ----------------------------------------------------------------------------------------------------
def sign_of_life(state: EngineState, agent: Agent) -> None:
    """Note that the agent did something: its next rung is put off, and it is no longer down or parked.

    An agent that is parked because it waits for a person or for its own work to end stays parked: a screen that counts
    down to the end of a limit changes all the time.
    """
    agent.last_life = state.now.mono
    idle_time.sign_of_life(state, agent)
    if agent.ladder is not None:
        _leave_ladder(state, agent, agent.ladder)
    agent.reminded = False
    if agent.vital is not _ALIVE and agent.is_watched:
        note_pulse(state, agent, Pulse.BEAT)
        watch_liveness(state, agent)
    if agent.state in _AWAY and agent.occupied is None:
        came_back(state, agent, "it shows signs of life")
        change_state(state, agent, AgentHappening.LIVED)
    state.offer_later(agent.name)


def _leave_ladder(state: EngineState, agent: Agent, ladder: Ladder) -> None:
    """Take the agent off its ladder if it had taken the message, and was only found hanging.

    An agent that has not taken the message goes on from its rung when it is quiet again: one that answers each
    interrupt with a word, and takes nothing, would be woken for ever.
    """
    held = state.deliveries.get(ladder.key)
    if held is None or held.seen:
        agent.ladder = None


def note_pulse(state: EngineState, agent: Agent, pulse: Pulse) -> None:
    """Apply the liveness table. The first sign of life of an agent gets no line in the log, every other change does."""
    if not agent.is_watched:
        return
    before, agent.vital = agent.vital, liveness.step(agent.vital, pulse)
    if agent.vital is not before and {before, agent.vital} != {Vital.UNSEEN, Vital.ALIVE}:
        signal = AgentChanged(agent.name, down=agent.vital is Vital.DOWN)
        fact = agent_facts.liveness(agent=agent.name, liveness=agent.vital.value, before=before.value)
        state.record(fact, signal)


def watch_liveness(state: EngineState, agent: Agent) -> None:
    """Expect signs of life from now on, as long as the agent holds work."""
    policy = agent.policy
    if policy.heartbeat_timeout_s is not None and (TimerKind.LIVENESS, agent.name) not in state.timers:
        in_s = policy.ack_timeout_s if policy.shows else policy.heartbeat_timeout_s
        state.start_timer(TimerKind.LIVENESS, agent.name, in_s)


# --- absences ---------------------------------------------------------------------------------------------------------
def went_away(state: EngineState, agent: Agent, reason: str, absence: Absence, until: float | None) -> None:
    """Park an agent that cannot be told.

    One that is gone is tried again and again. One that is at work, or waits for a person or a limit, says so itself
    when that is over. If nobody is to be told that it is at work (``NEVER``), its park is renewed until then.
    """
    if state.stopping:  # an endpoint that stops together with the daemon is not away
        return
    match absence:
        case Absence.GONE:
            park(state, agent, reason)
        case Absence.BUSY | Absence.TAKEN:
            agent.occupied = Occupied(absence)
            busy_s = agent.policy.busy_timeout_s
            park_for(state, agent, PARK_CAP_S if busy_s == NEVER else busy_s, reason)
        case Absence.STUCK:
            stuck(state, agent, reason, until, new=state.escalations.of(agent.name, Cause.STUCK) is None)
        case _:
            assert_never(absence)


def stuck(state: EngineState, agent: Agent, reason: str, until: float | None, *, new: bool = True) -> None:
    """Park an agent that waits for a person or a limit, and escalate that.

    There is one escalation for each thing that it waits for (``new``), however often and in whichever words that is
    reported. A limit is one thing, whatever it says of the time left.
    """
    agent.occupied, agent.absence_told = Occupied(Absence.STUCK, until), True
    park_for(state, agent, PARK_CAP_S if until is None else max(0.0, until - state.now.wall), reason)
    asked = reason if until is None else "a limit"
    known = state.escalations.of(agent.name, Cause.STUCK)
    if known is not None and (not new or asked in known.about):
        alerts.note_about(known, asked)
        return
    if known is not None and known.about:
        state.escalations.close(known.escalation_id)
        alerts.record_over(state, [known], f"now it is something else: {reason}")
    alerts.escalate(
        state,
        agent.name,
        Cause.STUCK,
        escalations.derived_id("stuck", agent.name, int(state.now.wall), asked),
        f"{agent.name} does not go on by itself: {reason}. {what_waits(state, agent)}",
        f"Look at it with `ackd agent attach {agent.name}` and answer it; ackd goes on when it is ready",
        about=asked,
    )


def goes_on(state: EngineState, agent: Agent) -> None:
    """Close the escalation of an agent that was stuck and whose screen shows that it goes on.

    It was answered while nobody looked.
    """
    known = state.escalations.of(agent.name, Cause.STUCK)
    if known is not None:
        state.escalations.close(known.escalation_id)
        alerts.record_over(state, [known], "it goes on")


def what_waits(state: EngineState, agent: Agent) -> str:
    """Say how many messages wait for the agent, of how many that are open in the whole team, and where."""
    waiting = len(agent.line) + len(agent.window)
    return f"{counted_of_open(state, agent, waiting)}, in queue/{agent.name}/"


def counted_of_open(state: EngineState, agent: Agent, waiting: int) -> str:
    others = (one for one in state.agents.values() if one is not agent)
    are_open = waiting + sum(len(one.line) + len(one.window) for one in others)
    counted = f"{waiting} message waits" if waiting == 1 else f"{waiting} messages wait"
    share = f", of {are_open} open ({waiting / are_open:.0%})" if 0 < waiting < are_open else ""
    return f"{counted} for {agent.name}{share}"


def ready(state: EngineState, agent: Agent) -> None:
    """End the park of an agent that says that it takes work again."""
    if agent.occupied is not None:
        came_back(state, agent, "it goes on")
        state.timers.cancel(TimerKind.PARK, agent.name)
        change_state(state, agent, AgentHappening.PARK_ENDED)
    sign_of_life(state, agent)


def resume(state: EngineState, agent: Agent) -> None:
    """Forget everything that was held against the agent: a person says that it is fit."""
    came_back(state, agent, "resumed by hand")
    agent.ladder = None
    change_state(state, agent, AgentHappening.RESUMED)
    state.offer_later(agent.name)


def came_back(state: EngineState, agent: Agent, why: str) -> None:
    """End the agent's absence, and the escalations about it."""
    agent.came_back()
    alerts.record_over(state, state.escalations.agents(agent.name), why)


# --- parks ------------------------------------------------------------------------------------------------------------
def park(state: EngineState, agent: Agent, reason: str, *, hindered: bool = False) -> float:
    """Wait, longer each time in a row, and try again. Return the seconds until then.

    ``hindered``: the machine refused, not the agent. Several messages that come back from one absence are one park.
    """
    if agent.parked is not None:
        if not hindered and agent.occupied is None:
            agent.parked = Parked(agent.parked.until)  # it is away, whatever becomes of the machine's fault
            _set_park_reason(state, agent, reason)
        return parked_for(state, agent)
    wait_s = min(PARK_CAP_S, PARK_BASE_S * 2.0 ** min(agent.parks, 16))
    agent.parks += 1
    park_for(state, agent, wait_s, reason, hindered=hindered)
    return wait_s


def park_for(state: EngineState, agent: Agent, wait_s: float, reason: str, *, hindered: bool = False) -> None:
    """Tell the agent nothing for so long. If it is parked already, the later word counts."""
    parked = Parked(state.now.wall + wait_s, hindered)
    if agent.parked is not None:
        agent.parked = parked
        _set_park_reason(state, agent, reason)
    else:
        change_state(state, agent, AgentHappening.WENT_AWAY, reason, parked)
    state.start_timer(TimerKind.PARK, agent.name, wait_s)


def _set_park_reason(state: EngineState, agent: Agent, reason: str) -> None:
    if agent.reason != reason:
        agent.reason = reason
        _record_state(state, agent, reason)


def parked_for(state: EngineState, agent: Agent) -> float:
    """Return the seconds that a park still lasts, by the clock that cannot jump; 0 if the agent is not parked."""
    until = state.timers.at(TimerKind.PARK, agent.name) if agent.parked is not None else None
    return max(0.0, until - state.now.mono) if until is not None else 0.0


def park_ended(state: EngineState, agent: Agent) -> bool:
    """Try the agent again after its park. Return True if it has been busy all the while and nobody was told of that.

    An agent that waits for a person with work in its hands stays parked: there is nothing that could be tried. So does
    one that may be at work for ever.
    """
    occupied, is_parked = agent.occupied, agent.parked is not None
    why = occupied.why if occupied is not None else None
    stuck_at_work = occupied == Occupied(Absence.STUCK) and bool(agent.window)
    may_be_busy = agent.policy.busy_timeout_s == NEVER and why in (Absence.BUSY, Absence.TAKEN)
    if stuck_at_work or (may_be_busy and is_parked):
        park_for(state, agent, PARK_CAP_S, agent.reason)
        return False
    busy = why is Absence.BUSY and is_parked and not agent.absence_told
    agent.absence_told = agent.absence_told or busy
    agent.occupied = None
    change_state(state, agent, AgentHappening.PARK_ENDED)
    return busy


def fault_ended(state: EngineState) -> None:
    """Let agents that were parked by a fault of the machine, and moves that the disk refused, go on at once."""
    for agent in state.agents.values():
        if agent.parked is not None and agent.parked.hindered:
            agent.parks = 0
            state.timers.cancel(TimerKind.PARK, agent.name)
            change_state(state, agent, AgentHappening.PARK_ENDED)
            state.offer_later(agent.name)
    for delivery in state.deliveries:
        if (TimerKind.DISK, delivery.key) in state.timers:
            state.start_timer(TimerKind.DISK, delivery.key, 0)


# --- workers ----------------------------------------------------------------------------------------------------------
def walk_worker(state: EngineState, agent: Agent, to: WorkerState, about: Delivery | None = None) -> None:
    """Take the agent's worker to a state by the steps that the table allows, and record each of them.

    Agents behind whose endpoint nothing lives have no worker. If there is no legal way, that is recorded as refused and
    nothing changes: what a worker says of itself may be wrong.
    """
    if not agent.is_watched:
        return
    steps = way(agent.worker, to)
    if steps is None:
        state.record(worker_state(agent=agent.name, state=agent.worker.value, refused=to.value, **_whose(about)))
        return
    for number, step in enumerate(steps, 1):
        _set_worker(state, agent, step, about, passed=number < len(steps))


def force_worker(state: EngineState, agent: Agent, to: WorkerState, about: Delivery | None = None) -> None:
    """Set the worker's state whatever it was doing, as a supervisor does: a crash asks nobody."""
    if agent.is_watched and agent.worker is not to:
        _set_worker(state, agent, to, about)


def worker_told(state: EngineState, agent: Agent, delivery: Delivery) -> None:
    """Note that the worker was told. One whose window holds several messages is at work already."""
    if agent.worker is _IDLE:
        walk_worker(state, agent, _ASSIGNED, delivery)


def worker_began(state: EngineState, agent: Agent, delivery: Delivery) -> None:
    """Note that the worker has seen or acknowledged its message."""
    if agent.worker in (_IDLE, _ASSIGNED):
        walk_worker(state, agent, _EXECUTING, delivery)


def worker_let_go(state: EngineState, agent: Agent, delivery: Delivery, end: WorkerState) -> None:
    """Note that the message is no longer the worker's. ``end``: COMPLETE, FAILED, or IDLE if it was taken away."""
    if not agent.is_watched or agent.worker is _IDLE or len(agent.window - {delivery.key}) > 0:
        return
    if end is not _IDLE:
        walk_worker(state, agent, end, delivery)
    force_worker(state, agent, _IDLE, delivery)


def _set_worker(
    state: EngineState, agent: Agent, to: WorkerState, about: Delivery | None, *, passed: bool = False
) -> None:
    agent.worker = to
    state.record(worker_state(agent=agent.name, state=to.value, passed=passed or None, **_whose(about)))


def _whose(about: Delivery | None) -> dict[str, Any]:
    return {} if about is None else {"message_id": about.message.message_id}
