"""Stories as people see them: a table of stages, one story in full, and the summary at the end.

Cannot fail: every value is shown as it is, and made harmless by whoever prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.coordination.pipeline.rules.stage_names import STAGES, worker_name
from ackd.coordination.pipeline.rules.story import ENDS, StoryState, stage_of
from ackd.facts.harmless import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ackd.coordination.pipeline.rules.record import Story, Try

COLUMNS: Final = ("STORY", "STATE", "STAGE 0", "STAGE 1", "STAGE 2", "STAGE 3", "TIME", "NOTE")
STYLES: Final = {"done": "green", "paused": "yellow", "cancelled": "dim"}


def rows(stories: Sequence[Story], now: float, steps: Mapping[str, str] | None = None) -> list[list[str]]:
    """Return the table's rows. ``steps``: what the workers of stories say that they are doing."""
    return [_row(story, stories, now, (steps or {}).get(story.story_id, "")) for story in stories]


def _row(story: Story, stories: Sequence[Story], now: float, step: str) -> list[str]:
    cells = [_cell(story, stage, now) for stage in STAGES]
    took = duration(max(0.0, (story.ended_at or now) - story.created_at))
    return [story.story_id, story.state.value, *cells, took, step or why(story, stories)]


def _cell(story: Story, stage: int, now: float) -> str:
    """Return the last try's result and score and the number of tries; a dash for a stage that was not begun."""
    tries = [one for one in story.tries if one.stage == stage]
    if not tries:
        return "-"
    last = tries[-1]
    again = f" x{len(tries)}" if len(tries) > 1 else ""
    if last.result is None:
        asked = ", asked" if last.doubt is not None else ""
        return f"at work {duration(max(0.0, now - last.started_at))}{asked}{again}"
    return f"{last.result.value}{f' {last.score}' if last.score else ''}{again}"


def why(story: Story, stories: Sequence[Story]) -> str:
    if story.state is not StoryState.WAITING:
        return story.reason
    done = {one.story_id for one in stories if one.state is StoryState.DONE}
    missing = [before for before in story.after if before not in done]
    return f"after {', '.join(missing)}" if missing else "for its turn"


def step_of(checkpoint: Mapping[str, object] | None) -> str:
    """Return where a stage stands, in one line."""
    if checkpoint is None:
        return ""
    done, left = (_count(checkpoint.get(key)) for key in ("tasks_done", "tasks_remaining"))
    tasks = f" ({done} of {done + left} tasks done)" if done + left else ""
    return f"{checkpoint.get('last_action', '')}{tasks}"


def _count(tasks: object) -> int:
    return len(tasks) if isinstance(tasks, list) else 0


def moving(stories: Sequence[Story]) -> set[str]:
    """Return the ids of stories that go on by themselves. The others are over, or a person must resume something."""
    at_work = {one.story_id for one in stories if stage_of(one.state) is not None}
    ahead = at_work | {one.story_id for one in stories if one.state in ENDS}
    waiting = [one for one in stories if one.state is StoryState.WAITING]
    while found := {one.story_id for one in waiting if ahead.issuperset(one.after)} - ahead:
        ahead |= found
        at_work |= found
    return at_work


def plain(story: Story, stories: Sequence[Story], checkpoint: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return a story as plain values, for programs."""
    stage = stage_of(story.state)
    return {
        "story": story.story_id,
        "state": story.state.value,
        "stage": story.stage,
        "worker": worker_name(story.story_id, stage) if stage is not None else None,
        "after": list(story.after),
        "started_by": story.started_by,
        "why": why(story, stories),
        "seconds": round((story.ended_at or story.since) - story.created_at, 3),
        "stages": [_plain_stage(story, number) for number in STAGES],
        "tries": [_plain_try(story, one) for one in story.tries],
        "checkpoint": dict(checkpoint) if checkpoint is not None else None,
    }


def _plain_stage(story: Story, stage: int) -> dict[str, object]:
    tries = [one for one in story.tries if one.stage == stage]
    last = tries[-1] if tries else None
    return {
        "stage": stage,
        "tries": len(tries),
        "seconds": round(sum(_seconds(one) for one in tries), 3),
        "result": last.result.value if last is not None and last.result is not None else None,
        "score": last.score or None if last is not None else None,
    }


def _plain_try(story: Story, one: Try) -> dict[str, object]:
    return {
        "generation": one.generation,
        "stage": one.stage,
        "worker": worker_name(story.story_id, one.stage),
        "result": one.result.value if one.result is not None else None,
        "score": one.score or None,
        "detail": one.detail,
        "agents": one.agents or None,
        "seconds": round(_seconds(one), 3),
        "report": one.report_id or None,
        "acknowledged": one.acked_at is not None,
        "status_checks": one.asks,
    }


def _seconds(one: Try) -> float:
    return max(0.0, one.ended_at - one.started_at) if one.ended_at is not None else 0.0


def page(story: Story, stories: Sequence[Story], now: float, step: str = "") -> list[str]:
    """Return the lines about one story in full. ``step``: what its worker is doing."""
    reason = why(story, stories)
    lines = [f"{story.story_id}: {story.state.value}" + (f": {reason}" if reason else "")]
    if story.started_by is not None:
        lines.append(f"  started by {story.started_by}")
    if story.after:
        lines.append(f"  comes after {', '.join(story.after)}")
    for one in story.tries:
        took = duration(max(0.0, (one.ended_at or now) - one.started_at))
        result = one.result.value if one.result is not None else "at work"
        score = f", score {one.score}" if one.score else ""
        score += f", agents {one.agents}" if one.agents else ""
        acked = "" if one.acked_at is None else ", acknowledged"
        lines.append(f"  stage {one.stage}, try {one.generation}: {result}{score}, {took}{acked}")
        said = step if one is story.current else one.detail
        lines += [f"      {line}" for line in said.splitlines()]
    return lines


def closing(stories: Sequence[Story]) -> list[str]:
    """Return the summary at the end: how many stories ended how, and the total time of each stage."""
    counts = [(state.value, sum(one.state is state for one in stories)) for state in StoryState]
    total = ", ".join(f"{count} {name}" for name, count in counts if count)
    lines = [f"{len(stories)} {'story' if len(stories) == 1 else 'stories'}: {total}"]
    for stage in STAGES:
        tries = [one for story in stories for one in story.tries if one.stage == stage and one.ended_at is not None]
        if tries:
            took = sum(map(_seconds, tries))
            scores = [float(one.score) for one in tries if one.score]
            mean = f", mean score {sum(scores) / len(scores):.1f}" if scores else ""
            count = f"{len(tries)} {'try' if len(tries) == 1 else 'tries'}"
            lines.append(f"  stage {stage}: {count}, {duration(took)} in all{mean}")
    return lines
