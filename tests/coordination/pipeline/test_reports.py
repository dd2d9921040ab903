"""Mail of workers to their lead: which worker it is from, and what the log says of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from ackd.coordination.pipeline.rules import decisions
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.handlers import Defer, Refuse
from tests.coordination.pipeline.under_test import NEW, pipeline_under_test

if TYPE_CHECKING:
    from pathlib import Path

BEGUN = decisions.written_down(decisions.turn(NEW, 2.0).story)
PLANNED = "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4."


@pytest.mark.parametrize(
    ("sender", "type_", "generation", "why"),
    [
        ("user", "message", None, "user is no worker of a story"),
        ("story-A-1-s0", "task_complete", 1, "reads reports of type message"),
        ("story-Z-9-s0", "message", 1, "there is no story Z-9"),
        ("story-A-1-s3", "message", None, "is no worker that A-1 ever had"),
        ("story-A-1-s0", "message", 7, "is no worker that A-1 ever had"),
    ],
)
async def test_who_is_no_worker_is_refused_with_the_reason(
    tmp_path: Path, sender: str, type_: str, generation: int | None, why: str
) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        with pytest.raises(Refuse, match=why):
            await pipeline.hear(PLANNED, sender=sender, type_=type_, generation=generation)
        assert pipeline.story == BEGUN


async def test_garbage_is_in_the_log_as_it_was_said_with_the_closest_form(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        await pipeline.hear("Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4")
    (unparsed,) = [data for type_, data in pipeline.facts if type_ == "stage_unparsed"]
    assert unparsed["text"] == "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4"
    assert unparsed["why"] == "closest is 'Stage 0 COMPLETE': at character 59 it has the end instead of '.'"
    assert pipeline.done == ["Status check: are you still working on Stage 0 for A-1? [stage_0]"]


async def test_a_clear_status_continues_and_is_kept_as_where_the_stage_stands(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        await pipeline.hear("what?")
        await pipeline.hear("Status for A-1: Stage 0 EXECUTING. Current step: reading.")
    one = pipeline.story.current
    assert one is not None
    assert (pipeline.story.state, one.doubt) == (StoryState.STAGE_0, None)
    kept = pipeline.files.checkpoint("A-1", 0)
    assert kept is not None
    assert kept["last_action"] == "reading"


async def test_what_is_not_understood_twice_pauses_the_story_and_a_person_is_told(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        await pipeline.hear("what?")
        await pipeline.hear("who?")
    assert pipeline.story.state is StoryState.PAUSED
    assert "escalation [paused]" in pipeline.done


async def test_what_nobody_understood_is_quoted_in_the_pause(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        await pipeline.hear("I am done!")
        await pipeline.hear("All  tasks\nDone, **really**")
    assert pipeline.story.reason.endswith("; it said: All tasks Done, **really**")
    (escalation,) = [draft for draft in pipeline.drafts if draft.type == "escalation"]
    assert "it said: All tasks Done, **really**" in str(escalation.body)


async def test_agents_that_took_part_are_in_the_log_and_on_record(tmp_path: Path) -> None:
    judging = decisions.written_down(decisions.turn(NEW._replace(stage=1), 2.0).story)
    async with pipeline_under_test(tmp_path, judging) as pipeline:
        text = "Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 85. Agents: codex(2/3),gemini(1/2)."
        await pipeline.hear(text, sender="story-A-1-s1")
    (report,) = [data for type_, data in pipeline.facts if type_ == "stage_report"]
    assert (report["result"], report["score"], report["agents"]) == ("GO", "85", "codex(2/3),gemini(1/2)")
    assert pipeline.story.tries[0].agents == "codex(2/3),gemini(1/2)"


async def test_the_log_says_what_was_made_of_each_report(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        await pipeline.hear(PLANNED, message_id="m1")
        await pipeline.hear(PLANNED, message_id="m1")
        await pipeline.hear(PLANNED, message_id="m2", generation=None)
    heard = [data["heard"] for type_, data in pipeline.facts if type_ == "stage_report"]
    assert heard == ["processed", "duplicate", "duplicate"]
    assert pipeline.done.count("ACK Stage 0 for A-1 [stage_1]") == 3
    assert [one.stage for one in pipeline.story.tries] == [0, 1]


async def test_a_worker_of_an_earlier_life_is_late_and_acknowledged(tmp_path: Path) -> None:
    """A stale sender is not taken for the current one, also when the story was begun anew."""
    again = decisions.written_down(decisions.turn(NEW._replace(earlier=4), 2.0).story)
    async with pipeline_under_test(tmp_path, again) as pipeline:
        await pipeline.hear(PLANNED, generation=1)
        assert pipeline.story == again
    assert [data["heard"] for type_, data in pipeline.facts if type_ == "stage_report"] == ["late"]
    assert pipeline.done == ["ACK Stage 0 for A-1 [stage_0]"]


async def test_a_record_that_cannot_be_read_puts_the_report_off(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        pipeline.files.path("A-1").write_text("{")
        with pytest.raises(Defer):
            await pipeline.hear(PLANNED)


async def test_a_body_without_a_text_is_not_understood(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        await pipeline.hear("")
    assert "stage_unparsed" in pipeline.types()


async def test_its_mail_to_the_dead_is_nothing_to_the_lead(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path, BEGUN) as pipeline:
        await pipeline.hear("x", sender="queue_monitor", type_="dead_letter")
        assert not pipeline.facts


async def test_a_turn_taken_by_the_conduct_is_what_reports_are_heard_against(tmp_path: Path) -> None:
    async with pipeline_under_test(tmp_path) as pipeline:
        with pytest.raises(Refuse):
            await pipeline.hear(PLANNED)
        await pipeline.executor.decide("A-1", partial(decisions.turn, now=2.0), carry_out=True)
        await pipeline.hear(PLANNED)
        assert pipeline.story.state is StoryState.STAGE_1
