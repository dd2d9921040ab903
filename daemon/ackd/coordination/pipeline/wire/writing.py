"""Writes a value as its exact text in the seed's spelling, and as the summary that goes with it (at most 10 words).

Details are written as they are, without the white space around them. Cannot fail for a value that was read. A value
made by hand can be checked by reading its text back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ackd.coordination.pipeline.rules.stage_words import (
    Acknowledge,
    Erred,
    Execute,
    Judged,
    Planned,
    Reviewed,
    ReviewVerdict,
    StandsAt,
    StatusCheck,
    Worked,
    result_of,
)

if TYPE_CHECKING:
    from ackd.coordination.pipeline.rules.stage_words import StageWord


def write(word: StageWord) -> str:
    match word:
        case Planned(story, tasks, score):
            return f"Stage 0 COMPLETE for {story}. {tasks} tasks created. Plan score: {score:f}/4."
        case Judged(story, go, score, reason, agents=agents):
            verdict = "GO" if go else "NO-GO"
            because = _ended("" if go else f" Reason: {reason.strip()}", agents)
            return f"Stage 1 COMPLETE for {story}. Verdict: {verdict}. Readiness: {score:f}.{because}"
        case Worked(story):
            return f"Stage 2 COMPLETE for {story}. All tasks Done. Story set to To Review."
        case Reviewed(story, verdict, score, issues, agents=agents):
            found = _ended(f" Issues: {issues.strip()}" if verdict is ReviewVerdict.FAIL else "", agents)
            return f"Stage 3 COMPLETE for {story}. Verdict: {verdict.value}. Quality Score: {score:f}/100.{found}"
        case Erred(story, stage, details):
            return f"Stage {stage} ERROR for {story}: {details.strip()}"
        case StandsAt(story, stage, doing, step):
            return f"Status for {story}: Stage {stage} {doing.value}. Current step: {step.strip()}."
        case Execute(story, stage):
            return f"Execute Stage {stage} for {story}"
        case StatusCheck(story, stage):
            return f"Status check: are you still working on Stage {stage} for {story}?"
        case Acknowledge(story, stage):
            return f"ACK Stage {stage} for {story}"
        case _:
            assert_never(word)


def _ended(details: str, agents: str) -> str:
    if not agents.strip():
        return details
    return f"{details}{'.' if details else ''} Agents: {agents.strip()}."


def summary(word: StageWord) -> str:
    """Return the summary, in one of the seed's three forms: for a report, a command, an ACK."""
    match word:
        case Execute(story, stage) | StatusCheck(story, stage):
            return shutdown_summary(story, stage)
        case Acknowledge(story, stage):
            return f"{story} Stage {stage} ACK"
        case StandsAt(story, stage, doing):
            return f"{story} Stage {stage} {doing.value}"
        case _:
            return f"{word.story} Stage {word.stage} {result_of(word)}"


def shutdown_summary(story: str, stage: int) -> str:
    """Return the summary of a command. A shutdown_request is one, and has no text of its own."""
    return f"{story} -> Stage {stage}"
