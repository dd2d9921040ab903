"""The ids of messages that a lead writes. Each derives from its cause, so that one sent again is recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.escalations import derived_id

if TYPE_CHECKING:
    from ackd.coordination.pipeline.rules.record import Story


def execute_id(story: Story, generation: int) -> str:
    return _of(story, "stage-execute", generation)


def ask_id(story: Story, generation: int, number: int) -> str:
    return _of(story, "stage-ask", generation, number)


def ack_id(story: Story, generation: int, report_id: str) -> str:
    return _of(story, "stage-ack", generation, report_id)


def shutdown_id(story: Story, generation: int) -> str:
    return _of(story, "stage-shutdown", generation)


def stdout_id(story: Story, generation: int, nth: int = 0) -> str:
    """Return the id of a command's last report, or of the ``nth`` line that it printed for its lead while it ran."""
    return _of(story, "stage-stdout", generation, *([nth] if nth else []))


def pause_id(story: Story) -> str:
    return _of(story, "story-paused", story.pauses)


def _of(story: Story, kind: str, *cause: object) -> str:
    """Derive an id. The story's start is part of it, because a cancelled story may be started again under its name."""
    return derived_id(kind, int(story.created_at), story.created_at, story.story_id, *cause)
