"""Stage workers that do something wrong, and what becomes of their stories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.acceptance.teams import Team, running
from tests.acceptance.test_pipeline import AGAIN, ALL_PASSED, QUICK, ends, pipeline, results, start, story
from tests.faults.grip import passed
from tests.queue_mail import queue_mail

if TYPE_CHECKING:
    from pathlib import Path

PRINT = '\necho "$text"'


def user_mail(team: Team) -> str:
    return "\n".join(queue_mail(team.root, "user").values())


def test_a_crash_is_respawned_once_and_then_a_person_is_told(tmp_path: Path) -> None:
    team = pipeline(
        tmp_path, f"{AGAIN}[ $ACKD_STAGE$nth != 11 ] && [ $ACKD_STORY$ACKD_STAGE != B-12 ] || exit 3{PRINT}"
    )
    with running(team):
        start(team, "A-1", "B-1")
        ends(team, "A-1", "done")
        paused = ends(team, "B-1", "paused")
        team.until(lambda: "story B-1 is paused" in user_mail(team))
    assert results(team, "A-1") == [(0, "COMPLETE"), (1, "crashed"), (1, "GO"), (2, "COMPLETE"), (3, "PASS")]
    assert [one for one in results(team, "B-1") if one[0] == 2] == [(2, "crashed")] * 2
    assert "stage 2 failed in 2 of 2 tries, the last with it ended without a report (exit 3)" in paused["reason"]


def test_a_worker_reports_by_the_command_line_and_waits_for_its_ack(tmp_path: Path) -> None:
    """Wherever it stands: its flags are found by the environment. The done flag follows the ACK."""
    script = '\nmkdir -p elsewhere/deep; cd elsewhere/deep; ackd stage report "$text" >>../../said.txt; echo $? >>../../said.txt'
    team = pipeline(tmp_path, script)
    with running(team):
        start(team, "A-1")
        ends(team, "A-1", "done")
        team.until(lambda: (tmp_path / "said.txt").read_text().count("\n") == 8)
        flags = team.files("state/stories/flags")
    said = (tmp_path / "said.txt").read_text()
    assert said == "".join(f"ACK Stage {stage} for A-1\n0\n" for stage in range(4))
    assert [name for name in flags if name.endswith((".active", ".done"))] == [
        f"story-A-1-s{stage}.g{stage + 1}.{kind}" for stage in range(4) for kind in ("active", "done")
    ]
    assert not list((tmp_path / "elsewhere").rglob("*.flag"))
    acks = [fact["message_id"] for fact in team.facts("stage_ack")]
    assert len(acks) == len(set(acks)) == 4


def test_flags_do_not_depend_on_the_working_directory(tmp_path: Path) -> None:
    """A worker that has gone far away, to another team even, reports to its own lead and has its flag there."""
    other = tmp_path / "elsewhere"
    team = pipeline(
        tmp_path / "team",
        f'\ncd {other}; ackd stage report "$text"; ackd hook keepalive; echo $? >>hook.txt',
        leave_s=60,
    )
    Team(other, '[pipeline.worker]\ncommand = ["false"]\n')
    with running(team):
        start(team, "A-1")
        ends(team, "A-1", "done")
        team.until(lambda: (other / "hook.txt").exists() and (other / "hook.txt").read_text() == "0\n" * 4, 60)
        assert team.files("state/stories/flags").count("story-A-1-s3.g4.done") == 1
    assert not (other / ".ackd").exists()
    assert sorted(path.name for path in other.iterdir()) == ["ackd.toml", "hook.txt"]


def test_no_two_workers_are_spawned_for_one_stage(tmp_path: Path) -> None:
    """Not by a report that comes five times at once, not by a kill in the middle of it, not by a hand that resumes."""
    script = """
[ $ACKD_STAGE = 0 ] || { [ $ACKD_STAGE != 1 ] || until [ -f go ]; do sleep 0.1; done; echo "$text"; exit; }
for n in 1 2 3 4 5; do ackd stage report --wait 0 "$text" & done; wait; echo "$text"
"""
    team = pipeline(tmp_path, script)
    with running(team):
        start(team, "A-1")
        team.until(lambda: len(results(team, "A-1")) == 2)
        team.kill()
        assert team.ackd("story", "resume", "A-1").returncode == 1
        team.start()
        # However many of them it got to say before it had to leave: each is heard before the next stage goes on.
        team.until(lambda: len(team.facts("stage_report", agent="story-A-1-s0")) >= 2)
        team.until(lambda: not [name for name in team.files("queue/pipeline-lead") if name.endswith(".mime")])
        (tmp_path / "go").touch()
        ends(team, "A-1", "done")
    # One whose worker was not begun yet as the daemon died is lost, and begun anew.
    assert [one for one in results(team, "A-1") if one[1] != "lost"] == ALL_PASSED
    begun = [line.split()[:2] for line in (tmp_path / "runs.txt").read_text().splitlines()]
    assert begun == [["A-1", str(stage)] for stage in range(4)]


def test_a_story_that_is_started_again_begins_anew(tmp_path: Path) -> None:
    team = pipeline(tmp_path, f"\n[ $ACKD_TRY != 5 ] || env >env.txt{PRINT}")
    with running(team):
        start(team, "A-1")
        ends(team, "A-1", "done")
        team.until(lambda: all(one["settled"] for one in story(team, "A-1")["tries"]))
        assert team.ackd("story", "start", "A-1").returncode == 1
        start(team, "A-1", "--again")
        late = {"ACKD_STORY": "A-1", "ACKD_STAGE": "0", "ACKD_TRY": "1"}
        ends(team, "A-1", "done")
        assert team.ackd("stage", "status", "still here", env=late).returncode == 66
        old = ("send", "pipeline-lead", "--from", "story-A-1-s0", "--body")
        content = "Stage 0 COMPLETE for A-1. 9 tasks created. Plan score: 1/4."
        assert team.ackd(*old, f"content: {json.dumps(content)}\ngeneration: 1\n").returncode == 0
        team.until(lambda: "late" in [fact["heard"] for fact in team.facts("stage_report")])
    assert results(team, "A-1") == ALL_PASSED
    assert [one["generation"] for one in story(team, "A-1")["tries"]] == [5, 6, 7, 8]
    assert "ACKD_CHECKPOINT" not in (tmp_path / "env.txt").read_text()
    assert not team.facts("message_dead")


def test_error_texts_are_parsed_and_the_details_kept(tmp_path: Path) -> None:
    fails = '[ $ACKD_STAGE != 2 ] || { echo "Stage 2 ERROR for $ACKD_STORY: build: exit 2. See log."; exit 1; }'
    team = pipeline(tmp_path, f"\n{fails}{PRINT}")
    with running(team):
        start(team, "A-1")
        paused = ends(team, "A-1", "paused")
    assert results(team, "A-1")[-2:] == [(2, "ERROR"), (2, "ERROR")]
    assert paused["reason"].endswith("ERROR: build: exit 2. See log.")
    assert not team.facts("stage_unparsed")


def test_no_go_and_fail_use_their_budgets(tmp_path: Path) -> None:
    words = """
[ $ACKD_STORY$ACKD_STAGE$nth != A-111 ] || text="Stage 1 COMPLETE for A-1. Verdict: NO-GO. Readiness: 3. Reason: no tests"
[ $ACKD_STORY$ACKD_STAGE != B-13 ] || text="Stage 3 COMPLETE for B-1. Verdict: FAIL. Quality Score: 9/100. Issues: all"
"""
    team = pipeline(tmp_path, f"{AGAIN}{words}{PRINT}")
    with running(team):
        start(team, "A-1", "B-1")
        ends(team, "A-1", "done")
        ends(team, "B-1", "paused")
    assert [one for one in results(team, "A-1") if one[0] == 1] == [(1, "NO-GO"), (1, "GO")]
    assert results(team, "B-1")[2:] == [(2, "COMPLETE"), (3, "FAIL")] * 3


def test_a_worker_that_cannot_be_started_pauses_the_story_and_the_report_is_acknowledged(tmp_path: Path) -> None:
    team = pipeline(tmp_path, f"\nrm -f work{PRINT}")
    with running(team):
        start(team, "A-1")
        paused = ends(team, "A-1", "paused")
        team.fact("stage_ack")
    assert "the worker of stage 1 cannot be started: no program ./work" in paused["reason"]
    assert results(team, "A-1") == [(0, "COMPLETE"), (1, "not started")]


def test_garbage_is_asked_about_and_a_clear_status_continues(tmp_path: Path) -> None:
    script = f"""
if [ $ACKD_STAGE = 0 ]; then
  ackd send pipeline-lead --body "I am done!"
  until [ -f go ]; do sleep 0.1; done
  ackd stage status --doing WAITING for the go
fi{PRINT}"""
    team = pipeline(tmp_path, script)
    with running(team):
        start(team, "A-1")
        unparsed = team.fact("stage_unparsed")
        team.fact("stage_check")
        (tmp_path / "go").touch()
        ends(team, "A-1", "done")
    assert unparsed["text"] == "I am done!"
    assert "closest is 'Stage 0 COMPLETE': at character 1 " in unparsed["why"]
    assert team.facts("stage_status")[0]["step"] == "for the go"
    assert results(team, "A-1") == ALL_PASSED


def test_garbage_twice_pauses_the_story(tmp_path: Path) -> None:
    script = '\nackd send pipeline-lead --body "done"; ackd send pipeline-lead --body "really"; sleep 600'
    team = pipeline(tmp_path, script)
    with running(team):
        start(team, "A-1")
        paused = ends(team, "A-1", "paused")
        team.until(lambda: story(team, "A-1")["tries"][0]["settled"])
        assert "was not understood twice" in paused["reason"]
        (ended,) = team.facts("child_ended")
    assert ended["outcome"] == "stopped"
    assert results(team, "A-1") == [(0, "not understood")]


def test_a_near_miss_on_a_commands_stdout_is_asked_about_and_it_can_see_the_question(tmp_path: Path) -> None:
    script = """
if [ $ACKD_STAGE = 0 ]; then
  echo "**Stage 0 COMPLETE for A-1.** 3 tasks created"
  ackd stage check --wait 60 >asked.txt && [ -f "$ACKD_STATUS_CHECK" ] || exit 1
  echo "Status for A-1: Stage 0 EXECUTING. Current step: saying it again."
  while [ -f "$ACKD_STATUS_CHECK" ]; do sleep 0.1; done
elif [ $ACKD_STAGE = 1 ]; then
  text="Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 85. Agents: codex(2/3),gemini(1/2)."
elif [ $ACKD_STAGE = 2 ]; then
  echo "Stage 2 COMPLETE for A-1. All tasks Done"
  exit
fi
echo "$text"
"""
    team = pipeline(tmp_path, script)
    with running(team):
        start(team, "A-1")
        paused = ends(team, "A-1", "paused")
        team.until(lambda: "it said: Stage 2 COMPLETE for A-1. All tasks Done" in user_mail(team))
        shown = team.ackd("story", "show", "A-1").stdout
    assert results(team, "A-1") == [(0, "COMPLETE"), (1, "GO"), (2, "not understood")]
    raw = [fact["text"] for fact in team.facts("stage_unparsed")]
    assert raw == ["**Stage 0 COMPLETE for A-1.** 3 tasks created", "Stage 2 COMPLETE for A-1. All tasks Done"]
    assert (tmp_path / "asked.txt").read_text() == "Status check: are you still working on Stage 0 for A-1?\n"
    assert team.facts("stage_status")[0]["step"] == "saying it again"
    assert paused["reason"].startswith("it was not understood, and ended: ")
    assert paused["reason"].endswith("(exit 0); it said: Stage 2 COMPLETE for A-1. All tasks Done")
    assert "stage 1, try 2: GO, score 85, agents codex(2/3),gemini(1/2)" in shown


def test_a_command_that_says_what_is_no_report_and_goes_on_is_ended_for_it_if_its_table_says_so(tmp_path: Path) -> None:
    script = '\necho "Stage $ACKD_STAGE complete soon"; sleep 600'
    team = pipeline(tmp_path, script, worker="probe_timeout_s = 0.2\n")
    with running(team):
        start(team, "A-1")
        paused = ends(team, "A-1", "paused")
    assert paused["reason"].endswith("did not answer the status check; it said: Stage 0 complete soon")


def test_a_command_that_says_what_is_no_report_and_goes_on_is_not_ended_for_it(tmp_path: Path) -> None:
    """A command may never look for a status check, and be at work all the same: its end decides."""
    script = '\necho "Stage $ACKD_STAGE complete soon"; until [ $ACKD_STAGE != 0 ] || [ -f go ]; do sleep 0.1; done\necho "$text"'
    team = pipeline(tmp_path, script, quick=f"{QUICK}[liveness]\nprobe_timeout_s = 0.2\n")
    with running(team):
        start(team, "A-1")
        team.fact("stage_check")
        looked = len(team.facts("stage_check"))
        team.until(lambda: team.ackd("stage", "check", env={"ACKD_AGENT": "story-A-1-s0"}).returncode == 0)
        passed(team, 1.5)
        assert (looked, story(team, "A-1")["state"]) == (1, "stage_0")
        (tmp_path / "go").touch()
        ends(team, "A-1", "done")
    assert results(team, "A-1") == ALL_PASSED


def test_a_quiet_worker_is_asked_and_then_replaced_and_its_late_report_changes_nothing(tmp_path: Path) -> None:
    """The old one is ended before the new one begins; a word of it that comes later is acknowledged, not processed."""
    script = f"""
if [ $ACKD_STAGE$nth = 01 ]; then
  env -u ACKD_RUN setsid sh -c 'until [ -f go ]; do sleep 1; done; ackd stage report --wait 20 "$0" >late.txt' "$text" &
  sleep 600
fi
[ $ACKD_STAGE != 1 ] || until [ -s late.txt ]; do touch go; sleep 0.1; done{PRINT}"""
    team = pipeline(tmp_path, f"{AGAIN}{script}", worker="heartbeat_timeout_s = 2\nprobe_timeout_s = 1\n")
    with running(team):
        start(team, "A-1")
        ends(team, "A-1", "done")
    assert results(team, "A-1") == [(0, "silent"), *ALL_PASSED]
    assert (tmp_path / "late.txt").read_text() == "ACK Stage 0 for A-1\n"
    assert "late" in [fact["heard"] for fact in team.facts("stage_report")]


def test_a_report_that_comes_twice_is_processed_once_and_acknowledged_twice(tmp_path: Path) -> None:
    script = '\nackd stage report "$text" >>said.txt; ackd stage report "$text" >>said.txt; echo "$text"'
    team = pipeline(tmp_path, f"\n[ $ACKD_STAGE != 3 ] || {{ {script}\nexit; }}{PRINT}", leave_s=10)
    with running(team):
        start(team, "A-1")
        ends(team, "A-1", "done")
        team.until(lambda: (tmp_path / "said.txt").read_text() == "ACK Stage 3 for A-1\n" * 2)
        team.until(lambda: len(team.facts("stage_ack", agent="story-A-1-s3")) >= 2)
    assert results(team, "A-1") == ALL_PASSED
    assert [fact["heard"] for fact in team.facts("stage_report", agent="story-A-1-s3")][:2] == [
        "processed",
        "duplicate",
    ]


def test_the_lead_remembers_its_stories_through_kills_and_workers_that_outlive_it(tmp_path: Path) -> None:
    script = f"\n[ $ACKD_STAGE != 1 ] || until [ -f go ]; do sleep 0.1; done{PRINT}"
    team = pipeline(tmp_path, script)
    with running(team):
        start(team, "A-1")
        team.until(lambda: (tmp_path / "runs.txt").exists() and "A-1 1 2" in (tmp_path / "runs.txt").read_text())
        team.kill()
        start(team, "B-1", "--after", "A-1")
        team.start()
        (tmp_path / "go").touch()
        ends(team, "B-1", "done")
    assert results(team, "A-1") == results(team, "B-1") == ALL_PASSED
    runs = (tmp_path / "runs.txt").read_text().splitlines()
    assert runs == [f"{one} {stage} {stage + 1}" for one in ("A-1", "B-1") for stage in range(4)]


def test_what_a_worker_printed_while_nobody_looked_is_heard_at_the_next_start(tmp_path: Path) -> None:
    team = pipeline(tmp_path, f"\n[ $ACKD_STAGE != 0 ] || until [ -f go ]; do sleep 0.1; done{PRINT}\ntouch over")
    with running(team):
        start(team, "A-1")
        team.until((tmp_path / "runs.txt").exists)
        team.kill()
        (tmp_path / "go").touch()
        team.until((tmp_path / "over").exists)
        team.start()
        ends(team, "A-1", "done")
    assert results(team, "A-1") == ALL_PASSED


def test_a_clean_stop_ends_workers_and_the_stage_begins_anew_uncounted(tmp_path: Path) -> None:
    team = pipeline(tmp_path, f"\n[ $ACKD_STAGE != 0 ] || [ -f go ] || sleep 600{PRINT}")
    with running(team):
        start(team, "A-1")
        team.until((tmp_path / "runs.txt").exists)
        team.stop()
        (tmp_path / "go").touch()
        team.start()
        ends(team, "A-1", "done")
    assert results(team, "A-1") == [(0, "lost"), *ALL_PASSED]


def test_a_respawned_worker_is_given_the_checkpoint(tmp_path: Path) -> None:
    script = f"""
if [ $ACKD_STAGE$nth = 21 ]; then ackd stage checkpoint --done one --remaining two "half way"; exit 1; fi
[ $ACKD_STAGE != 2 ] || cp "$ACKD_CHECKPOINT" given.json; cat >execute-$ACKD_STAGE-$nth.txt{PRINT}"""
    team = pipeline(tmp_path, f"{AGAIN}{script}")
    with running(team):
        start(team, "A-1")
        ends(team, "A-1", "done")
    given = json.loads((tmp_path / "given.json").read_text())
    told = (given["story"], given["stage"], given["worker"], given["tasks_done"], given["tasks_remaining"])
    assert told == ("A-1", 2, "story-A-1-s2", ["one"], ["two"])
    assert given["last_action"] == "half way"
    execute = (tmp_path / "execute-2-2.txt").read_text()
    assert "content: Execute Stage 2 for A-1" in execute
    assert "summary: A-1 -> Stage 2" in execute
    assert "half way" in execute


def test_stories_are_paused_resumed_and_cancelled_by_hand(tmp_path: Path) -> None:
    team = pipeline(tmp_path, f"\nuntil [ -f go ]; do sleep 0.1; done{PRINT}", keys="max_parallel = 1")
    with running(team):
        start(team, "A-1", "B-1", "C-1")
        start(team, "D-1", "--after", "B-1")
        team.until((tmp_path / "runs.txt").exists)
        assert story(team, "B-1")["state"] == "waiting"
        assert team.ackd("story", "pause", "A-1").returncode == 0
        assert team.ackd("story", "cancel", "B-1").returncode == 0
        team.until(lambda: story(team, "A-1")["tries"][0]["settled"])
        ends(team, "D-1", "paused")
        (tmp_path / "go").touch()
        assert team.ackd("story", "resume", "A-1").returncode == 0
        ends(team, "A-1", "done")
        ends(team, "C-1", "done")
        assert team.ackd("story", "resume", "A-1").returncode == 1
        assert team.ackd("story", "start", "A-1").returncode == 1
        assert team.ackd("story", "show", "Z-9").returncode == 66
        assert team.ackd("story", "start", "../x").returncode == 65
    assert results(team, "A-1") == [(0, "stopped"), *ALL_PASSED]
    assert story(team, "D-1")["reason"] == "B-1, which it comes after, was cancelled"
    # What a person did is in the log as what the lead did is.
    states = [(fact["story"], fact["state"], fact.get("reason")) for fact in team.facts("story_state")]
    assert states.count(("A-1", "paused", "paused by user")) == 1
    assert states.count(("B-1", "cancelled", "cancelled by user")) == 1
    assert states.count(("A-1", "waiting", None)) == 2
    assert team.facts("stage_ended", agent="story-A-1-s0")[0]["result"] == "stopped"
