"""`ackd story`, without a daemon: what each command does to a story's record, and how it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from ackd.coordination.pipeline.files import StoryFiles
from ackd.coordination.pipeline.rules.record import Result, Story, Try
from ackd.coordination.pipeline.rules.story import StoryState

Team = Any  # conftest.py's: test files do not import each other

DONE = Try(1, 0, 10.0, ended_at=12.0, result=Result.COMPLETE, score="4", report_id="m", acked_at=12.0, settled=True)


@pytest.fixture
def lead(team: Team) -> Team:
    (team.home / "ackd.toml").write_text('[pipeline.worker]\ncommand = ["true"]\n')
    return team


def files(team: Team) -> StoryFiles:
    return StoryFiles(team.root / "state/stories", durable=False)


def record(team: Team, story_id: str) -> Story:
    found = files(team).read(story_id)
    assert found is not None
    return found


def put(team: Team, story: Story) -> None:
    with files(team).locked():
        files(team).write(story)


def test_stories_wait_in_the_order_of_their_start(lead: Team) -> None:
    said = lead.ackd("story", "start", "B-1", "A-1")
    assert (said.exit_code, said.stdout) == (0, "started: B-1, A-1 (waits: no daemon is running)\n")
    assert lead.json("story", "start", "C-1", "--after", "B-1")["daemon_running"] is False
    listed = lead.json("story", "list")["stories"]
    assert [(one["story"], one["state"], one["why"]) for one in listed] == [
        ("B-1", "waiting", "for its turn"),
        ("A-1", "waiting", "for its turn"),
        ("C-1", "waiting", "after B-1"),
    ]
    assert "for its turn" in lead.ackd("story", "list").stdout


def test_who_started_a_story_is_in_its_record_by_the_rule_of_every_command(lead: Team) -> None:
    """The starter is ``--agent``, else ACKD_AGENT, in the agent's own spelling. A person never waits at a prompt."""
    (lead.home / "ackd.toml").write_text(
        '[pipeline.worker]\ncommand = ["true"]\n[agents.team-lead]\n[agents.coder]\nendpoint = "inbox"\n'
    )
    lead.ackd("story", "start", "A-1", env={"ACKD_AGENT": "team_lead"})
    lead.ackd("story", "start", "B-1", "--agent", "coder", env={"ACKD_AGENT": "team_lead"})
    lead.ackd("story", "start", "C-1")
    lead.ackd("story", "start", "D-1", "--agent", "user")
    found = [record(lead, one).started_by for one in ("A-1", "B-1", "C-1", "D-1")]
    assert found == ["team-lead", "coder", None, None]
    assert "started by coder" in lead.ackd("story", "show", "B-1").stdout
    stranger = lead.ackd("story", "start", "E-1", "--agent", "nobody")
    assert (stranger.exit_code, "nobody" in stranger.stderr, record(lead, "A-1").sequence) == (67, True, 1)
    assert "E-1" not in files(lead).ids()


def test_a_story_that_begins_anew_is_waited_for_by_who_started_it_last(lead: Team) -> None:
    put(lead, Story("A-1", StoryState.DONE, 9.0, 1, tries=(DONE,), ended_at=12.0, started_by="leader"))
    assert lead.ackd("story", "start", "A-1", "--again").exit_code == 0
    assert record(lead, "A-1").started_by is None


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["start", "../x"], 65, "cannot be a story's id"),
        (["start", "a-1"], 65, "does not fit"),
        (["start", "A-1", "--after", "Z-1"], 66, "there is no story Z-1"),
        (["start", "A-1", "--after", "A-1"], 65, "cannot come after itself"),
        (["start"], 2, "arguments are required: ID..."),
        (["show", "Z-1"], 66, "there is no story Z-1"),
        (["pause", "Z-1"], 66, "there is no story Z-1"),
        (["resume", "W-1"], 1, "W-1 is waiting: it cannot be resumed"),
        (["start", "W-1"], 1, "W-1 is waiting already"),
        (["start", "W-1", "--again"], 1, "W-1 is waiting already"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_changes_nothing(
    lead: Team, words: list[str], code: int, why: str
) -> None:
    lead.ackd("story", "start", "W-1")
    before = record(lead, "W-1")
    said = lead.ackd("story", *words)
    assert (said.exit_code, why in said.stderr) == (code, True), said.stderr
    assert files(lead).ids() == ["W-1"]
    assert record(lead, "W-1") == before


def test_a_team_without_a_pipeline_has_no_stories(lead: Team) -> None:
    (lead.home / "ackd.toml").write_text("")
    said = lead.ackd("story", "start", "A-1")
    assert (said.exit_code, "[pipeline]" in said.stderr) == (78, True)


def test_pause_resume_and_cancel_change_the_record_and_say_by_whom(lead: Team) -> None:
    lead.ackd("story", "start", "A-1")
    assert lead.ackd("story", "pause", "A-1", env={"ACKD_AGENT": "leader"}).exit_code == 0
    assert (record(lead, "A-1").state, record(lead, "A-1").reason) == (StoryState.PAUSED, "paused by leader")
    assert lead.ackd("story", "resume", "A-1").exit_code == 0
    assert lead.ackd("story", "cancel", "A-1").exit_code == 0
    ended = record(lead, "A-1")
    assert (ended.state, ended.reason, ended.moves, ended.logged) == (StoryState.CANCELLED, "cancelled by user", 4, 0)
    assert lead.ackd("story", "pause", "A-1").exit_code == 1


def test_a_story_that_begins_anew_is_nobodys_of_its_first_life(lead: Team) -> None:
    """Generations go on counting, so no flag, note or late report of the first run counts for the second."""
    put(lead, Story("A-1", StoryState.DONE, 9.0, 1, tries=(DONE,), ended_at=12.0))
    kept = files(lead).keep_checkpoint("A-1", {"story": "A-1", "stage": 0})
    done = lead.ackd("story", "start", "A-1")
    assert (done.exit_code, "--again" in done.stderr) == (1, True)
    assert lead.ackd("story", "start", "A-1", "--again").exit_code == 0
    anew = record(lead, "A-1")
    assert (anew.state, anew.earlier, anew.tries, anew.generation) == (StoryState.WAITING, 1, (), 1)
    assert not kept.exists()


def test_a_story_whose_last_worker_has_not_left_is_not_begun_anew(lead: Team) -> None:
    put(lead, Story("A-1", StoryState.CANCELLED, 9.0, 1, tries=(DONE._replace(settled=False),), ended_at=12.0))
    said = lead.ackd("story", "start", "A-1")
    assert (said.exit_code, "has not left yet" in said.stderr) == (75, True)


def test_stories_that_would_wait_for_each_other_are_refused(lead: Team) -> None:
    put(lead, Story("A-1", StoryState.DONE, 9.0, 1, ended_at=12.0))
    lead.ackd("story", "start", "B-1", "--after", "A-1")
    lead.ackd("story", "start", "C-1", "--after", "B-1")
    said = lead.ackd("story", "start", "A-1", "--again", "--after", "C-1")
    assert (said.exit_code, "A-1 and C-1 would wait for each other" in said.stderr) == (65, True)


def test_the_board_is_watched_until_nothing_goes_on_by_itself(lead: Team) -> None:
    put(lead, Story("A-1", StoryState.DONE, 9.0, 1, 3, tries=(DONE,), ended_at=12.0))
    put(lead, Story("B-1", StoryState.CANCELLED, 9.0, 2, ended_at=12.0))
    said = lead.ackd("story", "list", "--watch")
    assert said.exit_code == 0
    assert said.stdout.splitlines()[-2:] == [
        "2 stories: 1 done, 1 cancelled",
        "  stage 0: 1 try, 2 s in all, mean score 4.0",
    ]
    put(lead, Story("C-1", StoryState.PAUSED, 9.0, 3, reason="enough", pauses=1, escalated=1))
    put(lead, Story("D-1", StoryState.WAITING, 9.0, 4, after=("C-1",)))
    stuck = lead.ackd("story", "list", "--watch")
    assert (stuck.exit_code, "after C-1" in stuck.stdout) == (1, True)
    programs = lead.ackd("story", "list", "--watch", "--json")
    assert (programs.exit_code, programs.stdout.startswith('{"stories": [{')) == (1, True)


def test_a_record_that_cannot_be_read_is_told_of_and_the_others_are_shown(lead: Team) -> None:
    lead.ackd("story", "start", "A-1")
    files(lead).path("B-1").write_text("{")
    said = lead.ackd("story", "list")
    assert (said.exit_code, "the record of story B-1 cannot be read" in said.stderr) == (0, True)
    assert "A-1" in said.stdout
    assert lead.ackd("story", "show", "B-1").exit_code == 65


def test_what_a_worker_is_doing_is_shown(lead: Team) -> None:
    at_work = Try(1, 0, 10.0, executed=True)
    put(lead, Story("A-1", StoryState.STAGE_0, 9.0, 1, tries=(at_work,)))
    said = {"story": "A-1", "stage": 0, "last_action": "reading", "tasks_done": ["a"], "tasks_remaining": ["b"]}
    files(lead).keep_checkpoint("A-1", said)
    assert "reading (1 of 2 tasks done)" in lead.ackd("story", "list").stdout
    assert "reading (1 of 2 tasks done)" in lead.ackd("story", "show", "A-1").stdout
    assert lead.json("story", "show", "A-1")["checkpoint"]["last_action"] == "reading"
