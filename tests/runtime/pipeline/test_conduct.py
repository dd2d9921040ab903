"""What was decided about a story is carried out in order, and what is on disk comes first."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from ackd.core import story_decisions as deciding
from ackd.core.story import StoryState
from ackd.core.story_decisions import Ack, Decision
from ackd.core.story_record import Doubt, Result
from ackd.runtime.pipeline.rooms import Over
from tests.runtime.pipeline.lectern import NEW, lectern

if TYPE_CHECKING:
    from pathlib import Path

PLANNED = "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4."


async def test_state_on_disk_then_the_next_worker_then_the_ack_then_the_shutdown(tmp_path: Path) -> None:
    async with lectern(tmp_path) as lead:
        await lead.conduct.decide("A-1", partial(deciding.turn, now=2.0), carry_out=True)
        await lead.hear(PLANNED)
    assert lead.done[:6] == [
        "start 1",
        "Execute Stage 0 for A-1 [stage_0]",
        "start 2",
        "Execute Stage 1 for A-1 [stage_1]",
        "ACK Stage 0 for A-1 [stage_1]",
        "shutdown_request for story-A-1-s0 [stage_1]",
    ]
    assert lead.done[6:] == ["end 1"]
    assert [one.settled for one in lead.story.tries] == [True, False]


async def test_a_worker_that_cannot_be_started_pauses_the_story_and_the_report_is_acknowledged(tmp_path: Path) -> None:
    async with lectern(tmp_path) as lead:
        await lead.conduct.decide("A-1", partial(deciding.turn, now=2.0), carry_out=True)
        lead.workers.refuses = "no program ./work"
        await lead.hear(PLANNED)
    story = lead.story
    assert (story.state, story.reason) == (
        StoryState.PAUSED,
        "the worker of stage 1 cannot be started: no program ./work",
    )
    assert story.tries[0].acked_at is not None
    said = [what for what in lead.done if "ACK" in what or "escalation" in what]
    assert said == ["escalation [paused]", "ACK Stage 0 for A-1 [paused]"]
    assert story.escalated == story.pauses == 1


async def test_an_execute_is_written_once_for_each_try_whatever_is_done_again(tmp_path: Path) -> None:
    """Its id derives from the try: what is sent again after a crash is the same message."""
    async with lectern(tmp_path) as lead:
        await lead.conduct.decide("A-1", partial(deciding.turn, now=2.0), carry_out=True)
        one = lead.story.current
        assert one is not None
        await lead.conduct.spawn(lead.story, one)
    assert len({draft.message_id for draft in lead.drafts}) == 1


async def test_a_status_check_is_asked_of_the_worker_and_written_to_it(tmp_path: Path) -> None:
    async with lectern(tmp_path) as lead:
        await lead.conduct.decide("A-1", partial(deciding.turn, now=2.0), carry_out=True)
        by = partial(deciding.doubted, generation=1, doubt=Doubt.QUIET, now=3.0)
        await lead.conduct.decide("A-1", by, carry_out=True)
        room = lead.workers.get("A-1", 1)
        assert room is not None
        assert room.life.told == ["Status check: are you still working on Stage 0 for A-1?"]  # type: ignore[attr-defined]
        assert room.asked_at is not None
    assert lead.types()[-1] == "stage_check"
    assert lead.done[-1] == "Status check: are you still working on Stage 0 for A-1? [stage_0]"


async def test_a_status_check_can_be_seen_by_who_has_no_ear_until_it_is_answered(tmp_path: Path) -> None:
    async with lectern(tmp_path) as lead:
        await lead.conduct.decide("A-1", partial(deciding.turn, now=2.0), carry_out=True)
        asked = lead.files.flag("A-1", 0, 1, "asked")
        for answer in ("Status for A-1: Stage 0 EXECUTING. Current step: reading.", PLANNED):
            assert not asked.exists()
            await lead.hear("what?", message_id=f"unclear {answer}")
            check = "Status check: are you still working on Stage 0 for A-1?"
            assert lead.files.said("A-1", 0, 1, "asked")["text"] == check
            await lead.hear(answer)
        assert not asked.exists()


async def test_the_ack_is_said_to_the_worker_as_well_as_written(tmp_path: Path) -> None:
    async with lectern(tmp_path, leave_s=60) as lead:
        await lead.conduct.decide("A-1", partial(deciding.turn, now=2.0), carry_out=True)
        room = lead.workers.get("A-1", 1)
        assert room is not None
        await lead.hear(PLANNED)
        assert room.life.told == ["ACK Stage 0 for A-1"]  # type: ignore[attr-defined]
        room.over = Over(Result.LOST, "through")


async def test_a_pane_stays_open_for_as_long_as_its_worker_may_take_to_leave(tmp_path: Path) -> None:
    """Its done flag says that its report is through: not that its agent has said all, or that anybody has read it."""
    async with lectern(tmp_path, leave_s=0.5) as lead:
        await lead.conduct.decide("A-1", partial(deciding.turn, now=2.0), carry_out=True)
        room = lead.workers.get("A-1", 1)
        assert room is not None
        room.life.reads_mail = True
        lead.files.raise_flag("A-1", 0, 1, "done")
        began = time.monotonic()
        await lead.hear(PLANNED)
    assert lead.done[-1] == "end 1"
    assert time.monotonic() - began >= 0.5


async def test_a_worker_of_an_earlier_life_hears_an_ack_and_nothing_changes(tmp_path: Path) -> None:
    from dataclasses import replace

    async with lectern(tmp_path, replace(NEW, earlier=4)) as lead:
        before = lead.story
        await lead.conduct.ack(before, Ack(2, "story-A-1-s0", "m"))
        assert (lead.done, lead.story) == (["ACK Stage 0 for A-1 [waiting]"], before)


async def test_what_a_person_did_is_written_down_once(tmp_path: Path) -> None:
    async with lectern(tmp_path) as lead:
        await lead.conduct.decide("A-1", partial(deciding.turn, now=2.0), carry_out=True)
        lead.files.change("A-1", lambda it: deciding.held(it, "user", 5.0).story if it else None)
        lead.facts.clear()
        for _ in range(2):
            await lead.conduct.decide("A-1", Decision)
        assert [(type_, data.get("state"), data.get("result")) for type_, data in lead.facts] == [
            ("stage_ended", None, "stopped"),
            ("story_state", "paused", None),
        ]


async def test_there_is_nothing_to_decide_about_a_story_that_is_not_there(tmp_path: Path) -> None:
    async with lectern(tmp_path) as lead:
        assert await lead.conduct.decide("Z-9", Decision) is None
