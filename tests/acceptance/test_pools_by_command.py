"""Pools by the command line, beside the real daemon: one queue, several members, and who has what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, running

if TYPE_CHECKING:
    from pathlib import Path

TEAM = """
[pools.workers]
members = ["w1", "w2"]
[agents.w1]
labels = ["gpu"]
max_in_flight = 1
[agents.w2]
max_in_flight = 1
[agents.lead]
"""


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path, TEAM)


def holder(team: Team, message_id: str) -> str:
    return str(team.fact("message_told", message=message_id)["agent"])


def test_a_message_is_followed_from_the_pool_to_its_end_with_whoever_has_it(team: Team) -> None:
    with running(team):
        one = team.send("workers", "--from", "lead")
        member = holder(team, one)
        explained = team.ackd("explain", one).stdout
        assert f"workers ({member}): delivered" in explained
        assert f"waiting for {member} to ack it" in explained
        assert len(json.loads(team.ackd("explain", one, "--json").stdout)["recipients"]) == 1
        assert f"workers ({member}): delivered" in team.ackd("thread", one).stdout
        assert one in team.ackd("inbox", member).stdout + team.ackd("inbox", member, "--json").stdout
        assert team.ackd("done", one).returncode == 0, "its one recipient is who holds it"
        waited = team.ackd("wait", one, "--timeout", "30")
        assert (waited.returncode, waited.stdout.split()[:3]) == (0, ["completed:", "workers", f"({member})"])
        tailed = team.ackd("tail", "--agent", "workers", "--json").stdout
        assert {"message_queued", "message_claimed", "message_completed"} <= {
            json.loads(line)["type"] for line in tailed.splitlines()
        }


def test_a_wait_names_the_member(team: Team) -> None:
    agents = TEAM.replace("max_in_flight = 1", 'endpoint = "exec"\ncommand = ["cat"]')
    team = Team(team.place / "exec", agents)
    with running(team):
        sent = team.ackd("send", "workers", "--body", "x", "--wait", "completed", "--timeout", "30", "--json")
        assert sent.returncode == 0, sent.stderr
        (found,) = json.loads(sent.stdout)["recipients"].values()
        assert (found["state"], found["holder"]) == ("completed", "w1")
        shown = team.ackd("send", "workers", "--body", "x", "--wait-all", "--timeout", "30")
        assert shown.returncode == 0, shown.stderr
        assert "completed: workers (w" in shown.stdout


def test_what_nobody_has_yet_cannot_be_acked_and_another_members_neither(team: Team) -> None:
    with running(team):
        first, second = (team.send("workers", "--from", "lead", body=text) for text in ("one", "two"))
        members = {holder(team, first): first, holder(team, second): second}
        assert members.keys() == {"w1", "w2"}
        waiting = team.send("workers", "--from", "lead", body="three")
        team.fact("message_queued", message=waiting)
        for words in (("done", waiting), ("ack", waiting, "--agent", "w1")):
            refused = team.ackd(*words)
            assert refused.returncode == 1
            assert "waits in the queue of the pool workers: nobody has it yet" in refused.stderr
        refused = team.ackd("done", members["w2"], "--agent", "w1")
        assert refused.returncode == 1
        assert "w2 has it" in refused.stderr
        assert waiting in team.ackd("inbox", "workers", "--json").stdout
        assert json.loads(team.ackd("status", "--json").stdout)["pools"]["workers"]["at_work"] == {"w1": 1, "w2": 1}
        assert team.ackd("cancel", waiting, "--agent", "lead").returncode == 0
        team.fact("message_withdrawn", message=waiting)


def test_what_is_handed_back_is_followed_to_the_next_member(team: Team) -> None:
    with running(team):
        one = team.send("workers", "--from", "lead")
        first = holder(team, one)
        assert team.ackd("defer", one, "--agent", first, "--reason", "busy with other things").returncode == 0
        team.fact("message_handed_back", message=one)
        team.until(lambda: len(team.facts("message_told", message=one)) == 2)
        second = str(team.facts("message_told", message=one)[1]["agent"])
        assert second != first
        assert f"workers ({second}): delivered" in team.ackd("explain", one).stdout
        assert team.ackd("done", one).returncode == 0
        waited = team.ackd("wait", one, "--timeout", "30")
        assert f"completed: workers ({second})" in waited.stdout


def test_a_member_with_the_label_gets_it_and_a_label_that_nobody_has_is_warned_of(team: Team) -> None:
    with running(team):
        needed = team.send("workers", "--from", "lead", "--needs", "gpu")
        assert holder(team, needed) == "w1"
        preferred = team.send("workers", "--from", "lead", "--prefer", "gpu,tpu", body="rather")
        assert holder(team, preferred) == "w2", "w1 has work"
        file = next((team.root / "queue/w2/processed").glob("*.mime"))
        assert team.header(file, "X-ACKD-Prefers") == "gpu, tpu"
    warned = team.ackd("send", "workers", "--body", "x", "--needs", "tpu")
    assert warned.returncode == 0
    assert "no member of workers has what it needs (tpu): it waits until one has" in warned.stderr
    warned = team.ackd("send", "lead", "--body", "x", "--needs", "gpu")
    assert "labels are for pools, and none of the recipients is one" in warned.stderr
    refused = team.ackd("send", "workers", "--body", "x", "--needs", "no label!")
    assert refused.returncode == 2
    assert "is no label" in refused.stderr


def test_one_that_gave_a_message_back_completes_it_after_all_by_its_command(team: Team) -> None:
    with running(team):
        one = team.send("workers", "--from", "lead")
        member = holder(team, one)
        other = "w2" if member == "w1" else "w1"
        assert team.ackd("agent", "pause", other).returncode == 0
        assert team.ackd("defer", one, "--agent", member, "--reason", "not now").returncode == 0
        team.fact("message_handed_back", message=one)
        refused = team.ackd("done", one, "--agent", other)
        assert refused.returncode == 1, "it never had it"
        done = team.ackd("done", one, "--agent", member)
        assert done.returncode == 0, done.stderr
        team.fact("message_completed", message=one)


def test_a_dead_letter_of_a_pool_is_completed_late_by_the_member_that_had_it(team: Team) -> None:
    with running(team):
        one = team.send("workers", "--from", "lead")
        member = holder(team, one)
        assert team.ackd("refuse", one, "--agent", member, "--reason", "cannot be done").returncode == 0
        team.fact("message_dead", message=one)
        other = "w2" if member == "w1" else "w1"
        assert team.ackd("done", one, "--agent", other).returncode == 1
        done = team.ackd("done", one, "--agent", member)
        assert done.returncode == 0, done.stderr
        assert team.fact("message_completed", message=one)["late"] is True


def test_what_the_sender_cancels_in_a_members_hands_without_a_daemon_is_never_begun_again(tmp_path: Path) -> None:
    agents = TEAM.replace("max_in_flight = 1", 'endpoint = "exec"\ncommand = ["./work"]\nmax_in_flight = 1')
    team = Team(tmp_path, agents)
    team.script("work", "echo ran >>ran; while :; do sleep 0.05; done")
    with running(team):
        one = team.send("workers", "--from", "lead")
        team.until((tmp_path / "ran").exists)
        holder(team, one)
    assert team.ackd("cancel", one, "--agent", "lead").returncode == 0
    with running(team):
        assert team.fact("message_dead", message=one)["end"] == "cancelled"
        team.fact("message_completed", message=_quick(team))
    assert (tmp_path / "ran").read_text().splitlines() == ["ran"]


def _quick(team: Team) -> str:
    team.script("work", "exit 0")
    return team.send("workers", "--from", "lead")


@pytest.mark.parametrize("status", ["delivered", "acked"])
def test_a_member_that_has_left_the_team_gives_back_what_it_had(team: Team, status: str) -> None:
    with running(team):
        one = team.send("workers", "--from", "lead")
        member = holder(team, one)
        if status == "acked":
            assert team.ackd("ack", one, "--agent", member).returncode == 0
            team.fact("message_acked", message=one)
        team.until(lambda: [path for path in (team.root / f"queue/{member}/processed").glob("*.mime")
                            if team.header(path, "X-IGNITE-Status") == status])  # fmt: skip
    other = "w2" if member == "w1" else "w1"
    config = (team.place / "ackd.toml").read_text()
    for line in (
        f'[agents.{member}]\nlabels = ["gpu"]\nmax_in_flight = 1\n',
        f"[agents.{member}]\nmax_in_flight = 1\n",
    ):
        config = config.replace(line, "")
    (team.place / "ackd.toml").write_text(config.replace('["w1", "w2"]', f'["{other}"]'))
    with running(team):
        assert team.fact("message_handed_back", message=one)["agent"] == member
        team.until(lambda: team.facts("message_told", message=one, agent=other))
        assert team.ackd("done", one, "--agent", other).returncode == 0
        team.fact("message_completed", message=one)


def test_what_was_given_back_and_removed_while_no_daemon_ran_ends_under_the_pools_name(team: Team) -> None:
    with running(team):
        one = team.send("workers", "--from", "lead")
        member = holder(team, one)
        for name in ("w1", "w2"):
            assert team.ackd("agent", "pause", name).returncode == 0
        assert team.ackd("defer", one, "--agent", member, "--reason", "no").returncode == 0
        team.fact("message_handed_back", message=one)
        (waiting,) = team.until(lambda: [*(team.root / "queue/workers").glob("*.mime")])
    waiting.unlink()
    with running(team):
        end = team.fact("message_withdrawn", message=one)
        assert (end["agent"], end.get("pool")) == ("workers", None)
