"""Shows a meeting to people and programs: how it stands, or what one director needs now.

Votes are never shown while they are sealed, and a director sees no others' assessments before that phase is over: both
would influence it. Everything that is shown was written by somebody, and goes through ``printable``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackd.cli.output import echo, printable, printable_lines
from ackd.coordination.board.rules import answers, exports, requests
from ackd.coordination.board.rules.meeting import Meeting, Seat, missing
from ackd.coordination.board.rules.phases import Phase
from ackd.facts import local_time
from ackd.formats import utc_times

if TYPE_CHECKING:
    from collections.abc import Iterator


def as_dict(meeting: Meeting, seat: Seat | None, track: str) -> dict[str, Any]:
    found = exports.session(meeting)
    if seat is not None:
        own = {
            "assessment": meeting.assessments.get(seat.director),
            "vote": meeting.votes.get(seat.director),
        }
        mine = {key: answers.plain(pair[0]) for key, pair in own.items() if pair is not None}
        refused = [one.why for one in meeting.refusals if one.director.casefold() == seat.director.casefold()]
        return {
            **found,
            "director": seat.director,
            "focus": seat.focus,
            **requests.told(meeting, seat),
            **({"discussion": list(map(_in_utc, _to(meeting, seat)))} if meeting.remarks else {}),
            "your": mine,
            "not_counted": refused,
            "answer_with": requests.commands(meeting, seat, track) if seat.director in missing(meeting) else [],
        }
    return {
        **found,
        "missing": list(missing(meeting)),
        "assessments": exports.assessments(meeting),
        "discussion": list(map(_in_utc, (exports.discussion_line(meeting, heard) for heard in meeting.remarks))),
        "votes": exports.votes(meeting),
        "resolution": exports.resolve_payload(meeting) if meeting.resolution is not None else None,
        "not_counted": [f"{one.director}, {one.kind}: {one.why}" for one in meeting.refusals],
    }


def _in_utc(line: dict[str, object]) -> dict[str, object]:
    """A line of a discussion, with its time as all JSON has it: its author may have written another zone."""
    return {**line, "timestamp": utc_times.in_utc(str(line["timestamp"]))}


def _to(meeting: Meeting, seat: Seat) -> list[dict[str, object]]:
    """Return the remarks for a director, those of the current round too, so that it can answer them."""
    return [
        exports.discussion_line(meeting, heard)
        for heard in meeting.remarks
        if heard.remark.to in (answers.ALL, seat.director) or heard.remark.director == seat.director
    ]


def print_meeting(meeting: Meeting, seat: Seat | None, track: str) -> None:
    for line in _lines(meeting, seat, track):
        echo(printable_lines(line))


def _lines(meeting: Meeting, seat: Seat | None, track: str) -> Iterator[str]:
    round_ = f", round {meeting.round} of {meeting.rounds}" if meeting.round else ""
    until = f", until {local_time(meeting.deadline_at)}" if meeting.deadline_at is not None else ""
    yield f"{meeting.meeting_id}  {meeting.checkpoint.value}  {meeting.phase.value}{round_}{until}"
    yield f"opened by {printable(meeting.opener)} on {local_time(meeting.opened_at)}"
    if names := missing(meeting):
        yield f"missing: {', '.join(names)}"
    for when, who in exports.absences(meeting).items():
        yield f"absent, {when}: {', '.join(who)}"
    if seat is not None:
        yield f"you are {seat.director}: {printable(seat.focus)}"
    yield f"\n{meeting.proposal}"
    if meeting.context is not None:
        yield f"\ncontext:\n{_context(meeting.context)}"
    if seat is None or meeting.phase is not Phase.ASSESSING:
        yield from _assessments(meeting)
    yield from _discussion(meeting, seat)
    yield from _end(meeting)
    if seat is not None and seat.director in missing(meeting):
        yield "\nanswer with:"
        yield from (f"  {command}" for command in requests.commands(meeting, seat, track))


def _context(said: object) -> str:
    if isinstance(said, str):
        return said
    import json

    return json.dumps(said, ensure_ascii=False, indent=2)


def _assessments(meeting: Meeting) -> Iterator[str]:
    if meeting.assessments:
        yield "\nassessments:"
    for name, (one, _) in meeting.assessments.items():
        score = f", {one.score:g}" if one.score is not None else ""
        yield f"  {name}: {one.verdict.value}{score}"
        yield from (f"    concern: {printable(text)}" for text in one.concerns)
        yield from (f"    recommends: {printable(text)}" for text in one.recommendations)


def _discussion(meeting: Meeting, seat: Seat | None) -> Iterator[str]:
    said = (
        [exports.discussion_line(meeting, heard) for heard in meeting.remarks] if seat is None else _to(meeting, seat)
    )
    if said:
        yield "\ndiscussion:"
    for one in said:
        changes = ", which changes its verdict" if one["changes_my_verdict"] else ""
        words = printable(str(one["message"]))
        yield f"  {one['round']}: {one['from']} to {one['to']}, {one['type']}{changes}: {words}"


def _end(meeting: Meeting) -> Iterator[str]:
    if meeting.resolution is not None:
        yield f"\n{exports.resolution(meeting)}"
    elif meeting.votes:
        yield f"\n{len(meeting.votes)} of {len(meeting.seats)} votes are in, sealed"
    for one in meeting.refusals:
        yield f"not counted: {printable(one.director)}, {one.kind}: {printable(one.why)}"
