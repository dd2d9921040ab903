"""Pauses the stories of a root that is restored from a backup: the original may go on leading them.

A story is led by the daemon and by no agent, so pausing agents would not hold it back: its workers would be started
anew. `ackd story resume` lets it go on, with its stage begun anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ackd.coordination.pipeline.files import StoryFiles
from ackd.coordination.pipeline.rules import decisions

if TYPE_CHECKING:
    from pathlib import Path


def pause(state_dir: Path, by: str) -> list[str]:
    """Pause what goes on, and return the ids. ``state_dir``: of the restored root, which nobody serves yet."""
    if not (state_dir / "stories").is_dir():
        return []
    files = StoryFiles(state_dir / "stories", durable=False)
    paused = []
    for story in files.all()[0]:
        before, after = files.change(story.story_id, lambda it: it and decisions.held(it, by, time.time()).story)
        if after is not before:
            paused.append(story.story_id)
    return paused
