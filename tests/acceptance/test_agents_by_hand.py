"""`ackd agent`, `nudge` and `checkpoint` in front of the real daemon: what is printed is what came of it."""

from __future__ import annotations

import hashlib
import json
import stat
from typing import TYPE_CHECKING, Any

from tests.acceptance.teams import Team, running

if TYPE_CHECKING:
    from pathlib import Path


EXEC = '[agents.scribe]\nendpoint = "exec"\ncommand = ["./scribe"]\n[agents.leader]\n'


def scribe_in(place: Path) -> Team:
    team = Team(place, EXEC)
    team.script("scribe", "echo $ACKD_MESSAGE_ID >> told")
    return team


def told(team: Team) -> list[str]:
    path = team.place / "told"
    return sorted(path.read_text().split()) if path.exists() else []


def answers(team: Team, *words: str, code: int = 0, below: str = "answers") -> Any:
    done = team.ackd(*words, "--json")
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)[below]


# --- pausing ------------------------------------------------------------------------------------------------------------
def test_a_paused_agent_gets_nothing_and_loses_nothing_through_a_crash_of_the_daemon(tmp_path: Path) -> None:
    team = scribe_in(tmp_path)
    with running(team):
        (said,) = answers(team, "agent", "pause", "scribe")
        assert (said["result"], said["answer"]) == ("done", "paused: its mail waits")
        sent = [team.send("scribe", body=f"mail {number}") for number in range(3)]
        for message_id in sent:
            team.fact("message_queued", message=message_id)
        assert answers(team, "agent", "list", "scribe", below="agents")["scribe"]["state"] == "paused"
        team.kill()
        team.start()
        assert team.status()["agents"]["scribe"]["state"] == "paused"
        # A message that another agent got is proof that work is offered by now.
        team.fact("message_told", message=team.send("leader"))
        assert len(team.files("queue/scribe")) == len([*sent, "processed"])
        assert (told(team), team.facts("message_claimed", agent="scribe")) == ([], [])
        shown = team.ackd("status").stdout
        assert "scribe         exec      paused     3       0          0       by hand" in shown
        (said,) = answers(team, "agent", "resume", "scribe")
        assert said["answer"] == "resumed: it was paused"
        for message_id in sent:
            team.fact("message_completed", message=message_id)
        assert told(team) == sorted(sent)


def page_now(team: Team) -> Any:
    """As it lies there: whoever looks without `ackd status` has no chance to wait."""
    return json.loads((team.root / "run/status.json").read_bytes())["agents"]["scribe"]["state"]


def test_who_is_answered_finds_it_on_the_status_page_and_so_does_a_restart(tmp_path: Path) -> None:
    team = scribe_in(tmp_path)
    with running(team):
        for _ in range(5):
            answers(team, "agent", "pause", "scribe")
            assert page_now(team) == "paused"
            answers(team, "agent", "resume", "scribe")
            assert page_now(team) == "available"
        answers(team, "agent", "pause", "scribe")
        for _ in range(3):
            team.kill()
            team.start()
            assert page_now(team) == "paused"  # the first page there is


def test_what_was_asked_while_the_daemon_was_dead_is_answered_when_the_next_one_is_up(tmp_path: Path) -> None:
    team = scribe_in(tmp_path)
    with running(team):
        team.kill()
        receipt = team.root / "receipts" / "pause_1.json"  # its daemon was killed before it was heard
        receipt.write_text(json.dumps({"kind": "pause", "agent": "scribe"}))
        team.start()
        assert team.fact("agent_request")["answer"] == "paused: its mail waits"
        assert page_now(team) == "paused"


def test_what_was_paused_without_a_daemon_is_paused_when_one_comes(tmp_path: Path) -> None:
    team = scribe_in(tmp_path)
    message_id = team.send("scribe")
    assert answers(team, "agent", "pause", "scribe")[0]["answer"] == "paused: its mail waits (no daemon is running)"
    with running(team):
        team.fact("message_told", message=team.send("leader"))
        assert team.facts("message_claimed", message=message_id) == []
        assert team.lines()[0]["type"] == "session_start"
        answers(team, "agent", "resume", "scribe")
        team.fact("message_completed", message=message_id)
        team.stop()
        assert team.files("receipts") == []


def test_a_queue_that_no_config_names_is_paused_across_a_restart_too(tmp_path: Path) -> None:
    team = Team(tmp_path)
    message_id = team.post("stranger")
    assert answers(team, "agent", "pause", "stranger")[0]["result"] == "done"
    with running(team):
        team.fact("message_told", message=team.send("user"))
        assert team.status()["agents"]["stranger"]["state"] == "paused"
        assert team.facts("message_claimed", message=message_id) == []


def test_what_a_paused_agent_has_in_hand_goes_on(tmp_path: Path) -> None:
    team = Team(tmp_path, EXEC)
    team.script("scribe", "until [ -e go ]; do sleep 0.02; done")
    with running(team):
        first = team.send("scribe")
        team.fact("message_told", message=first)
        answers(team, "agent", "pause", "scribe")
        second = team.send("scribe")
        (team.place / "go").touch()
        team.fact("message_completed", message=first)
        team.fact("message_queued", message=second)
        team.fact("message_told", message=team.send("leader"))
        assert team.facts("message_claimed", message=second) == []


def test_every_request_is_a_line_with_who_asked_and_what_came_of_it(tmp_path: Path) -> None:
    team = scribe_in(tmp_path)
    with running(team):
        done = team.ackd("agent", "pause", "scribe", env={"ACKD_AGENT": "leader"})
        assert done.stdout == "scribe: paused: its mail waits\n"
        said = team.fact("agent_request")
        assert (said["agent"], said["request"], said["by"]) == ("scribe", "pause", "leader")
        assert team.files("receipts") == []
        assert "pause, asked for by leader: paused: its mail waits" in team.ackd("tail").stdout


# --- what has nothing to start, and nobody ------------------------------------------------------------------------------
def test_where_nothing_lives_the_daemon_says_so_too(tmp_path: Path) -> None:
    team = scribe_in(tmp_path)
    with running(team):
        for words in (["agent", "start"], ["agent", "stop"], ["agent", "restart"], ["nudge"]):
            (said,) = answers(team, *words, "scribe", code=1)
            assert said["result"] == "refused"
        receipt = team.root / "receipts" / "start_1.json"
        receipt.write_text(json.dumps({"kind": "start", "agent": "scribe"}))  # by another hand than ours
        said = team.fact("agent_request")
        assert (said["refused"], said["by"]) == (True, "user")
        team.until(lambda: not receipt.exists())


def test_unknown_names_are_67_with_and_without_a_daemon(tmp_path: Path) -> None:
    team = scribe_in(tmp_path)
    commands = (["agent", "pause"], ["agent", "start"], ["agent", "list"], ["agent", "attach"], ["nudge"])
    for words in commands:
        assert team.ackd(*words, "scribbler").returncode == 67
    with running(team):
        for words in commands:
            done = team.ackd(*words, "scribbe")
            assert (done.returncode, "did you mean scribe?" in done.stderr) == (67, True)
        receipt = team.root / "receipts" / "pause_1.json"
        receipt.write_text(json.dumps({"kind": "pause", "agent": "scribbe"}))
        assert team.fact("agent_request")["answer"] == "no agent of that name"


def test_what_needs_a_daemon_is_69_without_one(tmp_path: Path) -> None:
    team = Team(tmp_path, '[agents.coder]\nendpoint = "process"\ncommand = ["cat"]\n')
    for words in (["agent", "start"], ["agent", "stop"], ["agent", "restart"], ["nudge"], ["agent", "attach"]):
        done = team.ackd(*words, "coder")
        assert (done.returncode, "no daemon is running" in done.stderr) == (69, True)


# --- checkpoints --------------------------------------------------------------------------------------------------------
def checkpoint_of(team: Team, message_id: str) -> Path:
    name = f"leader--{hashlib.sha256(message_id.encode()).hexdigest()[:32]}.json"
    return team.root / "state" / "checkpoints" / name


def test_a_checkpoint_is_kept_until_its_message_ends_and_outlives_the_daemon(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.leader]\n")
    with running(team):
        message_id = team.send("leader")
        team.fact("message_told", message=message_id)
        done = team.ackd("checkpoint", message_id, "--step", "2", "--agent", "leader", "-", stdin="half way\nthere\n")
        assert done.stdout == f"checkpoint: receipt written for {message_id}\n"
        team.fact("checkpoint", message=message_id)
        team.until(lambda: team.files("receipts") == [])
        path = checkpoint_of(team, message_id)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        team.kill()
        team.start()
        kept = json.loads(path.read_bytes())
        assert kept["checkpoint"] == {"text": "half way\nthere", "current_step": 2}
        assert kept["message_id"] == message_id
        assert "checkpoint" in team.ackd("explain", message_id).stdout
        stale = checkpoint_of(team, "1.1.gone@x")  # as a crash leaves it, between its message's end and its own
        stale.write_text(json.dumps({**kept, "message_id": "1.1.gone@x"}))
        team.kill()
        team.start()
        team.until(lambda: not stale.exists())
        assert path.exists()
        team.ackd("done", message_id, "--agent", "leader")
        team.until(lambda: not path.exists())


def test_a_checkpoint_that_was_said_while_nobody_served_is_kept_by_the_next_daemon(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.leader]\n")
    with running(team):
        message_id = team.send("leader")
        team.fact("message_told", message=message_id)
        team.kill()
        done = team.ackd("checkpoint", message_id, "half way", env={"ACKD_AGENT": "leader"})
        assert "(waits: no daemon is running)" in done.stdout
        team.start()
        team.fact("checkpoint", message=message_id)
        assert len(team.files("state/checkpoints")) == 1


def test_a_checkpoint_for_what_is_over_is_said_to_mean_nothing(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.leader]\n")
    with running(team):
        message_id = team.send("leader")
        team.fact("message_told", message=message_id)
        team.ackd("done", message_id, "--agent", "leader")
        team.fact("message_completed", message=message_id)
        assert team.ackd("checkpoint", message_id, "x", "--agent", "leader").returncode == 1
        receipt = team.root / "receipts" / "checkpoint_1.json"
        content = {"kind": "checkpoint", "message_id": message_id, "agent": "leader", "text": "x"}
        receipt.write_text(json.dumps(content))
        said = team.fact("message_warning", message=message_id)
        assert said["warning"] == "checkpoint for a message that is not open here"
        assert team.files("state/checkpoints") == []


def test_a_file_of_pauses_that_cannot_be_read_pauses_everybody_loudly_until_a_person_says_otherwise(
    tmp_path: Path,
) -> None:
    agents = "".join(f'[agents.{name}]\nendpoint = "exec"\ncommand = ["true"]\n' for name in ("one", "two"))
    team = Team(tmp_path, agents)
    with running(team):
        assert team.ackd("agent", "pause", "one").returncode == 0
        team.stop()
        paused = team.root / "state/paused.json"
        paused.write_text('{"one": ')  # a torn copy, brought back by a person
        said = json.loads(team.ackd("status", "--json").stdout)["agents"]
        assert {name: said[name]["state"] for name in ("one", "two")} == {"one": "paused", "two": "paused"}
        assert "everybody stays paused" in team.ackd("agent", "resume", "two").stderr
        ids = {name: team.send(name) for name in ("one", "two")}
        team.start()
        (warning,) = [fact for fact in team.facts("io_error") if fact["what"] == "who is paused"]
        assert "everybody stays paused" in warning["error"]
        told = team.fact("escalation")
        assert (told["cause"], told["to"]) == ("pauses_unknown", "user")
        team.until(lambda: team.files("queue/user/processed"))
        assert paused.read_text() == '{"one": '
        assert team.ackd("agent", "resume", "two").returncode == 0
        team.fact("message_completed", message=ids["two"])
        assert list(json.loads(paused.read_text())) == ["one"]
        assert (team.root / "state/paused.json.broken").read_text() == '{"one": '
        assert not team.facts("message_told", message=ids["one"])
        team.stop()
        team.start()  # it is as the person said
        assert team.ackd("agent", "resume", "one").returncode == 0
        team.fact("message_completed", message=ids["one"])
