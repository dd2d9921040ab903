"""`ackd stop` with the real daemon, started by hand. As a service it is stopped in tests/system_manager."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HELD = '[agents.worker]\nendpoint = "exec"\ncommand = ["./work"]\n'


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    made = Team(tmp_path / "team", HELD)
    made.script("work", "echo run >> runs; until [ -e go ]; do sleep 0.05; done")
    yield made
    (made.place / "go").touch()
    if made.process is not None:
        made.process.kill()
        made.process.wait()


def test_it_ends_the_daemon_and_says_so(team: Team) -> None:
    team.start()
    pid = team.pid
    ended = team.ackd("stop", "--json")
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert (said["pid"], said["unit"], said["agents"]) == (pid, None, [])
    assert team.ended() == 0
    none = team.ackd("stop")
    assert none.returncode == 69
    assert "no daemon runs on" in none.stderr


def test_it_says_whom_it_waits_for_and_a_second_one_waits_on(team: Team) -> None:
    team.start()
    team.post("worker")
    team.until((team.place / "runs").exists)
    first = team.ackd("stop", "--timeout", "0.3")
    assert first.returncode == 75
    assert "`ackd stop --now` ends it at once" in first.stderr
    team.fact("session_stopping")
    assert team.process is not None
    assert team.process.poll() is None
    (team.place / "go").touch()
    assert team.ackd("stop").returncode in (0, 69)  # it may be through already
    assert team.ended() in (0, 128 + signal.SIGTERM)


def test_what_it_waits_for_is_told_at_once(team: Team) -> None:
    team.start()
    team.post("worker")
    team.until((team.place / "runs").exists)
    stop = subprocess.Popen(["ackd", "stop"], cwd=team.place, env=team.environment, stdout=subprocess.PIPE, text=True)
    with stop:
        assert stop.stdout is not None
        told = stop.stdout.readline()
        assert told == "stopping: worker may finish, for at most 5 s (`ackd stop --now` does not wait)\n"
        (team.place / "go").touch()
        assert stop.wait(60) == 0
        assert "has ended after" in stop.stdout.read()
    assert team.ended() == 0


def test_now_leaves_runs_to_the_next_daemon(team: Team) -> None:
    team.start()
    message = team.post("worker")
    team.until((team.place / "runs").exists)
    assert team.ackd("stop", "--now").returncode == 0
    assert team.ended() == 128 + signal.SIGINT
    team.start()
    (team.place / "go").touch()
    team.fact("message_completed", message=message)
    assert (team.place / "runs").read_text() == "run\n"
    team.stop()


def test_a_process_that_only_bears_the_daemons_pid_is_left_alone(team: Team) -> None:
    """The pid in the lock's file may be one of a container, or of before a reboot."""
    run = team.root / "run"
    run.mkdir(parents=True)
    other = subprocess.Popen(["sleep", "600"])
    try:
        fd = os.open(run / "ackd.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        root = os.open(team.root, os.O_RDONLY)
        fcntl.flock(root, fcntl.LOCK_EX)
        os.write(fd, b'{"pid": %d}\n' % other.pid)
        refused = team.ackd("stop")
        assert refused.returncode == 1
        assert "another process here" in refused.stderr
        assert other.poll() is None
    finally:
        os.close(fd)
        os.close(root)
        other.kill()
        other.wait()
