"""Exec agents that do not end as they should: what of theirs is left, and what their message is told."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from ackd.endpoints.exec.run_files import read_status
from tests.acceptance.teams import Team, running
from tests.faults.grip import NOTE_RUN, WORKER, alive, descendants, ends, pids_in, runs
from tests.strays import UNTIL_GO
from tests.waiting import crowd

if TYPE_CHECKING:
    from pathlib import Path

#: A whole tree that ignores TERM: the shell, its child, and a grandchild in a session of its own.
DEAF = f"""
trap '' TERM HUP INT
{NOTE_RUN}
echo $$ >>pids.txt
sh -c "trap '' TERM; echo \\$\\$ >>pids.txt; while :; do sleep 0.2; done" &
setsid sh -c "trap '' TERM; echo \\$\\$ >>pids.txt; while :; do sleep 0.2; done" &
while :; do sleep 0.2; done
"""
#: A daemon in the old manner: two forks, a session of its own, the shell is gone at once.
LEAVES = f"""
{NOTE_RUN}
(setsid sh -c 'echo $$ >>pids.txt; exec sleep 300' >/dev/null 2>&1 </dev/null &)
until [ -s pids.txt ]; do sleep 0.01; done
"""
#: The command is through; what it started keeps its stdout open, and goes on writing to it.
HOLDS_STDOUT = f"""
{NOTE_RUN}
sh -c 'sh -c "echo \\$\\$ >>pids.txt; while :; do echo still here; sleep 0.05; done" & wait' &
until [ -s pids.txt ]; do sleep 0.01; done
echo through
"""


def worker(place: Path, script: str, keys: str = "", **more: str) -> Team:
    team = Team(place, f"{WORKER}{keys}\n[agents.other]\nendpoint = 'exec'\ncommand = ['true']\n", **more)
    team.script("work", script)
    return team


def test_a_tree_that_ignores_term_is_killed_to_the_last_and_counted_as_a_failure(tmp_path: Path) -> None:
    limit_s = 2 * math.ceil(crowd())  # its tree has to stand by then
    team = worker(tmp_path, DEAF, f"timeout_s = {limit_s}\nretry_limit = 1\n")
    with running(team):
        one = team.post("worker")
        team.until(lambda: len(pids_in(tmp_path / "pids.txt")) == 3)
        other = team.post("other")
        team.fact("message_completed", message=other)  # served while the grace runs
        dead = team.fact("message_dead", message=one)
        pids = pids_in(tmp_path / "pids.txt")
        assert len(pids) == 6  # two attempts
        team.until(lambda: not any(map(alive, pids)))
        team.until(lambda: not descendants(team))
    assert dead["reason"] == f"timed out after {limit_s} s"
    assert len(team.facts("message_retry", message=one)) == 1
    assert len(team.facts("child_ended", message=one)) == 2
    assert ends(team) == {one: ["dead"], other: ["completed"]} | ends_of_mail(team)


def ends_of_mail(team: Team) -> dict[str, list[str]]:
    """Escalations and notices go to people: they may end, too."""
    mail = {fact["message_id"] for fact in team.facts("message_queued") if fact["from"] == "queue_monitor"}
    return {message: words for message, words in ends(team).items() if message in mail}


@pytest.mark.parametrize(
    "script", [pytest.param(LEAVES, id="forks and leaves"), pytest.param(HOLDS_STDOUT, id="grandchild holds stdout")]
)
def test_what_a_command_leaves_behind_neither_delays_its_message_nor_outlives_it(tmp_path: Path, script: str) -> None:
    team = worker(tmp_path, script)
    with running(team):
        one = team.post("worker")
        assert team.fact("message_completed", message=one)["by"] == "exit 0"
        (pid,) = pids_in(tmp_path / "pids.txt")
        team.until(lambda: not alive(pid))
        two = team.post("worker")
        team.fact("message_completed", message=two)
        team.until(lambda: not team.files("state/runs"))
        team.until(lambda: not descendants(team))
    assert runs(team) == [one, two]
    assert ends(team) == {one: ["completed"], two: ["completed"]}


@pytest.mark.parametrize(
    "script", [pytest.param(LEAVES, id="forks and leaves"), pytest.param(HOLDS_STDOUT, id="grandchild holds stdout")]
)
def test_what_a_command_left_behind_while_the_daemon_was_dead_is_ended_by_the_next(tmp_path: Path, script: str) -> None:
    """Its result is found, and nobody else would look for the rest of it."""
    team = worker(tmp_path, script.replace(NOTE_RUN, f"{NOTE_RUN}\n{UNTIL_GO}"))
    with running(team):
        one = team.post("worker")
        team.until(lambda: runs(team) == [one])
        team.kill()
        (tmp_path / "go").touch()
        (run,) = (team.root / "state/runs").glob("*/")
        team.until(lambda: read_status(run) is not None)
        (pid,) = pids_in(tmp_path / "pids.txt")
        assert alive(pid)
        team.start()
        team.fact("message_completed", message=one)
        team.until(lambda: not alive(pid))
        team.until(lambda: not descendants(team))
    assert runs(team) == [one]
    assert ends(team) == {one: ["completed"]}


def test_an_adopted_tree_that_ignores_term_is_killed_when_its_time_is_up(tmp_path: Path) -> None:
    """Its time runs from its own start, not from the adoption."""
    limit_s = 4 * math.ceil(crowd())  # the next daemon has to have come by then
    team = worker(tmp_path, DEAF, f"timeout_s = {limit_s}\nretry_limit = 0\n")
    with running(team):
        one = team.post("worker")
        team.until(lambda: len(pids_in(tmp_path / "pids.txt")) == 3)
        team.kill()
        team.start()
        team.until(lambda: [fact for fact in team.facts("child_started", message=one) if fact.get("adopted")])
        assert team.fact("message_dead", message=one)["reason"] == f"timed out after {limit_s} s"
        team.until(lambda: not any(map(alive, pids_in(tmp_path / "pids.txt"))))
        team.until(lambda: not descendants(team))
    assert runs(team) == [one]
    assert ends(team)[one] == ["dead"]


def test_a_stop_ends_what_ignores_term_within_its_time_and_offers_it_again(tmp_path: Path) -> None:
    quick = "[watch]\nsettle_s = 0.1\n[daemon]\ndrain_timeout_s = 0.2\nstop_timeout_s = 0.3\n"
    team = worker(tmp_path, DEAF, quick=quick)
    with running(team):
        one = team.post("worker")
        team.until(lambda: len(pids_in(tmp_path / "pids.txt")) == 3)
        assert team.stop() == 0
        assert not any(map(alive, pids_in(tmp_path / "pids.txt")))
        team.script("work", NOTE_RUN)
        team.start()
        team.fact("message_completed", message=one)
    assert [fact["counted"] for fact in team.facts("message_retry", message=one)] == [False]
    assert runs(team) == [one, one]
