"""`ackd ack`, `done`, `refuse`, `defer`: an agent's word, written down once it is clear whose and about what."""

from __future__ import annotations

import json
from typing import Any

import pytest

Team = Any  # conftest.py's: test files do not import each other


@pytest.mark.parametrize("kind", ["ack", "done"])
def test_a_receipt_is_dropped_for_a_unique_beginning(team: Team, kind: str) -> None:
    message_id = team.send("worker_1", "--body", "x")
    result = team.ackd(kind, message_id.partition("@")[0], "--agent", "worker-1")
    assert result.exit_code == 0
    assert result.stdout == f"{kind}: receipt written for {message_id} (waits: no daemon is running)\n"
    (receipt,) = team.receipts()
    assert (receipt["kind"], receipt["message_id"], receipt["agent"]) == (kind, message_id, "worker_1")


@pytest.mark.parametrize("kind", ["refuse", "defer"])
def test_giving_back_needs_a_reason(team: Team, kind: str) -> None:
    message_id = team.send("leader", "--body", "x")
    assert team.ackd(kind, message_id, "--agent", "leader").exit_code == 2
    assert team.ackd(kind, message_id, "--agent", "leader", "--reason", "busy").exit_code == 0
    assert [(receipt["kind"], receipt["reason"]) for receipt in team.receipts()] == [(kind, "busy")]


def test_a_reason_that_plays_tricks_is_bad_data(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    assert team.ackd("refuse", message_id, "--agent", "leader", "--reason", "\x1b]0;x").exit_code == 65
    assert team.receipts() == []


# --- done --all -------------------------------------------------------------------------------------------------------
def told(team: Team, *ids: str) -> None:
    """Have the messages told, as the daemon does it: they lie in processed/ then."""
    for path in team.files():
        if any(one in path.read_text() for one in ids):
            (path.parent / "processed").mkdir(exist_ok=True)
            path.rename(path.parent / "processed" / path.name)


def test_done_all_completes_what_the_agent_was_told_of_and_nothing_else(team: Team) -> None:
    first, second, waits = (team.send("leader", "--body", text) for text in ("one", "two", "three"))
    others = team.send("user", "--body", "x")
    told(team, first, second, others)
    written = team.json("done", "--all", "--agent", "leader")["receipts"]
    assert {one["message_id"] for one in written} == {first, second}
    assert {(one["kind"], one["agent"]) for one in team.receipts()} == {("done", "leader")}
    assert waits not in {one["message_id"] for one in team.receipts()}


def test_done_all_with_nothing_in_hand_says_so(team: Team) -> None:
    team.send("leader", "--body", "x")
    result = team.ackd("done", "--all", "--agent", "leader")
    assert (result.exit_code, team.receipts()) == (0, [])
    assert "nothing is in hand" in result.stdout


def test_done_all_needs_to_know_whose(team: Team) -> None:
    assert team.ackd("done", "--all").exit_code == 2


@pytest.mark.parametrize("words", [[], ["1.2.3", "--all"]])
def test_done_takes_ids_or_all(team: Team, words: list[str]) -> None:
    result = team.ackd("done", *words, "--agent", "leader")
    assert result.exit_code == 2
    assert "name the messages, or say --all" in result.stderr


def test_the_environment_says_whose(team: Team) -> None:
    team.json("ack", team.send("leader", "--body", "x"), env={"ACKD_AGENT": "leader"})
    assert team.receipts()[0]["agent"] == "leader"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["ack", "nothing", "--agent", "leader"], 66),
        (["ack", "nothing", "--agent", "nobody"], 67),
        (["ack", "nothing", "--agent", "../x"], 67),
        (["ack", "", "--agent", "leader"], 66),
    ],
)
def test_no_such_message_or_agent(team: Team, args: list[str], code: int) -> None:
    team.send("leader", "--body", "x")
    assert team.ackd(*args).exit_code == code
    assert team.receipts() == []


def test_another_agents_message_is_not_ones_own(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    assert team.ackd("done", message_id, "--agent", "user").exit_code == 1
    assert team.receipts() == []


def test_a_beginning_that_fits_several_is_refused_and_lists_them(team: Team) -> None:
    ids = [team.send("leader", "--body", "x") for _ in range(2)]
    result = team.ackd("ack", ids[0][:3], "--agent", "leader")
    assert result.exit_code == 2
    assert all(message_id in result.stderr for message_id in ids)


def test_one_wrong_id_among_several_writes_nothing(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    assert team.ackd("ack", message_id, "nothing", "--agent", "leader").exit_code == 66
    assert team.receipts() == []


def test_a_path_means_the_message_in_it(team: Team) -> None:
    team.send("leader", "--body", "x")
    (path,) = team.files()
    processed = path.parent / "processed" / path.name
    path.rename(processed)
    assert team.ackd("done", str(processed), "--agent", "leader").exit_code == 0
    assert len(team.receipts()) == 1


def test_what_is_completed_already_needs_no_word(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    archive = team.root / "archive" / "20261116" / "leader"
    archive.mkdir(parents=True)
    (path,) = team.files()
    path.rename(archive / path.name)
    result = team.ackd("done", message_id, "--agent", "leader")
    assert (result.exit_code, result.stdout) == (0, f"{message_id} is completed already: nothing to say\n")
    assert team.ackd("refuse", message_id, "--agent", "leader", "--reason", "x").exit_code == 1
    assert team.receipts() == []


def test_an_escalation_whose_mail_was_seen_can_still_be_answered(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    archive, state = team.root / "archive" / "20261116" / "leader", team.root / "state"
    archive.mkdir(parents=True)
    state.mkdir(exist_ok=True)
    (path,) = team.files()
    path.rename(archive / path.name)
    (state / "escalations.json").write_text(json.dumps({"open": [{"escalation_id": message_id}]}))
    assert team.ackd("ack", message_id, "--agent", "leader").stdout.endswith("nothing to say\n")
    assert team.ackd("done", message_id, "--agent", "leader").exit_code == 0
    assert len(team.receipts()) == 1


def test_a_late_completion_of_a_dead_letter_counts_but_it_cannot_be_given_back(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    (team.root / "queue" / "dead_letter").mkdir()
    (path,) = team.files()
    text = path.read_text().replace("Content-Type", "X-IGNITE-Recipient: leader\nContent-Type")
    path.unlink()
    (team.root / "queue" / "dead_letter" / path.name).write_text(text)
    assert team.ackd("defer", message_id, "--agent", "leader", "--reason", "x").exit_code == 1
    assert team.ackd("done", message_id, "--agent", "leader").exit_code == 0
    assert len(team.receipts()) == 1


# --- a config that cannot be read -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words", [["ack"], ["done"], ["refuse", "--reason", "x"], ["defer", "--reason", "x"], ["checkpoint"], ["read"]]
)
@pytest.mark.parametrize("config", ["escalate_to = \n", "\xff[[", "escalate_to = 3\n"])
def test_a_broken_config_keeps_no_agent_from_its_mail(team: Team, words: list[str], config: str) -> None:
    message_id = team.send("worker_1", "--body", "x")
    (team.home / "ackd.toml").write_text(config, encoding="latin-1")
    text = ["half"] if words[0] == "checkpoint" else []
    done = team.ackd(words[0], message_id, *text, *words[1:], "--agent", "worker_1")
    assert done.exit_code == 0, done.output
    assert "ackd.toml" in done.stderr
    assert "needs the root only" in done.stderr
    assert len(team.receipts()) == 1
    assert team.ackd("send", "worker_1", "--body", "x").exit_code == 78  # which needs all of it


@pytest.mark.parametrize("line", ['root = "mail"', "root='mail' # here"])
def test_its_root_is_found_where_the_broken_config_says_so(team: Team, line: str) -> None:
    message_id = team.send("worker_1", "--body", "x")
    team.root.rename(team.home / "mail")
    (team.home / "ackd.toml").write_text(f'{line}\n[agents.x]\nroot = "elsewhere"\nbroken')
    assert team.ackd("ack", message_id, "--agent", "worker_1").exit_code == 0
    (receipt,) = (team.home / "mail/receipts").iterdir()
    assert message_id in receipt.read_text()


def test_without_a_root_the_broken_config_is_the_answer(team: Team) -> None:
    (team.home / "ackd.toml").write_text("broken")
    refused = team.ackd("ack", "x")
    assert (refused.exit_code, "not TOML" in refused.stderr) == (78, True)
