"""What a director is asked, and told to answer with: for one phase or round, the proposal, its focus, what it may see.

Owns the words and the exact commands. Only what is settled stands in a request (phases and rounds that are over), so
that one made again after a crash is the same message. Nobody's vote ever does. Refuses to know how it is sent.
"""

from __future__ import annotations

import json
import shlex
from typing import Final

from ackd.core.board import answers
from ackd.core.board.answers import ALL, Ballot, Talk, Verdict
from ackd.core.board.meeting import Meeting, Seat
from ackd.core.board.papers import absences
from ackd.core.board.phases import Phase
from ackd.core.escalations import stamp

#: Of a long discussion the end is sent, and where to read the rest.
MAX_DISCUSSION_CHARS: Final = 60_000

_WHAT: Final = {
    Phase.ASSESSING: "assess the proposal",
    Phase.DISCUSSING: "discuss it with the other directors",
    Phase.VOTING: "vote",
}


def body(meeting: Meeting, seat: Seat, track: str) -> dict[str, object]:
    """Of the ``board_request`` for the phase that the meeting is in."""
    return {
        "summary": _summary(meeting, seat),
        "session_id": meeting.meeting_id,
        "checkpoint": meeting.checkpoint.value,
        "phase": meeting.phase.value,
        **({"round": meeting.round, "rounds": meeting.rounds} if meeting.round else {}),
        "director": seat.director,
        "focus": seat.focus,
        "deadline": None if meeting.deadline_at is None else stamp(meeting.deadline_at),
        **told(meeting, seat),
        "answer_with": commands(meeting, seat, track),
    }


def told(meeting: Meeting, seat: Seat) -> dict[str, object]:
    """What this director needs to know now. Others' assessments once that phase is over."""
    found: dict[str, object] = {"proposal": meeting.proposal}
    if meeting.context is not None:
        found["context"] = meeting.context
    if meeting.phase is Phase.ASSESSING:
        return found
    found["assessments"] = {name: answers.plain(one) for name, (one, _) in meeting.assessments.items()}
    if absent := absences(meeting):
        found["absent"] = absent
    said = _discussion(meeting, seat)
    if said:
        found["discussion"] = said
    return found


def _discussion(meeting: Meeting, seat: Seat) -> list[dict[str, object]]:
    """To this director, to all, or its own; of rounds that are over; the newest, if there is too much."""
    mine = [
        {**answers.plain(heard.remark), "round": heard.round}
        for heard in meeting.remarks
        if (meeting.phase is not Phase.DISCUSSING or heard.round < meeting.round)
        and (heard.remark.to in (ALL, seat.director) or heard.remark.director == seat.director)
    ]
    left, kept = MAX_DISCUSSION_CHARS, len(mine)
    for said in reversed(mine):
        left -= len(json.dumps(said, ensure_ascii=False))
        if left < 0:
            break
        kept -= 1
    more: list[dict[str, object]] = [{"earlier": kept, "to_be_read_with": "ackd board show"}] if kept else []
    return more + mine[kept:]


def _summary(meeting: Meeting, seat: Seat) -> str:
    round_ = f", round {meeting.round} of {meeting.rounds}" if meeting.round else ""
    return f"Board meeting {meeting.meeting_id}: as {seat.director} ({seat.focus}), {_WHAT[meeting.phase]}{round_}"


def commands(meeting: Meeting, seat: Seat, track: str) -> list[str]:
    """Exactly what to type; words in capitals, and what stands between bars, are to be chosen."""
    whose = f"{meeting.meeting_id} --track {shlex.quote(track)} --director {shlex.quote(seat.director)}"
    show = f"ackd board show {meeting.meeting_id} --track {shlex.quote(track)} --for {shlex.quote(seat.director)}"
    match meeting.phase:
        case Phase.ASSESSING:
            verdicts = "|".join(one.value for one in Verdict)
            what = f"--verdict {verdicts} --score 0..10 --concern TEXT --recommendation TEXT"
            return [f"ackd board assess {whose} {what}", show]
        case Phase.DISCUSSING:
            talk, others = "|".join(one.value for one in Talk), "|".join((*meeting.directors, ALL))
            what = f"--to {others} --type {talk} --message TEXT [--changes-my-verdict]"
            return [f"ackd board discuss {whose} {what}", f"ackd board discuss {whose} --pass", show]
        case Phase.VOTING:
            ballots = "|".join(one.value for one in Ballot)
            return [f"ackd board vote {whose} --verdict {ballots} --confidence 0..1 --condition TEXT", show]
        case _:
            return [show]
