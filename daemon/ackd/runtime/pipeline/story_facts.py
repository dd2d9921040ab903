"""What happened to a story, as lines of the session log: found by comparing the record before and after.

Cannot fail, and knows no files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.stage_words import worker_name
from ackd.core.story_record import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.core.story_record import Story, Try


def changes(before: Story, after: Story) -> Iterator[tuple[str, dict[str, object]]]:
    for old, new in zip(before.tries, after.tries, strict=False):
        if old.ended_at is None and new.ended_at is not None:
            yield "stage_ended", ended(after, new)
    if before.state is not after.state:
        data: dict[str, object] = {"story": after.story_id, "state": after.state.value, "before": before.state.value}
        if after.reason:
            data["reason"] = after.reason
        yield "story_state", data


def by_hand(story: Story) -> Iterator[tuple[str, dict[str, object]]]:
    """What a person did to it: a command changed the record, and a daemon writes it down."""
    last = story.tries[-1] if story.tries else None
    if last is not None and last.result is Result.STOPPED and last.ended_at == story.since:
        yield "stage_ended", ended(story, last)
    data: dict[str, object] = {"story": story.story_id, "state": story.state.value}
    yield "story_state", data | ({"reason": story.reason} if story.reason else {})


def ended(story: Story, one: Try) -> dict[str, object]:
    data: dict[str, object] = {
        "story": story.story_id,
        "stage": one.stage,
        "agent": worker_name(story.story_id, one.stage),
        "generation": one.generation,
        "result": one.result.value if one.result is not None else "",
        "seconds": seconds(one),
    }
    more = {"score": one.score, "detail": one.detail, "message_id": one.report_id}
    return data | {key: value for key, value in more.items() if value}


def seconds(one: Try) -> float:
    return round(max(0.0, (one.ended_at or one.started_at) - one.started_at), 3)


def summary(story: Story) -> dict[str, object]:
    """At the end: times and scores for each stage."""
    took = round(max(0.0, (story.ended_at or story.created_at) - story.created_at), 3)
    return {"story": story.story_id, "seconds": took, "tries": len(story.tries), "stages": stages(story)}


def stages(story: Story) -> list[dict[str, object]]:
    """One entry for each stage that was begun: its tries, their time together, the last result and score."""
    found: list[dict[str, object]] = []
    for stage in range(4):
        tries = [one for one in story.tries if one.stage == stage]
        if tries:
            last = tries[-1]
            took = round(sum(map(seconds, tries)), 3)
            result = last.result.value if last.result is not None else "at work"
            found.append({"stage": stage, "tries": len(tries), "seconds": took, "result": result, "score": last.score})
    return found
