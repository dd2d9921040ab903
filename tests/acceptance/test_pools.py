"""A queue that agents of each kind share: a leader fans out, members die and park, and everything is known in the end."""

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

from ackd.formats import utc_times
from tests.acceptance.panes import Panes, panes_in
from tests.acceptance.teams import Team, running
from tests.acceptance.workers import agent, sdk
from tests.waiting import crowd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASKS = 50
LEADER = """
[agents.leader]
endpoint = "inbox"
"""
#: Two commands, one of which never ends by itself until it is let; a worker; two panes.
MEMBERS = """
[agents.quick]
endpoint = "exec"
command = ["./work"]
max_in_flight = 1

[agents.slow]
endpoint = "exec"
command = ["./work"]
max_in_flight = 1

[agents.pane_1]
endpoint = "tmux"
profile = "fake"
title = "pane_1"
ack_timeout_s = 60

[agents.pane_2]
endpoint = "tmux"
profile = "fake"
title = "pane_2"
ack_timeout_s = 60

[pools.workers]
members = ["quick", "slow", "child", "pane_1", "pane_2"]
"""
#: What is to be held, is held until it is ended; all else takes a moment.
WORK = (
    'if grep -q "hold" "$ACKD_BODY"; then echo "$ACKD_MESSAGE_ID" >>held; while :; do sleep 0.05; done; fi; sleep 0.05'
)
CHILD = (
    "def work(task):\n"
    "    if once('child_began'): touch_and_wait()\n"
    "def touch_and_wait():\n"
    "    open('child.pid', 'w').write(str(os.getpid()))\n"
    "    while True: time.sleep(0.05)\n"
)


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Panes]:
    with panes_in(tmp_path) as found:
        yield found


def thread(team: Team, message_id: str) -> dict[str, Any]:
    shown = team.ackd("thread", message_id, "--json")
    assert shown.returncode == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fifty_tasks_for_five_members_of_three_kinds_of_whom_two_die_and_one_parks(panes: Panes) -> None:
    """One task is cancelled at work, one expires in line. The leader's wait returns when all have ended."""
    child = agent("child", more='restart = "never"\n')
    team = Team(panes.place, f"{panes.config()}\n{LEADER}{child}{MEMBERS}", delivery="retry_limit = 5\n")
    team.script("work", WORK)
    sdk(team, CHILD)
    panes.environment.update({"ACKD_ROOT": str(team.root), "ACKD_CONFIG": str(team.place / "ackd.toml")})
    ids = {name: panes.open(name, "--work-s", "0.2", "--obeys") for name in ("pane_1", "pane_2")}
    with running(team):
        goal = team.send("leader", "--from", "user", body="share this out")
        held = team.send("workers", "--from", "leader", "--part-of", goal, body="hold this one")
        waiting = [team.post("workers", sender="leader", extra=f"X-ACKD-Part-Of: <{goal}>\n") for _ in range(TASKS - 2)]
        soon = utc_times.write(time.time() + 1)
        wish = f"X-ACKD-Part-Of: <{goal}>\nX-ACKD-Needs: nothing-has-this\nX-ACKD-Expires: {soon}\n"
        late = team.post("workers", sender="leader", extra=wish)
        # The child dies with a task in hand, and is not started again; a pane is closed; the other asks a person.
        team.until((team.place / "child.pid").exists)
        os.kill(int((team.place / "child.pid").read_text()), signal.SIGKILL)
        team.until(lambda: team.facts("message_seen", agent="pane_1"))
        panes.kill(ids["pane_1"])
        team.until(lambda: team.facts("message_completed", agent="pane_2"))
        panes.control("prompt", "pane_2")
        team.until(lambda: [one for one in team.facts("agent_state", agent="pane_2") if one["state"] == "parked"])
        # The one that is held is cancelled by its sender.
        team.until((team.place / "held").exists)
        assert team.ackd("cancel", held, "--agent", "leader", "--reason", "the plan changed").returncode == 0
        # The leader is told once when all have ended, and finishes; whoever waits for the tree waits for all of it.
        command = [sys.executable, "-m", "ackd", "wait", goal, "--tree", "--timeout", "240", "--json"]
        with subprocess.Popen(command, cwd=team.place, env=team.environment, stdout=subprocess.PIPE) as waits:
            team.until(lambda: team.facts("parts_ended", message=goal), 120 * crowd())
            assert waits.poll() is None
            assert team.ackd("done", goal, "--agent", "leader").returncode == 0
            waited = json.loads(waits.communicate(timeout=60)[0])
        assert waited["outcome"] != "timed out", waited
        shown = thread(team, goal)
        ends = {one["message_id"]: one["recipients"][0] for one in shown["messages"]}
        assert Counter(ends[one]["state"] for one in waiting) == {"completed": TASKS - 2}
        assert (ends[held]["state"], ends[late]["state"]) == ("cancelled", "dead")
        done_by = Counter(fact["agent"] for fact in team.facts("message_completed") if fact.get("pool") == "workers")
        assert sum(done_by.values()) == TASKS - 2
        assert done_by["child"] == 0
        assert done_by["quick"] > 0
        assert done_by["slow"] > 0
        for one in waiting:  # exactly one holder at a time, and no run after its completion
            assert [fact["agent"] for fact in team.facts("message_completed", message=one)]
            types = [kind for kind in team.types_of(one) if kind in ("message_claimed", "message_handed_back")]
            assert types == ["message_claimed", *["message_handed_back", "message_claimed"] * (len(types) // 2)]
        gave_back = {fact["agent"] for fact in team.facts("message_handed_back")}
        assert {"child", "pane_1"} <= gave_back, "both died with a task in hand"
        counted = [fact for fact in team.facts("message_retry", agent="child") if fact["counted"]]
        assert len(counted) == 1  # the task that it died with; what it could not be told any more counts for nothing
