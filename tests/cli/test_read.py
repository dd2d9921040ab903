"""`ackd read`: the message, what to do next, and whose reading counts as seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

Team = Any  # conftest.py's: test files do not import each other


def test_reading_prints_headers_and_body(team: Team) -> None:
    message_id = team.send("leader", "--body", "ünï")
    result = team.ackd("read", message_id.partition("@")[0])
    assert result.stdout == team.files()[0].read_text()
    assert team.receipts() == []


def test_the_recipients_own_reading_counts_as_seen(team: Team) -> None:
    message_id = team.send("leader", "user", "--body", "x")
    content = team.json("read", f"<{message_id}>", "--agent", "user")
    assert (content["agent"], content["headers"]["To"]) == ("user", "leader, user")
    assert [(r["kind"], r["message_id"], r["agent"]) for r in team.receipts()] == [("seen", message_id, "user")]


def test_somebody_elses_reading_proves_nothing(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    assert team.ackd("read", message_id, env={"ACKD_AGENT": "user"}).exit_code == 0
    assert team.receipts() == []


@pytest.mark.parametrize("wanted", ["absent", "/etc/passwd", "./absent.mime", ""])
def test_nothing_to_read(team: Team, wanted: str) -> None:
    team.send("leader", "--body", "x")
    assert team.ackd("read", wanted).exit_code == 66


def test_a_whole_id_beats_longer_ones_that_begin_with_it(team: Team) -> None:
    team.send("leader", "--body", "x")
    (path,) = team.files()
    whole = json.loads(team.ackd("inbox", "leader", "--json").stdout)["messages"][0]["message_id"]
    longer = path.read_text().replace(f"<{whole}>", f"<{whole}.copy>")
    (path.parent / "other.mime").write_text(longer)
    assert team.json("read", whole)["message_id"] == whole


# --- what to do next
def test_its_recipient_is_told_what_to_do_next_with_the_id(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    said = team.ackd("read", message_id, "--agent", "leader").stdout
    assert said.startswith(team.files()[0].read_text())
    for command in ("ack", "done", "reply", "checkpoint", "defer", "refuse"):
        assert f"ackd {command} {message_id}" in said
    assert team.json("read", message_id, "--agent", "leader")["next"]["it is finished"] == f"ackd done {message_id}"


def test_nobody_else_is_told_what_to_do_and_what_is_printed_is_the_file(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    for words in ([], ["--agent", "user"]):
        assert team.ackd("read", message_id, *words).stdout == team.files()[0].read_text()
        assert team.json("read", message_id, *words)["next"] == {}


def test_an_id_that_a_shell_would_act_on_stands_in_no_command(team: Team) -> None:
    team.send("leader", "--body", "x")
    (path,) = team.files()
    text = path.read_text()
    message_id = text.partition("Message-ID: <")[2].partition(">")[0]
    path.write_text(text.replace(message_id, "1.2.$(reboot)"))
    commands = team.json("read", str(path), "--agent", "leader")["next"]
    assert commands["it is finished"] == f"ackd done {path}"


# --- a few characters of the id
def test_eight_characters_of_an_id_are_enough_for_every_command(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    short = message_id.partition("@")[0].rpartition(".")[2][:8]
    assert len(short) == 8
    assert team.json("read", short, "--agent", "leader")["message_id"] == message_id
    for command in (["ack"], ["done"], ["defer", "--reason", "later"]):
        assert (
            team.json(command[0], short, *command[1:], "--agent", "leader")["receipts"][0]["message_id"] == message_id
        )


def test_characters_that_fit_several_mean_the_one_in_the_agents_hand(team: Team) -> None:
    for body in ("one", "two"):
        team.send("leader", "--body", body)
    for number, path in enumerate(team.files()):
        text = path.read_text()
        message_id = text.partition("Message-ID: <")[2].partition(">")[0]
        path.write_text(text.replace(message_id, f"1.2.4f2a91c0{number}"))
    assert team.ackd("read", "4f2a91c0", "--agent", "leader").exit_code != 0
    held = team.files()[1]
    (held.parent / "processed").mkdir(exist_ok=True)
    held.rename(held.parent / "processed" / held.name)
    assert team.json("read", "4f2a91c0", "--agent", "leader")["message_id"] == "1.2.4f2a91c01"
    assert team.json("done", "4f2a91c0", "--agent", "leader")["receipts"][0]["message_id"] == "1.2.4f2a91c01"
