"""The messages between a pipeline lead and its workers (pipeline-lead), as values, and the ranges of their numbers.

How they are written as text is ``wire``'s.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, TypeAlias

from ackd.core.values import value
from ackd.core.words import Word

PLAN_SCORES: Final = (Decimal(0), Decimal(4))
QUALITY_SCORES: Final = (Decimal(0), Decimal(100))
#: A longer text is no report.
MAX_TEXT_CHARS: Final = 65_536


class ReviewVerdict(Word):
    """The verdict of stage 3. Only FAIL sends the work back; the other three pass, and are kept on record."""

    PASS = "PASS"  # noqa: S105 - a verdict
    CONCERNS = "CONCERNS"
    WAIVED = "WAIVED"
    FAIL = "FAIL"


class StageDoing(Word):
    EXECUTING = "EXECUTING"
    WAITING = "WAITING"
    ERROR = "ERROR"


# --- worker to lead ---------------------------------------------------------------------------------------------------
@value
class Planned:
    """Stage 0 is complete."""

    story: str
    tasks: int
    score: Decimal
    stage: int = 0


@value
class Judged:
    """Stage 1 is complete: GO, or NO-GO with its reason. ``agents``: which took part in it, if that is said."""

    story: str
    go: bool
    score: Decimal
    reason: str = ""
    stage: int = 1
    agents: str = ""


@value
class Worked:
    """Stage 2 is complete."""

    story: str
    stage: int = 2


@value
class Reviewed:
    """Stage 3 is complete; FAIL has its issues. ``agents``: which took part in it, if that is said."""

    story: str
    verdict: ReviewVerdict
    score: Decimal
    issues: str = ""
    stage: int = 3
    agents: str = ""


@value
class Erred:
    """A stage could not be done."""

    story: str
    stage: int
    details: str


@value
class StandsAt:
    """The answer to a status check."""

    story: str
    stage: int
    doing: StageDoing
    step: str


Report: TypeAlias = Planned | Judged | Worked | Reviewed | Erred


# --- lead to worker ---------------------------------------------------------------------------------------------------
@value
class Execute:
    story: str
    stage: int


@value
class StatusCheck:
    story: str
    stage: int


@value
class Acknowledge:
    story: str
    stage: int


Command: TypeAlias = Execute | StatusCheck | Acknowledge
StageWord: TypeAlias = Report | StandsAt | Command


def result_of(report: Report) -> str:
    """Return the result in one word, for summaries, tables and the log."""
    match report:
        case Judged(go=go):
            return "GO" if go else "NO-GO"
        case Reviewed(verdict=verdict):
            return verdict.value
        case Erred():
            return "ERROR"
        case Planned() | Worked():
            return "COMPLETE"


def score_of(report: Report) -> Decimal | None:
    return report.score if isinstance(report, Planned | Judged | Reviewed) else None


def agents_of(report: Report) -> str:
    return report.agents if isinstance(report, Judged | Reviewed) else ""


def detail_of(report: Report) -> str:
    """Return what a person wants to read of a report, beside the result and the score."""
    match report:
        case Judged(reason=reason):
            return reason
        case Reviewed(issues=issues):
            return issues
        case Erred(details=details):
            return details
        case Planned(tasks=tasks):
            return f"{tasks} tasks"
        case Worked():
            return ""
