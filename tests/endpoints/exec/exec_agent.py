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

from ackd.core.effects import TellAgent
from ackd.core.events import Event, Told
from ackd.core.message import Folder, Message, Place, Priority
from ackd.core.ports import Services
from ackd.endpoints.exec.endpoint import ExecEndpoint
from ackd.endpoints.exec.run_files import scan_runs
from ackd.system.clock import SystemClock
from tests.live_config import live_config
from tests.strays import children
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ackd.endpoints.making import FoundRun

REPOSITORY = Path(__file__).parents[3]
BODY = "goal: grüße\ncount: 3\n"
HEADER = "Message-ID: <m1@ignite.local>\nFrom: leader\nTo: worker\nX-IGNITE-Type: task_assignment\n"
MESSAGE = Message("m1@ignite.local", "leader", "worker", "task_assignment", Priority.NORMAL, "d1g")
PLACE = Place("worker", Folder.PROCESSED, "task_assignment_1.mime")


def tell(key: int = 1) -> TellAgent:
    """Tell a message; every key is a message of its own."""
    return TellAgent("worker", key, replace(MESSAGE, message_id=f"m{key}@ignite.local"), PLACE, attempt=2)


def time_is_up(endpoint: ExecEndpoint) -> None:
    """End the time limit of everything that runs: a timeout short enough for a test would be too short for a script's
    first words."""
    for run in endpoint._running.values():
        run.time_limit.deadline = anyio.current_time()


@dataclass
class ExecAgent:
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
    async def endpoint(self, *command: str, **more: object) -> AsyncIterator[ExecEndpoint]:
        async with anyio.create_task_group() as tasks:
            config = live_config(stop_timeout_s=more.pop("stop_timeout_s", 0.3))
            options: dict[str, object] = {"env": {}, "cwd": self.tmp / "work", "config": config} | more
            endpoint = ExecEndpoint(
                agent="worker",
                command=list(command),
                runs_dir=self.runs,
                resolve=lambda _place: self.message,
                extra_env={"ACKD_ROOT": str(self.tmp)},
                services=Services(
                    clock=SystemClock(),
                    post=self.post,
                    record=self.facts.append,
                    tasks=tasks,
                ),
                **options,  # type: ignore[arg-type]
            )
            yield endpoint
            endpoint.abandon()

    def sh(self, script: str, **more: object):  # type: ignore[no-untyped-def]  # noqa: ANN201
        return self.endpoint("sh", "-c", script, **more)

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
        """Only children of this agent count: the process of the tests may have others."""
        assert children() <= self.others


def crashed_daemon(exec_agent: ExecAgent, script: str, timeout_s: float = 600) -> None:
    """Tell the agent from another process, which is then killed at once, as by `kill -9`."""
    program = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from tests.endpoints.exec.exec_agent import ExecAgent, tell
async def main():
    async with ExecAgent(Path({str(exec_agent.tmp)!r})).sh({script!r}, timeout_s={timeout_s}) as endpoint:
        print(await endpoint.tell(tell()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False)
    assert done.returncode == -signal.SIGKILL
    assert b"Told" in done.stdout


def the_run(exec_agent: ExecAgent) -> FoundRun:
    (found,) = scan_runs(exec_agent.runs)
    return found
