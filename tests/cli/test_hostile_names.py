"""Whatever is typed, lies on disk or names the directory: no command lets a terminal act on it.

Every command of the tree, every argument and option of it, is given a name that would retitle the terminal, colour it,
turn its text round and forge a line. Through ``main``, in this process, on what stands for a terminal and on what does
not.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ackd.cli import commands
from ackd.cli import main as entry
from ackd.cli.command_line import Argument, Command, Group
from ackd.core.errors import RootHeld
from tests.acceptance.teams import mime

if TYPE_CHECKING:
    from collections.abc import Iterator

FORGED: Final = "ackd: forged"
HOSTILE: Final = f"a\x1b]0;own\x07\x1b[2J\x1b[38;5;196m\x9b31m\u202e\u2066\udcff\r\x7f\b\n{FORGED}"
#: The same for where a file's name is not UTF-8 anyway, and where an option is expected.
NAMES: Final = {"name": HOSTILE, "option": f"--{HOSTILE}", "short option": f"-{HOSTILE}"}
#: Colours of ours, on a terminal.
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
#: What would begin to serve, wait or take over the terminal: ended before it does.
FINAL: Final = {"anyio.run", "os.execvp", "os.execvpe", "subprocess.Popen", "time.sleep"}


class Screen(io.TextIOWrapper):
    """A terminal, or a pipe, that keeps what it was given."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.kept = io.BytesIO()
        self._is_terminal = is_terminal
        super().__init__(self.kept, encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return self._is_terminal

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


class Enough(BaseException):
    """The command went on to do its work."""


def stop(*_: object, **__: object) -> Any:
    raise Enough


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """No command may hang for a name."""
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 20)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def shown(monkeypatch: pytest.MonkeyPatch, words: list[str], *, is_terminal: bool = False) -> str:
    """What the command writes to stdout and stderr."""
    out, err = Screen(is_terminal=is_terminal), Screen(is_terminal=is_terminal)
    with monkeypatch.context() as patched, in_time():
        patched.setattr(sys, "argv", ["ackd", *words])
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x: 1\n")))
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        patched.setattr(entry, "_open_what_is_closed", lambda: None)
        for name in FINAL:
            patched.setattr(name, stop)
        with contextlib.suppress(Enough, SystemExit):
            entry.main()
    return (out.kept.getvalue() + err.kept.getvalue()).decode()


def assert_harmless(text: str, words: list[str], *, is_terminal: bool = False) -> None:
    left = COLOUR.sub("", text) if is_terminal else text
    bad = sorted({char for char in left if not char.isprintable() and char not in "\n\t"})
    assert bad == [], (words, text)
    assert "\x1b[38;5;196" not in text, (words, text)
    assert not [line for line in text.split("\n") if line.startswith(FORGED)], (words, text)


# --- the tree -----------------------------------------------------------------------------------------------------------
def leaves() -> Iterator[tuple[tuple[str, ...], Command]]:
    for name in commands.COMMANDS:
        found = commands.load(name)
        if isinstance(found, Group):
            yield from (((name, one), command) for one, command in found.commands.items())
        else:
            yield (name,), found


COMMANDS: Final = dict(leaves())


def dest(one: Argument) -> str:
    return str(one.settings.get("dest", one.names[-1].lstrip("-").replace("-", "_")))


def plausible(one: Argument) -> str:
    if "choices" in one.settings:
        return str(one.settings["choices"][0])
    if "type" in one.settings:
        return "1"
    return {
        "agent": "leader",
        "names": "leader",
        "to": "leader",
        "message_id": "MESSAGE",
        "message_ids": "MESSAGE",
    }.get(dest(one), "x")


def lines(path: tuple[str, ...], command: Command, hostile: str) -> Iterator[list[str]]:
    """A command line for each place in which a name can stand, everything that is needed beside it."""
    operands = [one for one in command.arguments if not one.names[0].startswith("-")]
    options = [one for one in command.arguments if one.names[0].startswith("-")]
    needed = [word for one in options if one.settings.get("required") for word in (one.names[0], plausible(one))]
    usual = [plausible(one) for one in operands if one.settings.get("nargs") != "?"]
    for number in range(len(operands)):
        places = [plausible(one) for one in operands[: number + 1]]
        yield [*path, *needed, "--", *places[:-1], hostile, *usual[number + 1 :]]
    for one in options:
        if one.settings.get("action") != "store_true":
            yield [*path, *needed, one.names[0], hostile, *usual]
            yield [*path, *needed, f"{one.names[0]}={hostile}", *usual]
    yield [*path, *needed, *usual, hostile]  # one too many
    yield [*path[:-1], hostile]  # no such command
    yield [*path, *needed, *usual]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A team in a directory of that name, and everything in it has such a name."""
    place = Path(os.fsdecode(os.fsencode(tmp_path / HOSTILE.replace("/", "_"))))
    (place / ".ackd/queue/leader/processed").mkdir(parents=True)
    (place / "ackd.toml").write_text('[agents.leader]\n[agents.worker]\nendpoint = "exec"\ncommand = ["true"]\n[bus]\n')
    queue = place / ".ackd/queue"
    (queue / "leader/message_1770263544000001.mime").write_bytes(mime(message_id="MESSAGE@ignite.local"))
    tricks = HOSTILE.encode(errors="surrogateescape").replace(b"\n", b"").replace(b"\r", b"")
    odd = mime(message_id="ODD@x", sender="user").replace(b"ODD", b"ODD" + tricks)
    (queue / "leader/processed" / HOSTILE.replace("/", "_")).write_bytes(odd)
    for folder in ("dead_letter", "corrupt"):
        (queue / folder).mkdir()
        (queue / folder / f"{HOSTILE}.mime".replace("/", "_")).write_bytes(odd)
    for key in [key for key in os.environ if key.startswith(("ACKD_", "TMUX"))]:
        monkeypatch.delenv(key)
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_command_lets_a_terminal_act_on_a_name(
    project: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    for hostile in NAMES.values():
        for words in lines(path, COMMANDS[path], hostile):
            assert_harmless(shown(monkeypatch, words), words)
    assert_harmless(shown(monkeypatch, [*path, "--help"]), [*path])


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_nor_on_a_terminal_where_colours_are_let_through(
    project: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for words in lines(path, COMMANDS[path], HOSTILE):
        assert_harmless(shown(monkeypatch, words, is_terminal=True), words, is_terminal=True)


def test_the_environment_is_no_way_in_either(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACKD_AGENT", "ACKD_ROOT", "ACKD_CONFIG", "ACKD_TRACK", "ACKD_TRUST", "ACKD_STORY", "ACKD_STAGE"):
        with monkeypatch.context() as patched:
            patched.setenv(name, HOSTILE)
            for words in (["ack", "MESSAGE"], ["status"], ["lock", "list"], ["stage", "status", "x"], ["inbox"]):
                assert_harmless(shown(monkeypatch, words), [name, *words])


def test_a_bug_of_ours_is_shown_harmless_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("ackd.storage.message_lookup.find", break_down)
    monkeypatch.setenv("ACKD_DEBUG", "1")
    text = shown(monkeypatch, ["ack", "MESSAGE", "--agent", "leader"])
    assert "RuntimeError" in text
    assert [char for char in text if not char.isprintable() and char not in "\n\t"] == []


def test_the_witness_would_see_what_goes_round_the_door(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "filter_streams", lambda: None)
    monkeypatch.setattr("ackd.cli.output.printable", lambda text: text)
    monkeypatch.setattr("ackd.core.errors.RootHeld.__str__", lambda _: HOSTILE)
    monkeypatch.setattr("ackd.storage.message_lookup.find", lambda *_, **__: (_ for _ in ()).throw(RootHeld("x", 1)))
    with pytest.raises((AssertionError, UnicodeEncodeError)):
        assert_harmless(shown(monkeypatch, ["ack", "MESSAGE", "--agent", "leader"]), [])
