"""Stories through four stages, with the real daemon and real workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.acceptance import teams
from tests.acceptance.teams import Team, running

#: A stop does not wait for workers that have nothing left to say.
QUICK = teams.QUICK.replace("drain_timeout_s = 5", "drain_timeout_s = 0.3")

#: What a worker says when all is well, for the stage it was started for.
REPORTS = r"""
case $ACKD_STAGE in
0) text="Stage 0 COMPLETE for $ACKD_STORY. 3 tasks created. Plan score: 4/4." ;;
1) text="Stage 1 COMPLETE for $ACKD_STORY. Verdict: GO. Readiness: 8." ;;
2) text="Stage 2 COMPLETE for $ACKD_STORY. All tasks Done. Story set to To Review." ;;
3) text="Stage 3 COMPLETE for $ACKD_STORY. Verdict: PASS. Quality Score: 91/100." ;;
esac
echo "$ACKD_STORY $ACKD_STAGE $ACKD_TRY" >>runs.txt
"""


def pipeline(
    place: Path, script: str, *, keys: str = "", worker: str = "", quick: str = QUICK, leave_s: float = 1
) -> Team:
    tables = f'[pipeline]\nleave_s = {leave_s}\n{keys}\n[pipeline.worker]\ncommand = ["./work"]\n{worker}'
    team = Team(place, tables, quick=quick)
    team.script("work", REPORTS + script)
    return team


def story(team: Team, story_id: str) -> dict[str, Any]:
    found = json.loads((team.root / f"state/stories/{story_id}.json").read_text())
    assert isinstance(found, dict)
    return found


def results(team: Team, story_id: str) -> list[tuple[int, str]]:
    return [(one["stage"], one["result"]) for one in story(team, story_id)["tries"]]


def start(team: Team, *words: str) -> None:
    done = team.ackd("story", "start", *words)
    assert done.returncode == 0, done.stderr


def ends(team: Team, story_id: str, state: str, patience_s: float = 120.0) -> dict[str, Any]:
    team.until(lambda: story(team, story_id)["state"] == state, patience_s)
    return story(team, story_id)


#: For a script: how often this stage of this story was begun, with this time.
AGAIN = '\nnth=$(grep -c "^$ACKD_STORY $ACKD_STAGE " runs.txt)\n'
ALL_PASSED = [(0, "COMPLETE"), (1, "GO"), (2, "COMPLETE"), (3, "PASS")]


def test_the_first_story_of_a_team_begins_when_it_is_started(tmp_path: Path) -> None:
    never = QUICK.replace("reconcile_interval_s = 1", "reconcile_interval_s = 3600")
    team = pipeline(tmp_path, 'echo "$text"', quick=never)
    with running(team):
        assert "stories" in team.files("state")
        start(team, "PROJ-1")
        ends(team, "PROJ-1", "done")


def test_a_story_goes_through_four_stages_by_what_its_workers_print(tmp_path: Path) -> None:
    team = pipeline(tmp_path, 'echo working; echo "$text"; echo bye')
    with running(team):
        start(team, "PROJ-1")
        ends(team, "PROJ-1", "done")
        team.until(lambda: all(one["settled"] for one in story(team, "PROJ-1")["tries"]))
        assert results(team, "PROJ-1") == ALL_PASSED
        board = team.ackd("story", "list")
        listed = json.loads(team.ackd("story", "list", "--json").stdout)["stories"]
        shown = team.ackd("story", "show", "PROJ-1").stdout
        watched = team.ackd("story", "list", "--watch")
        team.until(lambda: not team.status()["totals"]["in_flight"])
        assert team.ackd("check").returncode == 0
        team.stop()
        team.start()
        assert not list((team.root / "queue").glob("story-*"))  # its workers' queues went with it
    assert (tmp_path / "runs.txt").read_text() == "PROJ-1 0 1\nPROJ-1 1 2\nPROJ-1 2 3\nPROJ-1 3 4\n"
    assert "PASS 91" in board.stdout
    assert listed[0]["stages"][1] | {"seconds": 0} == {
        "stage": 1,
        "tries": 1,
        "seconds": 0,
        "result": "GO",
        "score": "8",
    }
    assert "stage 3, try 4: PASS, score 91" in shown
    assert "1 story: 1 done" in watched.stdout
    assert team.facts("story_done")[0]["story"] == "PROJ-1"
    # Nothing of its mail was left open, dead, warned of or escalated.
    assert not team.facts("message_dead", "message_warning", "escalation", "message_retry", "io_error")


def test_the_example_takes_stories_from_a_plan_to_a_review(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "config/examples"
    team = Team(tmp_path)
    (tmp_path / "ackd.toml").write_text((example / "pipeline.toml").read_text())
    (tmp_path / "stage.sh").write_text((example / "stage.sh").read_text())
    (tmp_path / "stories").mkdir()
    (tmp_path / "stories/PROJ-1.md").write_text("- write it\n- test it\n")
    (tmp_path / "stories/PROJ-2.md").write_text("no tasks\n")
    team.script("build", 'echo "built $1" >>built.txt')
    team.script("verify", "wc -l <built.txt | sed 's/.*/4&/; s/42/85/'")
    with running(team):
        start(team, "PROJ-1", "PROJ-2", "PROJ-3")
        ends(team, "PROJ-1", "done")
        reasons = [ends(team, one, "paused")["reason"] for one in ("PROJ-2", "PROJ-3")]
    assert results(team, "PROJ-1")[2:] == [(2, "COMPLETE"), (3, "FAIL"), (2, "COMPLETE"), (3, "PASS")]
    assert "Reason: " not in reasons[0]
    assert reasons[0].endswith("NO-GO: stories/PROJ-2.md has no tasks")
    assert reasons[1].endswith("ERROR: there is no stories/PROJ-3.md")
