"""Agents in terminals for real teams: fake agents in real panes, on a tmux server of the test's own."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import Team
from tests.endpoints.tmux.fake_pane import FAKE, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator


def fake(*options: str) -> str:
    """The command line that starts one. Without site packages, unless it is to find ackd."""
    python = [sys.executable] if {"--obeys", "--runs"} & {*options} else [sys.executable, "-S"]
    return shlex.join([*python, str(FAKE), *options])


def toml(value: Any) -> str:
    """Of a profile: nothing but tables, lists, texts and numbers."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(of)}" for key, of in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def profile(name: str = "fake") -> str:
    lines = "".join(f"{key} = {toml(value)}\n" for key, value in TABLE.items())
    return f"[profiles.{name}]\n{lines}"


@dataclass
class Panes:
    """A server, and the panes that the test has opened itself. Each fake has a directory of its own."""

    socket: Path
    place: Path
    environment: dict[str, str] = field(default_factory=dict)

    def config(self) -> str:
        return f"[tmux]\nsocket = {json.dumps(str(self.socket))}\n{profile()}"

    def run(self, *words: str, check: bool = True) -> str:
        command = ["tmux", "-u", "-f", "/dev/null", "-S", str(self.socket), *words]
        env = self.environment or None
        done = subprocess.run(command, check=check, capture_output=True, text=True, env=env, timeout=60)
        return done.stdout

    def open(
        self, name: str = "worker", *options: str, title: str | None = None, size: tuple[int, int] = (120, 30)
    ) -> str:
        """The fake in a new pane, titled; its id. What was written down by one before it is gone."""
        home = self.home(name)
        for old in ("typed", "control", "up"):
            (home / old).unlink(missing_ok=True)
        made = self.run(
            *("new-session", "-d", "-P", "-F", "#{pane_id}", "-x", str(size[0]), "-y", str(size[1])),
            *("-c", str(home), fake(*options)),
        )
        pane_id = made.strip()
        self.run("select-pane", "-t", pane_id, "-T", title or name)
        return pane_id

    def kill(self, pane_id: str) -> None:
        self.run("kill-pane", "-t", pane_id, check=False)

    def ids(self) -> list[str]:
        return self.run("list-panes", "-a", "-F", "#{pane_id}", check=False).split()

    def screen(self, pane_id: str) -> str:
        return self.run("capture-pane", "-p", "-t", pane_id)

    # --- one fake
    def home(self, name: str = "worker") -> Path:
        home = self.place / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        return home

    def is_up(self, name: str = "worker") -> bool:
        return (self.home(name) / "up").exists()

    def control(self, line: str, name: str = "worker") -> None:
        with (self.home(name) / "control").open("a") as file:
            file.write(f"{line}\n")

    def log(self, name: str = "worker") -> list[dict[str, str]]:
        path = self.home(name) / "typed"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def given(self, name: str = "worker") -> bytes:
        return b"".join(bytes.fromhex(line["bytes"]) for line in self.log(name) if "bytes" in line)

    def submitted(self, name: str = "worker") -> list[str]:
        return [line["submitted"] for line in self.log(name) if "submitted" in line]


@contextlib.contextmanager
def panes_in(place: Path) -> Iterator[Panes]:
    """On a socket in a directory of its own: paths of sockets are short, those of tests are not."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    directory = Path(tempfile.mkdtemp(prefix="ackd-tmux-"))
    found = Panes(directory / "s", place, Team(place).environment)  # all that is started there bears the test's mark
    try:
        yield found
    finally:
        found.run("kill-server", check=False)
        shutil.rmtree(directory, ignore_errors=True)
