"""`ackd` itself, as a real process: help, exit codes, and never a traceback."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ackd import __version__
from ackd.cli import commands, main
from ackd.cli.command_line import Group
from ackd.cli.commands import COMMANDS
from ackd.cli.errors import EXIT_CODES
from ackd.core.errors import AckdError, ImpossibleEvent, RootHeld
from tests.nobody import NOBODY, needs_root

Team = Any  # conftest.py's: test files do not import each other


ACKD = [sys.executable, "-c", "from ackd.cli.main import main; main()"]


def ackd(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ACKD_")}
    return subprocess.run([*ACKD, *args], cwd=cwd, env={**clean, **env}, capture_output=True, text=True, check=False)


def test_help_lists_commands_and_exit_codes_and_imports_none_of_them(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom ackd.cli.main import run\n"
        "assert run(['--help']) == 0\nprint(sorted(m for m in sys.modules if m.startswith('ackd.')))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in COMMANDS:
        assert f"\n  {name} " in shown
    for number, _ in EXIT_CODES:
        assert f"\n  {number} " in shown
    imported = shown.splitlines()[-1]
    assert "cli.send" not in imported
    assert "ackd.config.site" not in imported


@pytest.mark.parametrize("name", [one for one in COMMANDS if isinstance(commands.load(one), Group)])
def test_no_words_are_cut_from_a_groups_list_of_commands(team: Team, name: str) -> None:
    assert "..." not in team.ackd(name, "--help").output.partition("Commands:")[2]


@pytest.mark.parametrize("word", ["version", "-V", "--version"])
def test_version(tmp_path: Path, word: str) -> None:
    assert ackd(word, cwd=tmp_path).stdout == f"ackd {__version__}\n"
    assert json.loads(ackd(word, "--json", cwd=tmp_path).stdout) == {"version": __version__}


def test_a_reader_who_has_seen_enough_is_no_error(team: Team) -> None:
    """As in `ackd help | head -1`: the pipe is closed when its first line was read."""
    for words in (["help"], ["check"], ["status"], ["help", "--json"]):
        reader, writer = os.pipe()
        os.close(reader)
        ended = subprocess.run([*ACKD, *words], stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        assert (ended.returncode, ended.stderr) == (0, b""), words


# --- errors for programs --------------------------------------------------------------------------------------------
def leaves() -> list[tuple[str, ...]]:
    """Every command, as it is typed."""
    found: list[tuple[str, ...]] = []
    for name in COMMANDS:
        one = commands.load(name)
        found += [(name, each) for each in one.commands] if isinstance(one, Group) else [(name,)]
    return found


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_with_json_wrong_usage_is_one_object_on_stdout_for_every_command(team: Team, words: tuple[str, ...]) -> None:
    result = team.ackd(*words, "--no-such-option", "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, list(said)) == (2, "", ["error"])
    assert said["error"]["code"] == 2
    assert said["error"]["message"]
    assert said["error"]["hint"] == f"`ackd {' '.join(words)} --help` says how it is used"


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (["sned"], 2, "no command 'sned'", "`ackd --help`"),
        (["dead", "lits"], 2, "no command 'lits'", "`ackd dead --help`"),
        (["send", "leadr", "--body", "x"], 67, "no agent 'leadr'", "did you mean leader?"),
        (["send", "leader"], 2, "a message needs a body", "`ackd send --help`"),
        (["explain", "1.2.3"], 66, "no message '1.2.3'", "ackd inbox"),
        (["tail"], 66, "no session log", "`ackd run`"),
        (["tail", "--agent", "nope"], 67, "no agent 'nope'", "known: "),
        (["nudge", "leader", "--config", "none.toml"], 78, "none.toml", "`ackd check`"),
        (["dead", "show", "x"], 66, "x", "ackd "),
        (["bus", "status"], 66, "bus", "`ackd bus init`"),
        (["lock", "release", "a.py", "--agent", "leader"], 66, "bus", "`ackd bus init`"),
        (["board", "show"], 66, "no meeting is open", "`ackd board list`"),
        (["message", "validate", "none.mime"], 66, "none.mime", None),
        (["lint", "none.txt"], 66, "none.txt", None),
        (["example", "show", "none"], 66, "no example 'none'", "`ackd example list`"),
        (["profile", "show", "none"], 66, "profile none: there is none", "`ackd profile list`"),
        (["worker", "schema", "none"], 66, "no type 'none'", "there are "),
        (["story", "show", "A-1"], 78, "pipeline", "`ackd check`"),
    ],
)
def test_with_json_an_error_is_one_object_on_stdout(
    team: Team, words: list[str], code: int, message: str, hint: str | None
) -> None:
    result = team.ackd(*words, "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, list(said)) == (code, "", ["error"])
    assert list(said["error"]) == ["code", "message", "hint"]
    assert said["error"]["code"] == code
    assert message in said["error"]["message"]
    assert said["error"]["hint"] is None if hint is None else hint in said["error"]["hint"]


@pytest.mark.parametrize(
    ("config", "hint"), [(None, "`ackd init` makes a team"), ("[", "`ackd check` looks the config over")]
)
def test_who_has_no_team_is_advised_to_make_one_and_who_has_a_broken_one_to_check_it(
    tmp_path: Path, config: str | None, hint: str
) -> None:
    place = tmp_path / "run `ackd init` here"
    place.mkdir()
    if config is not None:
        (place / "ackd.toml").write_text(config)
    result = ackd("status", "--json", cwd=place)
    said = json.loads(result.stdout)
    assert (result.returncode, said["error"]["hint"]) == (78, hint)


def test_a_word_after_two_dashes_asks_for_no_json(team: Team) -> None:
    result = team.ackd("send", "--body", "x", "--", "--json")
    assert (result.exit_code, result.stdout) == (67, "")


def test_a_command_that_was_mistyped(tmp_path: Path) -> None:
    result = ackd("sned", cwd=tmp_path)
    assert result.returncode == 2
    assert "did you mean `send`?" in result.stderr


def test_a_command_whose_module_is_missing_breaks_nothing_else(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ackd.cli.commands.COMMANDS",
        {**COMMANDS, "later": ("ackd.cli.later:later", "Comes later.")},
    )
    assert "Comes later." in team.ackd("--help").stdout
    result = team.ackd("later")
    assert (result.exit_code, result.stderr) == (2, "ackd: `later` is not in this version\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_options_that_help_promises(team: Team, name: str) -> None:
    command = commands.load(name)
    for leaf in command.commands.values() if isinstance(command, Group) else [command]:
        options = {option for one in leaf.arguments for option in one.names}
        assert options >= ({"--json"} if name in ("demo", "help", "version") else {"--json", "--root", "--config"}), (
            leaf.name
        )


def test_the_page_about_operations_lists_the_exit_codes_of_help() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page.partition("## Exit codes")[2], re.MULTILINE)}
    assert listed == {code for code, _ in EXIT_CODES}


def shell(line: str) -> subprocess.CompletedProcess[str]:
    words = " ".join(map(shlex.quote, ACKD))
    return subprocess.run(["sh", "-c", line.replace("ackd", words, 1)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "line",
    ["ackd status >&-", "ackd status >&- 2>&-", "ackd send leader --body x <&- >&- 2>&-", "ackd check --json >&-"],
)
def test_closed_descriptors_are_nowhere_to_print_and_no_bug(team: Team, line: str) -> None:
    assert team.ackd("init").exit_code == 0
    done = shell(line)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("line", ["ackd send user --body - <&-", "ackd send user - <&-", "ackd lint - <&-"])
def test_reading_a_closed_stdin_is_wrong_usage(team: Team, line: str) -> None:
    done = shell(line)
    assert done.returncode == 2
    assert "stdin is closed" in done.stderr
    assert team.files() == []


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["send", "user", "--body", "x"], 0),
        (["send", "nobody", "--body", "x"], 67),
        (["send", "../../etc", "--body", "x"], 67),
        (["send", "dead_letter", "--body", "x"], 67),
        (["send", "user", "--type", "user_goal", "--body", "x"], 65),
        (["send", "user", "--body", "x", "--wait", "acked"], 69),
        (["read", "nothing"], 66),
        (["ack", "nothing"], 66),
        (["send"], 2),
        (["status", "--config", "absent.toml"], 78),
    ],
)
def test_exit_codes_and_no_traceback(team: Team, args: list[str], code: int) -> None:
    result = ackd(*args, cwd=team.home)
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert "bug" not in result.stderr


def test_an_unwritable_root_is_73(team: Team) -> None:
    result = ackd("send", "user", "--body", "x", "--root", "/proc/self", "--config", "ackd.toml", cwd=team.home)
    assert result.returncode == 73
    assert result.stderr.startswith("ackd: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_error_message(team: Team) -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" | true', "-", *ACKD, "--help"], cwd=team.home, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


# --- errors -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RootHeld("r", 7), 75),
        (FileNotFoundError(2, "No such file", "x"), 66),
        (PermissionError(13, "Permission denied", "x"), 66),
        (NotADirectoryError(20, "Not a directory", "x"), 66),
        (OSError(28, "No space left on device"), 73),
        (ImpossibleEvent("a", "b", "c"), 70),
        (KeyError("x"), 70),
        (AckdError("x"), 70),
    ],
)
def test_conditions_become_exit_codes(error: Exception, code: int) -> None:
    def fail() -> None:
        raise error

    assert main._ended(fail) == code


def broken() -> None:
    raise KeyError("the\nmatter")


def test_a_bug_is_one_line_and_says_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ACKD_DEBUG", raising=False)
    assert main._ended(broken) == 70
    shown = capsys.readouterr().err
    assert shown.startswith("ackd: bug: KeyError")
    assert "ACKD_DEBUG=1" in shown
    assert len(shown.splitlines()) == 1
    monkeypatch.setenv("ACKD_DEBUG", "1")
    assert main._ended(broken) == 70
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_130() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    assert main._ended(interrupted) == 130


@needs_root
@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["status"],
        ["send", "leader", "--body", "x"],
        ["ack", "x"],
        ["done", "x", "--agent", "leader"],
        ["checkpoint", "x", "y"],
        ["lock", "list"],
        ["bus", "post", "HEARTBEAT"],
        ["inbox", "leader"],
    ],
    ids=" ".join,
)
def test_no_command_believes_a_config_that_a_stranger_put_there(team: Team, words: list[str]) -> None:
    os.chown(team.home / "ackd.toml", NOBODY, NOBODY)
    refused = ackd(*words, cwd=team.home)
    assert refused.returncode == 78, refused.stderr
    assert f"belongs to nobody, uid {NOBODY}" in refused.stderr
    assert "ACKD_TRUST=" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not team.root.exists()


@needs_root
@pytest.mark.parametrize(
    "words",
    [
        ["send", "leader", "--body", "x"],
        ["ack", "MESSAGE"],
        ["checkpoint", "MESSAGE", "y"],
        ["reply", "MESSAGE", "--body", "x"],
        ["agent", "pause", "leader"],
        ["dead", "purge", "--all", "--yes"],
    ],
    ids=lambda words: words[0],
)
def test_root_writes_nothing_that_the_teams_own_user_could_not_read(team: Team, words: list[str]) -> None:
    message_id = team.send("leader", "--body", "hello")
    before = team.files()
    for path in (team.root, *team.root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    refused = ackd(
        *[message_id if word == "MESSAGE" else word for word in words], cwd=team.home, ACKD_TRUST=str(team.root)
    )
    assert refused.returncode == 73, refused.stderr
    assert f"the team of uid {NOBODY}" in refused.stderr
    assert team.files() == before
    assert {path.stat().st_uid for path in team.root.rglob("*")} == {NOBODY}


# --- leaving ------------------------------------------------------------------------------------------------------------
LEAVES = "import atexit, sys\nfrom ackd.cli.main import main\natexit.register(print, 'registered')\nmain()"


def test_what_was_registered_for_the_end_is_run(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", LEAVES, "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout == f"ackd {__version__}\nregistered\n"


def test_output_that_cannot_be_written_at_the_end_is_not_passed_over() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", LEAVES, "--version"], stdout=full, stderr=-1, text=True, check=False
        )
    assert ended.returncode != 0
    assert "No space left" in ended.stderr


# --- a root that is not there -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words",
    [
        ["send", "leader", "--body", "x"],
        ["inbox", "leader"],
        ["ack", "1.2.3", "--agent", "leader"],
        ["status"],
        ["check"],
        ["run"],
        ["tail"],
        ["agent", "pause", "leader"],
        ["lock", "acquire", "a.py", "--agent", "leader"],
    ],
    ids=lambda words: words[0],
)
def test_a_root_that_is_not_there_is_66_and_none_is_made(team: Team, words: list[str]) -> None:
    missing = team.home / "typo" / ".ackd"
    for given, env, named_by in (
        (["--root", str(missing)], {}, "--root"),
        ([], {"ACKD_ROOT": str(missing)}, "ACKD_ROOT"),
    ):
        result = team.ackd(*words, *given, env=env)
        assert result.exit_code == 66
        expected = (
            f"ackd: {named_by} names {missing}, which is no directory: `ackd init --root {missing}` makes a team\n"
        )
        assert result.stderr == expected
        assert not missing.parent.exists()


def test_init_makes_the_root_that_others_then_find(team: Team) -> None:
    made = team.home / "elsewhere" / ".ackd"
    made.parent.mkdir()
    assert team.ackd("init", "--root", str(made), "--config", str(made.parent / "ackd.toml")).exit_code == 0
    assert team.ackd("send", "user", "--body", "x", "--root", str(made)).exit_code == 0
    assert team.ackd("init", "--root", str(team.home / "new")).exit_code == 0
    assert (team.home / "new" / "queue").is_dir()
