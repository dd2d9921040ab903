"""Decisions about a story are carried out in order, and the record on disk comes first."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from ackd.coordination.pipeline.rules import decisions
from ackd.coordination.pipeline.rules.decisions import Ack, StoryDecision
from ackd.coordination.pipeline.rules.record import Doubt, Result
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.coordination.pipeline.workers import WorkerEnd
from tests.coordination.pipeline.under_test import NEW, pipeline_under_test

if TYPE_CHECKING:
    from pathlib import Path

PLANNED = "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4."


async def test_state_on_disk_then_the_next_worker_then_the_ack_then_the_shutdown(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        await pipeline.hear(PLANNED)
    assert pipeline.done[:6] == [
        "start 1",
        "Execute Stage 0 for A-1 [stage_0]",
        "start 2",
        "Execute Stage 1 for A-1 [stage_1]",
        "ACK Stage 0 for A-1 [stage_1]",
        "shutdown_request for story-A-1-s0 [stage_1]",
    ]
    assert pipeline.done[6:] == ["end 1"]
    assert [one.settled for one in pipeline.story.tries] == [True, False]


async def test_a_worker_that_cannot_be_started_pauses_the_story_and_the_report_is_acknowledged(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        pipeline.workers.refuses = "no program ./work"
        await pipeline.hear(PLANNED)
    story = pipeline.story
    assert (story.state, story.reason) == (
        StoryState.PAUSED,
        "the worker of stage 1 cannot be started: no program ./work",
    )
    assert story.tries[0].acked_at is not None
    said = [what for what in pipeline.done if "ACK" in what or "escalation" in what]
    assert said == ["escalation [paused]", "ACK Stage 0 for A-1 [paused]"]
    assert story.escalated == story.pauses == 1


async def test_an_execute_is_written_once_for_each_try_whatever_is_done_again(tmp_path: Path) -> None:
    """The id derives from the try, so one that is sent again after a crash is the same message."""
    async with pipeline_under_test(tmp_path) as pipeline:
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        one = pipeline.story.current
        assert one is not None
        await pipeline.executor.spawn(pipeline.story, one)
    assert len({draft.message_id for draft in pipeline.drafts}) == 1


async def test_a_status_check_is_asked_of_the_worker_and_written_to_it(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        by = partial(decisions.doubted, generation=1, doubt=Doubt.QUIET, now=3.0)
        await pipeline.executor.decide("A-1", by, carry_out=True)
        worker = pipeline.workers.get("A-1", 1)
        assert worker is not None
        assert worker.process.told == ["Status check: are you still working on Stage 0 for A-1?"]  # type: ignore[attr-defined]
        assert worker.asked_at is not None
    assert pipeline.types()[-1] == "stage_check"
    assert pipeline.done[-1] == "Status check: are you still working on Stage 0 for A-1? [stage_0]"


async def test_a_status_check_can_be_seen_by_who_has_no_ear_until_it_is_answered(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        asked = pipeline.files.flag("A-1", 0, 1, "asked")
        for answer in ("Status for A-1: Stage 0 EXECUTING. Current step: reading.", PLANNED):
            assert not asked.exists()
            await pipeline.hear("what?", message_id=f"unclear {answer}")
            check = "Status check: are you still working on Stage 0 for A-1?"
            assert pipeline.files.said("A-1", 0, 1, "asked")["text"] == check
            await pipeline.hear(answer)
        assert not asked.exists()


async def test_the_ack_is_said_to_the_worker_as_well_as_written(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, leave_s=60) as pipeline:
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        worker = pipeline.workers.get("A-1", 1)
        assert worker is not None
        await pipeline.hear(PLANNED)
        assert worker.process.told == ["ACK Stage 0 for A-1"]  # type: ignore[attr-defined]
        worker.end = WorkerEnd(Result.LOST, "through")


async def test_a_pane_stays_open_for_as_long_as_its_worker_may_take_to_leave(tmp_path: Path) -> None:
    """The done flag says that the report has arrived, not that its agent has said all, or that anybody has read it."""
    async with pipeline_under_test(tmp_path, leave_s=0.5) as pipeline:
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        worker = pipeline.workers.get("A-1", 1)
        assert worker is not None
        worker.process.reads_mail = True
        pipeline.files.raise_flag("A-1", 0, 1, "done")
        began = time.monotonic()
        await pipeline.hear(PLANNED)
    assert pipeline.done[-1] == "end 1"
    assert time.monotonic() - began >= 0.5


async def test_a_worker_of_an_earlier_life_hears_an_ack_and_nothing_changes(tmp_path: Path) -> None:

    async with pipeline_under_test(tmp_path, NEW._replace(earlier=4)) as pipeline:
        before = pipeline.story
        await pipeline.executor.ack(before, Ack(2, "story-A-1-s0", "m"))
        assert (pipeline.done, pipeline.story) == (["ACK Stage 0 for A-1 [waiting]"], before)


async def test_what_a_person_did_is_written_down_once(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        pipeline.files.change("A-1", lambda it: decisions.held(it, "user", 5.0).story if it else None)
        pipeline.facts.clear()
        for _ in range(2):
            await pipeline.executor.decide("A-1", StoryDecision)
        assert [(type_, data.get("state"), data.get("result")) for type_, data in pipeline.facts] == [
            ("stage_ended", None, "stopped"),
            ("story_state", "paused", None),
        ]


async def test_there_is_nothing_to_decide_about_a_story_that_is_not_there(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        assert await pipeline.executor.decide("Z-9", StoryDecision) is None
