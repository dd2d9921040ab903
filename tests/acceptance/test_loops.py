"""Two commands that answer whatever they get, under the real daemon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.acceptance.teams import Team, running

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = """
[agents.leader]
endpoint = "inbox"

[agents.ping]
endpoint = "exec"
command = ["./answer"]

[agents.pong]
endpoint = "exec"
command = ["./answer"]
"""


def test_two_commands_that_answer_each_other_are_told_of_held_shown_and_let_go(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, top='escalate_to = "leader"', delivery="loop_limit = 1\n")
    team.script("answer", 'exec ackd reply "$ACKD_MESSAGE_ID" --body "thank you" >/dev/null')
    with running(team):
        first = team.send("ping", "--from", "pong", body="hello")
        held = team.fact("message_held")
        answers = team.facts("message_queued")
        threads = {fact["thread_id"] for fact in answers if "in_reply_to" in fact}
        assert threads == {first}, "a reply carries the thread on"
        chain = [fact for fact in answers if fact["from"] in ("ping", "pong")]
        assert len(chain) == 21, "ten rounds of two, and the message that began it"
        (loop, *_) = team.facts("loop_detected")
        assert (loop["members"], loop["about"], loop["rounds"]) == (["ping", "pong"], first, 2)
        assert len([fact for fact in team.facts("notice") if fact["cause"] == "loop"]) == 1
        assert must_say(team, "status", held["message_id"].partition("@")[0])
        (shown,) = json.loads(team.ackd("status", "--json").stdout)["held"]
        assert shown["message_id"] == held["message_id"]
        assert must_say(team, f"explain {held['message_id']}", "ackd loop release")
        team.kill()
        team.start()
        after = team.send("leader")
        team.fact("message_told", message=after)
        assert held["message_id"] not in {fact["message_id"] for fact in team.facts("message_told")}
        assert must_say(team, "status", "ackd loop release")
        assert must_say(team, "loop list", held["message_id"])
        assert team.ackd("loop", "release", after).returncode == 1
        assert team.ackd("loop", "release", held["message_id"]).returncode == 0
        team.fact("message_released", message=held["message_id"])
        team.fact("message_completed", message=held["message_id"])


def must_say(team: Team, command: str, words: str) -> bool:
    said = team.ackd(*command.split())
    assert said.returncode == 0, said.stderr
    return words in said.stdout
