"""The lines of the session log about a story, found by comparing its record before and after. Cannot fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.coordination.pipeline import facts
from ackd.coordination.pipeline.rules.record import Result
from ackd.coordination.pipeline.rules.stage_names import worker_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ackd.coordination.pipeline.rules.record import Story, Try
    from ackd.core.fact import Fact


def changes(before: Story, after: Story) -> Iterator[Fact]:
    """The facts that a change of a story's record stands for."""
    for old, new in zip(before.tries, after.tries, strict=False):
        if old.ended_at is None and new.ended_at is not None:
            yield ended(after, new)
    if before.state is not after.state:
        yield facts.story_state(
            story=after.story_id, state=after.state.value, before=before.state.value, reason=after.reason or None
        )


def by_hand(story: Story) -> Iterator[Fact]:
    """The facts about what a person did to a story: a command changed the record, and a daemon writes it down."""
    last = story.tries[-1] if story.tries else None
    if last is not None and last.result is Result.STOPPED and last.ended_at == story.since:
        yield ended(story, last)
    yield facts.story_state(story=story.story_id, state=story.state.value, reason=story.reason or None)


def ended(story: Story, one: Try) -> Fact:
    return facts.stage_ended(
        story=story.story_id,
        stage=one.stage,
        agent=worker_name(story.story_id, one.stage),
        generation=one.generation,
        result=one.result.value if one.result is not None else "",
        seconds=seconds(one),
        score=one.score or None,
        detail=one.detail or None,
        message_id=one.report_id or None,
    )


def seconds(one: Try) -> float:
    return round(max(0.0, (one.ended_at or one.started_at) - one.started_at), 3)


def summary(story: Story) -> Fact:
    """The fact about a story that is done: times and scores of each stage."""
    took = round(max(0.0, (story.ended_at or story.created_at) - story.created_at), 3)
    return facts.story_done(story=story.story_id, seconds=took, tries=len(story.tries), stages=stages(story))


def stages(story: Story) -> list[Mapping[str, object]]:
    """Return an entry for each stage that was begun: its tries, their total time, the last result and score."""
    found: list[Mapping[str, object]] = []
    for stage in range(4):
        tries = [one for one in story.tries if one.stage == stage]
        if tries:
            last = tries[-1]
            took = round(sum(map(seconds, tries)), 3)
            result = last.result.value if last.result is not None else "at work"
            found.append({"stage": stage, "tries": len(tries), "seconds": took, "result": result, "score": last.score})
    return found
