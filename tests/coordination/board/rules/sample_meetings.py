"""Meetings in memory, in each phase, for the tests of the rules."""

from __future__ import annotations

from typing import Any

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import Channel
from ackd.coordination.board.rules.meeting import Meeting, Seat, advanced, recorded
from ackd.coordination.board.rules.phases import BoardCheckpoint

FIVE = ("CA", "CPO", "CSO", "COO", "CXO")


def called(*directors: str, quick: bool = False, rounds: int = 3, **more: Any) -> Meeting:
    seats = tuple(Seat(name, f"the {name} side", f"agent-{name}") for name in directors or FIVE)
    checkpoint = BoardCheckpoint.QUICK_REVIEW if quick else BoardCheckpoint.EVALUATE_PLAN
    return Meeting("board-20260201120000", checkpoint, "Use SQLite", None, "leader", 1000.0, seats, rounds, **more)


def assessed(meeting: Meeting, *directors: str, verdict: str = "APPROVE", now: float = 1001.0) -> Meeting:
    for name in directors or meeting.directors:
        meeting = recorded(meeting, answers.assessment(name, {"verdict": verdict, "score": 8}), Channel.ACKD, now)
    return advanced(meeting, now)


def spoken(meeting: Meeting, *directors: str, to: str = "ALL", now: float = 1002.0, **more: Any) -> Meeting:
    for name in directors or meeting.directors:
        said = {"to": to, "type": "AGREE", "message": f"{name} agrees", **more}
        meeting = recorded(meeting, answers.remark(name, said), Channel.ACKD, now)
    return advanced(meeting, now)


def voted(meeting: Meeting, *directors: str, verdict: str = "APPROVE", now: float = 1003.0, **more: Any) -> Meeting:
    for name in directors or meeting.directors:
        said = {"final_verdict": verdict, "confidence": 0.9, **more}
        meeting = recorded(meeting, answers.vote(name, said), Channel.ACKD, now)
    return advanced(meeting, now)


def voting(*directors: str, **more: Any) -> Meeting:
    """Return a meeting in which all have assessed and discussed."""
    meeting = assessed(called(*directors, **more))
    for _ in range(meeting.rounds):
        meeting = spoken(meeting)
    return meeting
