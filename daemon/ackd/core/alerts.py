"""Telling people and leaders of trouble: escalations, which wait for an answer, and notices, which do not.

This module says who hears of it, sends the mail and records the facts. Which escalations are open is kept by
escalations.py, how many notices there may be by notices.py; both have the texts. Mail from ackd itself must never lead
to more mail. The callers see to that, because only they know what the trouble is about. Parts of the daemon outside the
engine post ``TroubleSeen`` for a notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackd.core import escalations, message_facts, notices
from ackd.core.availability import QUIET
from ackd.core.effects import RecordFact, SendMessage
from ackd.core.escalations import MOST_ABOUT, Cause, OpenEscalation
from ackd.core.message import MONITOR, USER
from ackd.core.message_facts import escalation_closed, notice
from ackd.core.notices import NoticeVerdict
from ackd.core.timers import ENGINE, TimerKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.core.message import Draft
    from ackd.core.state import Delivery, EngineState


def reader(state: EngineState, about: str) -> str:
    """Return who is told about an agent: ``escalate_to``, or the user if that is the agent itself or cannot answer. Of
    a group or a pool somebody else must be able to."""
    leader = state.agent_called(state.policy.escalate_to)
    if leader is None:
        return USER
    members = (state.agent_called(name) for name in readers(state, leader))
    can_answer = any(name is not None and name != about and state.agents[name].state in QUIET for name in members)
    return leader if can_answer else USER


def readers(state: EngineState, to: str) -> tuple[str, ...]:
    """Return the agents that an escalation to this name reaches, any of whom may answer it: itself, or the members of a
    group or pool."""
    pool = state.pools.get(to)
    return pool.members if pool is not None else state.policy.groups.get(to, (to,))


# --- escalations ------------------------------------------------------------------------------------------------------
def escalate(
    state: EngineState,
    agent: str,
    cause: Cause,
    escalation_id: str,
    summary: str,
    action: str,
    delivery: Delivery | None = None,
    to: str | None = None,
    about: str = "",
    notice: Draft | None = None,
) -> OpenEscalation:
    """Open an escalation, or count this case into the one that is open for the same agent and cause. Return it.

    ``about``: what it is about, if that is no message. If it goes to a person, ``on_escalation`` runs as well.
    ``notice``: the notice to the sender of a dead message; a new escalation to the same reader says it, too.
    """
    lane = delivery.agent if delivery is not None else agent  # of a pool's message, its holder's
    existing = state.escalations.counted(agent, cause)
    if existing is not None and state.agent_called(existing.to) is None:
        state.escalations.close(existing.escalation_id)
        record_over(state, [existing], f"{existing.to}, whom it went to, is no agent here any more")
        existing = None
    if existing is None:
        to = to or reader(state, agent)
        draft = escalations.escalation(escalation_id, to, agent, cause.value, summary, action, delivery, state.now.wall)
        if notice is not None and notice.recipient == to:
            draft = escalations.with_notice(draft, notice)
        existing = OpenEscalation(escalation_id, agent, cause.value, to, state.now.wall)
        state.escalations.open(existing)
        state.emit(SendMessage(lane, draft, notify=state.agents[to].policy.reminds))
    note_about(existing, about or (delivery.message.message_id if delivery is not None else ""))
    data: dict[str, Any] = {"agent": agent, "cause": cause.value, "to": existing.to}
    data |= {"escalation_id": existing.escalation_id, "counted": existing.counted}
    if delivery is not None:
        data["message_id"] = delivery.message.message_id
    state.emit(RecordFact(message_facts.escalation(**data), lane=lane))
    return existing


def note_about(escalation: OpenEscalation, about: str) -> None:
    if about and about not in escalation.about and len(escalation.about) < MOST_ABOUT:
        escalation.about.append(about)


def record_over(state: EngineState, ended: Iterable[OpenEscalation], why: str) -> None:
    """Record that the cause of these has ended: nobody need answer them, and the next case opens a new one."""
    for one in ended:
        data: dict[str, Any] = {"agent": one.agent, "cause": one.cause, "escalation_id": one.escalation_id}
        data |= {"by": MONITOR, "how": "over", "why": why, "counted": one.counted}
        state.emit(RecordFact(escalation_closed(**data), lane=one.agent))


def close_answered(state: EngineState, escalation_id: str, by: str, how: str) -> bool:
    """Close an escalation that somebody has dealt with. Return False if it was not open."""
    closed = state.escalations.close(escalation_id)
    if closed is None:
        return False
    data: dict[str, Any] = {"agent": closed.agent, "cause": closed.cause, "escalation_id": escalation_id}
    data |= {"by": by, "how": how, "counted": closed.counted}
    state.emit(RecordFact(escalation_closed(**data), lane=by if by in state.agents else closed.agent))
    return True


# --- notices ----------------------------------------------------------------------------------------------------------
def notify(
    state: EngineState,
    kind: str,
    subject: str,
    text: str,
    cure: str,
    *,
    agent: str | None = None,
    to: str | None = None,
    lane: str | None = None,
) -> None:
    """Send one notice, unless the same one was sent within the hour or the reader has had too many.

    ``kind``: one word. ``subject``: the path, name or id that it is about; the reader gets one notice of a kind and
    subject in an hour. ``agent``: whom it is about. ``to``: who is to read it, if that is an agent here; else
    ``escalate_to``. ``lane``: effects that follow in this lane wait until the notice is on disk.
    """
    subject, text = _as_utf8(subject), _as_utf8(text)
    to = _notice_reader(state, to, agent)
    hour = notices.hour_of(state.steady_wall)
    verdict = state.notices.weigh(to, kind, subject, hour)
    if verdict is NoticeVerdict.KNOWN:
        return
    ident = notices.notice_id(to, kind, subject, hour)
    held = verdict is NoticeVerdict.HELD
    if held:
        start_summary_timer(state)
    else:
        draft = notices.notice(to, kind, subject, text, cure, agent, hour)
        state.emit(SendMessage(lane or agent or to, draft))
    state.record(
        notice(agent=agent, cause=kind, about=subject, summary=text, to=to, notice_id=ident, held=held or None)
    )


def _as_utf8(text: str) -> str:
    """Replace what is not UTF-8: names of files may hold anything, but mail and state files may not."""
    return text.encode("utf-8", "replace").decode()


def _notice_reader(state: EngineState, to: str | None, about: str | None) -> str:
    """Return ``to`` if it can read notices: an agent that is a handler inside the daemon reads none."""
    named = state.agent_called(to) if to else None
    if named is not None and not state.agents[named].policy.unwatched:
        return named
    return reader(state, about or "")


def start_summary_timer(state: EngineState) -> None:
    """Have the summaries sent when the hour is over.

    Also called after a start, because an hour may have ended while the daemon was away. A summary that was sent is
    forgotten an hour later, or every start would send it again.
    """
    if state.notices.owes:
        first = min(one.hour for one in state.notices.all() if one.held and not one.summed)
        in_s = max(0.0, (first + 1) * notices.HOUR_S - state.steady_wall)
    elif state.notices.has_given:
        in_s = notices.HOUR_S
    else:
        return
    due_at = state.timers.at(TimerKind.SUMMARY, ENGINE)
    if due_at is None or due_at > state.now.mono + in_s:
        state.start_timer(TimerKind.SUMMARY, ENGINE, in_s)


def send_summaries(state: EngineState) -> None:
    """Send the summary of each hour that is over."""
    for hour in state.notices.over(notices.hour_of(state.steady_wall)):
        to = state.agent_called(hour.to) or reader(state, "")  # it may have left the team
        draft = notices.summary(hour, to)
        state.emit(SendMessage(to, draft))
        state.record(notice(cause="summary", to=to, summary=str(draft.body["summary"]), notice_id=draft.message_id))
    start_summary_timer(state)
