"""The lines of the log about a story, by its record before and after."""

from __future__ import annotations

from ackd.coordination.pipeline.rules.log_lines import by_hand, changes, summary
from ackd.coordination.pipeline.rules.record import Result, Story, Try
from ackd.coordination.pipeline.rules.story import StoryState

BEGUN = Try(1, 0, 10.0)
STORY = Story("A-1", StoryState.STAGE_0, 9.0, tries=(BEGUN,))
ENDED = BEGUN._replace(ended_at=12.5, result=Result.ERROR, detail="disk", report_id="m")


def test_an_end_of_a_try_and_a_change_of_state_are_a_line_each() -> None:
    after = STORY._replace(state=StoryState.PAUSED, tries=(ENDED,), reason="enough")
    assert list(changes(STORY, after)) == [
        (
            "stage_ended",
            {
                "story": "A-1",
                "stage": 0,
                "agent": "story-A-1-s0",
                "generation": 1,
                "result": "ERROR",
                "seconds": 2.5,
                "detail": "disk",
                "message_id": "m",
            },
        ),
        ("story_state", {"story": "A-1", "state": "paused", "before": "stage_0", "reason": "enough"}),
    ]
    assert list(changes(STORY, STORY)) == []


def test_the_summary_has_times_and_scores_for_each_stage() -> None:
    passed = Try(2, 0, 13.0, ended_at=14.0, result=Result.COMPLETE, score="3.5")
    story = STORY._replace(state=StoryState.DONE, tries=(ENDED, passed), ended_at=14.0)
    assert summary(story).data == {
        "story": "A-1",
        "seconds": 5.0,
        "tries": 2,
        "stages": [{"stage": 0, "tries": 2, "seconds": 3.5, "result": "COMPLETE", "score": "3.5"}],
    }


def test_what_a_person_did_is_told_from_the_record_alone() -> None:
    stopped = BEGUN._replace(ended_at=20.0, result=Result.STOPPED, detail="paused by user")
    paused = STORY._replace(state=StoryState.PAUSED, tries=(stopped,), reason="paused by user", since=20.0)
    assert [type_ for type_, _ in by_hand(paused)] == ["stage_ended", "story_state"]
    resumed = paused._replace(state=StoryState.WAITING, reason="", since=30.0)
    assert list(by_hand(resumed)) == [("story_state", {"story": "A-1", "state": "waiting"})]
