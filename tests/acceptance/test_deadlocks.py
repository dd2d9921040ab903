"""Who waits in a circle, through the real daemon: by leases, by BLOCKED, by both; told once, also across a crash."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import Team, running
from tests.queue_mail import queue_mail

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENTS = """
[agents.leader]
[agents.anna]
[agents.bert]
"""


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    team = Team(tmp_path, AGENTS, top='escalate_to = "leader"')
    with running(team):
        yield team


@contextlib.contextmanager
def waiting(team: Team, path: str, agent: str) -> Iterator[subprocess.Popen[bytes]]:
    """`ackd lock acquire --wait` in a process of its own, which is ended if it has not."""
    words = ["lock", "acquire", path, "--agent", agent, "--wait", "120"]
    command = [sys.executable, "-m", "ackd", *words]
    with subprocess.Popen(command, cwd=team.place, env=team.environment, stdout=subprocess.DEVNULL) as process:
        try:
            team.until(lambda: any(fact["path"] == path and fact["holder"] == agent for fact in in_line(team)))
            yield process
        finally:
            process.kill()


def in_line(team: Team) -> list[dict[str, Any]]:
    """Who stands in line, by leases.json."""
    try:
        found = json.loads((team.root / "bus/leases.json").read_text())
    except FileNotFoundError:
        return []
    lines = found.get("waiting", found)
    return [{"path": path, "holder": waiter["worker_id"]} for path, line in lines.items() for waiter in line]


def lock(team: Team, *words: str) -> None:
    done = team.ackd("lock", *words)
    assert done.returncode == 0, done.stderr


def mail_of(team: Team, agent: str) -> list[str]:
    return list(queue_mail(team.root, agent, "message").values())


def say(team: Team, source: str, type_: str, **payload: object) -> None:
    """As an agent does with `echo >>`."""
    line = json.dumps({"id": f"{source}-{type_}-{payload}", "type": type_, "source": source, "payload": payload})
    with (team.root / "bus/queue.jsonl").open("a") as bus:
        bus.write(line + "\n")


def test_two_who_hold_what_the_other_waits_for_are_told_once_and_a_release_breaks_it(team: Team) -> None:
    lock(team, "acquire", "x", "--agent", "anna")
    lock(team, "acquire", "y", "--agent", "bert")
    with waiting(team, "y", "anna"), waiting(team, "x", "bert") as bert:
        found = team.fact("deadlock_detected")
        assert set(found["members"]) == {"anna", "bert"}
        assert found["youngest"] == "bert"
        team.until(lambda: all(mail_of(team, agent) for agent in ("anna", "bert", "leader")))
        team.kill()
        team.start()
        lock(team, "release", "x", "--agent", "anna")
        assert bert.wait(60) == 0
        team.fact("deadlock_broken")
    assert len([fact for fact in team.facts("deadlock_detected") if not fact.get("recovered")]) == 1
    told = [text for text in mail_of(team, "bert") if "yield" in text]
    assert len(told) == 1


def test_workers_who_say_that_they_wait_for_each_other_are_found_and_history_is_no_wait(team: Team) -> None:
    assert team.ackd("bus", "init").returncode == 0
    say(team, "anna", "PROGRESS", task_id="1.1", progress_pct=10)
    say(team, "bert", "PROGRESS", task_id="1.2", progress_pct=10)
    say(team, "anna", "BLOCKED", task_id="1.1", waiting_for="1.2")  # a task
    say(team, "anna", "PROGRESS", task_id="1.1", progress_pct=20)  # goes on: that was history
    say(team, "bert", "BLOCKED", task_id="1.2", waiting_for="anna")  # a worker
    team.until(lambda: len(team.facts("bus_message")) == 5)
    team.kill()
    team.start()
    say(team, "anna", "BLOCKED", task_id="1.1", waiting_for="1.2")
    found = team.fact("deadlock_detected")
    assert set(found["members"]) == {"anna", "bert"}
    assert len(team.facts("deadlock_detected")) == 1
    say(team, "anna", "TASK_FAILED", task_id="1.1", error="gave up")
    team.fact("deadlock_broken")


def test_workers_who_lock_by_hand_and_say_which_file_they_wait_for_are_found(team: Team) -> None:
    """The seed's way: locks.json is edited, who is refused posts BLOCKED with the file, and nobody stands in line."""
    assert team.ackd("bus", "init").returncode == 0
    locks = team.root / "bus/locks.json"
    until = "2099-01-01T00:00:00Z"
    held = {path: {"worker_id": agent, "expires_at": until} for path, agent in (("x", "anna"), ("y", "bert"))}
    locks.write_text(json.dumps(held))
    say(team, "anna", "BLOCKED", task_id="1.1", resource="y")
    say(team, "bert", "BLOCKED", task_id="1.2", waiting_for="./x", resource="./x")
    found = team.fact("deadlock_detected")
    assert set(found["members"]) == {"anna", "bert"}
    team.until(lambda: all(mail_of(team, agent) for agent in ("anna", "bert", "leader")))
    locks.write_text(json.dumps({"y": held["y"]}))
    team.fact("deadlock_broken")


def test_a_wait_for_a_lease_and_a_wait_for_a_task_make_one_circle(team: Team) -> None:
    lock(team, "acquire", "x", "--agent", "anna")
    say(team, "bert", "PROGRESS", task_id="1.2", progress_pct=10)
    with waiting(team, "x", "bert"):
        say(team, "anna", "BLOCKED", task_id="1.1", waiting_for="1.2")
        found = team.fact("deadlock_detected")
    assert set(found["members"]) == {"anna", "bert"}
