"""`ackd dead`: which files are meant, and how the outcomes are printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackd.client import dead_letters
from ackd.client.dead_letters import DeadLetter, DeadLetterResult
from ackd.core.errors import UnknownMessage

Team = Any  # conftest.py's: test files do not import each other

DEAD = DeadLetter(
    "dead", "a.mime", Path("/r/queue/dead_letter/a.mime"), "exit 1", "1.1.a@x", "worker-1", "user", "task", "2026Z", 3
)
CORRUPT = DeadLetter("corrupt", "b.mime", Path("/r/queue/corrupt/b.mime"), "not_utf8: byte \x1b[2J", agent="leader")


class Given:
    """The client's use cases, with given letters and outcomes."""

    def __init__(self) -> None:
        self.letters = [DEAD, CORRUPT]
        self.outcomes: dict[str, str] = {}
        self.to: Path | None = None
        self.asked: list[tuple[str, list[str]]] = []

    def find(self, _site: object, wanted: str) -> DeadLetter:
        if wanted == "both":
            raise dead_letters.AmbiguousDeadLetter(wanted, self.letters)
        found = [one for one in self.letters if one.name == wanted]
        if not found:
            raise UnknownMessage(wanted)
        return found[0]

    def requeue(self, _site: object, letters: list[DeadLetter]) -> list[DeadLetterResult]:
        return self._act("requeue", letters, dead_letters.REQUEUED)

    def purge(self, _site: object, letters: list[DeadLetter]) -> list[DeadLetterResult]:
        return self._act("purge", letters, dead_letters.PURGED)

    def _act(self, word: str, letters: list[DeadLetter], outcome: str) -> list[DeadLetterResult]:
        self.asked.append((word, [one.name for one in letters]))
        return [DeadLetterResult(one, self.outcomes.get(one.name, outcome), self.to) for one in letters]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    stand_in = Given()
    monkeypatch.setattr(dead_letters, "dead_letters", lambda _site: stand_in.letters)
    monkeypatch.setattr(dead_letters, "content", lambda _site, _letter: b"hello \x1b[2J")
    for name in ("find", "requeue", "purge"):
        monkeypatch.setattr(dead_letters, name, getattr(stand_in, name))
    return stand_in


def test_nothing_dead(team: Team) -> None:
    assert team.ackd("dead", "list").stdout == "nothing is dead or corrupt\n"
    assert team.json("dead", "list") == {"dead_letters": []}


@pytest.mark.usefixtures("given")
def test_both_kinds_are_listed_with_their_reasons(team: Team) -> None:
    dead, corrupt = team.json("dead", "list")["dead_letters"]
    assert dead == {
        "kind": "dead",
        "name": "a.mime",
        "reason": "exit 1",
        "message_id": "1.1.a@x",
        "agent": "worker-1",
        "type": "task",
        "at": "2026Z",
        "retry_count": 3,
        "original": None,
        "file": "/r/queue/dead_letter/a.mime",
        "from": "user",
    }
    assert (corrupt["kind"], corrupt["agent"]) == ("corrupt", "leader")
    assert team.ackd("dead", "list").stdout.splitlines() == [
        "KIND     ID OR FILE  AGENT     AT     REASON",
        "dead     1.1.a       worker-1  2026Z  exit 1",
        "corrupt  b.mime      leader    -      not_utf8: byte ?[2J",
    ]


@pytest.mark.usefixtures("given")
def test_showing_one_prints_why_and_what(team: Team) -> None:
    shown = team.ackd("dead", "show", "a.mime").stdout
    assert "reason: exit 1\n" in shown
    assert shown.endswith("\n\nhello ?[2J\n")
    assert team.json("dead", "show", "a.mime")["content"] == "hello \x1b[2J"


def test_outcomes_are_printed(team: Team, given: Given) -> None:
    given.to = Path("/r/queue/leader/b.mime")
    result = team.ackd("dead", "requeue", "b.mime", "b.mime")
    assert (result.exit_code, result.stdout) == (0, "requeued b.mime to /r/queue/leader/b.mime\n")
    given.to = None
    assert team.json("dead", "purge", "--all", "--yes")["results"] == [
        {"file": "a.mime", "message_id": "1.1.a@x", "result": "purged"},
        {"file": "b.mime", "message_id": None, "result": "purged"},
    ]
    assert given.asked == [("requeue", ["b.mime"]), ("purge", ["a.mime", "b.mime"])]


def test_what_came_back_is_1_and_what_is_pending_is_75(team: Team, given: Given) -> None:
    given.outcomes["b.mime"] = dead_letters.RETURNED
    result = team.ackd("dead", "requeue", "--all")
    assert (result.exit_code, result.stdout) == (1, "requeued 1.1.a@x\nrequeued, and back again: b.mime\n")
    given.outcomes["b.mime"] = dead_letters.PENDING
    result = team.ackd("dead", "purge", "--all", "--yes")
    assert (result.exit_code, result.stdout) == (75, "purged 1.1.a@x\nasked for b.mime\n")
    said = json.loads(team.ackd("dead", "purge", "--all", "--yes", "--json").stdout)
    assert ([one["result"] for one in said["results"]], said["error"]["code"]) == (["purged", "asked for"], 75)
    assert "`ackd dead list` shows what is left" in result.stderr


def test_purging_needs_a_yes(team: Team, given: Given) -> None:
    result = team.ackd("dead", "purge", "--all")
    assert result.exit_code == 2
    assert "2 would be removed for good: say --yes" in result.stderr
    assert given.asked == []


@pytest.mark.parametrize("args", [["requeue"], ["purge", "--yes"], ["requeue", "x", "--all"]])
def test_say_which(team: Team, args: list[str]) -> None:
    assert team.ackd("dead", *args).exit_code == 2


@pytest.mark.parametrize("command", [["show"], ["requeue"], ["purge", "--yes"]])
def test_one_that_is_not_there_is_66_and_one_that_may_be_several_is_2(
    team: Team, given: Given, command: list[str]
) -> None:
    assert team.ackd("dead", *command, "nothing").exit_code == 66
    result = team.ackd("dead", *command, "both")
    assert result.exit_code == 2
    assert result.stderr == (
        "ackd: both fits 2: name the file of the one that you mean\n"
        "  queue/dead_letter/a.mime  worker-1\n"
        "  queue/corrupt/b.mime  leader\n"
    )
    assert given.asked == []


@pytest.mark.parametrize(("queue", "code"), [("../../etc", 67), ("nobody", 67), ("", 65), ("dead_letter", 67)])
def test_a_reason_that_leads_elsewhere_has_its_exit_code(team: Team, queue: str, code: int) -> None:
    corrupt: Path = team.root / "queue" / "corrupt"
    corrupt.mkdir(parents=True)
    (corrupt / "kept.mime").write_bytes(b"broken")
    (corrupt / "kept.mime.reason").write_text(f'{{"queue": "{queue}", "name": "x"}}')
    assert team.ackd("dead", "requeue", "--all").exit_code == code
    assert sorted(path.name for path in corrupt.iterdir()) == ["kept.mime", "kept.mime.reason"]
