"""A meeting as others see it: the seed's files and bus lines, and the resolution for people.

Their shapes are the seed's (message-bus, "Board Session Files"). Votes are in none of them before their phase has
closed. Cannot fail.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import Answer, AnswerMark
from ackd.coordination.board.rules.meeting import HeardRemark, Meeting
from ackd.coordination.board.rules.phases import SECTION, Phase
from ackd.core.escalations import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES = {
    answers.AnswerKind.ASSESS: "BOARD_ASSESS",
    answers.AnswerKind.DISCUSS: "BOARD_DISCUSS",
    answers.AnswerKind.VOTE: "BOARD_VOTE",
}


# --- files ------------------------------------------------------------------------------------------------------------
def session(meeting: Meeting) -> dict[str, object]:
    """Return the content of ``session-{id}.json``: the seed's fields, then ours."""
    size = len(meeting.seats)
    proposal: dict[str, object] = {"proposal": meeting.proposal}
    proposal |= {"quick_mode": True} if meeting.is_quick else {}
    proposal |= {"context": meeting.context} if meeting.context is not None else {}
    return {
        "session_id": meeting.meeting_id,
        "checkpoint": meeting.checkpoint.value,
        "status": meeting.phase.value,
        "proposal": proposal,
        "directors": list(meeting.directors),
        "started_at": stamp(meeting.opened_at),
        "phases": {
            "assess": {"status": _status(meeting, Phase.ASSESSING), "complete": len(meeting.assessments), "of": size},
            "discuss": {
                "status": _status(meeting, Phase.DISCUSSING),
                "rounds": sum(turned.phase is Phase.DISCUSSING for turned in meeting.turns),
                "max_rounds": meeting.rounds,
            },
            "vote": {"status": _status(meeting, Phase.VOTING), "complete": len(meeting.votes), "of": size},
            "resolve": {"status": _status(meeting, Phase.RESOLVING)},
        },
        "round": meeting.round,
        "deadline": None if meeting.deadline_at is None else stamp(meeting.deadline_at),
        "absent": absences(meeting),
        "opened_by": meeting.opener,
    }


def _status(meeting: Meeting, phase: Phase) -> str:
    if meeting.phase is phase:
        return "IN_PROGRESS"
    return "COMPLETE" if phase in {turned.phase for turned in meeting.turns} else "NOT_STARTED"


def absences(meeting: Meeting) -> dict[str, list[str]]:
    """Return the directors who had not spoken when a phase or round ended: ``{"discuss 2": ["COO"]}``."""
    named: dict[str, list[str]] = {}
    for turned in meeting.turns:
        if turned.absent and turned.phase in SECTION:
            round_ = f" {turned.round}" if turned.round else ""
            named[f"{SECTION[turned.phase]}{round_}"] = list(turned.absent)
    return named


def assessments(meeting: Meeting) -> dict[str, object]:
    return {name: answers.plain(one) for name, (one, _) in meeting.assessments.items()}


def votes(meeting: Meeting) -> dict[str, object]:
    """Return the votes; none while they are sealed."""
    if meeting.is_sealed or meeting.phase is Phase.CANCELLED:
        return {}
    return {name: {**answers.plain(one), "timestamp": stamp(mark.at)} for name, (one, mark) in meeting.votes.items()}


def discussion_line(meeting: Meeting, heard: HeardRemark) -> dict[str, object]:
    said_at = heard.remark.said_at or stamp(heard.mark.at)
    line = {**answers.plain(heard.remark), "timestamp": said_at}
    return {**line, "round": heard.round, "id": line_id(meeting, heard.mark)}


# --- lines of the bus -------------------------------------------------------------------------------------------------
def line_id(meeting: Meeting, mark: AnswerMark | None) -> str:
    """Return a derived id, by which a line is recognised as ours and not written twice. ``None``: the resolution's."""
    return f"msg-{meeting.meeting_id}-{'resolve' if mark is None else mark.number}"


def line(meeting: Meeting, answer: Answer, mark: AnswerMark) -> tuple[str, str, dict[str, object]]:
    """Return the type, source and payload of an answer's line."""
    about: dict[str, object] = {"session_id": meeting.meeting_id, "timestamp": stamp(mark.at)}
    if isinstance(answer, answers.Remark):
        payload = {**answers.plain(answer), **about}
        payload["round"] = next((one.round for one in meeting.remarks if one.mark is mark), meeting.round)
    else:
        payload = {"director": answer.director, **answers.plain(answer), **about}
    return _TYPES[answers.kind_of(answer)], answer.director, payload


def unsaid(meeting: Meeting) -> Iterator[tuple[Answer, AnswerMark]]:
    """Yield the answers that the bus should have a line of by now.

    By the seed, a director who writes a file says the same on the bus. So an answer that came by file is left to its
    author until the phase is over.
    """
    over = {turned.phase for turned in meeting.turns}
    for one, mark in meeting.assessments.values():
        if not mark.said and (mark.channel is not answers.Channel.FILE or Phase.ASSESSING in over):
            yield one, mark
    for heard in meeting.remarks:
        round_over = meeting.phase is not Phase.DISCUSSING or heard.round < meeting.round
        if not heard.mark.said and (heard.mark.channel is not answers.Channel.FILE or round_over):
            yield heard.remark, heard.mark
    if meeting.phase in (Phase.RESOLVING, Phase.COMPLETE):
        yield from ((one, mark) for one, mark in meeting.votes.values() if not mark.said)


def resolve_payload(meeting: Meeting) -> dict[str, object]:
    assert meeting.resolution is not None
    found = meeting.resolution
    return {
        "session_id": meeting.meeting_id,
        "verdict": found.decision.value,
        "vote_summary": dict(found.summary),
        "conditions": list(found.conditions),
        "dissent": list(found.dissent),
        "absent": list(found.absent),
        "timestamp": stamp(found.at),
    }


def answer(meeting: Meeting) -> dict[str, object]:
    """Return what is told to whoever called the meeting, in the seed's shapes."""
    assert meeting.resolution is not None
    found = meeting.resolution
    told: dict[str, object] = {"session_id": meeting.meeting_id, "verdict": found.decision.value}
    if meeting.is_quick:
        return told | {"assessments": assessments(meeting), "consensus": bool(found.consensus)}
    return told | {"votes": dict(found.summary), "conditions": list(found.conditions)}


# --- for people -------------------------------------------------------------------------------------------------------
def resolution(meeting: Meeting) -> str:
    """Return the text of ``resolution.md``."""
    found = meeting.resolution
    assert found is not None
    parts = [
        f"# {found.decision.value}: {meeting.checkpoint.value}",
        f"{_opened(meeting)}, decided on {stamp(found.at)} by a board of {len(meeting.seats)}.",
        "## Proposal",
        _quoted(meeting.proposal),
        "## Votes" if not meeting.is_quick else "## Assessments",
        "\n".join(_vote_rows(meeting)),
        *_listed("## Conditions" if not meeting.is_quick else "## Concerns", found.conditions),
        *_listed("## Dissent", tuple(_dissent(meeting))),
        *_listed("## Absent", tuple(f"{when}: {', '.join(who)}" for when, who in absences(meeting).items())),
        *_listed("## Changed their minds in discussion", tuple(_changes(meeting))),
    ]
    return "\n\n".join(parts) + "\n"


def _opened(meeting: Meeting) -> str:
    return f"Meeting {meeting.meeting_id}, opened by {meeting.opener} on {stamp(meeting.opened_at)}"


def _quoted(text: str) -> str:
    """Quote a text, so that it does not look like the board's own words."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or "> (empty)"


def _listed(title: str, items: tuple[str, ...]) -> list[str]:
    return [title, "\n".join(f"- {_one_line(item)}" for item in items)] if items else []


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _vote_rows(meeting: Meeting) -> Iterator[str]:
    yield f"| director | looks at | says | {'score' if meeting.is_quick else 'how sure'} |"
    yield "|---|---|---|---|"
    for seat in meeting.seats:
        said, sure = "absent", ""
        if meeting.is_quick and seat.director in meeting.assessments:
            one = meeting.assessments[seat.director][0]
            said, sure = one.verdict.value, _figure(one.score)
        elif not meeting.is_quick and seat.director in meeting.votes:
            vote = meeting.votes[seat.director][0]
            said, sure = vote.verdict.value, _figure(vote.confidence)
        yield f"| {seat.director} | {_one_line(seat.focus)} | {said} | {sure} |".replace("|  |", "| |")


def _figure(number: float | None) -> str:
    return "" if number is None else f"{number:g}"


def _dissent(meeting: Meeting) -> Iterator[str]:
    assert meeting.resolution is not None
    for name in meeting.resolution.dissent:
        concerns = meeting.assessments[name][0].concerns if name in meeting.assessments else ()
        yield f"{name}: {'; '.join(concerns)}" if concerns else name


def _changes(meeting: Meeting) -> Iterator[str]:
    for heard in meeting.remarks:
        if heard.remark.changes_my_verdict:
            yield f"{heard.remark.director}, round {heard.round}: {heard.remark.message}"


def as_json(found: object) -> bytes:
    return json.dumps(found, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace") + b"\n"
