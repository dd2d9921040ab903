"""`ackd inbox`: what lies there, and the difference between none and unreadable."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from ackd.client import mail
from ackd.core.words import Folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

Team = Any  # conftest.py's: test files do not import each other


def test_no_mail_says_whose(team: Team) -> None:
    result = team.ackd("inbox", "leader")
    assert (result.exit_code, result.stdout) == (0, "no mail for leader\n")


def test_cannot_read_the_inbox_is_not_shown_as_empty(team: Team) -> None:
    (team.root / "queue").mkdir(parents=True)
    (team.root / "queue" / "leader").write_text("not a directory")
    result = team.ackd("inbox", "leader")
    assert result.exit_code == 66
    assert "cannot read" in result.stderr
    assert "no mail" not in result.output


def test_unknown_agent(team: Team) -> None:
    assert team.ackd("inbox", "leadr").exit_code == 67


def test_mail_is_listed_oldest_first_with_its_state(team: Team) -> None:
    first = team.send("leader", "--from", "worker_1", "--priority", "high", "--body", 'the "first"')
    second = team.send("leader", "--type", "user_goal", "--body", "goal: second")
    path = team.files()[0]
    text = path.read_text().replace("Content-Type", "X-IGNITE-Status: delivered\nContent-Type")
    (path.parent / "processed" / path.name).write_text(text)
    path.unlink()
    mail = team.json("inbox", "leader")["messages"]
    assert {row["message_id"] for row in mail} == {first, second}
    states = {row["message_id"]: row["state"] for row in mail}
    assert sorted(states.values()) == ["delivered", "queued"]
    lines = team.ackd("inbox", "leader").stdout.splitlines()
    assert lines[0].split() == ["ID", "AGE", "FROM", "TYPE", "PRIORITY", "STATE", "SUBJECT"]
    listed = "\n".join(lines)
    assert first.partition("@")[0] in listed
    assert 'the "first"' in listed
    assert listed.splitlines()[1].endswith("  second") or listed.splitlines()[2].endswith("  second")


def test_a_message_that_is_claimed_between_two_looks_is_listed_once(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.send("leader", "--body", "x")
    (waiting,) = team.files()
    looked_up = mail._entries_in

    def claimed_after_the_first_look(directory: Path, folder: Folder) -> list[mail.MailEntry]:
        found = looked_up(directory, folder)
        if folder is Folder.QUEUE:
            waiting.rename(waiting.parent / "processed" / waiting.name)
        return found

    monkeypatch.setattr(mail, "_entries_in", claimed_after_the_first_look)
    (listed,) = team.json("inbox", "leader")["messages"]
    assert listed["file"].endswith(f"processed/{waiting.name}")


def test_times_are_rfc_3339_in_utc(team: Team) -> None:
    team.send("leader", "--body", "x")
    (listed,) = team.json("inbox", "leader")["messages"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", listed["arrived_at"])


def test_files_that_are_no_messages_are_listed_as_such_and_never_opened(team: Team) -> None:
    team.send("leader", "--body", "x")
    box = team.root / "queue" / "leader"
    (box / "broken.mime").write_bytes(b"no headers \x1b[2J here")
    os.mkfifo(box / "fifo.mime")
    (box / "link.mime").symlink_to("/etc/passwd")
    (box / ".half-written").write_bytes(b"")
    result = team.ackd("inbox", "leader")
    assert result.exit_code == 0
    assert result.stdout.count("unreadable") == 3
    assert "\x1b" not in result.stdout
    assert "root:" not in result.stdout


def test_all_shows_what_is_over(team: Team) -> None:
    team.send("leader", "--body", "x")
    archive = team.root / "archive" / "20261116" / "leader"
    archive.mkdir(parents=True)
    (path,) = team.files()
    path.rename(archive / path.name)
    assert team.json("inbox", "leader")["messages"] == []
    assert [row["state"] for row in team.json("inbox", "leader", "--all")["messages"]] == ["completed"]
