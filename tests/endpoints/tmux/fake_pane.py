"""A fake agent in a real pane, its endpoint, and everything that both of them reported."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ackd.core.effects import AskCheckpoint, NudgeAgent, ProbeAgent, TellAgent
from ackd.core.events import Event
from ackd.core.message import Folder, Message, Place, Priority
from ackd.endpoints.tmux.client import Tmux, TmuxFault
from ackd.endpoints.tmux.endpoint import TerminalEndpoint
from ackd.endpoints.tmux.screen import profile_of
from ackd.system.clock import SystemClock
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FAKE = Path(__file__).parent / "fake_agent.py"
PATIENCE_S = 60.0
ID = "1763254800.4242.a1b2c3@ignite.local"
PLACE = Place("worker", Folder.PROCESSED, "task_assignment_1763254800123456.mime")
PATH = Path("/srv/team/.ackd/queue/worker/processed") / PLACE.name
E_ = TypeVar("E_", bound=Event)

PROFILE = (Path(__file__).parent / "fake_profile.toml").read_text()
TABLE: dict[str, Any] = tomllib.loads(PROFILE)


def message(message_id: str = ID, sender: str = "leader", type_: str = "task_assignment") -> Message:
    return Message(message_id, sender, "worker", type_, Priority.NORMAL, "d1g")


def tell(key: int = 1, attempt: int = 1, **differs: str) -> TellAgent:
    return TellAgent("worker", key, message(**differs), PLACE, attempt)


def nudge(rung: int, key: int = 1, attempt: int = 1, *, hung: bool = False) -> NudgeAgent:
    return NudgeAgent("worker", key, message(), PLACE, rung, attempt, hung)


def probe(text: str) -> ProbeAgent:
    return ProbeAgent("worker", 1, message(), PLACE, text, 1)


def ask() -> AskCheckpoint:
    return AskCheckpoint("worker", 1, message(), PLACE, 1)


@dataclass
class FakePane:
    tmux: Tmux
    place: Path
    events: list[Event] = field(default_factory=list)
    facts: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    pane_id: str = ""

    # --- the pane
    def open(self, command: str, *, width: int = 100, height: int = 30, title: str = "worker") -> str:
        """Open a titled pane that runs ``command``, in a session of its own; return its id."""
        size = ("-x", str(width), "-y", str(height))
        made = self._run("new-session", "-d", "-P", "-F", "#{pane_id}", *size, "-c", str(self.place), command)
        self.pane_id = made.strip()
        self._run("select-pane", "-t", self.pane_id, "-T", title)
        return self.pane_id

    def _run(self, *words: str) -> str:
        socket = str(self.tmux.socket_path)
        command = ["tmux", "-u", "-f", "/dev/null", "-S", socket, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    async def agent(self, *options: str, width: int = 100, height: int = 30, shell: bool = False) -> None:
        """Start the fake agent in its pane; ``shell``: from an interactive shell, to which it returns."""
        words = shlex.join([sys.executable, str(FAKE), *options])
        if shell:
            self.open("env -i PATH=/usr/bin:/bin TERM=xterm PS1='me@host:~$ ' bash --norc", width=width)
            await self.shows("me@host:~$")
            await self.tmux.type_text(self.pane_id, words)
            await self.tmux.press(self.pane_id, "Enter")
        else:
            self.open(words, width=width, height=height)
        await until((self.place / "up").exists, "the fake's start")

    async def shows(self, words: str) -> str:
        text, end = "", time.monotonic() + PATIENCE_S
        while words not in text:
            assert time.monotonic() < end, f"never showed {words!r}: {text}"
            with contextlib.suppress(TmuxFault):
                text = (await self.tmux.look(self.pane_id)).text
            await anyio.sleep(0.02)
        return text

    async def agent_line(self, line: str) -> None:
        """Type a line and leave it there."""
        await self.tmux.type_text(self.pane_id, line)
        await until(lambda: self.given().endswith(line.encode()), "the line's arrival")

    async def looks(self, times: int, endpoint: TerminalEndpoint) -> None:
        """Wait until the watch has looked that many times."""
        for _ in range(times):
            await endpoint._watch.look_once()

    def control(self, line: str) -> None:
        with (self.place / "control").open("a") as file:
            file.write(line + "\n")

    # --- what it was given
    def log(self) -> list[dict[str, str]]:
        path = self.place / "typed"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def given(self) -> bytes:
        return b"".join(bytes.fromhex(line["bytes"]) for line in self.log() if "bytes" in line)

    def submitted(self) -> list[str]:
        return [line["submitted"] for line in self.log() if "submitted" in line]

    def answered(self) -> list[str]:
        return [line["answered"] for line in self.log() if "answered" in line]

    # --- the endpoint
    @contextlib.asynccontextmanager
    async def endpoint(self, table: dict[str, Any] | None = None, **differs: Any) -> AsyncIterator[TerminalEndpoint]:
        async with anyio.create_task_group() as tasks:
            options: dict[str, Any] = {
                "title": "worker",
                "look_every_s": 0.05,
                "renew_patience_s": 5.0,
                "drawn_within_s": 0.3,
            } | differs
            endpoint = TerminalEndpoint(
                agent="worker",
                tmux=self.tmux,
                profile=profile_of(TABLE | (table or {}), "fake"),
                clock=SystemClock(),
                resolve=lambda _place: PATH,
                post=self.events.append,
                record=self.facts.append,
                tasks=tasks,
                **options,
            )
            yield endpoint
            await endpoint.stop(0)
            tasks.cancel_scope.cancel()

    def heard(self, kind: type[E_]) -> list[E_]:
        return [event for event in self.events if isinstance(event, kind)]

    async def hears(self, kind: type[E_]) -> E_:
        await until(lambda: self.heard(kind), kind.__name__)
        return self.heard(kind)[-1]
