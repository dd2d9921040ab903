"""The request to a director for one phase or round: the proposal, its focus, what it may see, and how to answer.

A request holds only what is settled (phases and rounds that are over), so that one made again after a crash is the same
message. Nobody's vote is ever in it.
"""

from __future__ import annotations

import json
import shlex
from typing import Final

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import ALL, AssessmentVerdict, Ballot, Talk
from ackd.coordination.board.rules.exports import absences
from ackd.coordination.board.rules.meeting import Meeting, Seat
from ackd.coordination.board.rules.phases import Phase
from ackd.core.escalations import stamp

#: The most of a long discussion that is sent: its end, with the place where the rest can be read.
MAX_DISCUSSION_CHARS: Final = 60_000

_WHAT: Final = {
    Phase.ASSESSING: "assess the proposal",
    Phase.DISCUSSING: "discuss it with the other directors",
    Phase.VOTING: "vote",
}


def body(meeting: Meeting, seat: Seat, track: str) -> dict[str, object]:
    """Return the body of the ``board_request`` for the current phase."""
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
    """Return what the director needs to know now. Others' assessments are in it once that phase is over."""
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
    """Return remarks of rounds that are over: those to this director, to all, and its own; the newest if too many."""
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
    """Return the exact commands to answer with. Words in capitals, and alternatives between bars, are to be chosen."""
    whose = f"{meeting.meeting_id} --track {shlex.quote(track)} --director {shlex.quote(seat.director)}"
    show = f"ackd board show {meeting.meeting_id} --track {shlex.quote(track)} --for {shlex.quote(seat.director)}"
    match meeting.phase:
        case Phase.ASSESSING:
            verdicts = "|".join(one.value for one in AssessmentVerdict)
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
