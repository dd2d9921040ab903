"""The use cases of stories, called from a program: values in, values and named errors out, without a daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.config.site import find_site
from ackd.coordination.pipeline.door import BadOrder, NoPipeline, NoStoryBefore, StoryDoor, StoryNotNow, WorkerNotGone
from ackd.coordination.pipeline.rules.record import Result, Try
from ackd.coordination.pipeline.rules.stage_names import BadStory
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.core.errors import UnknownStory
from ackd.stage import files_of

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.config.site import Site

CONFIG = """
[pipeline.worker]
command = ["true"]
"""


def site_with(place: Path, config: str) -> Site:
    path = place / "ackd.toml"
    path.write_text(config)
    return find_site(None, str(path))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return site_with(tmp_path, CONFIG)


def states(door: StoryDoor) -> dict[str, str]:
    return {one.story_id: one.state.value for one in door.stories().stories}


def test_stories_are_started_paused_resumed_and_cancelled(site: Site) -> None:
    door = StoryDoor(site)
    assert door.start(["A-1", "A-2"], by="leader") == ["A-1", "A-2"]
    assert [one.started_by for one in door.stories().stories] == ["leader", "leader"]
    door.start(["B-1"], after=["A-1"], by="user")
    assert (door.show("B-1").after, door.show("B-1").started_by) == (("A-1",), None)
    door.pause(["A-1"], by="leader")
    assert door.show("A-1").reason == "paused by leader"
    door.resume(["A-1"])
    door.cancel(["A-2"])
    assert states(door) == {"A-1": "waiting", "A-2": "cancelled", "B-1": "waiting"}
    assert not door.daemon_running


def test_a_change_that_the_state_does_not_allow_is_refused(site: Site) -> None:
    door = StoryDoor(site)
    door.start(["A-1"])
    with pytest.raises(StoryNotNow, match="A-1 is waiting: it cannot be resumed") as refused:
        door.resume(["A-1"])
    assert (refused.value.story, refused.value.state) == ("A-1", StoryState.WAITING)
    with pytest.raises(UnknownStory):
        door.pause(["Z-9"])
    with pytest.raises(UnknownStory):
        door.show("Z-9")
    with pytest.raises(BadStory):
        door.start(["no id"])


def test_a_story_begins_anew_only_when_it_may(site: Site) -> None:
    door, files = StoryDoor(site), files_of(site)
    door.start(["A-1"])
    with pytest.raises(StoryNotNow) as refused:
        door.start(["A-1"], again=True)
    assert not refused.value.begins_again
    ended = Try(1, 0, 1.0, ended_at=2.0, result=Result.COMPLETE)
    files.change("A-1", lambda one: one and one._replace(state=StoryState.DONE, tries=(ended,)))
    with pytest.raises(StoryNotNow) as refused:
        door.start(["A-1"])
    assert refused.value.begins_again
    with pytest.raises(WorkerNotGone):
        door.start(["A-1"], again=True)
    files.change("A-1", lambda one: one and one._replace(tries=(one.tries[0]._replace(settled=True),)))
    door.start(["A-1"], again=True)
    assert (door.show("A-1").state, door.show("A-1").earlier) == (StoryState.WAITING, 1)


def test_an_order_that_makes_no_sense_is_refused(site: Site) -> None:
    door = StoryDoor(site)
    with pytest.raises(NoStoryBefore, match="there is no story A-1 to come after"):
        door.start(["B-1"], after=["A-1"])
    door.start(["A-1"])
    with pytest.raises(BadOrder, match="A-1 cannot come after itself"):
        door.start(["A-1"], after=["A-1"])
    door.start(["B-1"], after=["A-1"])
    door.cancel(["A-1"])
    with pytest.raises(BadOrder, match="A-1 and B-1 would wait for each other"):
        door.start(["A-1"], after=["B-1"])


def test_a_record_that_cannot_be_read_is_passed_over_and_named(site: Site) -> None:
    door = StoryDoor(site)
    door.start(["A-1"])
    (door.directory / "B-1.json").write_text("{")
    found = door.stories()
    assert ([one.story_id for one in found.stories], [bad.story for bad in found.unreadable]) == (["A-1"], ["B-1"])


def test_a_team_without_a_pipeline_has_no_stories(tmp_path: Path) -> None:
    with pytest.raises(NoPipeline, match="this team has no pipeline"):
        StoryDoor(site_with(tmp_path, ""))
