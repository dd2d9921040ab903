"""The follow-ups of a meeting's state: mail and log lines that the daemon still owes, each with a key.

Message ids derive from meeting, phase, round and director, so that a follow-up that is carried out again after a crash
makes the same message. The keys of those that were carried out are kept in the meeting (``done``). Cannot fail.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from ackd.coordination.board.facts import board_answer, board_opened, board_phase, board_resolved
from ackd.coordination.board.rules import requests
from ackd.coordination.board.rules.answers import Answer, AnswerMark, Assessment, Remark, kind_of
from ackd.coordination.board.rules.counting import BoardDecision
from ackd.coordination.board.rules.exports import absences, answer, assessments, discussion_line, votes
from ackd.coordination.board.rules.meeting import Driver, HeardRemark, Meeting, PhaseEnd, Seat, missing
from ackd.coordination.board.rules.phases import Phase, Turn
from ackd.core.escalations import derived_id, stamp
from ackd.core.message import MONITOR, Draft, Priority
from ackd.core.values import value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.core.fact import Fact


@value
class FollowUp:
    """Send ``mail`` first, then record ``line``; either may be missing."""

    key: str
    mail: Draft | None = None
    line: Fact | None = None


@value
class Address:
    """The place of a meeting: ``track`` is the name for people, ``bus`` the path."""

    track: str
    bus: str
    escalate_to: str


def follow_ups(meeting: Meeting, address: Address) -> Iterator[FollowUp]:
    """Yield the follow-ups that are not done yet, in the order in which things happened."""
    every = chain(
        [_opened(meeting, address)],
        _history(meeting, address),
        _refusals(meeting, address),
        _asked(meeting, address),
        _ended(meeting, address),
    )
    return (follow_up for follow_up in every if follow_up.key not in meeting.done)


# --- lines of the log -------------------------------------------------------------------------------------------------
def _about(meeting: Meeting, address: Address) -> dict[str, Any]:
    return {"meeting": meeting.meeting_id, "track": address.track}


def _opened(meeting: Meeting, address: Address) -> FollowUp:
    line = board_opened(
        **_about(meeting, address),
        checkpoint=meeting.checkpoint.value,
        opener=meeting.opener,
        directors=list(meeting.directors),
        by="hand" if meeting.driver is not Driver.OURS else None,
    )
    return FollowUp("opened", line=line)


def _history(meeting: Meeting, address: Address) -> Iterator[FollowUp]:
    """Yield the lines of answers and ends of phases, in the order of their times."""
    given: list[tuple[float, int, FollowUp]] = [
        (mark.at, 0, _answered(meeting, address, one, mark)) for one, mark in _answers(meeting)
    ]
    turns = [(one.at, 1, _turned(meeting, address, n, one)) for n, one in enumerate(meeting.turns)]
    return (follow_up for _, _, follow_up in sorted([*given, *turns], key=lambda item: item[:2]))


def _answers(meeting: Meeting) -> Iterator[tuple[Answer, AnswerMark]]:
    yield from meeting.assessments.values()
    yield from ((heard.remark, heard.mark) for heard in meeting.remarks)
    yield from meeting.votes.values()


def _answered(meeting: Meeting, address: Address, said: Answer, mark: AnswerMark) -> FollowUp:
    """Return the line of an answer. A vote's content is left out: it stands in the resolution, when it is no secret."""
    data = _about(meeting, address) | {"director": said.director, "agent": meeting.seat(said.director).agent}
    data |= {"what": kind_of(said).value, "number": mark.number, "door": mark.channel.value}
    if isinstance(said, Assessment):
        data["verdict"] = said.verdict.value
    if isinstance(said, Remark):
        data |= {"to": said.to, "talk": said.talk.value, "changes_my_verdict": said.changes_my_verdict}
    return FollowUp(f"answer:{mark.number}", line=board_answer(**data))


def _turned(meeting: Meeting, address: Address, number: int, one: PhaseEnd) -> FollowUp:
    following = meeting.turns[number + 1] if number + 1 < len(meeting.turns) else None
    phase, round_ = (following.phase, following.round) if following else (meeting.phase, meeting.round)
    line = board_phase(
        **_about(meeting, address),
        before=one.phase.value,
        phase=phase.value,
        by=one.by,
        round=round_ or None,
        absent=list(one.absent),
    )
    return FollowUp(f"turn:{number}", line=line)


def _refusals(meeting: Meeting, address: Address) -> Iterator[FollowUp]:
    for number, one in enumerate(meeting.refusals):
        about = _about(meeting, address) | {"director": one.director, "what": one.kind, "door": one.channel.value}
        yield FollowUp(f"refused:{number}", line=board_answer(**about, refused=one.why))


# --- mail -------------------------------------------------------------------------------------------------------------
def _asked(meeting: Meeting, address: Address) -> Iterator[FollowUp]:
    """Yield one request to each director who has not spoken in this phase or round, unless another program asks."""
    if not meeting.is_open or meeting.driver is Driver.ANOTHER:
        return
    for name in missing(meeting):
        seat = meeting.seat(name)
        body = requests.body(meeting, seat, address.bus)
        ident = _id(meeting, address, "ask", meeting.phase.value, meeting.round, name)
        yield FollowUp(ask_key(meeting, name), _draft(meeting, ident, seat.agent, "board_request", body))


def ask_key(meeting: Meeting, director: str) -> str:
    return f"ask:{meeting.phase.value}:{meeting.round}:{director}"


def _ended(meeting: Meeting, address: Address) -> Iterator[FollowUp]:
    match meeting.phase:
        case Phase.COMPLETE:
            assert meeting.resolution is not None
            yield FollowUp("answered", _answer_mail(meeting, address))
            if meeting.resolution.decision is BoardDecision.ESCALATE:
                yield FollowUp("escalated", _escalation(meeting, address))
            yield FollowUp("resolved", line=_resolved(meeting, address))
        case Phase.CANCELLED:
            yield from _cancelled(meeting, address)
        case _:
            return


def _answer_mail(meeting: Meeting, address: Address) -> Draft:
    assert meeting.resolution is not None
    decision = meeting.resolution.decision.value
    words = {
        "summary": f"The board says {decision} to {meeting.checkpoint.value}",
        "content": f"{_count(meeting)} The record is in {_place(meeting, address)}",
    }
    body = {**words, **answer(meeting), "absent": absences(meeting)}
    return _draft(meeting, _id(meeting, address, "answer"), meeting.opener, "message", body)


def _escalation(meeting: Meeting, address: Address) -> Draft:
    """Return the escalation, with everything that whoever decides instead of the board needs to know."""
    assert meeting.resolution is not None
    body: dict[str, object] = {
        "agent": "board",
        "cause": "board_undecided",
        "summary": f"{_count(meeting)} The record is in {_place(meeting, address)}",
        "raised_at": stamp(meeting.resolution.at),
        "counted": 1,
        "action": f"decide instead of the board, and tell {meeting.opener}, who called the meeting",
        "what_happened": [{"at": stamp(one.at), "what": _in_words(one)} for one in meeting.turns],
        "session_id": meeting.meeting_id,
        "proposal": meeting.proposal,
        "context": meeting.context,
        "assessments": assessments(meeting),
        "discussion": [discussion_line(meeting, heard) for heard in _last(meeting.remarks)],
        "votes": votes(meeting),
        "conditions": list(meeting.resolution.conditions),
    }
    ident = _id(meeting, address, "escalation")
    return Draft(ident, MONITOR, address.escalate_to, "escalation", Priority.CRITICAL, body, meeting.meeting_id)


def _last(remarks: tuple[HeardRemark, ...]) -> tuple[HeardRemark, ...]:
    """Return as many of the last remarks as fit into a message beside the rest."""
    left = requests.MAX_DISCUSSION_CHARS
    kept = len(remarks)
    while kept and (left := left - len(remarks[kept - 1].remark.message)) >= 0:
        kept -= 1
    return remarks[kept:]


def _cancelled(meeting: Meeting, address: Address) -> Iterator[FollowUp]:
    by = meeting.turns[-1].by
    body: dict[str, object] = {
        "summary": f"Board meeting {meeting.meeting_id} is cancelled",
        "content": f"{by} cancelled it: nothing more is to be said.",
        "session_id": meeting.meeting_id,
    }
    whom = {seat.agent: seat for seat in meeting.seats if _was_asked(meeting, seat)}
    for agent in (*whom, *([meeting.opener] if by != meeting.opener and meeting.opener not in whom else [])):
        ident = _id(meeting, address, "cancelled", agent)
        yield FollowUp(f"cancelled:{agent}", _draft(meeting, ident, agent, "message", body))
    yield FollowUp("resolved", line=board_resolved(**_about(meeting, address), verdict="CANCELLED", by=by))


def _was_asked(meeting: Meeting, seat: Seat) -> bool:
    return any(key.startswith("ask:") and key.endswith(f":{seat.director}") for key in meeting.done)


def _resolved(meeting: Meeting, address: Address) -> Fact:
    assert meeting.resolution is not None
    found = meeting.resolution
    return board_resolved(
        **_about(meeting, address),
        verdict=found.decision.value,
        votes=dict(found.summary),
        absent=list(found.absent),
        told=meeting.opener,
        escalated_to=address.escalate_to if found.decision is BoardDecision.ESCALATE else None,
    )


def _draft(meeting: Meeting, ident: str, to: str, type_: str, body: dict[str, object]) -> Draft:
    return Draft(ident, MONITOR, to, type_, Priority.HIGH, body, meeting.meeting_id)


def _id(meeting: Meeting, address: Address, *cause: object) -> str:
    return derived_id("board", int(meeting.opened_at), address.bus, meeting.meeting_id, *cause)


# --- words ------------------------------------------------------------------------------------------------------------
def _count(meeting: Meeting) -> str:
    """Return the count in words: how many and what share were for it and against it, and who was absent."""
    assert meeting.resolution is not None
    found, size = meeting.resolution, len(meeting.seats)
    against = sum(said == "REJECT" for _, said in found.summary)
    pro = len(found.summary) - against
    absent = f", {len(found.absent)} absent ({', '.join(found.absent)})" if found.absent else ""
    shares = f"{pro} of {size} ({pro / size:.0%}) for it, {against} of {size} ({against / size:.0%}) against it{absent}"
    called = f"{meeting.checkpoint.value}, called by {meeting.opener}"
    return f"Meeting {meeting.meeting_id} ({called}) ends with {found.decision.value}: {shares}."


def _place(meeting: Meeting, address: Address) -> str:
    """Return the place of the record, as a file and a line: `ackd lint` wants that of a report."""
    return f"{address.bus}/board/{meeting.meeting_id}/meeting.json:1"


def _in_words(one: PhaseEnd) -> str:
    round_ = f" {one.round}" if one.round else ""
    absent = f", absent: {', '.join(one.absent)}" if one.absent and one.turn is not Turn.RESOLVED else ""
    return f"{one.phase.value}{round_} ended ({one.by}){absent}"
