"""The command line as it is read: what argparse would refuse and people type, what is wrong, and how quickly it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.cli import commands
from ackd.cli.command_line import Command, Group, HelpWanted, Parser
from ackd.cli.errors import WrongUsage

Team = Any  # conftest.py's: test files do not import each other


def every_command() -> dict[str, Command]:
    found = {name: commands.load(name) for name in commands.COMMANDS}
    return {name: one for name, one in found.items() if isinstance(one, Command)} | {
        f"{group} {name}": one
        for group, several in found.items()
        if isinstance(several, Group)
        for name, one in several.commands.items()
    }


EVERY = every_command()


def values(name: str, *words: str) -> dict[str, Any]:
    return Parser(EVERY[name], name).values(words)


# --- reading ------------------------------------------------------------------------------------------------------------
def test_options_and_operands_may_stand_in_any_order() -> None:
    first = values("send", "a", "b", "--body", "x", "--cc", "c", "--cc", "d", "--json")
    assert first["to"] == ("a", "b")
    assert (first["body"], first["cc"], first["as_json"]) == ("x", ("c", "d"), True)
    assert values("send", "--cc=c", "a", "--body=x", "b", "--json", "--cc", "d") == first


@pytest.mark.parametrize("text", ["-x", "--json", "--", "-", "- one\n- two", "", "--body=x", "-h", "a=b", "\udce9"])
def test_an_options_value_may_be_anything(text: str) -> None:
    assert values("send", "a", "--body", text, "--priority", "high")["body"] == text
    assert values("send", "a", f"--body={text}")["body"] == text
    assert values("refuse", "a", "--reason", text)["reason"] == text


def test_operands_may_begin_with_a_dash_after_two() -> None:
    assert values("send", "--body", "x", "--", "-a", "--b", "-h")["to"] == ("-a", "--b", "-h")
    assert values("send", "a", "-")["to"] == ("a", "-")


def test_short_options_may_be_joined() -> None:
    for words in (["-f", "-n", "5"], ["-fn5"], ["-n5", "--follow"], ["-f", "-n=5"]):
        assert (values("tail", *words)["following"], values("tail", *words)["count"]) == (True, 5)


def test_what_is_not_given_has_its_default() -> None:
    found = values("send", "a")
    assert (found["kind"], found["priority"], found["timeout"]) == ("message", "normal", 300.0)
    assert (found["cc"], found["body"], found["force"], found["wait"]) == ((), None, False, None)
    assert values("send", "a", "--cc", "b")["cc"] == ("b",)
    assert values("send", "a")["cc"] == ()  # the default of the call before was not changed


@pytest.mark.parametrize(
    ("name", "words", "why"),
    [
        ("ack", [], "The following arguments are required: ID..."),
        ("send", ["a", "--body"], "Option '--body' requires an argument."),
        ("send", ["a", "--bdoy", "x"], "No such option '--bdoy'. (Did you mean '--body'"),
        ("send", ["a", "--bod", "x"], "No such option '--bod'."),
        ("send", ["a", "-x"], "No such option '-x'."),
        ("send", ["a", "--json=yes"], "--json"),
        ("send", ["a", "--priority", "urgent"], "(choose from 'critical', 'high', 'normal', 'low')"),
        ("send", ["a", "--timeout", "soon"], "--timeout: 'soon' is not a number"),
        ("send", ["a", "--timeout", "-1"], "--timeout: -1 is not in the range x>=0"),
        ("tail", ["-n", "1.5"], "-n: '1.5' is not a whole number"),
        ("reply", ["a", "b", "c"], "Got unexpected extra arguments (b c)"),
        ("ack", ["--agent", "a"], "The following arguments are required: ID..."),
        ("refuse", ["a"], "The following arguments are required: --reason"),
    ],
)
def test_wrong_usage_is_named(name: str, words: list[str], why: str) -> None:
    with pytest.raises(WrongUsage) as wrong:
        values(name, *words)
    assert why in str(wrong.value)


def test_wrong_usage_is_said_with_the_usage(team: Team) -> None:
    result = team.ackd("refuse", "x", "--raeson", "y")
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ackd refuse [OPTIONS] ID...\nTry 'ackd refuse --help' for help.\n\nError: ")
    assert "Did you mean '--reason'" in result.stderr
    assert team.ackd("agent", "puase").stderr.endswith("Error: no command 'puase': did you mean `pause`?\n")


@pytest.mark.parametrize("name", EVERY)
@given(data=st.data())
def test_no_command_line_is_a_bug(name: str, data: st.DataObject) -> None:
    """Whatever is typed has values, is wrong usage, or asks for help."""
    flags = [flag for one in EVERY[name].arguments for flag in one.names if flag.startswith("-")]
    odd = ["x", "", "-", "--", "normal", "3", "-1", "nan", "a=b", "-x", "-h", "é", "\udce9", "---", "--=", "--json=1"]
    words = data.draw(st.lists(st.sampled_from([*flags, *flags, *odd, *(f"{flag}=x" for flag in flags)]), max_size=7))
    try:
        found = values(name, *words)
    except (WrongUsage, HelpWanted):
        return
    assert {"as_json"} <= set(found)


# --- pages --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("columns", ["20", "80", "1000"])
def test_every_command_has_a_page_that_names_its_options(
    team: Team, monkeypatch: pytest.MonkeyPatch, name: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for flag in ("-h", "--help"):
        shown = team.ackd(*name.split(), flag)
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert shown.stdout.startswith(f"Usage: ackd {name} [OPTIONS]")
        for one in EVERY[name].arguments:
            assert one.names[0] in shown.stdout or not one.names[0].startswith("-")


@pytest.mark.parametrize("columns", ["", "0", "-1", "many"])
def test_where_there_is_no_terminal_the_page_has_80_columns(
    team: Team, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.__stdout__", None)
    shown = team.ackd("--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "80")
    assert shown == team.ackd("--help").stdout


def test_without_a_command_the_page_is_an_error(team: Team) -> None:
    for words in ([], ["agent"]):
        shown = team.ackd(*words)
        assert (shown.exit_code, shown.stdout) == (2, "")
        assert shown.stderr == team.ackd(*words, "--help").stdout


def test_a_page_that_nobody_reads_to_its_end_is_no_traceback(team: Team) -> None:
    code = "import os, sys; from ackd.cli.main import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([sys.executable, "-c", code, "--help"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


# --- quickness ----------------------------------------------------------------------------------------------------------
#: What would cost these commands more than they have to do. Some come with others of these; argparse brings gettext.
HEAVY = """dataclasses inspect ast tomllib datetime string asyncio anyio pydantic structlog rich orjson yaml email
    locale shutil textwrap difflib tempfile subprocess threading logging uuid hashlib random traceback""".split()

#: Says at the end on stderr what was imported, and what was compiled that is no module. ``namedtuple`` has its lambda.
WITNESS = """
import atexit, sys
compiled = []
def note(event, args):
    if event == "compile" and args[1] == "<string>" and not args[0].startswith(b"lambda"):
        compiled.append(args[0])
sys.addaudithook(note)
from ackd.cli.main import main
atexit.register(lambda: print(*sys.modules, "compiled:", *compiled, file=sys.stderr))
main()
"""


def imported(*words: str) -> tuple[set[str], str]:
    ended = subprocess.run(
        [sys.executable, "-c", WITNESS, *words], capture_output=True, text=True, check=True, env={**os.environ}
    )
    modules, _, compiled = ended.stderr.partition("compiled:")
    return set(modules.split()), compiled.strip()


SHARED = """ackd ackd.config ackd.storage ackd.storage.maildrop ackd.storage.atomic_file ackd.core ackd.core.errors ackd.core.names
    ackd.core.words ackd.cli ackd.cli.commands ackd.cli.errors
    ackd.cli.main ackd.cli.output ackd.cli.command_line
    ackd.coordination ackd.coordination.registry ackd.endpoints ackd.endpoints.registry ackd.client ackd.client.client ackd.client.errors ackd.client.identity ackd.client.writing ackd.config.plain_toml ackd.config.site ackd.system ackd.system.syscalls""".split()
WRITING = """ackd.formats ackd.formats.ignite ackd.formats.ignite.fields ackd.formats.ignite.form
    ackd.formats.ignite.writing ackd.cli.send ackd.client.sending ackd.storage.root_lock ackd.storage.file_lock""".split()
LOOKING = ["ackd.storage.message_lookup", "ackd.core.message_files", "ackd.core.message_ids"]
RECEIPTS = [*LOOKING, "ackd.core.receipt_form", "ackd.client.receipts", "ackd.cli.receipts"]
#: For people, who are told whether a daemon is running.
TOLD = [*RECEIPTS, "ackd.storage.root_lock", "ackd.storage.file_lock"]


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["send", "leader", "--body", "x"], WRITING),
        (["send", "leader", "--body", "x", "--json"], WRITING),
        (["reply", "MESSAGE", "--body", "x"], [*WRITING, *LOOKING, "ackd.client.lineage"]),
        (["ack", "MESSAGE", "--agent", "leader"], TOLD),
        (["done", "MESSAGE", "--agent", "leader", "--json"], RECEIPTS),
        (["refuse", "MESSAGE", "--agent", "leader", "--reason", "no"], TOLD),
        (["defer", "MESSAGE", "--agent", "leader", "--reason", "later"], TOLD),
        (["checkpoint", "MESSAGE", "half way", "--agent", "leader"], TOLD),
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
    ours = {*SHARED, *RECEIPTS[:-1], "ackd.client.mail", "ackd.cli.read"}
    assert {name for name in modules if name.partition(".")[0] == "ackd"} == ours
    assert compiled == ""


def test_the_page_of_help_needs_little(team: Team) -> None:
    modules, _ = imported("--help")
    assert modules & set(HEAVY) <= {"textwrap"}


def test_the_witness_sees_what_is_heavy(team: Team) -> None:
    (team.home / "ackd.toml").write_text("escalate_to = 'leader'\n[agents.leader]\n")  # not plain
    modules, compiled = imported("send", "leader", "--body", "x")
    assert "tomllib" in modules
    assert compiled != ""
