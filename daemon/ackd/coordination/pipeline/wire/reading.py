"""Reads a text into its value, or names the form that it comes closest to.

Texts are read exactly: another case, a missing full stop or extra words make it no report, because a lead that guesses
would be wrong about a story. White space around a text is ignored. The highest readiness is for the team to set
(``readiness_scale``); unless it does, any number is allowed. Fails with ``BadStageText``, which names the closest form
and the character where the text leaves it.
"""

from __future__ import annotations

import enum
import re
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ackd.coordination.pipeline.rules.stage_names import DEFAULT_ID_PATTERN, BadStory, story_id
from ackd.coordination.pipeline.rules.stage_words import (
    MAX_TEXT_CHARS,
    PLAN_SCORES,
    QUALITY_SCORES,
    Acknowledge,
    Erred,
    Execute,
    Judged,
    Planned,
    Report,
    Reviewed,
    ReviewVerdict,
    StageDoing,
    StandsAt,
    StatusCheck,
    Worked,
)
from ackd.coordination.pipeline.wire.forms import Walk, commands, reports, walk
from ackd.core.errors import TheirFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.coordination.pipeline.rules.stage_words import Command
    from ackd.coordination.pipeline.wire.forms import Form

_SHOWN_CHARS: Final = 24


class Misread(enum.StrEnum):
    """The reason why a text is not one of ours, in one word."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    NEAR_MISS = "near_miss"
    OUT_OF_RANGE = "out_of_range"
    BAD_ID = "bad_id"


class BadStageText(TheirFault):
    """``closest``: the name of the form it follows furthest; ``at``: the character, from 0, where it leaves it."""

    def __init__(self, code: Misread, closest: str, at: int, wanted: str, found: str) -> None:
        super().__init__(code, closest, at, wanted, found)
        self.code = code
        self.closest = closest
        self.at = at
        self.wanted = wanted
        self.found = found

    def __str__(self) -> str:
        there = repr(self.found) if self.found else "the end"
        return f"closest is {self.closest!r}: at character {self.at + 1} it has {there} instead of {self.wanted}"


def read(text: str, id_pattern: str = DEFAULT_ID_PATTERN, readiness_scale: Decimal | None = None) -> Report | StandsAt:
    """Read a worker's text."""
    walked = _whole(text, reports(id_pattern))
    return _report(walked, id_pattern, readiness_scale)


def read_command(text: str, id_pattern: str = DEFAULT_ID_PATTERN) -> Command:
    """Read a text of the lead."""
    walked = _whole(text, commands(id_pattern))
    story, stage = _story(walked, id_pattern), _stage(walked)
    match walked.form.name:
        case "Execute":
            return Execute(story, stage)
        case "Status check":
            return StatusCheck(story, stage)
        case _:
            return Acknowledge(story, stage)


def last_report(
    output: str, id_pattern: str = DEFAULT_ID_PATTERN, readiness_scale: Decimal | None = None
) -> str | None:
    """Return the last printed line that is a report. Lines after it are not part of its details."""
    for line in reversed(output.splitlines()):
        word = word_in(line, id_pattern, readiness_scale)
        if word is not None and not isinstance(word, StandsAt | BadStageText):
            return line.strip()
    return None


@lru_cache(maxsize=8)
def _meant(id_pattern: str) -> re.Pattern[str]:
    """Match the beginning of a line that is meant for the lead, in any case and decoration (models like bold)."""
    said = rf"stage\s+\d+\s+(?:complete|error)\b|status\s+for\s+(?a:{id_pattern})"
    return re.compile(rf"[\s*_#>`\"'-]{{0,16}}(?:{said})", re.IGNORECASE)


def word_in(
    line: str, id_pattern: str = DEFAULT_ID_PATTERN, readiness_scale: Decimal | None = None
) -> Report | StandsAt | BadStageText | None:
    """Read a printed line: its value, or why a line that is meant for the lead is none. None for all other lines."""
    if _meant(id_pattern).match(line) is None:
        return None
    try:
        return read(line, id_pattern, readiness_scale)
    except BadStageText as bad:
        return bad


def _whole(text: str, forms: Iterable[Form]) -> Walk:
    lead = len(text) - len(text.lstrip())
    text = text.strip()
    if not text:
        raise BadStageText(Misread.EMPTY, "Stage 0 COMPLETE", 0, "a report", "")
    if len(text) > MAX_TEXT_CHARS:
        raise BadStageText(Misread.TOO_LONG, "ERROR", MAX_TEXT_CHARS, f"at most {MAX_TEXT_CHARS} characters", "more")
    best: Walk | None = None
    for form in forms:
        walked = walk(form, text)
        if walked.whole:
            return walked
        if best is None or walked.at > best.at:
            best = walked
    assert best is not None
    found = text[best.at : best.at + _SHOWN_CHARS]
    raise BadStageText(Misread.NEAR_MISS, best.form.name, lead + best.at, best.wanted, found)


def _report(walked: Walk, id_pattern: str, readiness_scale: Decimal | None) -> Report | StandsAt:
    story = _story(walked, id_pattern)
    match walked.form.name:
        case "Stage 0 COMPLETE":
            return Planned(story, int(walked.values["tasks"][0]), _score(walked, PLAN_SCORES))
        case "Stage 1 GO":
            return Judged(story, True, _readiness(walked, readiness_scale), agents=_agents(walked))
        case "Stage 1 NO-GO":
            readiness = _readiness(walked, readiness_scale)
            return Judged(story, False, readiness, _text(walked), agents=_agents(walked))
        case "Stage 2 COMPLETE":
            return Worked(story)
        case "Stage 3 passed":
            verdict = ReviewVerdict(walked.values["verdict"][0])
            return Reviewed(story, verdict, _score(walked, QUALITY_SCORES), agents=_agents(walked))
        case "Stage 3 FAIL":
            quality = _score(walked, QUALITY_SCORES)
            return Reviewed(story, ReviewVerdict.FAIL, quality, _text(walked), agents=_agents(walked))
        case "ERROR":
            return Erred(story, _stage(walked), _text(walked))
        case _:
            doing = StageDoing(walked.values["doing"][0])
            return StandsAt(story, _stage(walked), doing, _text(walked))


def _story(walked: Walk, id_pattern: str) -> str:
    text, at = walked.values["story"]
    try:
        return story_id(text, id_pattern)
    except BadStory as bad:
        raise BadStageText(Misread.BAD_ID, walked.form.name, at, bad.why, text) from None


def _text(walked: Walk) -> str:
    """Return the text. A step may have white space before its full stop."""
    return walked.values["text"][0].rstrip()


def _stage(walked: Walk) -> int:
    return int(walked.values["stage"][0])


def _agents(walked: Walk) -> str:
    return walked.values.get("agents", ("", 0))[0].rstrip()


def _readiness(walked: Walk, scale: Decimal | None) -> Decimal:
    return Decimal(walked.values["score"][0]) if scale is None else _score(walked, (Decimal(0), scale))


def _score(walked: Walk, span: tuple[Decimal, Decimal]) -> Decimal:
    text, at = walked.values["score"]
    score = Decimal(text)
    if not span[0] <= score <= span[1]:
        wanted = f"a score of {span[0]} to {span[1]}"
        raise BadStageText(Misread.OUT_OF_RANGE, walked.form.name, at, wanted, text)
    return score
