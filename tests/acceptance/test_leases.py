"""Leases with the real daemon and the real command line, by agents that do what the seed tells them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ackd.coordination.bus.rules.layout import event_name
from ackd.coordination.leases.rules.words import Change, LeaseTable
from ackd.leases import Leases
from tests.acceptance.teams import Team, running

if TYPE_CHECKING:
    from pathlib import Path

P = "src/a.py"
AGENTS = """
[agents.leader]

[agents.builder]
endpoint = "exec"
command = ["./build.sh"]
"""


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path / "team", AGENTS)


def lock(team: Team, *words: str, code: int = 0) -> dict[str, Any]:
    done = team.ackd("lock", *words, "--json")
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout) if done.stdout else {}
    return found if isinstance(found, dict) else {"all": found}


def over_soon(team: Team) -> None:
    """Whoever holds P holds it for a moment only. A --ttl as short would be over before the next command has started."""

    def shorten(table: LeaseTable, now: float, _dead: object) -> Change:
        held = tuple(lease._replace(expires_at=now + 0.2) for lease in table.held[P])
        return Change(table._replace(held={**table.held, P: held}), ())

    Leases(team.root / "bus", team.place).files.change(shorten)


def locks(team: Team) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((team.root / "bus/locks.json").read_bytes())
    return found


def test_a_lease_that_is_over_goes_to_the_agent_in_line_who_is_told_by_mail(team: Team) -> None:
    with running(team):
        first = lock(team, "acquire", P, "--agent", "w1")
        lock(team, "acquire", P, "--agent", "leader", "--later", code=75)
        over_soon(team)
        team.fact("lease_expired", agent="w1")
        granted = team.fact("lease_granted", agent="leader")
        told = team.until(lambda: team.facts("message_told", agent="leader"))
        assert granted["token"] > first["token"]
        assert locks(team)[P]["worker_id"] == "leader"
        assert (team.root / "bus/events" / event_name("FILE_UNLOCK", P)).exists()
        assert (team.root / "bus/events" / event_name("FILE_LOCK", P)).exists()
        assert "is yours" in team.ackd("read", told[0]["message_id"], "--agent", "leader").stdout
        team.until(lambda: [one["agent"] for one in team.status()["leases"]["house"]["held"]] == ["leader"])


def test_what_an_agent_leased_for_its_task_is_free_when_the_task_is_over(team: Team) -> None:
    team.script("build.sh", f"ackd lock acquire {P}")
    with running(team):
        team.send("builder")
        team.fact("lease_granted", agent="builder")
        assert team.fact("lease_released", agent="builder")["reason"] == "its holder has ended"
        assert locks(team) == {}


def test_a_waiting_command_is_woken_by_the_release_and_by_no_daemon(team: Team) -> None:
    """Without a daemon, and without looking all the time: it takes the lease as soon as it is let go."""
    lock(team, "acquire", P, "--agent", "w1")
    command = [sys.executable, "-m", "ackd", "lock", "acquire", P, "--agent", "w2", "--wait", "60", "--json"]
    waiting = subprocess.Popen(command, cwd=team.place, env=team.environment, stdout=subprocess.PIPE, text=True)
    team.until(lambda: lock(team, "list")["waiting"])
    lock(team, "release", P, "--agent", "w1")
    out, _ = waiting.communicate(timeout=60)
    assert json.loads(out)["granted"]
    lines = [json.loads(line) for line in (team.root / "bus/queue.jsonl").read_text().splitlines()]
    assert [(line["type"], line["source"]) for line in lines] == [
        ("FILE_LOCK", "w1"),
        ("FILE_UNLOCK", "w1"),
        ("FILE_LOCK", "w2"),
    ]
    assert lock(team, "list")["waiting"] == []


def test_a_waiting_command_that_is_killed_holds_up_nobody(team: Team) -> None:
    lock(team, "acquire", P, "--agent", "w1")
    command = [sys.executable, "-m", "ackd", "lock", "acquire", P, "--agent", "w2", "--wait", "60"]
    waiting = subprocess.Popen(command, cwd=team.place, env=team.environment)
    team.until(lambda: lock(team, "list")["waiting"])
    waiting.kill()
    waiting.wait()
    lock(team, "release", P, "--agent", "w1")
    assert lock(team, "acquire", P, "--agent", "w3")["granted"]


def test_a_killed_daemon_leaves_leases_as_they_are_and_the_next_goes_on(team: Team) -> None:
    with running(team):
        lock(team, "acquire", P, "--agent", "w1")
        lock(team, "acquire", P, "--agent", "leader", "--later", code=75)
        team.fact("lease_waiting", agent="leader")
        team.kill()
        assert locks(team)[P]["worker_id"] == "w1"
        over_soon(team)
        team.start()
        team.fact("lease_granted", agent="leader")
        assert len(team.facts("lease_granted", agent="w1")) == 1
        assert len(team.facts("lease_expired", agent="w1")) == 1


# --- by the seed's own means --------------------------------------------------------------------------------------------
SEED_ACQUIRE = """
import datetime, json, os, sys
path = "bus/locks.json"
locks = json.load(open(path)) if os.path.exists(path) else {}
now = datetime.datetime.utcnow()
held = locks.get("src/a.py")
if held and datetime.datetime.fromisoformat(held["expires_at"].rstrip("Z")) > now and held["worker_id"] != sys.argv[1]:
    sys.exit(1)
until = now + datetime.timedelta(minutes=30)
locks["src/a.py"] = {"worker_id": sys.argv[1], "acquired_at": now.isoformat() + "Z", "expires_at": until.isoformat() + "Z"}
json.dump(locks, open(path, "w"), indent=2)
"""


def by_hand(team: Team, worker: str) -> int:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SEED_ACQUIRE, worker], cwd=team.root, check=False
    ).returncode


def test_an_agent_that_writes_locks_json_itself_and_one_that_asks_exclude_each_other(team: Team) -> None:
    with running(team):
        lock(team, "acquire", "other.py", "--agent", "w9")
        assert by_hand(team, "w1") == 0
        team.fact("lease_granted", agent="w1")
        assert team.until(lambda: locks(team)[P].get("token")) == 2
        assert lock(team, "acquire", P, "--agent", "w2", code=1)["holders"][0]["agent"] == "w1"
        lock(team, "release", P, "--agent", "w1")
        lock(team, "acquire", P, "--agent", "w2")
        assert by_hand(team, "w1") == 1  # it reads what we wrote
        assert set(locks(team)) == {"other.py", P}


def test_an_edit_that_takes_a_lease_from_somebody_is_named(team: Team) -> None:
    with running(team):
        lock(team, "acquire", P, "--agent", "w1")
        team.fact("lease_granted", agent="w1")
        entry = {"worker_id": "thief", "acquired_at": "2026-11-16T00:00:00Z", "expires_at": "2099-01-01T00:00:00"}
        (team.root / "bus/locks.json").write_text(json.dumps({P: entry}))
        assert team.fact("lease_broken", agent="w1")["taken_by"] == "thief"
        assert locks(team)[P]["worker_id"] == "thief"
        assert lock(team, "acquire", P, "--agent", "w1", code=1)["holders"][0]["agent"] == "thief"
