"""More than one daemon on a root: one serves, every other says who does, and no message is run twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.acceptance.teams import Team, running
from tests.faults.grip import NOTE_RUN, WORKER, ends, frozen, running_on, runs
from tests.strays import UNTIL_GO

if TYPE_CHECKING:
    from pathlib import Path


def team_in(place: Path, script: str = NOTE_RUN) -> Team:
    team = Team(place, f"{WORKER}max_in_flight = 4\n")
    team.script("work", script)
    return team


def start_another(team: Team) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ackd", "run"],
        cwd=team.place,
        env=team.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def test_of_several_that_start_at_once_one_serves_and_the_others_say_who(tmp_path: Path) -> None:
    team = team_in(tmp_path)
    ids = [team.post("worker") for _ in range(20)]
    started = [start_another(team) for _ in range(5)]
    try:
        for one in ids:
            team.fact("message_completed", message=one)
        serving = team.status_pid()
        for process in started:
            if process.pid != serving:
                _, said = process.communicate(timeout=60)
                assert process.returncode == 75
                assert len(said.splitlines()) == 1
                assert f"pid {serving}" in said
        assert [process.pid for process in started if process.poll() is None] == [serving]
    finally:
        for process in started:
            process.terminate()
            process.communicate(timeout=60)
    assert sorted(runs(team)) == sorted(ids)
    assert ends(team) == {one: ["completed"] for one in ids}
    assert len(team.facts("session_start")) == len(team.files("logs")) == 1


def test_one_that_is_frozen_still_holds_its_root(tmp_path: Path) -> None:
    """Silent, not gone: it will go on with what it has in hand."""
    with running(team_in(tmp_path)) as team:
        with frozen(team):
            one = team.post("worker")
            second = team.ackd("run")
            assert second.returncode == 75
            assert f"pid {team.pid}" in second.stderr
        team.fact("message_completed", message=one)
        assert runs(team) == [one]
        assert len(team.files("logs")) == 1


def test_the_next_one_may_start_the_moment_the_last_was_killed(tmp_path: Path) -> None:
    """The lock dies with its holder, though the run that the holder started lives on."""
    team = team_in(tmp_path, f"{NOTE_RUN}\n{UNTIL_GO}")
    with running_on(team):
        team.start()
        one = team.post("worker")
        team.until(lambda: runs(team) == [one])
        os.kill(team.pid, signal.SIGKILL)
        assert team.ended() == -signal.SIGKILL
        team.start()
        (tmp_path / "go").touch()
        team.fact("message_completed", message=one)
    assert runs(team) == [one]
    assert ends(team) == {one: ["completed"]}
