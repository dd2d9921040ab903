"""`ackd checkpoint`: where the work stands, whose word it is, and what is too much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackd.core.receipt_form import MAX_CHECKPOINT_BYTES

if TYPE_CHECKING:
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other


def said(team: Team) -> list[tuple[str, str, int | None]]:
    return [(one["agent"], one["text"], one.get("step")) for one in team.receipts()]


def test_a_receipt_carries_the_text_and_the_step(team: Team) -> None:
    message_id = team.send("worker_1", "--body", "x")
    result = team.ackd("checkpoint", message_id.partition("@")[0], "half way", "--step", "3", "--agent", "worker-1")
    assert result.exit_code == 0
    assert result.stdout == f"checkpoint: receipt written for {message_id} (waits: no daemon is running)\n"
    (receipt,) = team.receipts()
    assert (receipt["kind"], receipt["message_id"]) == ("checkpoint", message_id)
    assert said(team) == [("worker_1", "half way", 3)]


def test_the_text_may_come_from_a_file_or_stdin(team: Team, tmp_path: Path) -> None:
    message_id = team.send("leader", "--body", "x")
    (tmp_path / "notes").write_bytes(b"one\r\n\ttwo\n\n")
    for words, stdin in ((["--file", str(tmp_path / "notes")], None), (["--file", "-"], "three\n"), (["-"], "four")):
        result = team.ackd("checkpoint", message_id, *words, stdin=stdin, env={"ACKD_AGENT": "leader"})
        assert result.exit_code == 0, result.stderr
    assert said(team) == [("leader", text, None) for text in ("one\n\ttwo", "three", "four")]


def test_for_programs(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    found = team.json("checkpoint", message_id, "half way", "--agent", "leader")
    assert (found["message_id"], found["agent"]) == (message_id, "leader")
    assert found["receipt"].endswith(".json")


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        ([], 2, "where does the work stand"),
        (["half", "way"], 2, "put it in quotes"),
        (["half way", "--file", "x"], 2, "not both"),
        (["x", "--step", "1.5"], 2, "whole number"),
        (["x", "--step", "nan"], 2, "whole number"),
        (["x", "--step", "-1"], 2, "range"),
        (["--file", "absent"], 66, "absent"),
        ([" \n"], 65, "is empty"),
        (["\x1b[2J"], 65, "control characters"),
        (["x" * 65_537], 65, "at most 65536 bytes"),
        (["x", "--agent", "nobody"], 67, "no agent 'nobody'"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(team: Team, words: list[str], code: int, why: str) -> None:
    message_id = team.send("leader", "--body", "x")
    result = team.ackd("checkpoint", message_id, *words, env={"ACKD_AGENT": "leader"})
    assert result.exit_code == code
    assert why in result.stderr
    assert team.receipts() == []


def test_bytes_that_are_no_text_are_bad_data(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    result = team.ackd("checkpoint", message_id, "-", stdin=b"ab\xff", env={"ACKD_AGENT": "leader"})
    assert (result.exit_code, "not UTF-8, at byte 2" in result.stderr) == (65, True)


def test_a_page_of_64_KiB_is_taken(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    text = "ü" * (MAX_CHECKPOINT_BYTES // 2)
    assert team.ackd("checkpoint", message_id, "-", stdin=text, env={"ACKD_AGENT": "leader"}).exit_code == 0
    assert said(team) == [("leader", text, None)]


def test_another_agents_and_unknown_messages_are_refused(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    assert team.ackd("checkpoint", message_id, "x", "--agent", "user").exit_code == 1
    assert team.ackd("checkpoint", "1.2.absent", "x", "--agent", "leader").exit_code == 66
    assert team.receipts() == []


@pytest.mark.parametrize(("where", "state"), [("archive/20261116/leader", "completed"), ("queue/dead_letter", "dead")])
def test_what_is_over_is_not_gone_on_with(team: Team, where: str, state: str) -> None:
    message_id = team.send("leader", "--body", "x")
    (path,) = team.files()
    (team.root / where).mkdir(parents=True, exist_ok=True)
    path.write_text(path.read_text().replace("To: leader", "To: leader\nX-IGNITE-Recipient: leader"))
    path.rename(team.root / where / path.name)
    result = team.ackd("checkpoint", message_id, "x", "--agent", "leader")
    assert (result.exit_code, f"is {state} already" in result.stderr) == (1, True)
