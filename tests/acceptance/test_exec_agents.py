"""Exec agents as a team sees them: one command per message, and what its end means."""

from __future__ import annotations

import fcntl
import json
import math
import os
import resource
import time
from pathlib import Path

import pytest

from tests.acceptance.teams import QUICK, Team, mime, running
from tests.strays import UNTIL_GO
from tests.waiting import crowd

ID = "1770263544.1.abcdef@ignite.local"
NAME = "message_1770263544000001.mime"


def worker(place: Path, script: str, *, keys: str = "", delivery: str = "", top: str = "", quick: str = QUICK) -> Team:
    table = f'[agents.worker]\nendpoint = "exec"\ncommand = ["./work"]\n{keys}'
    team = Team(place, table, delivery=delivery, top=top, quick=quick)
    team.script("work", script)
    return team


def test_a_descriptor_left_open_for_us_beyond_the_limit_of_files_costs_no_message(tmp_path: Path) -> None:
    """As a shell's that opened it, and lowered the limit then: it says nothing about any message."""
    team = worker(tmp_path, "ls /proc/self/fd >fds")
    high = fcntl.fcntl(0, fcntl.F_DUPFD, 900)
    os.set_inheritable(high, True)
    limit = (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    try:
        team.start(pass_fds=(high,), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit))
    finally:
        os.close(high)
    team.fact("message_completed", message=team.send("worker"))
    assert str(high) not in (tmp_path / "fds").read_text().split()
    assert str(high) in os.listdir(f"/proc/{team.pid}/fd"), "ours, as whoever started us meant it to be"  # noqa: PTH208
    assert not team.facts("message_retry", "message_dead")
    team.stop()


def test_the_command_is_given_the_whole_message_and_told_who_it_is(tmp_path: Path) -> None:
    script = 'cat >stdin.txt; env >env.txt; cat "$ACKD_MESSAGE" >message.txt; cat "$ACKD_BODY" >body.txt; pwd >pwd.txt'
    team = worker(tmp_path, script, keys='env = { LANG = "C.UTF-8" }\n')
    data = mime(to="worker", message_id=ID, kind="task_list", body="tasks: [ümläut]\n")
    with running(team):
        team.drop("worker", data, NAME)
        team.fact("message_completed", message=ID)
        environment = dict(line.partition("=")[::2] for line in (tmp_path / "env.txt").read_text().splitlines())
        processed = str(team.root / "queue/worker/processed" / NAME)
    assert (tmp_path / "stdin.txt").read_bytes() == data
    assert (tmp_path / "message.txt").read_bytes() == data
    assert (tmp_path / "body.txt").read_text() == "tasks: [ümläut]\n"
    assert (tmp_path / "pwd.txt").read_text().strip() == str(tmp_path)
    expected = {
        "ACKD_MESSAGE": processed,
        "ACKD_MESSAGE_ID": ID,
        "ACKD_AGENT": "worker",
        "ACKD_FROM": "user",
        "ACKD_TYPE": "task_list",
        "ACKD_ROOT": str(team.root),
        "ACKD_CONFIG": str(tmp_path / "ackd.toml"),
        "LANG": "C.UTF-8",
    }
    assert {key: environment[key] for key in expected} == expected
    (archived,) = (team.root / "archive").rglob("*.mime")
    assert archived.read_bytes().partition(b"\n\n")[2] == data.partition(b"\n\n")[2]


def test_each_exit_code_means_what_sysexits_says(tmp_path: Path) -> None:
    """0 is done; 75 is not now, counted; 65 is never; anything else is a failure, counted, with its last words."""
    script = (
        'echo "on $ACKD_TYPE" >&2\ncase $(cat "$ACKD_BODY") in *three*) exit 65;; *two*) exit 75;; *one*) exit 3;; esac'
    )
    team = worker(tmp_path, script, keys="retry_limit = 1\nmax_in_flight = 4\n")
    with running(team):
        ids = {word: team.post("worker", body=f"content: {word}\n") for word in ("zero", "one", "two", "three")}
        team.fact("message_completed", message=ids["zero"])
        ends = {word: team.fact("message_dead", message=ids[word]) for word in ("one", "two", "three")}
    assert (ends["one"]["reason"], ends["one"]["retry_count"]) == ("exit 3: on message", 1)
    assert (ends["two"]["reason"], ends["two"]["retry_count"]) == ("exit 75: on message", 1)
    assert (ends["three"]["reason"], ends["three"]["retry_count"]) == ("exit 65: on message", 0)
    assert not team.facts("message_retry", message=ids["three"])
    dead = team.root / "queue/dead_letter"
    reasons = {team.header(path, "X-IGNITE-Error-Reason") for path in dead.glob("*.mime")}
    assert reasons == {end["reason"] for end in ends.values()}
    assert {team.header(path, "X-IGNITE-Recipient") for path in dead.glob("*.mime")} == {"worker"}


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    script = "trap '' TERM\nsleep 300 & echo $! >child.txt\nwait"
    limit_s = 2 * math.ceil(crowd())  # it has to have started something by then
    team = worker(tmp_path, script, keys=f"timeout_s = {limit_s}\nretry_limit = 0\n")
    with running(team):
        one = team.post("worker")
        dead = team.fact("message_dead", message=one)
        child = int((tmp_path / "child.txt").read_text())
        team.until(lambda: not _alive(child))
    assert dead["reason"] == f"timed out after {limit_s} s"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_a_missing_program_parks_its_agent_counts_nothing_and_is_noticed_when_it_comes(tmp_path: Path) -> None:
    team = worker(tmp_path, "exit 0")
    (tmp_path / "work").rename(tmp_path / "later")
    with running(team):
        ids = [team.post("worker"), team.post("worker")]
        team.fact("agent_state", agent="worker")
        page = team.until(lambda: (a := team.status()["agents"]["worker"])["state"] == "parked" and a["queued"] and a)
        assert "no program ./work" in page["reason"]
        assert page["until"].endswith("Z")
        assert (page["queued"], page["in_flight"]) == (1, 1)
        words = team.ackd("status")
        assert "parked" in words.stdout
        assert "no program ./work" in words.stdout
        (tmp_path / "later").rename(tmp_path / "work")
        for one in ids:
            team.fact("message_completed", message=one)
        team.until(lambda: team.status()["agents"]["worker"]["state"] == "available")
    assert [fact["counted"] for fact in team.facts("message_retry")] == [False]
    assert [fact["cause"] for fact in team.facts("escalation")] == ["away"]
    assert [fact["state"] for fact in team.facts("agent_state")] == ["parked", "available"]


def test_a_wider_window_runs_commands_side_by_side_and_no_more_than_it_holds(tmp_path: Path) -> None:
    """Each waits for the other two: alone none would end. A fourth must wait for one of them."""
    script = f'touch "here.$ACKD_RUN"; ls here.* | wc -l >>most.txt\n{UNTIL_GO}; rm "here.$ACKD_RUN"'
    team = worker(tmp_path, script, keys="max_in_flight = 3\n")
    with running(team):
        ids = [team.post("worker") for _ in range(4)]
        team.until(lambda: len(list(tmp_path.glob("here.*"))) == 3)
        page = team.until(lambda: (a := team.status()["agents"]["worker"])["in_flight"] == 3 and a)
        assert (page["state"], page["queued"]) == ("busy", 1)
        team.until(lambda: len((tmp_path / "most.txt").read_text().splitlines()) == 3)  # all three have counted
        (tmp_path / "go").touch()
        for one in ids:
            team.fact("message_completed", message=one)
    assert max(map(int, (tmp_path / "most.txt").read_text().split())) == 3


DOORS = """
case $(cat "$ACKD_BODY") in
*report*) ackd reply "$ACKD_MESSAGE_ID" --type message --body "on it"
          ackd send user --type message --body "from $ACKD_AGENT" ;;
*ack*)    ackd ack "$ACKD_MESSAGE_ID" && UNTIL_GO ;;
*done*)   ackd done "$ACKD_MESSAGE_ID"; exit 9 ;;
*defer*)  [ -e deferred ] || { touch deferred; ackd defer "$ACKD_MESSAGE_ID" --reason "the oven is cold"; } ;;
*refuse*) ackd refuse "$ACKD_MESSAGE_ID" --reason "not my trade" ;;
esac
""".replace("UNTIL_GO", UNTIL_GO)


def test_a_script_uses_the_doors_without_being_told_where_they_are(tmp_path: Path) -> None:
    """ACKD_AGENT and ACKD_ROOT say whose word it is and where; the working directory may be anywhere."""
    (tmp_path / "elsewhere").mkdir()
    team = worker(tmp_path, DOORS, keys='max_in_flight = 5\ncwd = "elsewhere"\n')
    (tmp_path / "work").rename(tmp_path / "elsewhere/work")
    with running(team):
        ids = {
            word: team.post("worker", body=f"content: {word}\n")
            for word in ("report", "ack", "done", "defer", "refuse")
        }
        team.fact("message_completed", message=ids["report"])
        (reply,) = [fact for fact in team.facts("message_queued") if fact.get("in_reply_to") == ids["report"]]
        assert (reply["from"], reply["agent"]) == ("worker", "user")
        assert team.fact("message_acked", message=ids["report"])["by"] == "a reply"
        assert team.fact("message_acked", message=ids["ack"])["by"] == "ackd ack"
        assert not team.facts("message_completed", message=ids["ack"])
        (tmp_path / "elsewhere/go").touch()
        assert team.fact("message_completed", message=ids["ack"])["by"] == "exit 0"
        assert team.fact("message_completed", message=ids["done"])["by"] == "ackd done"
        assert team.fact("message_retry", message=ids["defer"])["reason"] == "ackd defer: the oven is cold"
        assert team.fact("message_completed", message=ids["defer"])["by"] == "exit 0"
        assert team.fact("message_dead", message=ids["refuse"])["reason"] == "ackd refuse: not my trade"
        team.until(lambda: not team.files("receipts"))
        team.until(lambda: not list((team.root / "state/runs").iterdir()))  # also of those that spoke and then ended
    assert [fact["retry_count"] for fact in team.facts("message_retry", message=ids["defer"])] == [1]
    assert not team.facts("message_retry", message=ids["done"])


@pytest.mark.parametrize("age_s", [0.0, 100.0], ids=["just sent", "sent long ago"])
def test_what_is_said_of_waiting_mail_while_nobody_serves_is_heard_before_it_is_told(
    tmp_path: Path, age_s: float
) -> None:
    team = worker(tmp_path, 'echo "$ACKD_MESSAGE_ID" >>runs', quick="[watch]\nsettle_s = 2\n")
    ids = {word: team.send("worker", body=word) for word in ("refuse", "done", "neither")}
    assert team.ackd("refuse", ids["refuse"], "--agent", "worker", "--reason", "not today").returncode == 0
    assert team.ackd("done", ids["done"], "--agent", "worker").returncode == 0
    for path in (team.root / "queue/worker").glob("*.mime"):
        os.utime(path, (time.time() - age_s,) * 2)
    with running(team):
        team.fact("message_dead", message=ids["refuse"])
        assert team.fact("message_completed", message=ids["done"])["by"] == "ackd done"
        team.fact("message_completed", message=ids["neither"])
        team.until(lambda: not team.files("receipts"))
    assert (tmp_path / "runs").read_text().split() == [ids["neither"]]
    assert not team.facts("message_warning")


def test_a_noisy_command_leaves_one_harmless_line_as_its_reason(tmp_path: Path) -> None:
    script = "seq 1 200000; printf 'one\\n\\033[31mred\\033[0m\\ttwo\\nthree\\n' >&2; exit 1"
    team = worker(tmp_path, script, keys="retry_limit = 0\n")
    with running(team):
        reason = team.fact("message_dead", message=team.post("worker"))["reason"]
        explained = team.ackd("explain", team.facts("message_dead")[0]["message_id"], "--json")
    assert reason == "exit 1: one | red two | three"
    assert json.loads(explained.stdout)["state"] == "dead"
