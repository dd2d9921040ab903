"""A process agent with a supervisor and real workers: small Python scripts that do one thing well or badly."""

from __future__ import annotations

import json
import random
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ackd.core.effects import TellAgent
from ackd.core.events import Event, RunEnded
from ackd.core.message import Folder, Message, Place, Priority
from ackd.core.ports import Services
from ackd.core.restarts import RestartPolicy
from ackd.endpoints.process.assignments import AgentCheckpoints
from ackd.endpoints.process.endpoint import ProcessEndpoint
from ackd.runtime.supervisor import Supervisor
from ackd.storage import checkpoints as store
from ackd.system.clock import SystemClock
from ackd.system.process_tree import ProcessTable
from tests.endpoints.process.child.real_children import RealChildren
from tests.live_config import live_config
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

E = TypeVar("E")

#: The behaviour that all workers share; a test's script defines what its worker does differently.
WORKER = """
import json, os, signal, subprocess, sys, time
def say(type, **fields):
    sys.stdout.write(json.dumps({"type": type, **fields}) + "\\n")
    sys.stdout.flush()
def done(a, **more):
    say("complete", task_id=a["task_id"], verification_passed=True, **more)
def touch(name, text=""):
    with open(name + "~", "w") as file:
        file.write(text + "\\n")
    os.rename(name + "~", name)
def assign(a): done(a)
def status_check(m): pass
def checkpoint_request(m): pass
def ack(m): pass
def error(m): pass
def shutdown(m): sys.exit(0)
def hear():
    while line := sys.stdin.readline():
        with open("heard", "a") as file:
            file.write(line)
        message = json.loads(line)
        globals()[message["type"]](message)
def begin(): say("heartbeat")
"""

QUICK = RestartPolicy(base_s=0.01, cap_s=0.01)


def message(number: int = 1, task_id: str | None = "T-1") -> Message:
    return Message(
        f"m{number}@ignite.local", "leader", "worker", "task_assignment", Priority.HIGH, f"d{number}", task_id=task_id
    )


def tell(key: int = 1, attempt: int = 1, task_id: str | None = "T-1") -> TellAgent:
    place = Place("worker", Folder.PROCESSED, f"task_assignment_{key}.mime")
    return TellAgent("worker", key, message(key, task_id), place, attempt=attempt)


@dataclass
class ProcessAgent(RealChildren):
    events: list[Event] = field(default_factory=list)
    body: dict[str, object] = field(default_factory=dict)

    @property
    def heard(self) -> list[dict[str, Any]]:
        """The lines that the workers have read."""
        path = self.work / "heard"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def heard_of(self, type_: str) -> list[dict[str, Any]]:
        return [line for line in self.heard if line["type"] == type_]

    @property
    def checkpoints(self) -> Path:
        return self.tmp / "state" / "checkpoints"

    def read(self, _message: Message, place: Place) -> dict[str, object]:
        if place.name == "gone":
            raise FileNotFoundError(2, "No such file or directory", place.name)
        return self.body

    @asynccontextmanager
    async def worker(self, script: str = "", *, policy: RestartPolicy = QUICK, **more: Any) -> AsyncIterator[Work]:
        """A worker that is up, kept alive by a supervisor until the end of the block."""
        async with anyio.create_task_group() as tasks:
            supervisor = Supervisor(
                tasks=tasks,
                post=self.events.append,
                record=self.record,
                rng=random.Random(1),
                config=live_config(stop_timeout_s=5),
            )
            program = f"{WORKER}\n{script}\nbegin()\nhear()\n"
            endpoint = ProcessEndpoint(
                agent="worker",
                child=more.pop("child", None) or self.child(sys.executable, "-I", "-S", "-c", program),
                keeper=supervisor,
                services=Services(clock=SystemClock(), post=self.events.append, record=self.record, tasks=tasks),
                read=self.read,
                resolve=lambda place: self.tmp / str(place),
                checkpoints=AgentCheckpoints(store.CheckpointFiles(self.checkpoints), "worker"),
                table=ProcessTable(max_age_s=0),
                config=live_config(stop_timeout_s=more.pop("stop_timeout_s", 5)),
                **{"ready_after_s": 20, **more},
            )
            supervisor.keep("worker", endpoint.worker, policy)
            yield Work(self, supervisor, endpoint)
            await supervisor.shutdown()

    async def comes(self, kind: type[E], count: int = 1) -> E:
        """The ``count``-th event of a kind."""
        await until(lambda: len(self.all(kind)) >= count)
        return self.all(kind)[count - 1]

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Work:
    process_agent: ProcessAgent
    supervisor: Supervisor
    endpoint: ProcessEndpoint

    @property
    def pid(self) -> int:
        assert self.endpoint.worker.life is not None
        return self.endpoint.worker.life.pid

    async def tell(self, key: int = 1, attempt: int = 1, task_id: str | None = "T-1") -> Event:
        with anyio.fail_after(60):
            answer = await self.endpoint.tell(tell(key, attempt, task_id))
        self.process_agent.events.append(answer)
        return answer

    async def outcome(self, count: int = 1) -> RunEnded:
        return await self.process_agent.comes(RunEnded, count)
