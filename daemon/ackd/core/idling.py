"""What is done about agents whose screens say what they do: idle with work in hand, busy without end, not to be read.

Owns the looks at such an agent (its clock is ``life``) and carries the steps of idleness.py and waits.py out. Nobody is
reminded who waits for others. Who is busy gets no key, until nothing but its busy rows has changed for
``hung_after_s``. Refuses to know screens: ``AgentShowed`` says what they show.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from ackd.core import calling, endings, facts, headers, silence, spells, trouble, waits
from ackd.core.acts import apply
from ackd.core.availability import QUIET
from ackd.core.completion import is_notice
from ackd.core.delivery import Happening, State
from ackd.core.effects import RecordFact, RemindAgent, WriteStatus
from ackd.core.escalations import telling_id
from ackd.core.idleness import (
    REMIND_TRIES,
    REMINDERS,
    BusyDecision,
    Doing,
    HungDecision,
    IdleAct,
    Idling,
    LookAgain,
    StepDecision,
    allowed_s,
    decide_hung,
    decide_idle,
    stage_of,
    step,
)
from ackd.core.message import MONITOR
from ackd.core.waits import Turn, Wait, WaitAct, Waiting
from ackd.core.words import REPORT_TYPES

if TYPE_CHECKING:
    from ackd.core import events
    from ackd.core.book import Agent, Delivery
    from ackd.core.desk import Desk

H, S = Happening, State
_TOLD: Final = frozenset({S.DELIVERED, S.ACKED})
#: States of a message whose sender may still be waiting for what becomes of it.
_OPEN: Final = frozenset({S.QUEUED, S.CLAIMING, S.PROCESSING, S.DELIVERED, S.ACKED, S.RETRYING})
#: How much of the time that is left before a message is given up may be forgotten by a crash: a share of it.
_WRITTEN_EACH: Final = 0.25


# --- what is seen -----------------------------------------------------------------------------------------------------
def showed(desk: Desk, agent: Agent, doing: Doing) -> None:
    before = agent.doing
    spells.show(desk, agent, doing)
    if doing is not Doing.BUSY and agent.ladder is not None and agent.ladder.hung:
        agent.ladder = None  # it hung at its work, and is at that no longer: what follows are the idle rules
    if doing is not Doing.UNCLEAR and agent.waits is None and agent.window:
        calling.goes_on(desk, agent)
    if before is not doing and spells.taken(desk, agent):
        desk.fact("agent_shows", agent=agent.name, doing=doing.value)
    if agent.policy.shows and agent.window:
        look(desk, agent)
    desk.touch(agent.name)


def waits_for(desk: Desk, agent: Agent, event: events.AgentWaits) -> None:
    if event.waits:
        agent.waits_on[event.source] = event.waits
    else:
        agent.waits_on.pop(event.source, None)
    if agent.policy.shows and agent.window:
        look(desk, agent)


def look(desk: Desk, agent: Agent) -> None:
    """The clock of its life rang, or something has changed: what is due?"""
    policy, held = agent.policy, _held(desk, agent)
    if not held:
        return
    if agent.state not in QUIET:  # paused, parked, down: someone knows
        spells.pass_over(desk, agent)
        at = desk.now.mono + policy.ack_timeout_s
    elif agent.doing is Doing.IDLE:
        at = _look_at_idle(desk, agent)
    elif agent.doing is Doing.BUSY:
        at = _look_at_busy(desk, agent, held)
    else:
        at = _look_at_unclear(desk, agent)
    desk.alarm_at("life", agent.name, max(at, desk.now.mono + 0.001))


def _held(desk: Desk, agent: Agent) -> list[Delivery]:
    """What it was told and has not finished, taken or not, the oldest first."""
    held = (desk.book.get(key) for key in sorted(agent.window))
    return [each for each in held if each is not None and each.state in _TOLD]


# --- idle -------------------------------------------------------------------------------------------------------------
def _look_at_idle(desk: Desk, agent: Agent) -> float:
    """Monotonic time of the next look. One reminder at a time; who is being told or woken is not reminded as well."""
    later, under_way = desk.now.mono + agent.policy.ack_timeout_s, _is_spoken_to(desk, agent)
    next_at = later
    for delivery in spells.taken(desk, agent):
        next_at = min(next_at, _look_at_waits(desk, agent, delivery))
        if under_way or delivery.waiting not in spells.COUNTS:
            continue
        left_s = allowed_s(agent.policy.task_timeout_s, acked=delivery.state is S.ACKED)
        left_s -= spells.idle_s(desk, agent, delivery)
        decision = decide_idle(
            delivery.idled,
            idle_since=spells.idle_since(agent, delivery),
            stepped_at=agent.stepped_at,
            now=desk.now.mono,
            ack_timeout_s=agent.policy.ack_timeout_s,
            left_s=left_s,
        )
        match decision:
            case LookAgain(at):
                next_at = min(next_at, at)
                _write_now_and_then(desk, agent, delivery)
            case StepDecision(happened):
                _take_step(desk, agent, delivery, happened)
                under_way = agent.reminding is not None
            case _:
                assert_never(decision)
    return next_at


def _is_spoken_to(desk: Desk, agent: Agent) -> bool:
    """It is being reminded, told or woken. A ladder that waits for other work to end wakes nobody: that work must be
    reminded of, or each would wait for the other for ever."""
    in_hand = (desk.book.get(key) for key in agent.window)
    return (
        agent.reminding is not None
        or (agent.ladder is not None and not silence.is_held_up(desk, agent))
        or any(each is not None and each.state in (S.CLAIMING, S.PROCESSING) for each in in_hand)
    )


def _take_step(desk: Desk, agent: Agent, delivery: Delivery, happened: Idling, why: str = "") -> None:
    _, act = step(stage_of(delivery.idled), happened)
    match act:
        case IdleAct.NOTHING:
            pass
        case IdleAct.REMIND:
            agent.reminding = delivery.key
            order = (agent.name, delivery.key, delivery.message, delivery.place)
            desk.put(RemindAgent(*order, attempt=delivery.tells))
        case IdleAct.TELL:
            _tell_of_idle(desk, agent, delivery, why)
        case IdleAct.BURY:
            _give_up(desk, agent, delivery)
        case _:
            assert_never(act)


def reminded(desk: Desk, event: events.Reminded) -> None:
    """A reminder that could not be typed is none; one that never can be, someone is told instead."""
    asked = next((one for one in desk.book.agents.values() if one.reminding == event.key), None)
    if asked is not None:
        asked.reminding = None
    delivery = desk.book.get(event.key)
    if delivery is None:
        if asked is not None:  # its message went while it was typed: it may be reminded of another
            asked.stepped_at = desk.now.mono
            spells.show(desk, asked, None)
            look(desk, asked)
        return
    agent = desk.book.agents[delivery.agent]
    if delivery.state not in _TOLD or event.attempt not in (0, delivery.tells):
        return
    agent.stepped_at, was_idle = desk.now.mono, agent.doing is Doing.IDLE
    number = delivery.idled.reminders + 1
    detail = {"proof": event.detail} if event.made else {"not_done": event.detail}
    desk.put(RecordFact("idle_reminder", facts.about(delivery, number=number, **detail)))
    spells.show(desk, agent, None)  # what it does about it is still to be seen
    if event.made:
        delivery.untyped = 0
        delivery.idled = replace(delivery.idled, reminders=number)
        delivery.remember(desk.now.wall, f"idle at its prompt: reminder {number}")
        _write(desk, agent, delivery)
    elif was_idle:
        delivery.untyped += 1
        if delivery.untyped >= REMIND_TRIES:
            _take_step(desk, agent, delivery, Idling.UNTYPED, f"; reminders cannot be typed: {event.detail}")
    if agent.policy.shows:
        look(desk, agent)


def _tell_of_idle(desk: Desk, agent: Agent, delivery: Delivery, why: str) -> None:
    """One escalation; from now on mail behind it flows."""
    reminders, waited_s = delivery.idled.reminders, spells.idle_s(desk, agent, delivery)
    delivery.idled = replace(delivery.idled, told=True)
    delivery.remember(desk.now.wall, f"idle for {waited_s:.0f} s in all, someone is told")
    said = "acknowledged" if delivery.state is S.ACKED else "saw"
    if delivery.message.sender == MONITOR:  # mail of ours breeds none
        endings.pass_on(desk, delivery, f"{agent.name} {said} it and is idle")
    else:
        ident = delivery.message.message_id
        calling.escalate(
            desk,
            agent.name,
            "idle",
            telling_id("idle", delivery),
            f"{agent.name} {said} 1 message and is back at its prompt without finishing it: {reminders} of {REMINDERS} "
            f"reminders ({100 * reminders // REMINDERS}%) were typed, and brought no answer{why}. It is "
            f"{delivery.place}, and holds up no other mail any more",
            f"Ask it, or answer for it with `ackd done {ident}` or `ackd defer {ident}`",
            delivery,
        )
    step_aside(desk, agent, delivery)


def step_aside(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """It fills no place of the window any more."""
    delivery.idled = replace(delivery.idled, beside=True)
    desk.book.place_in_window(agent, delivery)
    _write(desk, agent, delivery)
    desk.touch(agent.name)


def _give_up(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """No rung, and its agent stays available: it lives. A late completion counts."""
    idle_s = spells.idle_s(desk, agent, delivery)
    since = "acknowledged it" if delivery.state is S.ACKED else "saw it"
    why = f"unfinished: its agent was idle for {idle_s:.0f} s in all since it {since}; it may have been done"
    delivery.remember(desk.now.wall, why)
    apply(desk, delivery, H.UNFINISHED, why)


def _write(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    spells.note(desk, agent)
    delivery.written_s = delivery.idled.idle_s
    desk.put(WriteStatus(agent.name, delivery.key, delivery.place, headers.idle(delivery.idled)))


def _write_now_and_then(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """The sum grows for half an hour and more. What a crash may cost of it is a share."""
    unwritten_s = spells.idle_s(desk, agent, delivery) - delivery.written_s
    if unwritten_s >= max(_WRITTEN_EACH * agent.policy.task_timeout_s, agent.policy.ack_timeout_s):
        _write(desk, agent, delivery)


def write_all(desk: Desk) -> None:
    """Before an ordinary end of ours: nothing of the sums is lost."""
    for agent in desk.book.agents.values():
        if agent.spell_from is not None:
            for delivery in spells.taken(desk, agent):
                if spells.idle_s(desk, agent, delivery) - delivery.written_s >= 1:
                    _write(desk, agent, delivery)


# --- waiting for others -----------------------------------------------------------------------------------------------
def _look_at_waits(desk: Desk, agent: Agent, delivery: Delivery) -> float:
    """Monotonic time at which its waiting must be looked at again."""
    now = desk.now.mono
    gather(desk, agent, delivery)
    if not delivery.waits_for:
        return now + agent.policy.task_timeout_s
    members = _circle(desk, agent)
    if members is None:
        _turn(desk, agent, delivery, Turn.BROKEN)
    elif all(_is_long_idle(desk, desk.book.agents[name]) for name in members):
        _turn(desk, agent, delivery, Turn.CLOSED, f"in a circle, {' → '.join((*members, members[0]))}")
    _notice_moves(desk, delivery)
    unmoved_at = delivery.moved_at + agent.policy.task_timeout_s
    if now >= unmoved_at:
        _turn(desk, agent, delivery, Turn.UNMOVED, f"nothing moved for {now - delivery.moved_at:.0f} s")
        return now + agent.policy.task_timeout_s
    return unmoved_at


def gather(desk: Desk, agent: Agent, delivery: Delivery) -> None:
    """What it waits for now, for as long as it holds this message."""
    found = _open_mail(desk, agent, delivery)
    for others in agent.waits_on.values():
        found += others
    waited = delivery.waiting is not Waiting.NOT
    delivery.waits_for = tuple(dict.fromkeys(found))
    if not found and not waited and delivery.idled.stalled and not desk.reading:
        delivery.idled = replace(delivery.idled, stalled=False)  # it ended while nobody looked
    if bool(found) == waited:
        return
    spells.note(desk, agent)
    _turn(desk, agent, delivery, Turn.BEGAN if found else Turn.ENDED)
    delivery.clock_from = delivery.moved_at = desk.now.mono
    if not found and delivery.idled.stalled:
        delivery.idled = replace(delivery.idled, stalled=False)
    names = [str(each) for each in delivery.waits_for]
    desk.put(RecordFact("message_waits", facts.about(delivery, waits_for=names or None)))


def _open_mail(desk: Desk, agent: Agent, held: Delivery) -> list[Wait]:
    """Mail of its own that somebody still has to deal with; what only informs is waited for by nobody."""
    return [
        Wait(sent.agent, f"message {sent.message.message_id}")
        for sent in desk.book.sent_by(agent.name)
        if sent.state in _OPEN
        and sent.agent != agent.name
        and not sent.duplicate
        and sent.message.type not in REPORT_TYPES
        and not is_notice(sent.message)
        and (_is_since(sent, held) or _in_thread(sent, held))
    ]


def _is_since(sent: Delivery, held: Delivery) -> bool:
    """Sent since it was told the one that it holds. Of what a start met only the clocks of the files tell."""
    if sent.recovered:
        return sent.arrived_at >= held.told_wall - 1
    return sent.key > held.opened_by_then


def _in_thread(sent: Delivery, held: Delivery) -> bool:
    thread = held.message.thread_id
    return thread is not None and sent.message.thread_id == thread


def _notice_moves(desk: Desk, delivery: Delivery) -> None:
    """Whatever is different with what it waits for, or a sign of life of who is waited for."""
    book, moves = desk.book, set[object](delivery.waits_for)
    for whom in {each.whom for each in delivery.waits_for if each.whom is not None}:
        other = book.agents.get(whom)
        if other is not None and other.last_life is not None:
            delivery.moved_at = max(delivery.moved_at, other.last_life)
    for sent in book.sent_by(delivery.agent):
        moves.add((sent.key, sent.state, sent.seen, sent.tells))
    found = frozenset(moves)
    if found != delivery.moves:
        delivery.moved_at = desk.now.mono if delivery.moves else delivery.moved_at
        delivery.moves = found


def _circle(desk: Desk, agent: Agent) -> tuple[str, ...] | None:
    """The circle that its waits close with those of others whose screens are read. Told of when all in it are idle; it
    lasts, whatever they do then, until one of them waits for the next no more."""
    waiting: dict[str, set[str]] = {}
    for other in desk.book.agents.values():
        if other.policy.shows and other.window:
            found = (each.whom for held in spells.taken(desk, other) for each in _all_waits(desk, other, held))
            waiting[other.name] = {whom for whom in found if whom is not None}
    return waits.circle(waiting, agent.name)


def _all_waits(desk: Desk, agent: Agent, held: Delivery) -> list[Wait]:
    return [*_open_mail(desk, agent, held), *(each for some in agent.waits_on.values() for each in some)]


def _is_long_idle(desk: Desk, agent: Agent) -> bool:
    if agent.spell_from is None or agent.state not in QUIET:
        return False
    return desk.now.mono - agent.spell_from >= agent.policy.ack_timeout_s


def _turn(desk: Desk, agent: Agent, delivery: Delivery, turn: Turn, how: str = "") -> None:
    before = delivery.waiting
    delivery.waiting, act = waits.step(before, turn)
    if delivery.waiting is Waiting.CIRCLE and before is not Waiting.CIRCLE:
        delivery.clock_from = desk.now.mono  # the idle rules hold again, from now on
    if act is not WaitAct.NOTICE or delivery.idled.stalled:
        return
    delivery.idled = replace(delivery.idled, stalled=True)
    names = ", ".join(dict.fromkeys(map(str, delivery.waits_for)))
    delivery.remember(desk.now.wall, f"waits for {names}: {how}")
    if delivery.message.sender != MONITOR:
        ident = delivery.message.message_id
        trouble.tell(
            desk,
            "waiting",
            f"{agent.name} {ident}",
            f"{agent.name} waits for {names} with 1 message in hand, {how}: 1 of 1 (100%), {delivery.place}. It holds "
            f"up no other mail any more",
            f"See with `ackd status` what they do, or end the wait with `ackd done {ident}` or `ackd defer {ident}`",
            agent=agent.name,
        )
    step_aside(desk, agent, delivery)


# --- busy, or not to be read ------------------------------------------------------------------------------------------
def _look_at_busy(desk: Desk, agent: Agent, held: list[Delivery]) -> float:
    policy, now = agent.policy, desk.now.mono
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
        case LookAgain(at):
            return at
        case BusyDecision(at):
            _tell_of_quiet(desk, agent, f"has shown nothing but busy for {now - quiet_since:.0f} s")
            return now + policy.busy_timeout_s if at is None else at
        case HungDecision():
            why = f"hung: nothing but its busy rows changed in {now - quiet_since:.0f} s, without processor time"
            silence.wake_from_hanging(desk, held[0], why)
            return later
        case _:
            assert_never(decision)


def _look_at_unclear(desk: Desk, agent: Agent) -> float:
    """A prompt and a limit park it, and are told of at once. What else is not to be read is told of after a while."""
    since = max(agent.doing_since, agent.last_life or 0.0, *(d.clock_from for d in _held(desk, agent)))
    at = since + agent.policy.busy_timeout_s
    if desk.now.mono < at:
        return at
    if not agent.busy_told:
        _tell_of_quiet(desk, agent, f"cannot be read from its screen for {desk.now.mono - since:.0f} s")
    return desk.now.mono + agent.policy.busy_timeout_s


def _tell_of_quiet(desk: Desk, agent: Agent, what: str) -> None:
    agent.busy_told = True
    trouble.tell(
        desk,
        "busy",
        agent.name,
        f"{agent.name} {what}. {calling.what_waits(agent)}",
        f"Nothing was pressed. Look at it with `ackd agent attach {agent.name}`",
        agent=agent.name,
    )
