"""Real processes under the shim: a message on disk, an agent that runs a script for it, and a daemon that crashed."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ackd.adapters.exec_runs import ExecEndpoint, FoundRun, scan_runs
from ackd.core.effects import TellAgent
from ackd.core.events import Event, Told
from ackd.core.message import Folder, Message, Place, Priority
from tests.strays import children
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REPOSITORY = Path(__file__).parents[3]
BODY = "goal: grüße\ncount: 3\n"
HEADER = "Message-ID: <m1@ignite.local>\nFrom: leader\nTo: worker\nX-IGNITE-Type: task_assignment\n"
MESSAGE = Message("m1@ignite.local", "leader", "worker", "task_assignment", Priority.NORMAL, "d1g")
PLACE = Place("worker", Folder.PROCESSED, "task_assignment_1.mime")


def tell(key: int = 1) -> TellAgent:
    """Every key is a message of its own."""
    return TellAgent("worker", key, replace(MESSAGE, message_id=f"m{key}@ignite.local"), PLACE, attempt=2)


def time_is_up(endpoint: ExecEndpoint) -> None:
    """For what runs, now: a timeout short enough for a test would be too short for a script's first words."""
    for run in endpoint._running.values():
        run.patience.deadline = anyio.current_time()


@dataclass
class Bench:
    """A message on disk, and one exec agent that runs ``script`` for it."""

    tmp: Path
    events: list[Event] = field(default_factory=list)
    facts: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    came: anyio.Event = field(default_factory=anyio.Event)
    others: set[int] = field(default_factory=children)

    def __post_init__(self) -> None:
        (self.tmp / "work").mkdir(exist_ok=True)
        self.message.write_text(HEADER + "\n" + BODY)

    @property
    def message(self) -> Path:
        return self.tmp / "a message.mime"

    @property
    def runs(self) -> Path:
        return self.tmp / "state" / "runs"

    @property
    def run_dirs(self) -> list[Path]:
        return sorted(self.runs.iterdir())

    def post(self, event: Event) -> None:
        self.events.append(event)
        self.came.set()

    @asynccontextmanager
    async def agent(self, *command: str, **more: object) -> AsyncIterator[ExecEndpoint]:
        async with anyio.create_task_group() as tasks:
            options: dict[str, object] = {"env": {}, "cwd": self.tmp / "work", "stop_timeout_s": 0.3} | more
            endpoint = ExecEndpoint(
                agent="worker",
                command=list(command),
                runs_dir=self.runs,
                resolve=lambda _place: self.message,
                extra_env={"ACKD_ROOT": str(self.tmp)},
                post=self.post,
                record=lambda kind, data: self.facts.append((kind, data)),
                tasks=tasks,
                **options,  # type: ignore[arg-type]
            )
            yield endpoint
            endpoint.abandon()

    def sh(self, script: str, **more: object):  # type: ignore[no-untyped-def]  # noqa: ANN201
        return self.agent("sh", "-c", script, **more)

    async def news(self) -> Event:
        """The next posted event."""
        with anyio.fail_after(60):
            while not self.events:
                self.came = anyio.Event()
                await self.came.wait()
        return self.events.pop(0)

    async def run(self, script: str, **more: object) -> Event:
        async with self.sh(script, **more) as endpoint:
            assert isinstance(await endpoint.tell(tell()), Told)
            return await self.news()

    async def pid_in(self, name: str) -> int:
        """A pid that the script wrote into its working directory."""
        path = self.tmp / "work" / name
        await until(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())

    def assert_no_child_left(self) -> None:
        """Of ours: the process of the tests may have others, for as long as it runs."""
        assert children() <= self.others


def crashed_daemon(bench: Bench, script: str, timeout_s: float = 600) -> None:
    """Another process tells the agent and is killed at once, as `kill -9` would."""
    program = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from tests.adapters.exec_runs.bench import Bench, tell
async def main():
    async with Bench(Path({str(bench.tmp)!r})).sh({script!r}, timeout_s={timeout_s}) as endpoint:
        print(await endpoint.tell(tell()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False)
    assert done.returncode == -signal.SIGKILL
    assert b"Told" in done.stdout


def the_run(bench: Bench) -> FoundRun:
    (found,) = scan_runs(bench.runs)
    return found
