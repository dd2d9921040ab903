"""Stories of a restored root wait for a person: the original may go on leading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.coordination.pipeline.files import StoryFiles
from ackd.coordination.pipeline.restoring import pause
from ackd.coordination.pipeline.rules.record import Story, Try
from ackd.coordination.pipeline.rules.story import StoryState

if TYPE_CHECKING:
    from pathlib import Path


def test_stories_that_go_on_are_paused_and_ended_ones_stay(tmp_path: Path) -> None:
    files = StoryFiles(tmp_path / "stories", durable=False)
    files.make()
    for number, state in enumerate((StoryState.WAITING, StoryState.STAGE_1, StoryState.DONE, StoryState.PAUSED), 1):
        at_work = state is StoryState.STAGE_1
        tries = (Try(1, 1, started_at=1.0, executed=True),) if at_work else ()
        story = Story(f"PROJ-{number}", state, 1.0, number, stage=int(at_work), tries=tries, since=1.0, moves=1)
        files.write(story)
    assert files.all()[1] == []
    assert pause(tmp_path, "restore") == ["PROJ-1", "PROJ-2"]
    states = {one.story_id: one.state for one in files.all()[0]}
    assert states == {
        "PROJ-1": StoryState.PAUSED,
        "PROJ-2": StoryState.PAUSED,
        "PROJ-3": StoryState.DONE,
        "PROJ-4": StoryState.PAUSED,
    }
    assert pause(tmp_path, "restore") == []


def test_a_root_without_stories_gets_none(tmp_path: Path) -> None:
    assert pause(tmp_path, "restore") == []
    assert list(tmp_path.iterdir()) == []
