"""Starting, stopping, waking and looking in on a worker that lives, with the real daemon and a real child."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.acceptance.teams import Team, running

if TYPE_CHECKING:
    from pathlib import Path

WORKER = """
import sys, time
from pathlib import Path
from ackd.worker import Task, run

def work(task: Task) -> None:
    print("working on", task.task_id, file=sys.stderr, flush=True)
    while "wait" in str(task.body) and not Path("go").exists():
        time.sleep(0.02)

run(work)
"""
CODER = f"""
[agents.coder]
endpoint = "process"
command = ["{sys.executable}", "worker.py"]
[agents.leader]
"""


def coder_in(place: Path) -> Team:
    team = Team(place, CODER)
    (team.place / "worker.py").write_text(WORKER)
    return team


def answers(team: Team, *words: str, code: int = 0) -> Any:
    done = team.ackd(*words, "--json", "--timeout", "60")
    assert done.returncode == code, (done.stdout, done.stderr)
    (said,) = json.loads(done.stdout)["answers"]
    return said["answer"]


def pid_of(team: Team) -> int | None:
    detail = str(team.status()["agents"]["coder"].get("detail", ""))
    return int(detail.removeprefix("pid ")) if detail.startswith("pid ") else None


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_who_is_stopped_stays_so_through_a_crash_of_the_daemon_and_its_mail_waits(tmp_path: Path) -> None:
    team = coder_in(tmp_path)
    with running(team):
        first = team.until(lambda: pid_of(team))
        assert answers(team, "agent", "stop", "coder") == "stopped: its mail waits"
        team.until(lambda: not lives(first))
        message_id = team.send("coder")
        team.fact("message_queued", message=message_id)
        team.kill()
        team.start()
        team.fact("message_told", message=team.send("leader"))
        assert team.status()["agents"]["coder"]["state"] == "paused"
        assert (pid_of(team), team.facts("message_claimed", message=message_id)) == (None, [])
        assert team.facts("escalation") == []  # a person knows
        assert answers(team, "agent", "start", "coder").startswith("started")
        team.fact("message_completed", message=message_id)
        team.until(lambda: pid_of(team) not in (None, first))


def test_a_restart_is_another_process_and_costs_no_message(tmp_path: Path) -> None:
    team = coder_in(tmp_path)
    with running(team):
        first = team.until(lambda: pid_of(team))
        message_id = team.send("coder", body="wait")
        team.fact("message_seen", message=message_id)
        assert answers(team, "agent", "restart", "coder").startswith("restarted")
        assert not lives(first)
        (team.place / "go").touch()
        team.fact("message_completed", message=message_id)
        team.until(lambda: pid_of(team) not in (None, first))
        shown = team.ackd("explain", message_id).stdout
        assert "restarted once" in shown
        assert "restart, asked for by user: restarted" in shown


def test_a_nudge_by_hand_is_a_line_and_one_with_nothing_in_hand_is_refused(tmp_path: Path) -> None:
    team = coder_in(tmp_path)
    with running(team):
        team.until(lambda: pid_of(team))
        assert answers(team, "nudge", "coder", code=1) == "not nudged: it has no message in hand"
        message_id = team.send("coder", body="wait")
        team.fact("message_seen", message=message_id)
        done = f"nudged for {message_id}: status_check and assign written to pid {pid_of(team)}"
        assert answers(team, "nudge", "coder") == done
        assert team.fact("nudge", message=message_id)["by"] == "hand"
        (team.place / "go").touch()
        team.fact("message_completed", message=message_id)


def test_how_it_lives_is_listed(tmp_path: Path) -> None:
    team = coder_in(tmp_path)
    with running(team):
        pid = team.until(lambda: pid_of(team))
        message_id = team.send("coder", body="wait")
        team.fact("message_seen", message=message_id)
        team.until(lambda: team.status()["agents"]["coder"].get("liveness") == "alive")
        for command in (["agent", "list"], ["status"]):
            (row,) = [line for line in team.ackd(*command).stdout.splitlines() if line.startswith("coder")]
            assert row.split()[:4] == ["coder", "process", "busy", "alive"]
            assert f"pid {pid}" in row
            assert " ago " in row
        (team.place / "go").touch()
        team.fact("message_completed", message=message_id)


def test_looking_in_shows_what_it_prints_and_what_becomes_of_its_mail(tmp_path: Path) -> None:
    team = coder_in(tmp_path)
    with running(team):
        team.until(lambda: pid_of(team))
        with (team.place / "seen").open("wb") as out:
            command = [sys.executable, "-m", "ackd", "agent", "attach", "coder"]
            looking = subprocess.Popen(command, cwd=team.place, env=team.environment, stdout=out)
        message_id = team.send("coder")
        team.fact("message_completed", message=message_id)
        team.until(lambda: f"stderr  working on {message_id}" in (team.place / "seen").read_text())
        team.until(lambda: "completed" in (team.place / "seen").read_text())
        looking.send_signal(signal.SIGINT)
        assert looking.wait(60) == 130
