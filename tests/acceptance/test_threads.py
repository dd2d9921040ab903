"""A leader that shares its work out: what comes of one message is known, waited for, and told once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client.message_history import OVER
from tests.acceptance.teams import Team, running
from tests.strays import UNTIL_GO

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AGENTS = """
[agents.leader]
endpoint = "exec"
command = ["./lead"]

[agents.worker]
endpoint = "exec"
command = ["./work"]
max_in_flight = 3
retry_limit = 0

[agents.helper]
endpoint = "exec"
command = ["./help"]

[agents.expert]
endpoint = "exec"
command = ["./know"]
"""
#: It sends five tasks and ends. Whatever it is told later it writes down.
LEAD = """
case "$ACKD_TYPE" in
  notification) echo "$ACKD_MESSAGE_ID" >>told.txt; cat "$ACKD_BODY" >>bodies.txt; exit 0;;
  dead_letter) exit 0;;
esac
for what in plain ask ask die refuse; do ackd send worker --body "$what" || exit 1; done
"""
#: Two of the tasks it hands on: what it sends is part of its own task, without a word about it.
WORK = """
case $(cat "$ACKD_BODY") in
  *ask*) ackd send helper --body "look into it";;
  *die*) exit 3;;
  *refuse*) exit 65;;
esac
"""
#: It asks somebody else, whose answer it gets, and which asks for nothing more.
HELP = """
case "$ACKD_FROM" in expert|queue_monitor) exit 0;; esac
ackd send expert --body "do you know?"
"""
KNOW = 'ackd reply "$ACKD_MESSAGE_ID" --body "I know"'


def team_of(place: Path, *, delivery: str = "notify_when_done = true\n", know: str = KNOW) -> Team:
    team = Team(place, AGENTS, top='escalate_to = "user"', delivery=delivery)
    for name, script in {"lead": LEAD, "work": WORK, "help": HELP, "know": know}.items():
        team.script(name, script)
    return team


def thread(team: Team, message_id: str) -> dict[str, Any]:
    shown = team.ackd("thread", message_id, "--json")
    assert shown.returncode == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def shape(found: dict[str, Any]) -> Counter[tuple[int, str | None, str, str, str]]:
    return Counter(
        (one["depth"], one["how"], one["from"], to["agent"], to["state"])
        for one in found["messages"]
        for to in one["recipients"]
        if one["from"] != "queue_monitor"
    )


def all_over(found: dict[str, Any]) -> bool:
    """Of ackd's own notices as well: what is still on its way is further when one looks again."""
    return all(to["state"] in OVER for one in found["messages"] for to in one["recipients"])


WHOLE = Counter(
    {
        (0, None, "user", "leader", "completed"): 1,
        (1, "part", "leader", "worker", "completed"): 3,
        (1, "part", "leader", "worker", "dead"): 2,
        (2, "part", "worker", "helper", "completed"): 2,
        (3, "part", "helper", "expert", "completed"): 2,
        (4, "answer", "expert", "helper", "completed"): 2,
    }
)


def notices_to(team: Team, agent: str) -> set[str]:
    """Ids of the notices that were met in the agent's queue."""
    queued = team.facts("message_queued", agent=agent)
    return {one["message_id"] for one in queued if one["message_type"] == "notification"}


def test_wait_tree_returns_when_all_has_ended_and_the_thread_tells_it_truthfully(tmp_path: Path) -> None:
    team = team_of(tmp_path)
    with running(team):
        goal = team.send("leader", body="the goal")
        waited = team.ackd("wait", goal, "--tree", "--timeout", "60", "--json")
        ended = {(one["message_id"], one["agent"]) for one in team.facts("message_completed", "message_dead")}
        found = thread(team, goal)
        assert waited.returncode == 1, waited.stderr  # two are dead
        answer = json.loads(waited.stdout)
        assert answer["outcome"] == "failed"
        # Whatever the wait speaks of had ended when it returned, and it speaks of all parts, however deep.
        assert {(one["message_id"], one["agent"]) for one in answer["messages"]} <= ended
        assert Counter(one["state"] for one in answer["messages"]) == {"completed": 8, "dead": 2}
        answers = {"completed", "processing", "delivered", "queued"}  # nobody waits for answers to be read
        settled = {row: n for row, n in shape(found).items() if row[1] != "answer"}
        assert settled == {row: n for row, n in WHOLE.items() if row[1] != "answer"}
        assert {row[4] for row in shape(found) if row[1] == "answer"} <= answers
        found = team.until(lambda: (it := thread(team, goal)) and shape(it) == WHOLE and all_over(it) and it)
        for one in found["messages"]:
            for to in one["recipients"]:
                told = json.loads(team.ackd("explain", one["message_id"], "--json").stdout)
                states = {each["agent"]: each["state"] for each in told["recipients"]}
                assert states[to["agent"]] == to["state"]
        deepest = max(found["messages"], key=lambda one: one["depth"])
        branch = json.loads(team.ackd("explain", deepest["parent"], "--tree", "--json").stdout)
        assert [one["depth"] for one in branch["messages"]] == [0, 1]


def test_the_leader_is_told_once_of_all_five(tmp_path: Path) -> None:
    team = team_of(tmp_path)
    with running(team):
        goal = team.send("leader", body="the goal")
        told = team.fact("parts_ended", message=goal)
        team.fact("message_completed", message=told["notice_id"])
        assert (told["parts"], told["ends"]) == (5, {"completed": 3, "dead": 2})
        assert (tmp_path / "told.txt").read_text().split() == [told["notice_id"]]
        body = (tmp_path / "bodies.txt").read_text()
        assert body.count("state: completed") == 3
        assert body.count("state: dead") == 2
        assert "exit 65" in body
        # The helper's and the worker's own parts make notices to them, and none of these to the leader.
        team.until(lambda: len(team.facts("parts_ended")) == 5)
        assert len(team.facts("parts_ended", agent="leader")) == 1


def test_nobody_is_told_unless_it_is_asked_for(tmp_path: Path) -> None:
    team = team_of(tmp_path, delivery="")
    with running(team):
        goal = team.send("leader", body="the goal")
        assert team.ackd("wait", goal, "--tree").returncode == 1
    assert not team.facts("parts_ended")


def _a_part_has_ended(team: Team, goal: str) -> bool:
    parts = {one["message_id"] for one in team.facts("message_queued") if one.get("part_of") == goal}
    return any(one["message_id"] in parts for one in team.facts("message_completed", "message_dead"))


def _all_parts_have_ended(team: Team, goal: str) -> bool:
    parts = {one["message_id"] for one in team.facts("message_queued") if one.get("part_of") == goal}
    ended = {one["message_id"] for one in team.facts("message_completed", "message_dead")}
    return len(parts) == 5 and parts <= ended


def _the_notice_is_queued(team: Team, goal: str) -> bool:
    del goal
    return bool(notices_to(team, "leader"))


@pytest.mark.slow
@pytest.mark.parametrize("moment", [_a_part_has_ended, _all_parts_have_ended, _the_notice_is_queued])
def test_the_leader_is_told_once_though_the_daemon_is_killed(
    tmp_path: Path, moment: Callable[[Team, str], bool]
) -> None:
    team = team_of(tmp_path)
    with running(team):
        goal = team.send("leader", body="the goal")
        team.until(lambda: moment(team, goal))
        team.kill()
        team.start()
        told = team.fact("parts_ended", message=goal)
        team.fact("message_completed", message=told["notice_id"])
        assert team.ackd("wait", goal, "--tree", "--timeout", "60").returncode == 1
        settled = {row: n for row, n in shape(thread(team, goal)).items() if row[1] != "answer"}
        assert settled == {row: n for row, n in WHOLE.items() if row[1] != "answer"}
        assert notices_to(team, "leader") == {told["notice_id"]}
        assert len(set((tmp_path / "told.txt").read_text().split())) == 1
        assert {one["notice_id"] for one in team.facts("parts_ended", agent="leader")} == {told["notice_id"]}


def test_send_wait_all_waits_for_what_comes_of_it(tmp_path: Path) -> None:
    team = team_of(tmp_path)
    with running(team):
        sent = team.ackd("send", "leader", "--body", "the goal", "--wait-all", "--timeout", "60", "--json")
        assert sent.returncode == 1
        answer = json.loads(sent.stdout)
        assert answer["recipients"] == {"leader": {"state": "completed", "receipts": []}}
        assert len(team.facts("message_dead")) == 2


def test_whoever_stops_waiting_is_told_that_everything_goes_on(tmp_path: Path) -> None:
    team = team_of(tmp_path, know=f"{UNTIL_GO}\n{KNOW}")
    with running(team):
        goal = team.send("leader", body="the goal")
        late = team.ackd("wait", goal, "--tree", "--timeout", "1")
        assert late.returncode == 75
        assert " open: " in late.stderr
        waits = [sys.executable, "-m", "ackd", "wait", goal, "--tree", "--timeout", "60"]
        waiting = subprocess.Popen(
            waits, cwd=tmp_path, env=team.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert waiting.stdout is not None
        waiting.stdout.readline()  # it says what has ended, so it waits for the rest
        waiting.send_signal(signal.SIGINT)
        _, errors = waiting.communicate(timeout=60)
        assert waiting.returncode == 130
        assert "stay queued" in errors
        (tmp_path / "go").touch()
        assert team.ackd("wait", goal, "--tree", "--timeout", "60").returncode == 1


def test_without_a_daemon_it_says_what_is_open(tmp_path: Path) -> None:
    team = team_of(tmp_path)
    goal = team.send("leader", body="the goal")
    began = time.monotonic()
    waited = team.ackd("wait", goal, "--tree", "--timeout", "60")
    assert waited.returncode == 69
    assert "leader has not taken it yet" in waited.stderr
    assert time.monotonic() - began < 60
    assert os.listdir(team.root / "queue/leader")  # noqa: PTH208
