"""Groups: one name for several agents, each of whom gets a copy, by whichever door the message comes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, mime, running

if TYPE_CHECKING:
    from pathlib import Path

TEAM = """
[groups]
reviewers = ["alice", "bob", "carol_c"]
lonely = ["alice"]
[agents.alice]
[agents.bob]
[agents.carol-c]
[agents.dave]
[agents.worker]
endpoint = "exec"
command = ["cat"]
"""
REVIEWERS = ("alice", "bob", "carol-c")
ID = "1770263544.7.abcdef@ignite.local"


def copies(team: Team, message_id: str) -> dict[str, int]:
    """How many files of the message each agent has, in hand or waiting."""
    found: dict[str, int] = {}
    for path in (team.root / "queue").rglob("[!.]*.mime"):
        if message_id in path.read_text():
            box = path.relative_to(team.root / "queue").parts[0]
            found[box] = found.get(box, 0) + 1
    return found


# --- by command -------------------------------------------------------------------------------------------------------
def test_each_member_gets_one_copy_of_one_message(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    sent = team.ackd("send", "reviewers", "--from", "dave", "--body", "look")
    assert sent.returncode == 0, sent.stderr
    first, second = sent.stdout.splitlines()
    message_id = first.split()[1]
    assert "for alice, bob, carol-c" in first
    assert second == "group reviewers: alice, bob, carol-c"
    assert copies(team, message_id) == dict.fromkeys(REVIEWERS, 1)
    (file,) = (team.root / "queue/bob").glob("*.mime")
    assert team.header(file, "To") == "alice, bob, carol-c"
    assert team.header(file, "X-ACKD-Copies") == "all"
    assert not (team.root / "queue/reviewers").exists()
    with running(team):
        for member in REVIEWERS:
            team.fact("message_told", message=message_id, agent=member)
        assert team.ackd("done", message_id, "--agent", "bob").returncode == 0
        team.fact("message_completed", message=message_id, agent="bob")
    assert not team.facts("message_copied")


@pytest.mark.parametrize(
    ("to", "sender", "expected", "said"),
    [
        (["reviewers", "bob"], "dave", ["alice", "bob", "carol-c"], "group reviewers: alice, bob, carol-c"),
        (["dave", "reviewers"], "worker", ["alice", "bob", "carol-c", "dave"], "group reviewers: alice, bob, carol-c"),
        (["reviewers", "lonely"], "dave", ["alice", "bob", "carol-c"], "group lonely: alice"),
        (["reviewers"], "bob", ["alice", "carol-c"], "group reviewers: alice, carol-c; not bob, who sends it"),
        (["reviewers"], "carol_c", ["alice", "bob"], "group reviewers: alice, bob; not carol-c, who sends it"),
        (["reviewers", "bob"], "bob", ["alice", "bob", "carol-c"], "group reviewers: alice, carol-c"),
        (["lonely"], "alice", ["alice"], "group lonely: alice"),
    ],
)
def test_everybody_once_and_not_the_sender(
    tmp_path: Path, to: list[str], sender: str, expected: list[str], said: str
) -> None:
    team = Team(tmp_path, TEAM)
    sent = team.ackd("send", *to, "--from", sender, "--body", "look")
    assert sent.returncode == 0, sent.stderr
    assert said in sent.stdout.splitlines()
    assert copies(team, sent.stdout.split()[1]) == dict.fromkeys(expected, 1)


def test_for_programs_the_members_are_listed_and_each_is_waited_for(tmp_path: Path) -> None:
    agents = TEAM.replace("[agents.alice]", '[agents.alice]\nendpoint = "exec"\ncommand = ["cat"]')
    team = Team(tmp_path, agents)
    with running(team):
        sent = team.ackd("send", "--to", "lonely", "worker", "--from", "alice", "--body", "x", "--json")
        found = json.loads(sent.stdout)
        assert (found["groups"], found["without_sender"]) == ({"lonely": ["alice"]}, [])
        waited = team.ackd(
            "send", "reviewers", "--from", "user", "--body", "x", "--wait", "told", "--timeout", "30", "--json"
        )
        assert waited.returncode == 0, waited.stderr
        found = json.loads(waited.stdout)
        assert found["groups"] == {"reviewers": list(REVIEWERS)}
        assert set(found["recipients"]) == set(REVIEWERS)


def test_a_reply_to_who_writes_as_a_group_goes_to_its_members(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    message_id = team.send("dave", "--from", "reviewers")
    replied = team.ackd("reply", message_id, "--agent", "dave", "--body", "thanks", "--json")
    assert replied.returncode == 0, replied.stderr
    found = json.loads(replied.stdout)
    assert found["groups"] == {"reviewers": list(REVIEWERS)}
    assert copies(team, found["message_id"]) == dict.fromkeys(REVIEWERS, 1)


def test_parts_that_go_to_a_group_are_told_of_unless_the_sender_says_not(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    whole = team.send("dave")
    for option, header in (([], "yes"), (["--no-notify-when-done"], "no")):
        part = team.send("lonely", "--from", "dave", "--part-of", whole, *option)
        (file,) = [one for one in (team.root / "queue/alice").glob("*.mime") if part in one.read_text()]
        assert team.header(file, "X-ACKD-Notify-When-Done") == header


@pytest.mark.parametrize(
    "words", [["agent", "pause", "reviewers"], ["agent", "list", "reviewers"], ["agent", "attach", "reviewers"]]
)
def test_what_needs_one_agent_names_the_members(tmp_path: Path, words: list[str]) -> None:
    refused = Team(tmp_path, TEAM).ackd(*words)
    assert refused.returncode == 67
    assert "'reviewers' is a group of alice, bob, carol-c, not an agent" in refused.stderr


def test_a_name_that_is_nearly_a_group_is_asked_about(tmp_path: Path) -> None:
    refused = Team(tmp_path, TEAM).ackd("send", "reviewer", "--body", "x")
    assert refused.returncode == 67
    assert "did you mean reviewers?" in refused.stderr


# --- by file ----------------------------------------------------------------------------------------------------------
def test_a_file_in_the_groups_queue_is_copied_to_each_and_archived(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    with running(team):
        team.drop("reviewers", mime(message_id=ID, sender="bob", to="reviewers"), "message_1.mime")
        done = team.fact("message_completed", message=ID, agent="reviewers")
        assert done["by"] == "seen: handed on to alice, carol-c"
        for member in ("alice", "carol-c"):
            team.fact("message_told", message=ID, agent=member)
        assert copies(team, ID) == {"alice": 1, "carol-c": 1}
        (file,) = (team.root / "queue/alice/processed").glob("*.mime")
        assert team.header(file, "To") == "alice, bob, carol-c"
        assert "reviewers" in done["file"]
        status = json.loads(team.ackd("status", "--json").stdout)
        assert status["groups"] == {
            "reviewers": {"members": list(REVIEWERS), "queued": 0},
            "lonely": {"members": ["alice"], "queued": 0},
        }
        assert "reviewers" not in status["agents"]
        shown = team.ackd("status").stdout
        assert "group reviewers: alice, bob, carol-c" in shown


def test_a_file_in_another_queue_that_names_a_group_is_copied_to_its_members(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    other = ID.replace(".7.", ".8.")
    with running(team):
        team.drop("dave", mime(message_id=ID, sender="worker", to="reviewers"), "message_1.mime")
        team.drop("alice", mime(message_id=other, sender="bob", to="dave, reviewers"), "message_2.mime")
        for member in ("dave", *REVIEWERS):
            team.fact("message_told", message=ID, agent=member)
        for member in ("dave", "alice", "carol-c"):
            team.fact("message_told", message=other, agent=member)
        for message_id in (ID, other):
            team.fact("message_completed", message=message_id, agent="reviewers")
        assert copies(team, ID) == dict.fromkeys(("dave", *REVIEWERS), 1)
        assert copies(team, other) == dict.fromkeys(("dave", "alice", "carol-c"), 1)


def test_the_same_words_twice_are_two_messages(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    other = ID.replace(".7.", ".8.")
    with running(team):
        for number, message_id in enumerate((ID, other)):
            team.drop("lonely", mime(message_id=message_id, sender="bob", to="lonely"), f"message_{number}.mime")
            team.fact("message_told", message=message_id, agent="alice")
            team.fact("message_completed", message=message_id, agent="lonely")
        assert copies(team, ID) == copies(team, other) == {"alice": 1}
        third = ID.replace(".7.", ".9.")
        team.drop("dave", mime(message_id=third, sender="bob", to="dave, lonely"), "message_9.mime")
        team.fact("message_told", message=third, agent="alice")


def test_a_crash_between_the_copies_gives_nobody_two(tmp_path: Path) -> None:
    """bob's queue is a file, so that his copy cannot be written, while alice and carol have theirs."""
    team = Team(tmp_path, TEAM, delivery="backoff_base_s = 0.3\nretry_limit = 100\n")
    (team.root / "queue").mkdir(parents=True)
    (team.root / "queue/bob").write_text("in the way")
    with running(team):
        team.drop("reviewers", mime(message_id=ID, sender="dave", to="reviewers"), "message_1.mime")
        team.fact("message_retry", message=ID, agent="reviewers")
        for member in ("alice", "carol-c"):
            team.fact("message_told", message=ID, agent=member)
        assert team.ackd("done", ID, "--agent", "alice").returncode == 0
        team.fact("message_completed", message=ID, agent="alice")
        team.kill()
        (team.root / "queue/bob").unlink()
        team.start()
        team.fact("message_completed", message=ID, agent="reviewers")
        team.fact("message_told", message=ID, agent="bob")
        assert copies(team, ID) == {"carol-c": 1, "bob": 1}
        copied = [line["agent"] for line in team.facts("message_copied", message=ID)]
        assert sorted(copied) == sorted(REVIEWERS)


# --- escalations ------------------------------------------------------------------------------------------------------
def test_an_escalation_goes_to_every_member_and_stays_open_until_one_deals_with_it(tmp_path: Path) -> None:
    team = Team(
        tmp_path,
        TEAM.replace('command = ["cat"]', 'command = ["false"]'),
        top='escalate_to = "reviewers"',
        delivery="retry_limit = 0\n",
    )
    with running(team):
        dead = team.send("worker", "--from", "user")
        escalation = team.fact("escalation", message=dead)
        assert escalation["to"] == "reviewers"
        ident = escalation["escalation_id"]
        for member in REVIEWERS:
            team.fact("message_told", message=ident, agent=member)
        team.fact("message_completed", message=ident, agent="reviewers")
        assert not team.facts("escalation_closed")
        assert team.ackd("done", ident, "--agent", "carol-c").returncode == 0
        closed = team.fact("escalation_closed")
        assert (closed["escalation_id"], closed["by"]) == (ident, "carol-c")
