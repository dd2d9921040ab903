"""`ackd agent` and `ackd nudge`: how agents stand, and what comes of asking something of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from ackd.client.agents import AgentAnswer
from ackd.core.requests import NEED_A_LIFE
from ackd.storage import root_lock
from ackd.storage.paused import Pauses

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
    found = team.json("agent", "list")["agents"]
    assert found["leader"] == {"endpoint": "inbox", "state": "unknown", "queued": 1, "in_flight": 0}
    assert {"user", "system", "queue_monitor", "critic"} <= found.keys()


def test_some_are_listed_by_any_spelling_of_their_names(team: Team) -> None:
    assert list(team.json("agent", "list", "worker-1", "critic")["agents"]) == ["worker_1", "critic"]


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
    assert team.json("agent", "list")["agents"]["leader"]["state"] == "paused"


def test_a_resume_needs_none_either(team: Team) -> None:
    team.ackd("agent", "pause", "leader")
    assert team.json("agent", "pause", "leader")["answers"] == [
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
    (said,) = json.loads(team.ackd(*command, name, "--json").stdout)["answers"]
    assert (said["agent"], said["result"]) == (name, "refused")


def test_nobody_named_is_wrong_usage(team: Team) -> None:
    for command in (["agent", "pause"], ["nudge"], ["agent", "attach"]):
        assert team.ackd(*command).exit_code == 2


# --- with a daemon ------------------------------------------------------------------------------------------------------
@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[AgentAnswer]:
    """What the agents answer, whatever they are asked."""
    given: list[AgentAnswer] = []
    monkeypatch.setattr("ackd.client.agents.ask", lambda *_, **__: given)
    return given


def test_answers_are_printed_and_a_no_on_stderr(team: Team, answers: list[AgentAnswer]) -> None:
    answers.append(AgentAnswer("coder", "restart", "done", "restarted: pid 4242"))
    result = team.ackd("agent", "restart", "coder")
    assert (result.exit_code, result.stdout) == (0, "coder: restarted: pid 4242\n")
    answers.append(AgentAnswer("critic", "restart", "refused", "no such program: \x1b[2Jcat"))
    result = team.ackd("agent", "restart", "coder", "critic")
    assert (result.exit_code, result.stdout) == (1, "coder: restarted: pid 4242\n")
    assert result.stderr == "ackd: critic: no such program: ?[2Jcat\n"


def test_an_answer_that_plays_tricks_does_not_reach_the_terminal(team: Team, answers: list[AgentAnswer]) -> None:
    answers.append(AgentAnswer("coder", "start", "done", "\x1b[2Jstarted"))
    assert "\x1b" not in team.ackd("agent", "start", "coder").stdout


def test_no_answer_yet_is_75_while_the_daemon_runs_and_69_when_it_has_gone(
    team: Team, answers: list[AgentAnswer]
) -> None:
    answers.append(AgentAnswer("coder", "stop", "asked", "no answer yet"))
    lock = root_lock.hold(team.root / "run")
    result = team.ackd("agent", "stop", "coder")
    assert (result.exit_code, result.stdout) == (75, "coder: stop asked for, no answer yet\n")
    assert "has not answered yet" in result.stderr
    (asked,) = team.json("agent", "stop", "coder", "--no-wait")["answers"]
    assert asked == {"agent": "coder", "request": "stop", "result": "asked", "answer": "no answer yet"}
    said = json.loads(team.ackd("agent", "stop", "coder", "--json").stdout)
    assert (said["answers"], said["error"]["code"]) == ([asked], 75)
    lock.release()
    result = team.ackd("agent", "stop", "coder")
    assert result.exit_code == 69
    assert "the request waits in receipts/ for the next one" in result.stderr


def test_a_daemon_that_goes_leaves_the_request_to_the_next(team: Team) -> None:
    lock = root_lock.hold(team.root / "run")

    def go_once_it_was_asked() -> None:
        deadline = time.monotonic() + 10
        while all(path.name.startswith(".") for path in team.files("receipts")) and time.monotonic() < deadline:
            time.sleep(0.01)
        lock.release()

    going = threading.Thread(target=go_once_it_was_asked)
    going.start()
    result = team.ackd("agent", "start", "coder", "--timeout", "0.5")
    going.join()
    assert result.exit_code == 69
    assert [one["kind"] for one in team.receipts()] == ["start"]


# --- completion ---------------------------------------------------------------------------------------------------------
def completions(words: str, cwd: Any) -> list[str]:
    env = {**os.environ, "_ACKD_COMPLETE": "bash", "_ACKD_LINE": words}
    code = "from ackd.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=cwd, capture_output=True, text=True, check=True)
    return [line.partition("\t")[0] for line in done.stdout.splitlines()[1:]]


def test_the_shell_completes_commands_and_agents(team: Team) -> None:
    assert completions("ackd agent re", team.home) == ["restart", "resume"]
    assert completions("ackd agent pause c", team.home) == ["critic", "coder"]
    assert completions("ackd nudge leader wor", team.home) == ["worker_1"]


def test_where_there_is_no_team_nothing_is_completed(tmp_path: Any) -> None:
    assert completions("ackd agent pause c", tmp_path) == []
