"""The ids of what a lead writes: each derives from its cause, so that saying it again after a crash is recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.escalations import derived_id

if TYPE_CHECKING:
    from ackd.core.story_record import Story


def execute_id(story: Story, generation: int) -> str:
    return _of(story, "stage-execute", generation)


def ask_id(story: Story, generation: int, number: int) -> str:
    return _of(story, "stage-ask", generation, number)


def ack_id(story: Story, generation: int, report_id: str) -> str:
    return _of(story, "stage-ack", generation, report_id)


def shutdown_id(story: Story, generation: int) -> str:
    return _of(story, "stage-shutdown", generation)


def stdout_id(story: Story, generation: int, nth: int = 0) -> str:
    """Of the report that a command printed; ``nth``: of the words that it printed for its lead, one while it runs."""
    return _of(story, "stage-stdout", generation, *([nth] if nth else []))


def pause_id(story: Story) -> str:
    return _of(story, "story-paused", story.pauses)


def _of(story: Story, kind: str, *cause: object) -> str:
    """A story that was cancelled may be started again under its name: its time of birth tells the two apart."""
    return derived_id(kind, int(story.created_at), story.created_at, story.story_id, *cause)
