"""How agents are treated: parked, believed alive, told on.

Turns what happens to an agent into its state, facts and escalations. Refuses to know what becomes of a message
(acts.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ackd.core import availability, escalations, liveness, spells
from ackd.core.availability import QUIET, AgentHappening, AgentState
from ackd.core.effects import RecordFact, SendMessage
from ackd.core.escalations import MOST_ABOUT, OpenEscalation
from ackd.core.events import Absence
from ackd.core.liveness import Pulse, Vital
from ackd.core.message import MONITOR, USER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk
    from ackd.core.ladder import Ladder

_ALIVE, _AWAY = Vital.ALIVE, frozenset({AgentState.DOWN, AgentState.PARKED})

PARK_BASE_S = 5.0
PARK_CAP_S = 300.0


def change(desk: Desk, agent: Agent, happening: AgentHappening, reason: str = "", until: float | None = None) -> None:
    """Apply the table; a change that is more than the breath of work gets its line."""
    before = agent.state
    agent.state = availability.step(before, happening)
    if agent.state is before:
        return
    agent.reason, agent.until = ("", None) if agent.state in QUIET else (reason, until)
    agent.hindered = False
    if before not in QUIET:
        spells.pass_over(desk, agent)
    if not {agent.state, before} <= QUIET:
        at = escalations.stamp(until) if agent.until is not None and until is not None else None
        desk.fact("agent_state", agent=agent.name, state=agent.state.value, reason=agent.reason or None, until=at)


def lived(desk: Desk, agent: Agent) -> None:
    """Anything an agent does is a sign of life: it puts off the next rung, and ends its being down or parked. Not its
    waiting for a person or for its own work to end: a screen that counts down to the end of a limit changes all the
    time."""
    agent.last_life = desk.now.mono
    spells.lived(desk, agent)
    if agent.ladder is not None:
        _step_down(desk, agent, agent.ladder)
    agent.reminded = False
    if agent.vital is not _ALIVE and agent.is_watched:
        beat(desk, agent, Pulse.BEAT)
        watch(desk, agent)
    if agent.state in _AWAY and agent.waits is None:
        back(desk, agent, "it shows signs of life")
        change(desk, agent, AgentHappening.LIVED)
    desk.touch(agent.name)


def _step_down(desk: Desk, agent: Agent, ladder: Ladder) -> None:
    """Who took its message and was found hanging is at it again. Who has not taken it goes on from its rung when it is
    quiet again: what answers each interrupt with a word, and takes nothing, would be woken for ever."""
    held = desk.book.get(ladder.key)
    if held is None or held.seen:
        agent.ladder = None


def beat(desk: Desk, agent: Agent, pulse: Pulse) -> None:
    """Whether it lives, as far as is known; a change that is more than its first breath gets its line."""
    if not agent.is_watched:
        return
    before, agent.vital = agent.vital, liveness.step(agent.vital, pulse)
    if agent.vital is not before and {before, agent.vital} != {Vital.UNSEEN, Vital.ALIVE}:
        desk.fact("liveness", agent=agent.name, liveness=agent.vital.value, before=before.value)


def watch(desk: Desk, agent: Agent) -> None:
    """From now on it owes signs of life, as long as it holds work."""
    policy = agent.policy
    if policy.heartbeat_timeout_s is not None and ("life", agent.name) not in desk.alarms:
        desk.alarm("life", agent.name, policy.ack_timeout_s if policy.shows else policy.heartbeat_timeout_s)


def go_away(desk: Desk, agent: Agent, reason: str, absence: Absence, until: float | None) -> None:
    """There is nobody to tell. One who is gone is looked for again and again; one who is at work, or waits for a person
    or a limit, says so itself when that is over."""
    if desk.stopping:  # an endpoint that stops with us is not away
        return
    match absence:
        case Absence.GONE:
            park(desk, agent, reason)
        case Absence.BUSY | Absence.TAKEN:
            agent.waits = absence
            park_for(desk, agent, agent.policy.busy_timeout_s, reason)
        case Absence.STUCK:
            stuck(desk, agent, reason, until, new=desk.escalations.of(agent.name, "stuck") is None)
        case _:
            assert_never(absence)


def stuck(desk: Desk, agent: Agent, reason: str, until: float | None, *, new: bool = True) -> None:
    """Nothing is told to it until it is through, and someone hears of it: once, however often and in whichever words it
    is said, and of each thing that it waits for (``new``). A limit is one, whatever it says of the time left."""
    agent.waits, agent.waits_until, agent.absence_told = Absence.STUCK, until, True
    park_for(desk, agent, PARK_CAP_S if until is None else max(0.0, until - desk.now.wall), reason)
    asked = reason if until is None else "a limit"
    known = desk.escalations.of(agent.name, "stuck")
    if known is not None and (not new or asked in known.about):
        _note_about(known, asked)
        return
    if known is not None and known.about:
        desk.escalations.close(known.escalation_id)
        over(desk, [known], f"now it is something else: {reason}")
    escalate(
        desk,
        agent.name,
        "stuck",
        escalations.derived_id("stuck", agent.name, int(desk.now.wall), asked),
        f"{agent.name} does not go on by itself: {reason}. {what_waits(agent)}",
        f"Look at it with `ackd agent attach {agent.name}` and answer it; ackd goes on when it is ready",
        about=asked,
    )


def goes_on(desk: Desk, agent: Agent) -> None:
    """Its screen says so, and nobody says that it is stuck: what it was asked was answered while nobody looked."""
    known = desk.escalations.of(agent.name, "stuck")
    if known is not None:
        desk.escalations.close(known.escalation_id)
        over(desk, [known], "it goes on")


def park_ended(desk: Desk, agent: Agent) -> bool:
    """Its time is up: tried again. One that waits for a person with work in its hands waits on, for there is nothing
    that could be tried. True: it has been at work all the while, and nobody was told of that; it is left in peace, but
    not in silence."""
    if agent.waits is Absence.STUCK and agent.waits_until is None and agent.window:
        park_for(desk, agent, PARK_CAP_S, agent.reason)
        return False
    busy = agent.waits is Absence.BUSY and agent.state is AgentState.PARKED and not agent.absence_told
    agent.absence_told = agent.absence_told or busy
    agent.waits = None
    change(desk, agent, AgentHappening.PARK_ENDED)
    return busy


def what_waits(agent: Agent) -> str:
    waiting = len(agent.line) + len(agent.window)
    counted = f"{waiting} of its {waiting} messages wait (100%)" if waiting else "0 messages wait (0%)"
    return f"{counted} in queue/{agent.name}/"


def ready(desk: Desk, agent: Agent) -> None:
    """It takes work again."""
    if agent.waits is not None:
        back(desk, agent, "it goes on")
        desk.hush(agent.name, "unpark")
        change(desk, agent, AgentHappening.PARK_ENDED)
    lived(desk, agent)


def resume(desk: Desk, agent: Agent) -> None:
    """A person says it is fit: whatever was held against it is forgotten."""
    back(desk, agent, "resumed by hand")
    agent.ladder = None
    change(desk, agent, AgentHappening.RESUMED)
    desk.touch(agent.name)


def park(desk: Desk, agent: Agent, reason: str, *, hindered: bool = False) -> float:
    """Nobody to tell, or the machine refuses (``hindered``): wait, longer each time in a row, and try again by itself.

    Returns the seconds until then. Several messages that come back from one absence are one park.
    """
    if agent.state is AgentState.PARKED:
        if not hindered and agent.waits is None:
            _say_why(desk, agent, reason)
        return parked_for(desk, agent)
    wait_s = min(PARK_CAP_S, PARK_BASE_S * 2.0 ** min(agent.parks, 16))
    agent.parks += 1
    park_for(desk, agent, wait_s, reason)
    agent.hindered = hindered
    return wait_s


def park_for(desk: Desk, agent: Agent, wait_s: float, reason: str) -> None:
    """Nothing is told to it for so long; a later word about the same absence counts."""
    if agent.state is AgentState.PARKED:
        agent.until = desk.now.wall + wait_s
        _say_why(desk, agent, reason)
    else:
        change(desk, agent, AgentHappening.WENT_AWAY, reason, desk.now.wall + wait_s)
    desk.alarm("unpark", agent.name, wait_s)


def _say_why(desk: Desk, agent: Agent, reason: str) -> None:
    """Why it is parked, as its endpoint says it now."""
    agent.hindered = False
    if agent.reason != reason:
        agent.reason = reason
        at = escalations.stamp(agent.until) if agent.until is not None else None
        desk.fact("agent_state", agent=agent.name, state=agent.state.value, reason=reason, until=at)


def parked_for(desk: Desk, agent: Agent) -> float:
    """Seconds that a park still lasts, by the clock that cannot jump; 0 if there is none."""
    until = desk.alarms.at(("unpark", agent.name)) if agent.state is AgentState.PARKED else None
    return max(0.0, until - desk.now.mono) if until is not None else 0.0


def relieve(desk: Desk) -> None:
    """The machine is well again: agents that waited for that, and moves that it refused, go on at once."""
    for agent in desk.book.agents.values():
        if agent.hindered:
            agent.parks = 0
            desk.hush(agent.name, "unpark")
            change(desk, agent, AgentHappening.PARK_ENDED)
            desk.touch(agent.name)
    for delivery in desk.book:
        if ("disk", delivery.key) in desk.alarms:
            desk.alarm("disk", delivery.key, 0)


def target(desk: Desk, about: str) -> str:
    """Who is told about an agent: ``escalate_to``, unless that is the one it is about, or nobody answers there."""
    leader = desk.agent_called(desk.policy.escalate_to)
    if leader is None or leader == about:
        return USER
    return leader if desk.book.agents[leader].state in QUIET else USER


def escalate(
    desk: Desk,
    agent: str,
    cause: str,
    escalation_id: str,
    summary: str,
    action: str,
    delivery: Delivery | None = None,
    to: str | None = None,
    about: str = "",
) -> None:
    """Tell someone, once per agent and cause while it is open. A person's inbox also rings (``on_escalation``).
    ``about``: what it is about, if that is no message."""
    existing = desk.escalations.counted(agent, cause)
    if existing is not None and desk.agent_called(existing.to) is None:
        desk.escalations.close(existing.escalation_id)
        over(desk, [existing], f"{existing.to}, whom it went to, is no agent here any more")
        existing = None
    if existing is None:
        to = to or target(desk, agent)
        draft = escalations.escalation(escalation_id, to, agent, cause, summary, action, delivery, desk.now.wall)
        existing = OpenEscalation(escalation_id, agent, cause, to, desk.now.wall)
        desk.escalations.open(existing)
        desk.put(SendMessage(agent, draft, notify=desk.book.agents[to].policy.reminds))
    _note_about(existing, about or (delivery.message.message_id if delivery is not None else ""))
    data: dict[str, object] = {"agent": agent, "cause": cause, "to": existing.to}
    data |= {"escalation_id": existing.escalation_id, "counted": existing.counted}
    if delivery is not None:
        data["message_id"] = delivery.message.message_id
    desk.put(RecordFact("escalation", data, lane=agent))


def _note_about(escalation: OpenEscalation, about: str) -> None:
    if about and about not in escalation.about and len(escalation.about) < MOST_ABOUT:
        escalation.about.append(about)


def over(desk: Desk, ended: Iterable[OpenEscalation], why: str) -> None:
    """Their cause has ended: nobody need answer them any more, and what happens next is worth a new one."""
    for one in ended:
        data: dict[str, object] = {"agent": one.agent, "cause": one.cause, "escalation_id": one.escalation_id}
        data |= {"by": MONITOR, "how": "over", "why": why, "counted": one.counted}
        desk.put(RecordFact("escalation_closed", data, lane=one.agent))


def back(desk: Desk, agent: Agent, why: str) -> None:
    """It can be told again, or says so: its absence is over, and so is what was said about that."""
    agent.came_back()
    over(desk, desk.escalations.agents(agent.name), why)
