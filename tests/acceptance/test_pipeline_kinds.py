"""Stage workers of every kind, and the worker's own side: its stop hook, its flags, its retry."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from ackd.config.site import find_site
from ackd.coordination.pipeline.rules.keepalive import Stay
from ackd.stage import Stage
from tests.acceptance.panes import Panes, fake, panes_in
from tests.acceptance.teams import Team, running
from tests.acceptance.test_pipeline import AGAIN, ALL_PASSED, QUICK, REPORTS, ends, pipeline, results, start, story

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A worker in Python, which reports by the command line.
WORKER = """
import subprocess
from ackd.worker import Task, run

def work(task: Task) -> None:
    subprocess.run(["./report"], check=True)

run(work)
"""
TEXTS = (
    "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4.",
    "Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8.",
    "Stage 2 COMPLETE for A-1. All tasks Done. Story set to To Review.",
    "Stage 3 COMPLETE for A-1. Verdict: PASS. Quality Score: 91/100.",
)


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Panes]:
    with panes_in(tmp_path) as found:
        yield found


def me(stage: int, generation: int) -> dict[str, str]:
    """The environment of a worker."""
    return {"ACKD_STORY": "A-1", "ACKD_STAGE": str(stage), "ACKD_TRY": str(generation)}


def children(place: Path, report: str) -> Team:
    command = json.dumps(["python3", "worker.py"])
    tables = f'[pipeline]\nleave_s = 2\n[pipeline.worker]\nendpoint = "process"\ncommand = {command}\n'
    team = Team(place, tables, quick=QUICK)
    (place / "worker.py").write_text(WORKER)
    team.script("report", f"{REPORTS}{report}")
    return team


def test_children_are_told_once_and_report_by_the_command_line(tmp_path: Path) -> None:
    team = children(tmp_path, '\nackd stage report "$text"')
    with running(team):
        start(team, "A-1")
        ends(team, "A-1", "done")
        team.until(lambda: all(one["settled"] for one in story(team, "A-1")["tries"]))
    assert results(team, "A-1") == ALL_PASSED
    assert len((tmp_path / "runs.txt").read_text().splitlines()) == 4
    assert len(team.facts("child_started")) == 4


#: In any language: it reads its assign, prints its report as it is, and says that it is through, or dies, or goes on.
PRINTS = r"""
import json, os, sys
def hear(kind):
    while (line := json.loads(sys.stdin.readline()))["type"] != kind: pass
    return line
task = hear("assign")
stage, story = os.environ["ACKD_STAGE"], os.environ["ACKD_STORY"]
print("nothing that means anything", flush=True)
if stage == "1":
    print(f"**Stage 1 COMPLETE for {story}.** Verdict: GO", flush=True)  # nearly
    with open("asked.txt", "w") as file:
        file.write(hear("status_check")["payload"]["text"])
    print(f"Status for {story}: Stage 1 EXECUTING. Current step: writing it again.", flush=True)
print(sys.argv[1:][int(stage)], flush=True)
if stage == "2":
    sys.exit(3)  # what it said before it died was its report
if stage == "3":
    print(json.dumps({"type": "complete", "task_id": task["task_id"], "verification_passed": True}), flush=True)
with open("acks.txt", "a") as file:
    file.write(hear("ack")["payload"]["of"] + "\n")
sys.stdin.readline()
"""
#: With the Python that ackd has for stage workers.
IN_PYTHON = """
import os, sys
from ackd.stage import Stage
from ackd.worker import Task, run

def work(task: Task) -> None:
    os.chdir("/")
    stage = Stage.here()
    stage.checkpoint("begun", done=["a"], remaining=["b"])
    assert not stage.may_stop(0).__class__.__name__ == "Leave"
    assert stage.report(sys.argv[1:][stage.stage]).acknowledged
    assert stage.may_stop(0).done

run(work)
"""


@pytest.mark.parametrize("program", [PRINTS, IN_PYTHON], ids=["by its stdout", "by ackd.stage"])
def test_children_report(tmp_path: Path, program: str) -> None:
    command = json.dumps(["python3", "worker.py", *TEXTS])
    leave_s = 60 if program is IN_PYTHON else 1  # heard while it speaks: these do not end by themselves
    tables = f'[pipeline]\nleave_s = {leave_s}\n[pipeline.worker]\nendpoint = "process"\ncommand = {command}\n'
    team = Team(tmp_path, tables, quick=QUICK)
    (tmp_path / "worker.py").write_text(program)
    with running(team):
        start(team, "A-1")
        ends(team, "A-1", "done", 90)
        flags = 4 if program is IN_PYTHON else 0  # its own side writes them, and nobody else
        team.until(lambda: sum(name.endswith(".done") for name in team.files("state/stories/flags")) == flags, 60)
    assert results(team, "A-1") == ALL_PASSED
    assert len(team.facts("child_started")) == 4
    if program is PRINTS:
        (unclear,) = team.facts("stage_unparsed")
        assert unclear["text"] == "**Stage 1 COMPLETE for A-1.** Verdict: GO"
        assert (tmp_path / "asked.txt").read_text() == "Status check: are you still working on Stage 1 for A-1?"
        assert [fact["step"] for fact in team.facts("stage_status")] == ["writing it again"]
        assert "ACK Stage 0 for A-1\n" in (tmp_path / "acks.txt").read_text()


def test_a_child_that_dies_is_a_crash_and_one_that_dies_with_the_daemon_is_not(tmp_path: Path) -> None:
    hangs = (
        f'{AGAIN}[ $ACKD_STAGE$nth != 01 ] && [ $ACKD_STAGE$nth != 02 ] || exec sleep 600\nackd stage report "$text"'
    )
    team = children(tmp_path, hangs)
    with running(team):
        start(team, "A-1")
        runs = tmp_path / "runs.txt"
        team.until(runs.exists)
        os.kill(team.facts("child_started")[0]["pid"], signal.SIGKILL)
        team.until(lambda: len(runs.read_text().splitlines()) == 2)
        team.kill()
        team.start()
        ends(team, "A-1", "done")
    assert results(team, "A-1") == [(0, "crashed"), (0, "lost"), *ALL_PASSED]


def test_panes_get_their_execute_once_and_are_closed_when_their_stage_is_over(panes: Panes, tmp_path: Path) -> None:
    home = json.dumps(str(panes.home()))
    worker = f'endpoint = "tmux"\nprofile = "fake"\nstart = {json.dumps(fake())}\ncwd = {home}\n'
    team = Team(tmp_path, f"{panes.config()}\n[pipeline]\nleave_s = 4\n[pipeline.worker]\n{worker}")
    with running(team):
        start(team, "A-1")
        for stage, text in enumerate(TEXTS):
            agent = f"story-A-1-s{stage}"
            execute = team.until(lambda of=agent: team.facts("stage_execute", agent=of), 60)[0]["message_id"]  # type: ignore[misc]
            team.until(lambda of=execute: team.facts("message_told", message=of), 60)  # type: ignore[misc]
            if stage == 1:
                team.kill()
                team.start()
            if stage == 0:
                shown = panes.run("capture-pane", "-p", "-J", "-t", panes.ids()[0])
            said = team.ackd("stage", "report", text, env=me(stage, stage + 1))
            assert said.returncode == 0, said.stderr
            if stage == 0:  # it has its done flag, and may still have something to say
                left = panes.run("list-panes", "-a", "-F", "#{@ackd_agent}").split()
        ends(team, "A-1", "done")
        team.until(lambda: all(one["settled"] for one in story(team, "A-1")["tries"]), 60)
        team.until(lambda: not panes.ids(), 60)
    assert results(team, "A-1") == ALL_PASSED
    assert "Execute Stage 0 for A-1" in shown
    assert "ackd stage report" in shown
    assert any(mark.endswith("story-A-1-s0.g1") for mark in left)
    # After the kill it is offered again, if that was not on disk yet, and not typed again.
    told = [fact["message_id"] for fact in team.facts("message_told") if not fact["proof"].startswith("told before")]
    executes = [fact["message_id"] for fact in team.facts("stage_execute")]
    assert [told.count(one) for one in executes] == [1, 1, 1, 1]


def test_what_is_typed_in_a_workers_pane_knows_whose_it_is_and_a_pane_that_dies_is_a_crash(
    panes: Panes, tmp_path: Path
) -> None:
    worker = 'endpoint = "tmux"\nprofile = "shell"\nstart = "sh"\n'
    team = Team(tmp_path, f"{panes.config()}\n[pipeline]\nleave_s = 3\n[pipeline.worker]\n{worker}")

    def pane_of(nth: int) -> str:
        execute = team.until(lambda: team.facts("stage_execute")[nth : nth + 1], 60)[0]
        team.until(lambda: team.facts("message_told", message=execute["message_id"]), 60)
        mark = f"{execute['agent']}.g{execute['generation']}"
        found = panes.run("list-panes", "-a", "-F", "#{pane_id} #{@ackd_agent}").splitlines()
        return next(line.split()[0] for line in found if line.endswith(mark))

    with running(team):
        start(team, "A-1")
        panes.kill(pane_of(0))
        for stage, text in enumerate(TEXTS):
            pane = pane_of(stage + 1)
            panes.run("send-keys", "-t", pane, "-l", f"ackd stage report --wait 30 '{text}'; ackd hook keepalive")
            panes.run("send-keys", "-t", pane, "Enter")
        ends(team, "A-1", "done", 60)
        team.until(lambda: all(one["settled"] for one in story(team, "A-1")["tries"]), 60)
        team.until(lambda: not panes.ids(), 60)
        flags = [name for name in team.files("state/stories/flags") if name.endswith(".done")]
    assert results(team, "A-1") == [(0, "crashed"), *ALL_PASSED]
    assert flags == [f"story-A-1-s{stage}.g{stage + 2}.done" for stage in range(4)]


def test_the_done_flag_is_not_written_before_the_report_was_received(tmp_path: Path) -> None:
    """A report waits while the daemon is away; the hook keeps its worker, and the flag comes after the ACK."""
    team = pipeline(tmp_path, '\n[ $ACKD_STAGE != 0 ] || sleep 600; echo "$text"', keys="max_parallel = 1")
    done = team.root / "state/stories/flags/story-A-1-s0.g1.done"
    with running(team):
        start(team, "A-1")
        team.until((tmp_path / "runs.txt").exists)
        hook = ("hook", "keepalive", "--wait", "0")
        early = team.ackd(*hook, env=me(0, 1))
        team.kill()
        waits = team.ackd("stage", "report", "--wait", "0.3", TEXTS[0], env=me(0, 1))
        held = team.ackd(*hook, env=me(0, 1))
        assert not done.exists()
        team.start()
        team.until(lambda: story(team, "A-1")["tries"][0]["acked_at"])
        after = team.ackd(*hook, env=me(0, 1))
        nobody = team.ackd(*hook)
        ends(team, "A-1", "done")
    assert (early.returncode, waits.returncode, held.returncode, after.returncode, nobody.returncode) == (
        2,
        75,
        2,
        0,
        0,
    )
    assert "has no report yet" in early.stderr
    assert "not acknowledged yet" in held.stderr
    assert done.exists()


def test_a_lost_report_is_recovered_by_the_status_check_and_one_retry(tmp_path: Path) -> None:
    """pipeline-lead, "Lost Message Recovery": no ACK, the hook keeps the worker, the lead asks, it sends once more."""
    script = """
[ $ACKD_STAGE = 0 ] || { echo "$text"; exit; }
ackd stage report --wait 0 "$text"
until ackd hook keepalive --wait 1 2>>held.txt; do
  ! grep -q "status check" held.txt || [ -f sent ] || { touch sent; ackd stage report --wait 0 "$text"; }
done
"""
    team = pipeline(tmp_path, script, keys="report_patience_s = 2", leave_s=20)
    with running(team):
        team.ackd("agent", "pause", "pipeline-lead")  # its mail lies there, and is lost before it is read
        start(team, "A-1")
        (report,) = team.until(lambda: list((team.root / "queue/pipeline-lead").glob("*.mime")), 120)
        report.unlink()
        team.ackd("agent", "resume", "pipeline-lead")
        check = team.until(lambda: team.facts("stage_check"))[0]
        ends(team, "A-1", "done")
        team.until(
            (team.root / "state/stories/flags/story-A-1-s0.g1.done").exists
        )  # its own side's, when its hook looks
    assert check["why"] == "held"
    assert results(team, "A-1") == ALL_PASSED


def test_a_worker_that_is_never_answered_is_let_go(tmp_path: Path) -> None:
    """The endless idle loop: without any daemon the hook says "stay" so often, and no more."""
    team = pipeline(tmp_path, "\nsleep 600")
    with running(team):
        start(team, "A-1")
        team.until((tmp_path / "runs.txt").exists)
        team.stop()
        hook = ("hook", "keepalive", "--wait", "0")
        first = team.ackd(*hook, env=me(0, 1)).returncode
        itself = Stage(find_site(None, str(tmp_path / "ackd.toml")), "A-1", 0, 1)  # what the command is made of
        stays = [isinstance(itself.may_stop(0), Stay) for _ in range(18)]
        last = [team.ackd(*hook, env=me(0, 1)).returncode for _ in range(2)]
    assert (first, stays, last) == (2, [True] * 18, [2, 0])


def test_what_the_lead_would_not_understand_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    team = pipeline(tmp_path, "\nsleep 600")
    with running(team):
        start(team, "A-1")
        team.until((tmp_path / "runs.txt").exists)
        near = team.ackd("stage", "report", "Stage 0 complete for A-1.", env=me(0, 1))
        other = team.ackd("stage", "report", TEXTS[1], env=me(0, 1))
        nobody = team.ackd("stage", "status", "reading")
        stranger = team.send("pipeline-lead", "--from", "user", body=TEXTS[0])
        assert "user is no worker of a story" in team.fact("message_dead", message=stranger)["reason"]
    assert (near.returncode, other.returncode, nobody.returncode) == (65, 65, 2)
    assert "closest is 'Stage 0 COMPLETE': at character 9" in near.stderr
    assert results(team, "A-1")[0][1] is None
