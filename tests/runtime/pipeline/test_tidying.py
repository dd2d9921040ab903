"""Queues of workers whose stories are over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ackd.adapters.story_files import StoryFiles
from ackd.core.stage_words import DEFAULT_ID_PATTERN
from ackd.core.story import StoryState
from ackd.core.story_record import Result, Story, Try
from ackd.runtime.pipeline.tidying import clear_boxes

if TYPE_CHECKING:
    from pathlib import Path

ENDED = Try(1, 0, 1.0, ended_at=2.0, result=Result.COMPLETE, settled=True)
DONE = Story("A-1", StoryState.DONE, 1.0, tries=(ENDED,))


def test_what_is_over_and_empty_goes_and_nothing_else(tmp_path: Path) -> None:
    files = StoryFiles(tmp_path / "stories", durable=False)
    for story in (DONE, replace(DONE, story_id="B-1", state=StoryState.PAUSED), replace(DONE, story_id="C-1"),
                  replace(DONE, story_id="D-1", tries=(replace(ENDED, settled=False),))):  # fmt: skip
        files.change(story.story_id, lambda _, new=story: new)  # type: ignore[misc]
    files.path("E-1").write_text("{")
    names = [f"story-{letter}-1-s0" for letter in "ABCDEF"] + ["leader"]
    for name in names:
        (tmp_path / "queue" / name / "processed").mkdir(parents=True)
    (tmp_path / "queue/story-C-1-s0/processed/message_1.mime").touch()
    clear_boxes(tmp_path / "queue", names, files, DEFAULT_ID_PATTERN)
    assert sorted(path.name for path in (tmp_path / "queue").iterdir()) == sorted(set(names) - {"story-A-1-s0"})
