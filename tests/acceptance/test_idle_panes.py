"""Agents in panes that are back at their prompt with work in hand, in front of the real daemon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.panes import Panes, fake, panes_in
from tests.acceptance.teams import Team, running
from tests.strays import UNTIL_GO
from tests.waiting import crowd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A look at a pane comes every 3 s.
LONG_S = 180.0

#: What all of them do in a turn: deal with each message that lies in their hands and is new to them.
HANDS = """
import email, json, os, pathlib, subprocess, sys

me, root = os.environ["ACKD_AGENT"], pathlib.Path(os.environ["ACKD_ROOT"])
known = pathlib.Path("known")
old = known.read_text().split() if known.exists() else []

def ackd(*words):
    return subprocess.run([sys.executable, "-m", "ackd", *words], check=True, capture_output=True, text=True).stdout

def new():
    for path in sorted((root / "queue" / me / "processed").glob("*.mime")):
        if path.name not in old:
            old.append(path.name)
            known.write_text(" ".join(old))
            mail = email.message_from_bytes(path.read_bytes())
            yield mail["Message-ID"].strip("<>"), mail["X-IGNITE-Type"], mail["From"]
"""
LEADER = f"""{HANDS}
goal, answers = pathlib.Path("goal"), pathlib.Path("answers")
for ident, kind, sender in new():
    if kind == "user_goal":
        goal.write_text(ident)
        ackd("ack", ident)
        for worker in ("w1", "w2", "w3"):
            ackd("send", worker, "--type", "task_assignment", "--force", "--body", "task_id: " + worker)
    else:
        ackd("done", ident)
        with answers.open("a") as file:
            file.write(sender + "\\n")
        if len(set(answers.read_text().split())) == 3:
            ackd("send", "user", "--body", "all three are through")
            ackd("done", goal.read_text())
"""
#: Each works until it is let go.
WORKER = f"""{HANDS}
import time
while not (root / "go").exists():
    time.sleep(0.05)
for ident, kind, sender in new():
    ackd("reply", ident, "--type", "task_completed", "--force", "--body", "task_id: " + me)
"""
#: Starts a story for its goal, and waits at its prompt.
STARTER = f"""{HANDS}
for ident, kind, sender in new():
    ackd("ack", ident)
    ackd("story", "start", "A-1")
"""


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Panes]:
    with panes_in(tmp_path) as found:
        yield found


def agent(panes: Panes, name: str, *options: str) -> str:
    """The table of an agent in a pane that ackd starts."""
    home, start = json.dumps(str(panes.home(name))), json.dumps(fake(*options))
    return f'[agents.{name}]\nendpoint = "tmux"\nprofile = "fake"\nstart = {start}\ncwd = {home}\n'


def program(panes: Panes, name: str, text: str) -> str:
    path = panes.home(name) / "turn.py"
    path.write_text(text)
    return str(path)


def test_a_leader_that_waits_at_its_prompt_gets_its_three_workers_answers_and_reports(panes: Panes) -> None:
    """With a window of one, which its goal fills from the first moment to the last."""
    tables = [agent(panes, "leader", "--work-s", "0.5", "--runs", program(panes, "leader", LEADER))]
    tables += [agent(panes, w, "--work-s", "0.1", "--runs", program(panes, w, WORKER)) for w in ("w1", "w2", "w3")]
    team = Team(panes.place, "\n".join([panes.config(), *tables]), delivery="max_in_flight = 1\nack_timeout_s = 20\n")
    with running(team):
        goal = team.send("leader", "--type", "user_goal", "--force", body="goal: ship it")
        assert team.fact("message_waits", message=goal)["waits_for"] == ["w1", "w2", "w3"]
        assert "waits for w1, w2, w3" in team.ackd("status").stdout
        (team.root / "go").touch()
        team.until(lambda: team.facts("message_completed", message=goal), LONG_S)
        answers = [
            one for one in team.facts("message_queued", agent="leader") if one["message_type"] == "task_completed"
        ]
        assert sorted(one["from"] for one in answers) == ["w1", "w2", "w3"]
        for one in answers:
            team.fact("message_completed", message=one["message_id"])
        (report,) = team.until(lambda: team.facts("message_queued", agent="user"))
        assert report["from"] == "leader"
        assert team.facts("idle_reminder", "nudge", "probe", "escalation", "message_retry", "message_dead") == []
        assert "its agent waits for w1, w2, w3" in team.ackd("explain", goal).stdout


def test_a_leader_that_waits_for_the_story_it_started_is_not_idle_until_that_is_over_across_a_kill(
    panes: Panes,
) -> None:
    """The idle rules hold from the end of the story on, and no sooner. Its worker is at work until it is let go."""
    leader = agent(panes, "leader", "--work-s", "0.1", "--runs", program(panes, "leader", STARTER))
    table = '[pipeline.worker]\ncommand = ["./work"]\n'
    team = Team(panes.place, f"{panes.config()}\n{leader}{table}", delivery="ack_timeout_s = 3\n")
    team.script("work", f'{UNTIL_GO}\necho "Stage $ACKD_STAGE ERROR for A-1: no"')

    def waits() -> list[object]:
        return [fact.get("waits_for") for fact in team.facts("message_waits", message=goal)]

    with running(team):
        goal = team.send("leader", "--type", "user_goal", "--force", body="goal: ship it")
        team.until(lambda: waits() == [["story A-1"]], LONG_S)
        team.kill()
        team.start()
        team.until(lambda: waits() == [["story A-1"]] * 2, LONG_S)
        assert "waits for story A-1" in team.ackd("status").stdout
        assert "started by leader" in team.ackd("story", "show", "A-1").stdout
        assert team.ackd("story", "cancel", "A-1").returncode == 0
        (panes.place / "go").touch()
        team.until(lambda: team.facts("idle_reminder", message=goal), LONG_S)
        seen = [one for one in team.types_of(goal) if one in ("message_waits", "idle_reminder")]
        assert (seen, waits()[2:]) == (["message_waits"] * 3 + ["idle_reminder"], [None])
        assert "its agent waits for story A-1" in team.ackd("explain", goal).stdout
        assert "waits for" not in team.ackd("status").stdout


def test_seen_and_never_finished_is_reminded_of_twice_told_of_and_dead_as_unfinished_across_a_kill(
    panes: Panes,
) -> None:
    """It goes busy on each line and comes back to its prompt, and neither acks nor finishes anything."""
    timings = f"ack_timeout_s = {4 * crowd():.1f}\ntask_timeout_s = {16 * crowd():.1f}\n"
    team = Team(panes.place, f"{panes.config()}\n{agent(panes, 'worker', '--work-s', '1')}", delivery=timings)
    with running(team):
        first, second = team.send("worker"), team.send("worker")
        claimed = team.root / team.fact("message_claimed", message=first)["file"]
        team.until(lambda: "reminders=1" in (team.header(claimed, "X-IGNITE-Idle") or ""), LONG_S)
        team.kill()
        team.start()
        team.until(lambda: "with work in hand, reminded once" in team.ackd("status").stdout)
        team.until(lambda: team.facts("message_told", message=second), LONG_S)
        (told,) = team.facts("escalation")
        assert (told["cause"], told["message_id"]) == ("idle", first)
        reminders = [line for line in panes.submitted() if "is not finished" in line and first in line]
        assert len(reminders) == 2
        assert all(f"ackd {word} {first}" in reminders[0] for word in ("done", "defer", "refuse"))
        dead = team.until(lambda: team.facts("message_dead", message=first), LONG_S)
        assert dead[0]["reason"].startswith("unfinished: ")
        assert team.facts("nudge", "probe") == []
        assert team.status()["agents"]["worker"]["state"] != "down"
        assert team.ackd("done", first, "--agent", "worker").returncode == 0
        assert team.fact("message_completed", message=first)["late"] is True
