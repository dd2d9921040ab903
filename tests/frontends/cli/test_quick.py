"""Described commands run without click, and nobody can tell but by the clock."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.frontends.cli import commands, quick
from ackd.frontends.cli.group import cli
from ackd.frontends.cli.options import click_command

if TYPE_CHECKING:
    from ackd.frontends.cli.shape import Command

Team = Any  # conftest.py's: test files do not import each other

DESCRIBED = sorted(commands.DESCRIBED)


def described(name: str) -> Command:
    command: Command = commands.load(name)
    return command


def by_click(command: Command, words: list[str]) -> dict[str, Any] | None:
    """The parameters that click reads; None for wrong usage, and for a wish that is no run of the command (--help)."""
    try:
        return click_command(command).make_context(command.name, list(words)).params
    except (click.UsageError, click.exceptions.Exit):
        return None


# --- reading ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DESCRIBED)
def test_the_table_says_which_commands_are_described(name: str) -> None:
    assert described(name).name == name
    options = {option.name for option in described(name).options}
    assert {"root", "config", "as_json"} <= options


def test_no_command_is_described_that_the_table_does_not_name() -> None:
    loaded = {name: commands.load(name) for name in commands.COMMANDS}
    assert {name for name, one in loaded.items() if not isinstance(one, click.Command)} == commands.DESCRIBED


def words_of(name: str) -> st.SearchStrategy[list[str]]:
    """Command lines of flags that there are, flags that there are not, values good and bad, in any order."""
    flags = [option.flag for option in described(name).options]
    values = ["x", "", "-", "--", "normal", "low", "acked", "3", "-1", "nan", "1e3", "a=b", "-x", "-h", "é", "\udce9"]
    odd = ["--help", "--bod", "--json=1", "---", "--=", "-", "--body=", "--timeout=5", "--cc=a=b", "--priority=LOW"]
    pieces = st.sampled_from([*flags, *flags, *values, *odd, *(f"{flag}=x" for flag in flags)])
    return st.lists(pieces, max_size=7)


@pytest.mark.parametrize("name", DESCRIBED)
@given(data=st.data())
def test_what_is_read_quickly_is_what_click_reads(name: str, data: st.DataObject) -> None:
    words = data.draw(words_of(name))
    command = described(name)
    found = quick.read(command, words)
    if found is not None:
        assert repr(sorted(found.items())) == repr(sorted((by_click(command, words) or {}).items()))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("send", ["worker", "--body", "x"]),
        ("send", ["worker", "other", "-", "--type=user_goal", "--cc", "a", "--cc", "b", "--json"]),
        ("send", ["worker", "--body", "--json", "--priority", "high", "--thread-id", "t", "--root=r"]),
        ("send", ["worker", "--body=", "--wait", "acked", "--timeout", "2.5", "--from", "me"]),
        ("reply", ["1.2.abc@x", "--body-file", "-", "--config", "c.toml"]),
        ("ack", ["1.2.abc", "1.2.def", "--agent", "worker"]),
        ("done", ["--agent=worker", "1.2.abc", "--json"]),
        ("refuse", ["1.2.abc", "--reason", "no\nnever"]),
        ("defer", ["1.2.abc", "--reason", ""]),
        ("checkpoint", ["1.2.abc", "half way", "--step", "3"]),
        ("checkpoint", ["1.2.abc", "--file=-", "--agent", "worker"]),
        ("read", ["1.2.abc"]),
        ("read", ["4f2a91c0", "--agent=worker", "--json"]),
    ],
)
def test_ordinary_command_lines_are_read_quickly(name: str, words: list[str]) -> None:
    found = quick.read(described(name), words)
    assert found is not None
    assert found == by_click(described(name), words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("send", []),
        ("send", ["a", "--body"]),
        ("send", ["a", "--nobody", "x"]),
        ("send", ["a", "--json=yes"]),
        ("send", ["a", "--priority", "urgent"]),
        ("send", ["a", "--timeout", "soon"]),
        ("send", ["a", "--timeout", "-1"]),
        ("send", ["a", "-h"]),
        ("send", ["a", "--", "--b"]),
        ("reply", ["a", "b"]),
        ("ack", ["--agent", "a"]),
        ("refuse", ["a"]),
    ],
)
def test_wrong_and_unusual_ones_are_left_to_click(name: str, words: list[str]) -> None:
    assert quick.read(described(name), words) is None


# --- running ------------------------------------------------------------------------------------------------------------
def harmonised(text: str) -> str:
    """Ids and file names without what differs between any two runs."""
    text = re.sub(r"\d{10}\.\d+\.[0-9a-f]{12}@", "ID@", text)
    return re.sub(r"_\d{16}(-[0-9a-f]{6})?", "_N", text)


@pytest.mark.parametrize(
    "words",
    [
        ["send", "leader", "--body", "x"],
        ["send", "leader", "worker-1", "--body", "größer", "--json"],
        ["send", "leader", "--body", "\x1b[31mred"],
        ["send", "leader", "--body-file", "/dev/null"],
        ["send", "leader", "--body-file", "absent"],
        ["send", "nobody", "--body", "x"],
        ["send", "../x", "--body", "x"],
        ["send", "leader", "--type", "user_goa", "--body", "x"],
        ["send", "leader", "--type", "user_goal", "--body", "x"],
        ["send", "leader", "--body", "x", "--body-file", "y"],
        ["send", "-", "--body", "x"],
        ["send", "leader"],
        ["send", "leader", "--body", "x", "--issue", "1\n2"],
        ["send", "leader", "--body", "x", "--config", "absent.toml"],
        ["send", "leader", "--body", "x", "--wait", "acked", "--timeout", "0"],
        ["reply", "MESSAGE", "--body", "x"],
        ["reply", "1.2.absent", "--body", "x"],
        ["read", "MESSAGE", "--agent", "leader"],
        ["read", "MESSAGE"],
        ["read", "1.2.absent"],
        ["ack", "MESSAGE", "--agent", "leader"],
        ["ack", "MESSAGE", "MESSAGE", "--agent", "leader", "--json"],
        ["ack", "MESSAGE"],
        ["done", "1.2.absent", "--agent", "leader"],
        ["refuse", "MESSAGE", "--agent", "leader", "--reason", ""],
        ["refuse", "MESSAGE", "--agent", "leader", "--reason", "no"],
        ["defer", "MESSAGE", "--agent", "nobody", "--reason", "later"],
        ["checkpoint", "MESSAGE", "half way", "--agent", "leader"],
        ["checkpoint", "MESSAGE", "half way", "--step", "1.5", "--agent", "leader"],
        ["checkpoint", "MESSAGE", "--agent", "leader"],
        ["checkpoint", "MESSAGE", "\x1b[2J", "--agent", "leader", "--json"],
    ],
)
def test_it_ends_and_speaks_as_with_click(team: Team, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    message = team.send("leader", "--body", "hello")
    words = [message if word == "MESSAGE" else word for word in words]
    before = team.files(".")
    clicked = team.ackd(*words)
    left_by_click = [path for path in team.files(".") if path not in before]
    capsys.readouterr()
    exit_code = quick.attempt(words)
    out, err = capsys.readouterr()
    left = [path for path in team.files(".") if path not in before and path not in left_by_click]
    assert exit_code == clicked.exit_code
    assert (harmonised(out), harmonised(err)) == (harmonised(clicked.stdout), harmonised(clicked.stderr))
    assert [harmonised(str(path)) for path in left] == [harmonised(str(path)) for path in left_by_click]


def test_interrupts_bugs_and_readers_who_left_end_as_with_click(
    team: Team, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for error in (KeyboardInterrupt(), KeyError("x"), OSError(28, "No space left on device")):

        def fail(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr("ackd.site.find_site", fail)
        clicked = team.ackd("send", "leader", "--body", "x")
        capfd.readouterr()
        assert quick.attempt(["send", "leader", "--body", "x"]) == clicked.exit_code
        assert capfd.readouterr() == (clicked.stdout, clicked.stderr)


def test_other_commands_and_completion_are_left_to_click(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ([], ["status"], ["--json", "send"], ["sned", "leader"]):
        assert quick.attempt(words) is None
    monkeypatch.setenv("_ACKD_COMPLETE", "bash_complete")
    assert quick.attempt(["send", "leader", "--body", "x"]) is None
    assert team.files() == []


# --- help ---------------------------------------------------------------------------------------------------------------
def clicks_page() -> str:
    """Not by its test runner, which has a width of its own."""
    return cli.get_help(click.Context(cli, info_name="ackd", **cli.context_settings)) + "\n"


@pytest.mark.parametrize("columns", [*range(80, 104), 200, 1000])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_page_is_the_one_that_click_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, flag: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert quick.attempt([flag]) == 0
    assert capsys.readouterr() == (clicks_page(), "")


@pytest.mark.parametrize("columns", ["", "0", "-1", "many"])
def test_where_there_is_no_terminal_the_page_has_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.__stdout__", None)
    assert quick.attempt(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown == clicks_page()
    monkeypatch.setenv("COLUMNS", "80")
    assert shown == clicks_page()


def test_a_narrow_terminal_is_left_to_click(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "79")
    assert quick.attempt(["--help"]) is None


def test_a_page_that_nobody_reads_to_its_end_is_no_traceback(team: Team) -> None:
    code = "import os, sys; from ackd.frontends.cli.main import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([sys.executable, "-c", code, "--help"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, b"")


# --- quickness ----------------------------------------------------------------------------------------------------------
#: What would cost these commands more than they have to do. Some come with others of these.
HEAVY = """click dataclasses inspect ast tomllib datetime string asyncio anyio pydantic structlog rich orjson yaml email
    locale gettext shutil textwrap difflib tempfile subprocess threading logging uuid hashlib random traceback""".split()

#: Says at the end on stderr what was imported, and what was compiled that is no module. ``namedtuple`` has its lambda.
WITNESS = """
import atexit, sys
compiled = []
def note(event, args):
    if event == "compile" and args[1] == "<string>" and not args[0].startswith(b"lambda"):
        compiled.append(args[0])
sys.addaudithook(note)
from ackd.frontends.cli.main import main
atexit.register(lambda: print(*sys.modules, "compiled:", *compiled, file=sys.stderr))
main()
"""


def imported(*words: str) -> tuple[set[str], str]:
    ended = subprocess.run(
        [sys.executable, "-c", WITNESS, *words], capture_output=True, text=True, check=True, env={**os.environ}
    )
    modules, _, compiled = ended.stderr.partition("compiled:")
    return set(modules.split()), compiled.strip()


SHARED = """ackd ackd.adapters ackd.adapters.maildrop ackd.adapters.root_lock ackd.core ackd.core.errors ackd.core.names
    ackd.core.words ackd.frontends ackd.frontends.cli ackd.frontends.cli.commands ackd.frontends.cli.errors
    ackd.frontends.cli.main ackd.frontends.cli.output ackd.frontends.cli.quick ackd.frontends.cli.shape
    ackd.frontends.cli.whose ackd.plain_toml ackd.site ackd.syscalls""".split()
WRITING = """ackd.dialects ackd.dialects.ignite ackd.dialects.ignite.fields ackd.dialects.ignite.form
    ackd.dialects.ignite.writing ackd.frontends.cli.send""".split()
LOOKING = ["ackd.adapters.message_lookup", "ackd.core.message_files", "ackd.core.message_ids"]
RECEIPTS = [*LOOKING, "ackd.core.receipt_form", "ackd.frontends.cli.receipts"]


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["send", "leader", "--body", "x"], WRITING),
        (["send", "leader", "--body", "x", "--json"], WRITING),
        (["reply", "MESSAGE", "--body", "x"], WRITING + LOOKING),
        (["ack", "MESSAGE", "--agent", "leader"], RECEIPTS),
        (["done", "MESSAGE", "--agent", "leader", "--json"], RECEIPTS),
        (["refuse", "MESSAGE", "--agent", "leader", "--reason", "no"], RECEIPTS),
        (["defer", "MESSAGE", "--agent", "leader", "--reason", "later"], RECEIPTS),
        (["checkpoint", "MESSAGE", "half way", "--agent", "leader"], [*RECEIPTS[:-1], "ackd.frontends.cli.checkpoint"]),
    ],
)
def test_it_imports_what_it_needs_and_compiles_nothing(team: Team, words: list[str], ours: list[str]) -> None:
    message = team.send("leader", "--body", "hello")
    modules, compiled = imported(*[message if word == "MESSAGE" else word for word in words])
    assert modules & set(HEAVY) == set()
    assert {name for name in modules if name.partition(".")[0] == "ackd"} == {*SHARED, *ours}
    assert compiled == ""


def test_reading_imports_what_it_needs_and_compiles_nothing(team: Team) -> None:
    modules, compiled = imported("read", team.send("leader", "--body", "hello"), "--agent", "leader")
    assert modules & set(HEAVY) == set()
    ours = {*SHARED, *RECEIPTS[:-1], "ackd.frontends.cli.read"} - {"ackd.adapters.root_lock"}
    assert {name for name in modules if name.partition(".")[0] == "ackd"} == ours
    assert compiled == ""


def test_the_page_of_help_needs_no_click(team: Team) -> None:
    modules, compiled = imported("--help")
    assert modules & set(HEAVY) == set()
    assert compiled == ""


def test_the_witness_sees_what_is_heavy(team: Team) -> None:
    (team.home / "ackd.toml").write_text("escalate_to = 'leader'\n[agents.leader]\n")  # not plain
    modules, compiled = imported("send", "leader", "--body", "x")
    assert "tomllib" in modules
    assert compiled != ""
