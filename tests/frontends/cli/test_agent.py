"""`ackd agent` and `ackd nudge`: how agents stand, and what comes of asking something of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from ackd.core.requests import NEED_A_LIFE
from ackd.runtime.pauses import Pauses

Team = Any  # conftest.py's: test files do not import each other

LIVING = """
[agents.critic]
endpoint = "tmux"
pane = "team:0.0"
[agents.coder]
endpoint = "process"
command = ["cat"]
"""


@pytest.fixture
def team(team: Team) -> Team:
    with (team.home / "ackd.toml").open("a") as config:
        config.write(LIVING)
    return team


def paused(team: Team) -> list[str]:
    pauses = Pauses(team.root / "state")
    pauses.load()
    return list(pauses.all())


# --- list ---------------------------------------------------------------------------------------------------------------
def test_without_a_daemon_the_list_is_read_from_disk(team: Team) -> None:
    team.send("leader", "--body", "x")
    shown = team.ackd("agent", "list").stdout
    assert shown.startswith("daemon: not running")
    assert "coder          process   unknown  0       0\n" in shown
    found = team.json("agent", "list")
    assert found["leader"] == {"endpoint": "inbox", "state": "unknown", "queued": 1, "in_flight": 0}
    assert {"user", "system", "queue_monitor", "critic"} <= found.keys()


def test_some_are_listed_by_any_spelling_of_their_names(team: Team) -> None:
    assert list(team.json("agent", "list", "worker-1", "critic")) == ["worker_1", "critic"]


@pytest.mark.parametrize("command", ["list", "start", "stop", "restart", "pause", "resume", "attach"])
def test_nobody_of_that_name_is_67_and_who_may_be_meant(team: Team, command: str) -> None:
    result = team.ackd("agent", command, "coded")
    assert result.exit_code == 67
    assert "no agent 'coded': did you mean coder?" in result.stderr


def test_one_unknown_name_and_nobody_is_asked(team: Team) -> None:
    assert team.ackd("agent", "pause", "coder", "nobody").exit_code == 67
    assert team.ackd("nudge", "nobody").exit_code == 67
    assert (paused(team), team.files("receipts")) == ([], [])


# --- without a daemon ---------------------------------------------------------------------------------------------------
def test_a_pause_needs_no_daemon_and_is_shown(team: Team) -> None:
    result = team.ackd("agent", "pause", "worker-1", "leader")
    assert result.exit_code == 0
    assert result.stdout == (
        "worker_1: paused: its mail waits (no daemon is running)\n"
        "leader: paused: its mail waits (no daemon is running)\n"
    )
    assert paused(team) == ["worker_1", "leader"]
    assert team.files("receipts") == []
    found = team.json("status")["agents"]["worker_1"]
    assert (found["state"], found["reason"]) == ("paused", "by hand")
    assert team.json("agent", "list")["leader"]["state"] == "paused"


def test_a_resume_needs_none_either(team: Team) -> None:
    team.ackd("agent", "pause", "leader")
    assert team.json("agent", "pause", "leader") == [
        {
            "agent": "leader",
            "request": "pause",
            "result": "done",
            "answer": "was paused already (no daemon is running)",
        }
    ]
    assert team.ackd("agent", "resume", "leader").stdout == "leader: resumed: it was paused (no daemon is running)\n"
    assert team.ackd("agent", "resume", "leader").stdout == "leader: was not paused (no daemon is running)\n"
    assert paused(team) == []


def test_an_agent_that_pauses_another_is_named(team: Team) -> None:
    team.ackd("agent", "pause", "coder", env={"ACKD_AGENT": "leader"})
    assert json.loads((team.root / "state" / "paused.json").read_bytes())["coder"]["by"] == "leader"


def test_a_file_of_pauses_that_is_not_ours_is_not_written_over(team: Team) -> None:
    (team.root / "state").mkdir(parents=True)
    (team.root / "state" / "paused.json").write_text("{")
    result = team.ackd("agent", "pause", "coder")
    assert result.exit_code == 65
    assert "paused.json" in result.stderr
    assert (team.root / "state" / "paused.json").read_text() == "{"
    said = team.json("status")["agents"]["coder"]
    assert (said["state"], "everybody stays paused" in said["reason"]) == ("paused", True)


@pytest.mark.parametrize("command", [["agent", "start"], ["agent", "stop"], ["agent", "restart"], ["nudge"]])
def test_what_needs_a_daemon_says_how_to_get_one(team: Team, command: list[str]) -> None:
    result = team.ackd(*command, "coder")
    assert (result.exit_code, result.stdout) == (69, "")
    assert "no daemon is running: `ackd run` starts it" in result.stderr
    assert team.files("receipts") == []


@pytest.mark.parametrize("kind", sorted(kind.value for kind in NEED_A_LIFE))
@pytest.mark.parametrize("name", ["leader", "worker_1", "system"])
def test_where_nothing_lives_the_answer_is_no_and_what_to_use_instead(team: Team, kind: str, name: str) -> None:
    command = ["nudge"] if kind == "nudge" else ["agent", kind]
    result = team.ackd(*command, name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"ackd: {name}: nothing to" in result.stderr
    assert "`ackd " in result.stderr
    (said,) = json.loads(team.ackd(*command, name, "--json").stdout)
    assert (said["agent"], said["result"]) == (name, "refused")


def test_nobody_named_is_wrong_usage(team: Team) -> None:
    for command in (["agent", "pause"], ["nudge"], ["agent", "attach"]):
        assert team.ackd(*command).exit_code == 2


# --- completion ---------------------------------------------------------------------------------------------------------
def completions(words: str, cwd: Any) -> list[str]:
    env = {**os.environ, "_ACKD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = "from ackd.frontends.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=cwd, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_the_shell_completes_commands_and_agents(team: Team) -> None:
    assert completions("ackd agent re", team.home) == ["restart", "resume"]
    assert completions("ackd agent pause c", team.home) == ["critic", "coder"]
    assert completions("ackd nudge leader wor", team.home) == ["worker_1"]


def test_where_there_is_no_team_nothing_is_completed(tmp_path: Any) -> None:
    assert completions("ackd agent pause c", tmp_path) == []
