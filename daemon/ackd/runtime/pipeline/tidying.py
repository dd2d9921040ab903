"""Queues of workers whose stories are over: removed at a start, before they are watched, if nothing lies in them.

A directory that goes while it is watched is a loss, and made again; so it is done then or not at all. What cannot be
removed stays, and is an agent's queue like any other. Never fails.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ackd.core.stage_words import whose_worker
from ackd.core.story import ENDS
from ackd.core.story_record import BadStoryRecord

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.adapters.story_files import StoryFiles


def clear_boxes(queue: Path, boxes: list[str], files: StoryFiles, id_pattern: str) -> None:
    for box in boxes:
        whose = whose_worker(box, id_pattern)
        if whose is not None and _is_over(files, whose[0]):
            for directory in (queue / box / "processed", queue / box):
                with contextlib.suppress(OSError):
                    directory.rmdir()


def _is_over(files: StoryFiles, story_id: str) -> bool:
    try:
        story = files.read(story_id)
    except (BadStoryRecord, OSError):
        return False
    return story is not None and story.state in ENDS and all(one.settled for one in story.tries)
