"""The answers to shells that ask what may follow. test_completion_in_shells.py asks with the shells themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ackd.cli import commands, completion, completion_values
from ackd.cli.command_line import Group
from ackd.config.site import find_site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.cli.command_line import Argument

Team = Any  # conftest.py's: test files do not import each other

BREAKS: Final = " \t\n\"'@><=;|&(:"


def asked(*words: str) -> list[str]:
    """What may stand in the place of the last word."""
    return [word for word, _ in completion.completions(words[:-1], words[-1])[1]]


def shells_kind(*words: str) -> str:
    return completion.completions(words[:-1], words[-1])[0]


def answered(team: Team, line: str, **environment: str) -> list[str]:
    """The answer to bash, without descriptions, from a process of its own."""
    ended = process({"_ACKD_COMPLETE": "bash", "_ACKD_LINE": line, "_ACKD_BREAKS": BREAKS, **environment}, team.home)
    assert (ended.returncode, ended.stderr) == (0, "")
    return [word.partition("\t")[0] for word in ended.stdout.splitlines()]


def process(environment: dict[str, str], cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [str(Path(sys.executable).parent / "ackd"), *words]
    env = {**os.environ, **environment}
    return subprocess.run(program, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["sen"], ["send"]),
        (["dead", ""], ["list", "purge", "requeue", "show"]),
        (["send", "lea"], ["leader"]),
        (["send", "leader", "worker"], ["worker_1"]),
        (["send", "leader", "lea"], []),
        (["send", "--from", "lea"], ["leader"]),
        (["send", "--from=lea"], ["--from=leader"]),
        (["send", "--type", "code_r"], ["code_review"]),
        (["send", "--priority", ""], ["critical", "high", "normal", "low"]),
        (["message", "build", "--priority", "n"], ["normal"]),
        (["message", "schema", "task_a"], ["task_assignment"]),
        (["agent", "pause", "w"], ["worker_1"]),
        (["inbox", "w"], ["worker_1"]),
        (["inbox", "worker_1", ""], []),
        (["tail", "--agent", "w"], ["worker_1"]),
        (["tail", "--type", "message_dea"], ["message_dead"]),
        (["worker", "schema", "heart"], ["heartbeat"]),
        (["profile", "show", "cl"], ["claude"]),
        (["bus", "post", "TASK_C"], ["TASK_COMPLETE"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["status", "--wat"], ["--watch"]),
        (["status", "--watch", "--wat"], []),
        (["nosuch", ""], []),
        (["dead", "nosuch", ""], []),
        (["send", "leader", "--body", ""], []),
        (["status", ""], []),
        (["send", "leader", "--", "--fr"], []),
        (["help", "explai"], ["explain"]),
    ],
)
def test_what_may_follow(team: Team, words: list[str], offered: list[str]) -> None:
    assert asked(*words) == offered


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["send", "--body-file", ""], "files"),
        (["send", "--body-file=x"], "files"),
        (["message", "parse", ""], "files"),
        (["lint", ""], "files"),
        (["status", "--root", ""], "directories"),
        (["dead", "requeue", ""], "files"),
        (["send", "--body", ""], "words"),
        (["done", ""], "words"),
    ],
)
def test_what_the_shell_may_offer_by_itself(team: Team, words: list[str], kind: str) -> None:
    assert shells_kind(*words) == kind


def hash_of(message_id: str) -> str:
    return message_id.partition("@")[0].split(".")[2]


def test_the_open_mail_of_who_asks_is_offered_and_each_message_once(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = team.send("leader", "--body", "x"), team.send("worker_1", "--body", "y")
    assert sorted(asked("done", "")) == sorted(map(hash_of, (mine, other)))
    assert asked("done", "--agent", "leader", "") == [hash_of(mine)]
    assert asked("done", hash_of(mine), "--agent=leader", "") == []
    monkeypatch.setenv("ACKD_AGENT", "worker_1")
    assert asked("refuse", "") == [hash_of(other)]
    assert sorted(asked("explain", "")) == sorted(map(hash_of, (mine, other)))
    assert asked("checkpoint", hash_of(other), "") == []


def test_the_form_goes_on_from_what_was_typed(team: Team) -> None:
    one = team.send("leader", "--body", "x")
    assert asked("explain", one[:6]) == [one.partition("@")[0]]
    assert asked("explain", one[: one.index("@") + 2]) == [one]


def test_the_newest_comes_first_and_says_what_it_is(team: Team) -> None:
    for body in ("older", "newer"):
        team.send("leader", "--body", body)
    _, found = completion.completions(["explain"], "")
    assert [words for _, words in found] == ["queued, user: newer", "queued, user: older"]


def test_dead_letters_and_quarantined_files_are_offered_where_they_are_meant(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    (path,) = team.files("queue/leader")
    (team.root / "queue" / "dead_letter").mkdir(exist_ok=True)
    path.rename(team.root / "queue" / "dead_letter" / path.name)
    (team.root / "queue" / "corrupt").mkdir(exist_ok=True)
    (team.root / "queue" / "corrupt" / "broken.mime").write_text("?")
    assert sorted(asked("dead", "requeue", "")) == sorted([hash_of(message_id), "broken.mime"])
    assert asked("done", "") == []
    assert asked("explain", "") == [hash_of(message_id)]


def test_bash_is_answered_from_where_it_takes_the_word_apart(team: Team) -> None:
    message_id = team.send("leader", "--body", "x")
    local, _, host = message_id.partition("@")
    assert answered(team, f"ackd explain {local}@i") == ["words", host]
    assert answered(team, "ackd send --from=lea") == ["words", "leader"]
    assert answered(team, 'ackd send "lea') == ["words", "leader"]
    assert answered(team, "ACKD_AGENT=x /usr/bin/ackd send le\\a") == ["words", "leader"]
    assert answered(team, "ackd send 'a b' lea") == ["words", "leader"]


# --- nothing goes wrong -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("line", ["", "ackd", "ackd '", 'ackd "', "ackd \\", "ackd done \x1b", "x", "ackd \udcff"])
def test_no_line_is_answered_with_an_error(team: Team, line: str) -> None:
    answered(team, line)


@pytest.mark.parametrize("content", ["no = [toml", '[agents."$(touch x)"]', ""])
def test_a_config_that_cannot_be_read_is_passed_over_in_silence(team: Team, content: str) -> None:
    (team.home / "ackd.toml").write_text(content)
    said = answered(team, "ackd send ", ACKD_DEBUG="1")
    assert not [word for word in said if "$" in word]


def test_nothing_is_waited_for_for_ever(team: Team) -> None:
    """A pipe in the place of a message or a config has no end."""
    (team.home / "ackd.toml").unlink()
    os.mkfifo(team.home / "ackd.toml")
    assert answered(team, "ackd send ") == []


@pytest.mark.parametrize("words", [["send", ""], ["done", ""], [""]])
def test_an_answer_needs_nothing_that_loads_slowly(team: Team, words: list[str]) -> None:
    team.send("leader", "--body", "x")
    code = (
        "import sys; from ackd.cli.completion import answer; answer(sys.argv[1:]);"
        "print(*sorted(set(sys.modules) & {'asyncio', 'pydantic', 'structlog', 'rich', 'yaml'}), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, cwd=team.home
    )
    assert ended.stdout.startswith("words\n")
    assert ended.stderr.strip() == ""


def test_of_a_large_mailbox_the_newest_are_read_only(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    from ackd.client import mail
    from ackd.storage import message_lookup

    team.send("leader", "--body", "x")
    (path,) = team.files("queue/leader")
    data = path.read_bytes()
    for number in range(1000):
        (path.parent / f"message_{number:016}.mime").write_bytes(data)
    read: list[Path] = []
    real = message_lookup.read_head

    def counted(path: Path, size_bytes: int) -> bytes | None:
        read.append(path)
        return real(path, size_bytes)

    monkeypatch.setattr(message_lookup, "read_head", counted)
    assert next(mail.recent(find_site(), limit=50)).file == str(path)
    list(mail.recent(find_site(), limit=50))
    assert len(read) == 51


# --- every argument says what it takes --------------------------------------------------------------------------------
def arguments() -> Iterator[tuple[str, Argument]]:
    for name in commands.COMMANDS:
        found = commands.load(name)
        parts = found.commands.items() if isinstance(found, Group) else [("", found)]
        for part, one in parts:
            yield from ((f"{name} {part}".strip(), argument) for argument in one.arguments)


def test_every_value_of_every_command_is_completed_or_known_to_be_free() -> None:
    """A new argument: give it a metavar that completion_values.py knows (AGENT, TYPE, ID, FILE, a|b), or ``complete=``;
    what only the caller knows is listed in its FREE."""
    unknown = [
        (name, one.names[-1], one.settings.get("metavar"))
        for name, one in arguments()
        if completion.takes_value(one)
        and completion_values.kind_of(one, name) == completion_values.NOTHING
        and completion_values.metavar(one) not in completion_values.FREE
        and one.settings.get("metavar") is not None
    ]
    assert unknown == []


def test_what_arguments_say_that_they_take_can_be_found(team: Team) -> None:
    for name, one in arguments():
        kind = completion_values.kind_of(one, name) if completion.takes_value(one) else ""
        if kind not in ("", "files", "directories", "stories"):
            list(completion_values.values(kind, one, [], ""))
