"""Turns a meeting into JSON and back: the content of ``meeting.json``, which is the truth of a meeting.

The file is ours, but people edit files and disks damage them. A record that does not make sense is ``BadMeeting``, and
is left alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import Answer, AnswerMark, Assessment, Channel, Vote
from ackd.coordination.board.rules.counting import BoardDecision, Resolution
from ackd.coordination.board.rules.meeting import (
    Driver,
    HeardRemark,
    ImportMemory,
    Meeting,
    PhaseEnd,
    Refusal,
    Seat,
    context_excess,
)
from ackd.coordination.board.rules.phases import BoardCheckpoint, Phase, Turn
from ackd.core.errors import BadAnswer, BadMeeting

if TYPE_CHECKING:
    from collections.abc import Mapping


def encode(meeting: Meeting) -> bytes:
    return json.dumps(_plain(meeting), ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace") + b"\n"


def decode(data: bytes, path: str) -> Meeting:
    try:
        found = json.loads(data)
        return _meeting(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BadAnswer) as error:
        raise BadMeeting(path, f"no record of a meeting: {type(error).__name__}: {error}") from None


def _plain(meeting: Meeting) -> dict[str, object]:
    taken, resolution = meeting.taken, meeting.resolution
    return {
        "meeting": meeting.meeting_id,
        "checkpoint": meeting.checkpoint.value,
        "proposal": meeting.proposal,
        "context": meeting.context,
        "opener": meeting.opener,
        "opened_at": meeting.opened_at,
        "directors": {seat.director: {"focus": seat.focus, "agent": seat.agent} for seat in meeting.seats},
        "max_rounds": meeting.rounds,
        "queue_from": meeting.queue_from,
        "phase": meeting.phase.value,
        "round": meeting.round,
        "deadline_at": meeting.deadline_at,
        "assessments": {name: _marked(*pair) for name, pair in meeting.assessments.items()},
        "discussion": [
            {**_marked(heard.remark, heard.mark), "round": heard.round, "said_at": heard.remark.said_at}
            for heard in meeting.remarks
        ],
        "passes": [list(one) for one in meeting.passes],
        "votes": {name: _marked(*pair) for name, pair in meeting.votes.items()},
        "numbers": meeting.numbers,
        "turns": [_turn(turned) for turned in meeting.turns],
        "resolution": None if resolution is None else _resolution(resolution),
        "refused": [_refusal(refusal) for refusal in meeting.refusals],
        "taken": {
            "flat": dict(taken.flat),
            "lines": dict(taken.lines),
            "heard": list(taken.heard),
            "echoes": list(taken.echoes),
        },
        "done": sorted(meeting.done),
        "driver": meeting.driver.value,
    }


def _marked(answer: Answer, mark: AnswerMark) -> dict[str, object]:
    said = {"number": mark.number, "at": mark.at, "door": mark.channel.value, "said": mark.said}
    return {**answers.plain(answer), **said}


def _turn(one: PhaseEnd) -> dict[str, object]:
    what = {"turn": one.turn.value, "phase": one.phase.value, "round": one.round}
    return {**what, "at": one.at, "by": one.by, "absent": list(one.absent)}


def _resolution(one: Resolution) -> dict[str, object]:
    return {
        "verdict": one.decision.value,
        "vote_summary": dict(one.summary),
        "conditions": list(one.conditions),
        "dissent": list(one.dissent),
        "absent": list(one.absent),
        "at": one.at,
        "consensus": one.consensus,
    }


def _refusal(one: Refusal) -> dict[str, object]:
    return {"director": one.director, "kind": one.kind, "why": one.why, "door": one.channel.value, "at": one.at}


# --- decoding ---------------------------------------------------------------------------------------------------------
def _meeting(found: Mapping[str, Any]) -> Meeting:
    taken = found["taken"]
    return Meeting(
        meeting_id=str(found["meeting"]),
        checkpoint=BoardCheckpoint(found["checkpoint"]),
        proposal=str(found["proposal"]),
        context=_context(found["context"]),
        opener=str(found["opener"]),
        opened_at=float(found["opened_at"]),
        seats=tuple(Seat(name, str(one["focus"]), str(one["agent"])) for name, one in found["directors"].items()),
        rounds=int(found["max_rounds"]),
        queue_from=int(found["queue_from"]),
        phase=Phase(found["phase"]),
        round=int(found["round"]),
        deadline_at=None if found["deadline_at"] is None else float(found["deadline_at"]),
        assessments={name: _assessed(name, one) for name, one in found["assessments"].items()},
        remarks=tuple(map(_heard, found["discussion"])),
        passes=tuple((int(number), str(name)) for number, name in found["passes"]),
        votes={name: _voted(name, one) for name, one in found["votes"].items()},
        numbers=int(found["numbers"]),
        turns=tuple(map(_turned, found["turns"])),
        resolution=None if found["resolution"] is None else _resolved(found["resolution"]),
        refusals=tuple(map(_refused, found["refused"])),
        taken=ImportMemory(dict(taken["flat"]), dict(taken["lines"]), tuple(taken["heard"]), tuple(taken["echoes"])),
        done=frozenset(map(str, found["done"])),
        driver=Driver(found.get("driver", Driver.OURS.value)),
    )


def _context(found: object) -> object:
    if (excess := context_excess(found)) is not None:
        raise ValueError(f"its context {excess}")
    return found


def _mark(one: Mapping[str, Any]) -> AnswerMark:
    return AnswerMark(int(one["number"]), float(one["at"]), Channel(one["door"]), bool(one["said"]))


def _assessed(name: str, one: Mapping[str, Any]) -> tuple[Assessment, AnswerMark]:
    return answers.assessment(name, one), _mark(one)


def _voted(name: str, one: Mapping[str, Any]) -> tuple[Vote, AnswerMark]:
    return answers.vote(name, one), _mark(one)


def _heard(one: Mapping[str, Any]) -> HeardRemark:
    return HeardRemark(
        answers.remark(str(one["from"]), {**one, "timestamp": one["said_at"]}), _mark(one), int(one["round"])
    )


def _turned(one: Mapping[str, Any]) -> PhaseEnd:
    absent = tuple(map(str, one["absent"]))
    return PhaseEnd(Turn(one["turn"]), Phase(one["phase"]), int(one["round"]), float(one["at"]), str(one["by"]), absent)


def _resolved(one: Mapping[str, Any]) -> Resolution:
    return Resolution(
        BoardDecision(one["verdict"]),
        tuple((str(name), str(vote)) for name, vote in one["vote_summary"].items()),
        tuple(map(str, one["conditions"])),
        tuple(map(str, one["dissent"])),
        tuple(map(str, one["absent"])),
        float(one["at"]),
        one["consensus"],
    )


def _refused(one: Mapping[str, Any]) -> Refusal:
    return Refusal(
        director=str(one["director"]),
        kind=str(one["kind"]),
        why=str(one["why"]),
        channel=Channel(one["door"]),
        at=float(one["at"]),
    )
