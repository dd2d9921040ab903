"""Rules for agents whose screens say what they do: idle with work in hand, busy without end, or not to be read.

Carries out the steps of idleness.py and waits.py when the liveness timer is due or something has changed. An agent that
waits for others is not reminded. An agent that is busy gets no key, until nothing but its busy rows has changed for
``hung_after_s``. Screens are read by the endpoints; ``AgentShowed`` says what they show.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from ackd.core import agent_facts, agent_rules, alerts, delivery_facts, endings, headers, idle_time, silence, waits
from ackd.core.agent_facts import agent_shows
from ackd.core.availability import QUIET
from ackd.core.delivery import Happening, State
from ackd.core.effects import RemindAgent, WriteStatus
from ackd.core.escalations import Cause, telling_id
from ackd.core.idleness import (
    REMIND_TRIES,
    REMINDERS,
    BusyDecision,
    Doing,
    HungDecision,
    IdleAct,
    Idling,
    NothingDue,
    StepDecision,
    allowed_s,
    decide_hung,
    decide_idle,
    stage_of,
    step,
)
from ackd.core.message import MONITOR
from ackd.core.message_facts import message_waits
from ackd.core.policy import is_notice
from ackd.core.timers import TimerKind
from ackd.core.transitions import apply
from ackd.core.waits import Spell, Wait, WaitAct, WaitEvent, Waiting
from ackd.core.words import REPORT_TYPES

if TYPE_CHECKING:
    from ackd.core import events
    from ackd.core.state import Agent, Delivery, EngineState

H, S = Happening, State
_TOLD: Final = frozenset({S.DELIVERED, S.ACKED})
#: States of a message whose sender may still wait for it.
_OPEN: Final = frozenset({S.QUEUED, S.CLAIMING, S.PROCESSING, S.DELIVERED, S.ACKED, S.RETRYING})
#: The share of ``task_timeout_s`` by which a crash may shorten the idle time that was counted.
_WRITTEN_EACH: Final = 0.25


# --- what is seen -----------------------------------------------------------------------------------------------------
def showed(state: EngineState, agent: Agent, doing: Doing) -> None:
    before = agent.doing
    idle_time.show(state, agent, doing)
    if doing is not Doing.BUSY and agent.ladder is not None and agent.ladder.hung:
        agent.ladder = None  # it hung at its work, and does something else now: the idle rules follow
    if doing is not Doing.UNCLEAR and agent.occupied is None and agent.window:
        agent_rules.goes_on(state, agent)
    if before is not doing and idle_time.taken(state, agent):
        state.record(agent_shows(agent=agent.name, doing=doing.value))
    if agent.policy.shows and agent.window:
        look(state, agent)
    state.offer_later(agent.name)


def waits_for(state: EngineState, agent: Agent, event: events.AgentWaits) -> None:
    if event.waits:
        agent.waits_on[event.source] = event.waits
    else:
        agent.waits_on.pop(event.source, None)
    if agent.policy.shows and agent.window:
        look(state, agent)


def look(state: EngineState, agent: Agent) -> None:
    """Decide what is due for the agent: its liveness timer is due, or something has changed."""
    policy, held = agent.policy, _held(state, agent)
    if not held:
        return
    if agent.state not in QUIET:  # paused, parked, down: someone knows
        idle_time.skip(state, agent)
        at = state.now.mono + policy.ack_timeout_s
    elif agent.doing is Doing.IDLE:
        at = _look_at_idle(state, agent)
    elif agent.doing is Doing.BUSY:
        at = _look_at_busy(state, agent, held)
    else:
        at = _look_at_unclear(state, agent)
    state.timers.start(TimerKind.LIVENESS, agent.name, max(at, state.now.mono + 0.001))


def _held(state: EngineState, agent: Agent) -> list[Delivery]:
    """Return what the agent was told and has not finished, taken or not, the oldest first."""
    held = (state.deliveries.get(key) for key in sorted(agent.window))
    return [each for each in held if each is not None and each.state in _TOLD]


# --- idle -------------------------------------------------------------------------------------------------------------
def _look_at_idle(state: EngineState, agent: Agent) -> float:
    """Take the steps that are due, and return the monotonic time of the next look. There is one reminder at a time, and
    none while the agent is being told or woken."""
    later, under_way = state.now.mono + agent.policy.ack_timeout_s, _is_spoken_to(state, agent)
    next_at = later
    for delivery in idle_time.taken(state, agent):
        next_at = min(next_at, _look_at_waits(state, agent, delivery))
        if under_way or delivery.waiting not in idle_time.COUNTS:
            continue
        left_s = allowed_s(agent.policy.task_timeout_s, acked=delivery.state is S.ACKED)
        left_s -= idle_time.idle_s(state, agent, delivery)
        decision = decide_idle(
            delivery.idled,
            idle_since=idle_time.idle_since(agent, delivery),
            stepped_at=agent.stepped_at,
            now=state.now.mono,
            ack_timeout_s=agent.policy.ack_timeout_s,
            left_s=left_s,
        )
        match decision:
            case NothingDue(at):
                next_at = min(next_at, at)
                _write_now_and_then(state, agent, delivery)
            case StepDecision(happened):
                _take_step(state, agent, delivery, happened)
                under_way = agent.reminding is not None
            case _:
                assert_never(decision)
    return next_at


def _is_spoken_to(state: EngineState, agent: Agent) -> bool:
    """Return whether the agent is being reminded, told or woken.

    A ladder that waits for other work to end wakes nobody: that work must be reminded of, or each would wait for the
    other for ever.
    """
    in_hand = (state.deliveries.get(key) for key in agent.window)
    return (
        agent.reminding is not None
        or (agent.ladder is not None and not silence.is_held_up(state, agent))
        or any(each is not None and each.state in (S.CLAIMING, S.PROCESSING) for each in in_hand)
    )


def _take_step(state: EngineState, agent: Agent, delivery: Delivery, happened: Idling, why: str = "") -> None:
    _, act = step(stage_of(delivery.idled), happened)
    match act:
        case IdleAct.NOTHING:
            pass
        case IdleAct.REMIND:
            agent.reminding = delivery.key
            order = (agent.name, delivery.key, delivery.message, delivery.place)
            state.emit(RemindAgent(*order, attempt=delivery.tells))
        case IdleAct.TELL:
            _tell_of_idle(state, agent, delivery, why)
        case IdleAct.BURY:
            _give_up(state, agent, delivery)
        case _:
            assert_never(act)


def reminded(state: EngineState, event: events.Reminded) -> None:
    """Note what came of a reminder. One that could not be typed does not count; if it never can be, someone is told
    instead."""
    asked = next((one for one in state.agents.values() if one.reminding == event.key), None)
    if asked is not None:
        asked.reminding = None
    delivery = state.deliveries.get(event.key)
    if delivery is None:
        if asked is not None:  # the message ended while the reminder was typed: the agent may be reminded of another
            asked.stepped_at = state.now.mono
            idle_time.show(state, asked, None)
            look(state, asked)
        return
    agent = state.agents[delivery.agent]
    if delivery.state not in _TOLD or event.attempt not in (0, delivery.tells):
        return
    agent.stepped_at, was_idle = state.now.mono, agent.doing is Doing.IDLE
    number = delivery.idled.reminders + 1
    detail = {"proof": event.detail} if event.made else {"not_done": event.detail}
    state.record(agent_facts.idle_reminder(**delivery_facts.about(delivery), number=number, **detail))
    idle_time.show(state, agent, None)  # what it does about the reminder is still to be seen
    if event.made:
        delivery.untyped = 0
        delivery.idled = replace(delivery.idled, reminders=number)
        delivery.remember(state.now.wall, f"idle at its prompt: reminder {number}")
        _write(state, agent, delivery)
    elif was_idle:
        delivery.untyped += 1
        if delivery.untyped >= REMIND_TRIES:
            _take_step(state, agent, delivery, Idling.UNTYPED, f"; reminders cannot be typed: {event.detail}")
    if agent.policy.shows:
        look(state, agent)


def _tell_of_idle(state: EngineState, agent: Agent, delivery: Delivery, why: str) -> None:
    """Escalate an idle agent once, and let the mail behind the message flow from now on."""
    reminders, waited_s = delivery.idled.reminders, idle_time.idle_s(state, agent, delivery)
    delivery.idled = replace(delivery.idled, told=True)
    delivery.remember(state.now.wall, f"idle for {waited_s:.0f} s in all, someone is told")
    said = "acknowledged" if delivery.state is S.ACKED else "saw"
    if delivery.message.sender == MONITOR:  # mail from ackd leads to no mail
        endings.pass_on(state, delivery, f"{agent.name} {said} it and is idle")
    else:
        ident = delivery.message.message_id
        alerts.escalate(
            state,
            agent.name,
            Cause.IDLE,
            telling_id("idle", delivery),
            f"{agent.name} {said} 1 message and is back at its prompt without finishing it: {reminders} of {REMINDERS} "
            f"reminders were typed, and brought no answer{why}. It is "
            f"{delivery.place}, and holds up no other mail any more",
            f"Ask it, or answer for it with `ackd done {ident}` or `ackd defer {ident}`",
            delivery,
        )
    step_aside(state, agent, delivery)


def step_aside(state: EngineState, agent: Agent, delivery: Delivery) -> None:
    """Let the message fill no place of the window any more."""
    delivery.idled = replace(delivery.idled, beside=True)
    state.deliveries.place_in_window(agent, delivery)
    _write(state, agent, delivery)
    state.offer_later(agent.name)


def _give_up(state: EngineState, agent: Agent, delivery: Delivery) -> None:
    """Give the message up as unfinished. The agent is alive, so it is not woken and stays available. A late completion
    counts."""
    idle_s = idle_time.idle_s(state, agent, delivery)
    since = "acknowledged it" if delivery.state is S.ACKED else "saw it"
    why = f"unfinished: its agent was idle for {idle_s:.0f} s in all since it {since}; it may have been done"
    delivery.remember(state.now.wall, why)
    apply(state, delivery, H.UNFINISHED, why)


def _write(state: EngineState, agent: Agent, delivery: Delivery) -> None:
    idle_time.count(state, agent)
    delivery.written_s = delivery.idled.idle_s
    state.emit(WriteStatus(agent.name, delivery.key, delivery.place, headers.idle(delivery.idled)))


def _write_now_and_then(state: EngineState, agent: Agent, delivery: Delivery) -> None:
    """Write the sum of idle time when enough has come together: a crash may cost a share of it, and no more."""
    unwritten_s = idle_time.idle_s(state, agent, delivery) - delivery.written_s
    if unwritten_s >= max(_WRITTEN_EACH * agent.policy.task_timeout_s, agent.policy.ack_timeout_s):
        _write(state, agent, delivery)


def write_all(state: EngineState) -> None:
    """Write all sums of idle time before an ordinary stop, so that nothing of them is lost."""
    for agent in state.agents.values():
        if agent.doing is Doing.IDLE:
            for delivery in idle_time.taken(state, agent):
                if idle_time.idle_s(state, agent, delivery) - delivery.written_s >= 1:
                    _write(state, agent, delivery)


# --- waiting for others -----------------------------------------------------------------------------------------------
def _look_at_waits(state: EngineState, agent: Agent, delivery: Delivery) -> float:
    """Check what the agent waits for, and return the monotonic time at which that must be done again."""
    now = state.now.mono
    spell = gather(state, agent, delivery)
    if spell is None:
        return now + agent.policy.task_timeout_s
    members = _circle(state, agent)
    if members is None:
        _turn(state, agent, delivery, spell, WaitEvent.BROKEN)
    elif all(_is_long_idle(state, state.agents[name]) for name in members):
        _turn(state, agent, delivery, spell, WaitEvent.CLOSED, f"in a circle, {' → '.join((*members, members[0]))}")
    _notice_moves(state, delivery, spell)
    unmoved_at = spell.moved_at + agent.policy.task_timeout_s
    if now >= unmoved_at:
        _turn(state, agent, delivery, spell, WaitEvent.UNMOVED, f"nothing moved for {now - spell.moved_at:.0f} s")
        return now + agent.policy.task_timeout_s
    return unmoved_at


def gather(state: EngineState, agent: Agent, delivery: Delivery) -> Spell | None:
    """Find out what the agent waits for while it holds this message."""
    found = _open_mail(state, agent, delivery)
    for others in agent.waits_on.values():
        found += others
    things, spell = tuple(dict.fromkeys(found)), delivery.waits
    if not things and spell is None and delivery.idled.stalled and not state.reading:
        delivery.idled = replace(delivery.idled, stalled=False)  # the wait ended while nobody looked
    if things and spell is not None:
        spell.things = things
    elif things or spell is not None:
        idle_time.count(state, agent)
        stage, _ = waits.step(delivery.waiting, WaitEvent.BEGAN if things else WaitEvent.ENDED)
        delivery.waits = Spell(stage, things, moved_at=state.now.mono) if things else None
        delivery.clock_from = state.now.mono
        if not things and delivery.idled.stalled:
            delivery.idled = replace(delivery.idled, stalled=False)
        names = [str(each) for each in things]
        state.record(message_waits(**delivery_facts.about(delivery), waits_for=names or None))
    return delivery.waits


def _open_mail(state: EngineState, agent: Agent, held: Delivery) -> list[Wait]:
    """Return the messages from this agent that somebody still has to deal with. Nobody waits for what only informs."""
    return [
        Wait(sent.agent, f"message {sent.message.message_id}")
        for sent in state.deliveries.sent_by(agent.name)
        if sent.agent != agent.name and is_awaited(sent) and _is_for(sent, held)
    ]


def is_awaited(sent: Delivery) -> bool:
    """Return whether its sender waits for the message: somebody has to deal with it, and it asks for something."""
    message = sent.message
    return sent.state in _OPEN and not sent.duplicate and message.type not in REPORT_TYPES and not is_notice(message)


def _is_for(sent: Delivery, held: Delivery) -> bool:
    """Return whether a message was sent for the one that its sender holds. It says so itself, or else its time and
    thread do."""
    if sent.message.part_of is not None:
        return sent.message.part_of == held.message.message_id
    return _is_since(sent, held) or _in_thread(sent, held)


def _is_since(sent: Delivery, held: Delivery) -> bool:
    """Return whether a message was sent after its sender was told the one that it holds. For files met at a start only
    their times tell."""
    if sent.recovered:
        return sent.arrived_at >= held.told_wall - 1
    return sent.key > held.opened_by_then


def _in_thread(sent: Delivery, held: Delivery) -> bool:
    thread = held.message.thread_id
    return thread is not None and sent.message.thread_id == thread


def _notice_moves(state: EngineState, delivery: Delivery, spell: Spell) -> None:
    """Note that something changed in what the agent waits for, or that somebody it waits for gave a sign of life."""
    deliveries, moves = state.deliveries, set[object](spell.things)
    for whom in {each.whom for each in spell.things if each.whom is not None}:
        other = deliveries.agents.get(whom)
        if other is not None and other.last_life is not None:
            spell.moved_at = max(spell.moved_at, other.last_life)
    for sent in deliveries.sent_by(delivery.agent):
        moves.add((sent.key, sent.state, sent.seen, sent.tells))
    found = frozenset(moves)
    if found != spell.moves:
        spell.moved_at = state.now.mono if spell.moves else spell.moved_at
        spell.moves = found


def _circle(state: EngineState, agent: Agent) -> tuple[str, ...] | None:
    """Return the circle that the agent's waits close with those of others whose screens are read.

    It is told of when all in it are idle, and lasts, whatever they do then, until one of them no longer waits for the
    next.
    """
    waiting: dict[str, set[str]] = {}
    for other in state.agents.values():
        if other.policy.shows and other.window:
            found = (each.whom for held in idle_time.taken(state, other) for each in _all_waits(state, other, held))
            waiting[other.name] = {whom for whom in found if whom is not None}
    return waits.circle(waiting, agent.name)


def _all_waits(state: EngineState, agent: Agent, held: Delivery) -> list[Wait]:
    return [*_open_mail(state, agent, held), *(each for some in agent.waits_on.values() for each in some)]


def _is_long_idle(state: EngineState, agent: Agent) -> bool:
    if agent.doing is not Doing.IDLE or agent.state not in QUIET:
        return False
    return state.now.mono - agent.doing_since >= agent.policy.ack_timeout_s


def _turn(state: EngineState, agent: Agent, delivery: Delivery, spell: Spell, turn: WaitEvent, how: str = "") -> None:
    before = spell.stage
    spell.stage, act = waits.step(before, turn)
    if spell.stage is Waiting.CIRCLE and before is not Waiting.CIRCLE:
        delivery.clock_from = state.now.mono  # the idle rules hold again, from now on
    if act is not WaitAct.NOTICE or delivery.idled.stalled:
        return
    delivery.idled = replace(delivery.idled, stalled=True)
    names = ", ".join(dict.fromkeys(map(str, spell.things)))
    delivery.remember(state.now.wall, f"waits for {names}: {how}")
    if delivery.message.sender != MONITOR:
        ident = delivery.message.message_id
        alerts.notify(
            state,
            "waiting",
            f"{agent.name} {ident}",
            f"{agent.name} waits for {names} with 1 message in hand, {how}: {delivery.place}. It holds "
            f"up no other mail any more",
            f"See with `ackd status` what they do, or end the wait with `ackd done {ident}` or `ackd defer {ident}`",
            agent=agent.name,
        )
    step_aside(state, agent, delivery)


# --- busy, or not to be read ------------------------------------------------------------------------------------------
def _look_at_busy(state: EngineState, agent: Agent, held: list[Delivery]) -> float:
    policy, now = agent.policy, state.now.mono
    quiet_since = max(agent.doing_since, agent.last_life or 0.0)
    later = now + policy.ack_timeout_s
    if agent.ladder is not None and agent.ladder.hung:
        return later
    decision = decide_hung(
        quiet_since=quiet_since,
        now=now,
        busy_timeout_s=policy.busy_timeout_s,
        hung_after_s=policy.hung_after_s,
        told=agent.busy_told,
    )
    match decision:
        case None:
            return now + policy.busy_timeout_s
        case NothingDue(at):
            return at
        case BusyDecision(at):
            _tell_of_quiet(state, agent, f"has shown nothing but busy for {now - quiet_since:.0f} s")
            return now + policy.busy_timeout_s if at is None else at
        case HungDecision():
            why = f"hung: nothing but its busy rows changed in {now - quiet_since:.0f} s, without processor time"
            silence.wake_from_hanging(state, held[0], why)
            return later
        case _:
            assert_never(decision)


def _look_at_unclear(state: EngineState, agent: Agent) -> float:
    """Notify somebody of a screen that cannot be read for a while. A prompt and a limit are not among these: they park
    the agent and are told of at once."""
    since = max(agent.doing_since, agent.last_life or 0.0, *(d.clock_from for d in _held(state, agent)))
    at = since + agent.policy.busy_timeout_s
    if state.now.mono < at:
        return at
    if not agent.busy_told:
        _tell_of_quiet(state, agent, f"cannot be read from its screen for {state.now.mono - since:.0f} s")
    return state.now.mono + agent.policy.busy_timeout_s


def _tell_of_quiet(state: EngineState, agent: Agent, what: str) -> None:
    agent.busy_told = True
    alerts.notify(
        state,
        "busy",
        agent.name,
        f"{agent.name} {what}. {agent_rules.what_waits(state, agent)}",
        f"Nothing was pressed. Look at it with `ackd agent attach {agent.name}`",
        agent=agent.name,
    )
