"""Workers of a real daemon that is killed, and workers that are: nothing is left behind, and nothing is lost."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, running
from tests.living import is_gone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Notes every task, starts a process in a session of its own, and completes it unless told to hang.
WORKER = """
import json, os, subprocess, sys, time
def say(type, **fields):
    print(json.dumps({"type": type, **fields}), flush=True)
say("heartbeat")
lost = subprocess.Popen(["setsid", "sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
with open("pids~", "w") as file:
    file.write(f"{os.getpid()} {lost.pid}\\n")
os.rename("pids~", "pids")
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "shutdown":
        sys.exit(0)
    if message["type"] == "assign":
        with open("tasks", "a") as file:
            file.write(message["payload"]["message_id"] + "\\n")
        if os.path.exists("ask"):
            os.remove("ask")
            subprocess.run([sys.executable, "-m", "ackd", "agent", "restart", "smith"])
        while os.path.exists("hang"):
            time.sleep(0.01)
        if os.path.exists("crash"):
            os.remove("crash")
            os._exit(1)
        say("complete", task_id=message["task_id"], verification_passed=True)
"""


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """Its daemon runs, and ends with the test."""
    team = Team(tmp_path, f'[agents.smith]\nendpoint = "process"\ncommand = ["{sys.executable}", "-u", "worker.py"]\n')
    (team.place / "worker.py").write_text(WORKER)
    with running(team):
        yield team


def pids(team: Team) -> tuple[int, int]:
    """Of the worker, and of what it has started."""
    path = team.place / "pids"
    team.until(path.exists)
    worker, lost = path.read_text().split()
    return int(worker), int(lost)


def completed(team: Team) -> set[str]:
    return {fact["message_id"] for fact in team.facts("message_completed")}


def test_no_orphan_after_kill_9_of_the_daemon(team: Team) -> None:
    """The worker dies with it; what the worker had started is ended by the next start, which takes up the work."""
    (team.place / "hang").touch()
    message = team.send("smith")
    team.until((team.place / "tasks").exists)
    worker, lost = pids(team)
    team.kill()
    team.until(lambda: is_gone(worker))
    assert not is_gone(lost)
    (team.place / "hang").unlink()
    (team.place / "pids").unlink()
    team.start()
    assert is_gone(lost)
    team.until(lambda: message in completed(team))
    assert pids(team)[0] != worker
    last = pids(team)
    assert team.stop() == 0
    assert all(map(is_gone, last))


def test_no_orphan_after_a_clean_stop(team: Team) -> None:
    found = pids(team)
    assert team.stop() == 0
    assert all(map(is_gone, found))
    assert list((team.root / "state/children").iterdir()) == []


def test_a_worker_that_is_killed_in_the_middle_gets_its_work_again(team: Team) -> None:
    """FAILURES: a task stuck in_progress on a dead worker blocks everything behind it."""
    (team.place / "hang").touch()
    messages = {team.send("smith"), team.send("smith")}
    team.until((team.place / "tasks").exists)
    worker, lost = pids(team)
    (team.place / "hang").unlink()
    os.kill(worker, signal.SIGKILL)
    team.until(lambda: messages <= completed(team))
    assert is_gone(lost)
    assert team.facts("child_ended")[0]["exit"] == 137


def test_a_worker_may_have_itself_restarted_and_only_itself_is_ended(team: Team) -> None:
    """FAILURES: stop kills its caller. What asks is ended with its worker; the request stands, and the daemon does."""
    before, _ = pids(team)
    (team.place / "pids").unlink()
    asking = team.place / "ask"
    asking.touch()
    message = team.send("smith")
    after, _ = pids(team)
    assert after != before
    team.until(lambda: message in completed(team))
    assert team.process is not None
    assert team.process.poll() is None


def test_a_worker_that_died_leaves_none_of_27_messages_in_silence(team: Team) -> None:
    """FAILURES: a dead waker leaves 27 messages in silence."""
    pids(team)
    (team.place / "crash").touch()
    messages = {team.post("smith") for _ in range(27)}
    team.until(lambda: messages <= completed(team))
    assert len(team.facts("child_ended")) == 1
