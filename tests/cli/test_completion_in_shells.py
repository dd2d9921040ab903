"""Completion as it is met: a real bash, zsh and fish in a pane of tmux, Tab pressed, and the screen looked at."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.endpoints.tmux.client.private_server import private_server
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Team = Any  # conftest.py's: test files do not import each other

BIN: Final = Path(sys.executable).parent
BASH: Final = """
PS1='$ '
eval "$(ackd completion bash)"
"""
ZSH: Final = """
PS1='$ '
unsetopt beep
autoload -Uz compinit && compinit -u -D
eval "$(ackd completion zsh)"
"""
FISH: Final = """
set -g fish_greeting
set -g fish_autosuggestion_enabled 0
function fish_prompt; printf '$ '; end
ackd completion fish | source
"""
#: Where each shell looks for its beginning, that, and how it is started.
SHELLS: Final = {
    "bash": ("bashrc", BASH, "bash --noprofile --rcfile {home}/bashrc -i"),
    "zsh": (".zshrc", ZSH, "zsh -i"),
    "fish": (".config/fish/config.fish", FISH, "fish -i"),
}


class Screen:
    """A shell on a screen. ``type`` types as a person does, and ``until`` waits for what a person would look for."""

    def __init__(self, socket: str, command: str, place: Path, environment: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        size = ("-x", "110", "-y", "60")
        self._run("new-session", "-d", *size, "-c", str(place), f"exec env {settings} {command}")

    def type(self, text: str, *keys: str) -> None:
        self._run("send-keys", "-l", "--", text)
        if keys:
            self._run("send-keys", *keys)

    def text(self) -> str:
        lines = self._run("capture-pane", "-p").splitlines()
        return "\n".join(line.rstrip() for line in lines).strip()

    def until(self, true: Callable[[str], object], what: str) -> str:
        """The screen as soon as it fits."""
        end = time.monotonic() + PATIENCE_S
        while not true(shown := self.text()):
            assert time.monotonic() < end, f"never seen: {what}; on the screen:\n{shown}"
            time.sleep(0.02)
        return shown

    def until_shown(self, *words: str) -> str:
        return self.until(lambda shown: all(word in shown for word in words), " ".join(words))

    def _run(self, *words: str) -> str:
        ended = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return ended.stdout


@contextmanager
def shell_in(name: str, team: Team, home: Path, **more: str) -> Iterator[Screen]:
    """The shell in the team's directory, ready for a command."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    file, beginning, command = SHELLS[name]
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(beginning)
    environment = {"HOME": str(home), "ZDOTDIR": str(home), "XDG_CONFIG_HOME": str(home / ".config"), **more}
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    with private_server() as tmux:
        screen = Screen(str(tmux.socket_path), command.format(home=home), team.home, {**environment, "PATH": path})
        screen.until(lambda shown: shown == "$", "the prompt")
        yield screen


def hostile(team: Team, number: int, message_id: str, body: str = "content: x") -> None:
    """A message that anybody could put there."""
    head = f"From: x\nTo: user\nMessage-ID: <{message_id}>\nX-IGNITE-Type: message\nMIME-Version: 1.0"
    (team.root / "queue" / "user" / f"message_{number:016}.mime").write_text(f"{head}\n\n{body}\n")


@pytest.mark.parametrize("name", SHELLS)
def test_commands_options_agents_and_ids_are_completed(name: str, team: Team, tmp_path: Path) -> None:
    team.send("user", "--body", "write the report")
    (sent,) = team.files("queue/user")
    message_id = team.json("inbox", "user")["messages"][0]["message_id"]
    with shell_in(name, team, tmp_path) as screen:
        screen.type("ackd sen", "Tab")
        screen.until_shown("$ ackd send")
        screen.type("wor", "Tab")
        screen.until_shown("$ ackd send worker_1")
        screen.type("--prio", "Tab")
        screen.until_shown("$ ackd send worker_1 --priority")
        screen.type("cri", "Tab")
        screen.until_shown("$ ackd send worker_1 --priority critical")
        screen.type("--type=code_r", "Tab")
        screen.until_shown("--priority critical --type=code_review")
        screen.type("", "C-u")
        screen.type("ackd done ", "Tab")
        screen.until_shown(f"$ ackd done {message_id.split('.')[2].partition('@')[0]}")
        screen.type("--agent us", "Tab")
        screen.until_shown("--agent user")
        screen.type("", "Enter")
        screen.until(lambda _: team.receipts(), "the receipt")
    assert [(one["kind"], one["message_id"]) for one in team.receipts()] == [("done", message_id)]
    assert sent.exists()


@pytest.mark.parametrize("name", SHELLS)
def test_several_that_fit_are_listed_and_files_where_a_file_is_wanted(name: str, team: Team, tmp_path: Path) -> None:
    (team.home / "my notes.txt").write_text("x")
    with shell_in(name, team, tmp_path) as screen:
        screen.type("ackd dead ", "Tab", "Tab")
        screen.until_shown("list", "show", "requeue", "purge")
        screen.type("", "C-u")
        screen.type("ackd send user --body-file my", "Tab")
        shown = screen.until_shown("--body-file my\\ notes.txt")
        assert shown.count("$ ackd send user") == 1  # after a complaint of its own a shell writes the line once more
        screen.type("", "Enter")
        screen.until_shown("queued ")
    assert len(team.files("queue/user")) == 1


@pytest.mark.parametrize("name", SHELLS)
def test_what_others_wrote_is_not_executed_and_reaches_no_terminal(name: str, team: Team, tmp_path: Path) -> None:
    team.send("user", "--body", "$(touch pwned) `touch pwned` \x1b]0;pwned\x07 %F{red} ${(e)X}")
    ids = [
        "$(touch pwned)",
        "a`touch pwned`b@x",
        "a;touch${IFS}pwned",
        "-rf",
        "--version",
        "~root",
        "\x1b[31mred@x",
        "a'b",
    ]
    for number, message_id in enumerate(ids):
        hostile(team, number, message_id, body="summary: \x1b[31m$(touch pwned)")
    with shell_in(name, team, tmp_path) as screen:
        for command in ("ackd explain ", "ackd done ", "ackd read $(touch", "ackd done --agent user "):
            screen.type(command, "Tab", "Tab")
            screen.type("~")  # shown when the completion is over, for keys are taken one after the other
            screen.until(lambda shown: "~" in shown, "the end of the completion")
            screen.type("", "C-u")
            shown = screen.until(lambda shown: "~" not in shown, "an empty line")
            assert not set(shown) & {"\x1b", "\x07"}
        screen.type("echo o''k", "Enter")
        shown = screen.until_shown("\nok")
    assert not list(tmp_path.rglob("pwned"))
    assert "red@x" not in shown
    assert "rf" not in shown


@pytest.mark.parametrize("name", SHELLS)
def test_where_nothing_can_be_found_tab_does_nothing(name: str, team: Team, tmp_path: Path) -> None:
    (team.home / "ackd.toml").write_text("no = [toml")
    with shell_in(name, team, tmp_path, ACKD_DEBUG="1") as screen:
        screen.type("ackd done ", "Tab")
        screen.type("x nosuch ", "Tab")
        screen.type("y", "Home")
        screen.type(": ", "Enter")
        shown = screen.until(lambda shown: shown.endswith("\n$"), "a new prompt")
    assert shown == "$ : ackd done x nosuch y\n$"


@pytest.mark.parametrize("name", SHELLS)
def test_scripts_have_no_syntax_error(name: str, team: Team, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "script").write_text(team.ackd("completion", name).stdout)
    ended = subprocess.run([name, "-n", str(tmp_path / "script")], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
