"""The messages between a pipeline lead and its workers (pipeline-lead), as values.

Here are also the ranges of their numbers, and the names that follow from a story's id: those of its workers, and the
lead's. How they are written as text is ``wire``'s. Ids come from hostile text and become directories and files, so
``story_id`` is the only way to make one. Fails with ``BadStory``.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from ackd.core.errors import TheirFault
from ackd.core.names import identity, is_agent_name
from ackd.core.values import value
from ackd.core.words import Word

#: The agent that the workers report to.
LEAD: Final = "pipeline-lead"
STAGES: Final = (0, 1, 2, 3)
#: Wider than the seed's ``[A-Z]+-\d+`` on purpose: some teams have numbers in their prefixes.
DEFAULT_ID_PATTERN: Final = r"[A-Z][A-Z0-9]*-\d+"

PLAN_SCORES: Final = (Decimal(0), Decimal(4))
QUALITY_SCORES: Final = (Decimal(0), Decimal(100))
#: A longer text is no report.
MAX_TEXT_CHARS: Final = 65_536


class TextRules(NamedTuple):
    """The part of a team's config about texts. ``readiness_scale``: the highest readiness; None: any number."""

    id_pattern: str = DEFAULT_ID_PATTERN
    readiness_scale: Decimal | None = None


def text_rules(id_pattern: object, readiness_scale: object) -> TextRules:
    """Make the rules from values of a config. A value of the wrong type is ignored."""
    scaled = isinstance(readiness_scale, int | float) and not isinstance(readiness_scale, bool) and readiness_scale > 0
    return TextRules(
        id_pattern if isinstance(id_pattern, str) else DEFAULT_ID_PATTERN,
        Decimal(str(readiness_scale)) if scaled else None,
    )


_WORKER: Final = re.compile(r"story[-_](.+)[-_]s([0-3])", re.ASCII)


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


class BadStory(TheirFault):
    def __init__(self, text: str, why: str) -> None:
        super().__init__(text, why)
        self.text = text
        self.why = why

    def __str__(self) -> str:
        return f"{self.text[:80]!r} cannot be a story's id: {self.why}"


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


# --- names ------------------------------------------------------------------------------------------------------------
def story_id(text: str, pattern: str = DEFAULT_ID_PATTERN) -> str:
    """Return the id, if it fits the pattern and is harmless in the name of an agent and of a file."""
    if not re.fullmatch(pattern, text, re.ASCII):
        raise BadStory(text, f"it does not fit {pattern}")
    if not is_agent_name(worker_name(text, 0)) or not is_agent_name(text):
        raise BadStory(text, "it is part of an agent's name: letters, digits, dots, dashes, underscores, at most 55")
    return text


def worker_name(story: str, stage: int) -> str:
    return f"story-{story}-s{stage}"


def whose_worker(agent: str, pattern: str = DEFAULT_ID_PATTERN) -> tuple[str, int] | None:
    """Return the story and the stage of a worker, by its name; None for any other agent."""
    found = _WORKER.fullmatch(agent)
    if found is None:
        return None
    try:
        return story_id(found[1], pattern), int(found[2])
    except BadStory:
        return None


def is_lead(agent: str) -> bool:
    return identity(agent) == identity(LEAD)


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
