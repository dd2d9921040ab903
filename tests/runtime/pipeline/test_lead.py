from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.core.events import AgentWaits
from ackd.core.story import StoryState
from ackd.core.waits import Wait
from ackd.runtime.pipeline.lead import SIGN_EACH_S
from tests.runtime.pipeline.lectern import NEW, lectern

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.events import Event
    from ackd.core.story_record import Story
    from tests.runtime.pipeline.lectern import Lectern


async def test_a_story_that_cannot_be_written_keeps_no_other_waiting(tmp_path: Path) -> None:
    async with lectern(tmp_path) as desk:
        desk.files.change("A-2", lambda _: replace(NEW, story_id="A-2"))
        decide, decided = desk.conduct.decide, list[str]()

        async def refused(story_id: str, *words: Any, **more: Any) -> Any:
            if story_id == "A-1":
                raise OSError(40, "Too many levels of symbolic links")
            decided.append(story_id)
            return await decide(story_id, *words, **more)

        desk.conduct.decide = refused  # type: ignore[method-assign]
        desk.workers.settled_in.set()
        await desk.lead().look(None)
        desk.conduct.tasks.cancel_scope.cancel()
    assert decided == ["A-2"]
    assert [data["what"] for type_, data in desk.facts if type_ == "io_error"] == ["story A-1"]


# --- who waits for a story ----------------------------------------------------------------------------------------------
#: Comes after one that nobody has started: it stays where it is.
ASKED = replace(NEW, after=("Z-1",), started_by="leader")


def put(desk: Lectern, story: Story) -> None:
    with desk.files.locked():
        desk.files.write(story)


def said(desk: Lectern) -> list[tuple[str, str, list[str]]]:
    """Each thing that the engine was told since this was asked last."""
    found = [
        (one.agent, one.source, [str(wait) for wait in one.waits]) for one in desk.posted if isinstance(one, AgentWaits)
    ]
    assert len(found) == len(desk.posted)
    desk.posted.clear()
    return found


async def test_whoever_started_a_story_is_said_to_wait_until_it_is_over(tmp_path: Path) -> None:
    async with lectern(tmp_path, ASKED) as desk:
        lead = desk.lead()
        for _ in range(2):  # each change once
            await lead.look(None)
        assert desk.posted == [AgentWaits("leader", "pipeline", (Wait(None, "story A-1", "waiting 0"),))]
        assert said(desk) == [("leader", "pipeline", ["story A-1"])]
        put(desk, replace(ASKED, story_id="B-1"))
        await lead.look(None)
        assert said(desk) == [("leader", "pipeline", ["story A-1", "story B-1"])]
        put(desk, replace(ASKED, state=StoryState.DONE, ended_at=1_770_000_001.0))
        await lead.look(None)
        assert said(desk) == [("leader", "pipeline", ["story B-1"])]
        desk.files.path("B-1").unlink()
        await lead.look(None)
        assert said(desk) == [("leader", "pipeline", [])]


@pytest.mark.parametrize("state", [StoryState.DONE, StoryState.CANCELLED])
async def test_nobody_waits_for_a_story_that_is_over_or_a_persons_or_a_strangers(
    tmp_path: Path, state: StoryState
) -> None:
    async with lectern(tmp_path, replace(ASKED, state=state, ended_at=1_770_000_001.0)) as desk:
        put(desk, replace(ASKED, story_id="B-1", started_by=None))
        put(desk, replace(ASKED, story_id="C-1", started_by="nobody"))
        await desk.lead().look(None)
        assert said(desk) == []


async def test_a_paused_story_is_still_waited_for(tmp_path: Path) -> None:
    """It is not over, and a person was told: who waits for it need not be reminded."""
    paused = replace(ASKED, state=StoryState.PAUSED, reason="enough", pauses=1, escalated=1)
    async with lectern(tmp_path, paused) as desk:
        await desk.lead().look(None)
        assert said(desk) == [("leader", "pipeline", ["story A-1"])]


async def test_after_a_restart_who_waits_is_said_before_workers_are_taken_up(tmp_path: Path) -> None:
    async with lectern(tmp_path, ASKED) as desk:
        await desk.lead().look(None)
        desk.posted.clear()
        desk.workers.settled_in = anyio.Event()
        asked_by_then: list[Event] = []
        desk.workers.discard_left = lambda: asked_by_then.extend(desk.posted)  # type: ignore[method-assign]
        await desk.lead().look(None)
        assert asked_by_then
        assert said(desk) == [("leader", "pipeline", ["story A-1"])]


async def test_each_step_of_a_story_and_its_workers_life_are_moves_of_what_is_waited_for(tmp_path: Path) -> None:
    async with lectern(tmp_path, replace(ASKED, after=())) as desk:
        lead = desk.lead()
        await lead.look(None)
        stands = [one.waits[0].stands for one in desk.posted if isinstance(one, AgentWaits)]
        assert stands == ["waiting 0", "stage_0 1"]
        while (room := desk.workers.get("A-1", 1)) is None:
            await anyio.lowlevel.checkpoint()
        desk.posted.clear()
        await lead.look(None)
        assert len(desk.posted) == 1  # somebody is there
        room.seen_at += SIGN_EACH_S
        await lead.look(None)
        assert len(desk.posted) == 2
        desk.conduct.tasks.cancel_scope.cancel()
