"""The tables and texts in which people see stories."""

from __future__ import annotations

from ackd.coordination.pipeline.commands.story_table import closing, moving, page, plain, rows, step_of, why
from ackd.coordination.pipeline.rules.record import Doubt, Result, Story, Try
from ackd.coordination.pipeline.rules.story import StoryState

PLANNED = Try(1, 0, 10.0, ended_at=12.0, result=Result.COMPLETE, score="4", acked_at=12.0)
CRASHED = Try(2, 1, 12.0, ended_at=13.0, result=Result.CRASHED, detail="exit 1")
AT_WORK = Try(3, 1, 13.0, asks=1, asked_at=20.0, doubt=Doubt.QUIET)
STORY = Story("A-1", StoryState.STAGE_1, 10.0, 1, 1, (), (PLANNED, CRASHED, AT_WORK))
WAITS = Story("B-1", StoryState.WAITING, 10.0, 2, after=("A-1",))
PAUSED = Story("C-1", StoryState.PAUSED, 10.0, 3, tries=(PLANNED,), reason="enough")


def test_the_board_has_a_row_for_each_story_and_a_column_for_each_stage() -> None:
    assert rows([STORY, WAITS, PAUSED], 25.0) == [
        ["A-1", "stage_1", "COMPLETE 4", "at work 12 s, asked x2", "-", "-", "15 s", ""],
        ["B-1", "waiting", "-", "-", "-", "-", "15 s", "after A-1"],
        ["C-1", "paused", "COMPLETE 4", "-", "-", "-", "15 s", "enough"],
    ]


def test_who_waits_for_nobody_waits_for_its_turn() -> None:
    assert why(WAITS._replace(after=()), []) == "for its turn"


def test_who_waits_for_a_paused_one_does_not_go_on_by_itself() -> None:
    """If it did, a table that is watched to the end would be watched for ever."""
    assert moving([STORY, WAITS, PAUSED]) == {"A-1", "B-1"}
    behind = WAITS._replace(story_id="D-1", after=("C-1",))
    further = WAITS._replace(story_id="E-1", after=("D-1", "A-1"))
    assert moving([PAUSED, behind, further]) == set()
    done = PAUSED._replace(state=StoryState.DONE)
    assert moving([done, behind, further, STORY._replace(state=StoryState.CANCELLED)]) == {"D-1", "E-1"}
    assert moving([]) == set()


def test_what_a_worker_is_doing_is_on_the_board_and_on_the_page() -> None:
    kept = {"last_action": "tests pass", "tasks_done": ["a"], "tasks_remaining": ["b", "c"]}
    assert step_of(kept) == "tests pass (1 of 3 tasks done)"
    assert step_of({"last_action": "begun", "tasks_done": "x"}) == "begun"
    assert step_of(None) == ""
    assert rows([STORY, WAITS], 25.0, {"A-1": "begun"})[0][-1] == "begun"
    assert page(STORY, [STORY], 25.0, "begun")[-1] == "      begun"
    assert plain(STORY, [STORY], kept)["checkpoint"] == kept


def test_one_story_in_full_has_every_try() -> None:
    assert page(STORY, [STORY], 25.0) == [
        "A-1: stage_1",
        "  stage 0, try 1: COMPLETE, score 4, 2 s, acknowledged",
        "  stage 1, try 2: crashed, 1 s",
        "      exit 1",
        "  stage 1, try 3: at work, 12 s",
    ]
    assert page(WAITS, [STORY], 25.0)[1] == "  comes after A-1"


def test_who_started_a_story_is_shown_and_a_person_needs_no_name() -> None:
    asked = WAITS._replace(started_by="leader")
    assert page(asked, [STORY], 25.0)[1] == "  started by leader"
    assert (plain(asked, [])["started_by"], plain(WAITS, [])["started_by"]) == ("leader", None)


def test_programs_get_the_same_with_numbers() -> None:
    said = plain(STORY, [STORY])
    assert (said["worker"], said["stage"], said["state"]) == ("story-A-1-s1", 1, "stage_1")
    assert plain(PAUSED, [])["worker"] is None


def test_the_summary_at_the_end_has_times_and_scores_per_stage() -> None:
    assert closing([STORY, WAITS, PAUSED]) == [
        "3 stories: 1 waiting, 1 stage_1, 1 paused",
        "  stage 0: 2 tries, 4 s in all, mean score 4.0",
        "  stage 1: 1 try, 1 s in all",
    ]
