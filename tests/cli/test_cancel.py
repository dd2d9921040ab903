"""`ackd cancel`: what is printed, and the exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Team = Any  # conftest.py's: test files do not import each other


def test_it_says_what_was_asked_for_and_that_it_waits_without_a_daemon(team: Team) -> None:
    message_id = team.send("worker_1", "--body", "x", "--from", "leader")
    said = team.ackd("cancel", message_id, "--agent", "leader", "--reason", "no need")
    assert said.exit_code == 0
    assert said.stdout == f"cancel: asked for {message_id} for worker_1 (waits: no daemon is running)\n"
    found = team.json("cancel", message_id)
    (row,) = found["requests"]
    assert (row["message_id"], row["agent"], row["state"]) == (message_id, "worker_1", "open")
    assert Path(row["path"]).is_file()
    assert found["daemon_running"] is False


def test_somebody_else_is_refused(team: Team) -> None:
    message_id = team.send("worker_1", "--body", "x", "--from", "leader")
    said = team.ackd("cancel", message_id, "--agent", "worker_1")
    assert (said.exit_code, team.files("receipts")) == (1, [])
    assert said.stderr.startswith(f"ackd: {message_id} was not sent by worker_1: only leader, who sent it, and user")


def test_times_are_shown_in_the_inbox_and_a_bad_one_is_wrong_usage(team: Team) -> None:
    bad = team.ackd("send", "leader", "--body", "x", "--expires", "soon")
    assert (bad.exit_code, "--expires: 'soon' is neither a duration" in bad.stderr) == (2, True)
    team.send("leader", "--body", "x", "--deadline", "2h")
    team.send("leader", "--body", "y", "--expires", "2d")
    listed = team.ackd("inbox", "leader").stdout
    assert "DUE" in listed
    assert "expires in" in listed
    assert {one["deadline"] is None for one in team.json("inbox", "leader")["messages"]} == {True, False}
