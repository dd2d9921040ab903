"""An ``Intake`` and a ``Receipts`` at work over a real spool, for their tests."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from ackd.core import events
from ackd.core.engine import Engine
from ackd.core.errors import CannotStart
from ackd.core.message import Folder, Place, Receipt
from ackd.core.policy import UNLIMITED, AgentPolicy, EnginePolicy
from ackd.core.ports import Services
from ackd.runtime.intake.intake import Intake
from ackd.runtime.receipts.agent_requests import AgentRequests
from ackd.runtime.receipts.dead_letters import DeadLetters
from ackd.runtime.receipts.receipts import CheckpointReceipts, Receipts
from ackd.storage.checkpoints import CheckpointFiles
from ackd.storage.paused import Pauses
from ackd.storage.spool import Spool
from ackd.system.clock import SystemClock
from tests.acceptance.teams import mime
from tests.live_config import live_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from ackd.core.fact import Fact


SETTLE_S = 0.05
INBOX = AgentPolicy(max_in_flight=UNLIMITED, reminds=True)


class FakeSupervisor:
    """A supervisor that notes its requests, and answers when ``go`` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = anyio.Event()
        self.go.set()
        self.cannot = ""

    def keeps(self, agent: str) -> bool:
        return agent != "found"

    async def start(self, agent: str) -> str | None:
        return await self._do(f"start {agent}")

    async def stop(self, agent: str) -> str | None:
        await self._do(f"stop {agent}")
        return None

    async def restart(self, agent: str, why: str, *, wanted: bool) -> str | None:
        assert wanted
        return await self._do(f"restart {agent} {why}")

    async def _do(self, what: str) -> str:
        self.asked.append(what)
        await self.go.wait()
        if self.cannot:
            raise CannotStart(self.cannot)
        return "pid 4242"


@dataclass
class NotedReceipts:
    """Notes the receipts that it is given, and does nothing else."""

    taken: list[Receipt]

    def take(self, receipt: Receipt) -> None:
        self.taken.append(receipt)


class IntakeSetup:
    """An intake, the engine whose deliveries it knows, and the events and facts that it posted and recorded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = SystemClock()
        self.spool = Spool(root, max_message_bytes=100_000, durable=False)
        self.config = live_config(settle_s=SETTLE_S)
        self.spool.ensure_layout()
        self.engine = Engine(EnginePolicy(), random.Random(1))
        self.posted: list[events.Event] = []
        self.facts: list[tuple[str, dict[str, object]]] = []
        self.dead_letter_requests: list[Receipt] = []
        self.alarms: list[str] = []
        self.services: Services
        self.intake: Intake
        self.receipts: Receipts
        self.requests: AgentRequests
        self.pauses: Pauses
        self.supervisor: FakeSupervisor
        for name in ("user", "leader"):
            self.join(name)

    def join(self, name: str) -> str:
        if name not in self.engine.state.agents:
            self.handle(events.AgentJoined(name, INBOX, "inbox"))
        return name

    def handle(self, event: events.Event) -> None:
        self.engine.handle(event, self.clock.now())

    def record(self, fact: Fact) -> None:
        type_, data = fact
        self.facts.append((type_, data))

    def of(self, *types: type[events.Event]) -> list[Any]:
        return [event for event in self.posted if isinstance(event, types)]

    def said(self, type_: str) -> list[dict[str, object]]:
        return [data for name, data in self.facts if name == type_]

    def put(self, name: str = "m.mime", data: bytes | None = None, folder: Folder = Folder.QUEUE) -> Place:
        place = Place("leader", folder, name)
        self.spool.path(place).write_bytes(mime() if data is None else data)
        return place

    def waiting(self, place: Place) -> None:
        """Make the message known to the engine while its agent is paused, so that it waits."""
        self.handle(events.AgentPaused("leader"))
        event = self.intake.look(place)
        assert isinstance(event, events.Arrived)
        self.handle(event)

    def told(self, name: str = "m.mime", data: bytes | None = None) -> Place:
        """Deliver a message: it lies in processed/, and its agent has been told."""
        event = self.intake.look(self.put(name, data))
        assert isinstance(event, events.Arrived)
        self.handle(event)
        key = self.engine.state.deliveries.of_id(event.message.message_id, "leader")[-1].key
        moved = self.spool.move(event.place, Folder.PROCESSED)
        self.handle(events.Claimed(key, moved))
        self.handle(events.Told(key, "told"))
        return moved

    async def shown(self) -> None:
        """Stand in for the status page: note the last event that was posted, which counts as decided here."""
        await anyio.lowlevel.checkpoint()
        self.facts.append(("page", {"says": self.posted[-1] if self.posted else None}))

    def make_requests(self) -> AgentRequests:
        self.pauses = Pauses(self.root / "state")
        self.supervisor = FakeSupervisor()
        called = {
            "leader": "leader",
            "user": "user",
            "worker-1": "worker_1",
            "worker_1": "worker_1",
            "found": "found",
        }.get
        self.requests = AgentRequests(
            spool=self.spool,
            deliveries=self.engine.state.deliveries,
            services=self.services,
            called=called,
            pauses=self.pauses,
            supervisor=self.supervisor,
            shown=self.shown,
        )
        return self.requests

    async def until(self, holds: Callable[[], object]) -> None:
        with anyio.fail_after(60):
            while not holds():  # noqa: ASYNC110 - a look at the disk, no event
                await anyio.sleep(0.005)


@contextlib.asynccontextmanager
async def intake_in(root: Path) -> AsyncIterator[IntakeSetup]:
    setup = IntakeSetup(root)
    async with anyio.create_task_group() as tasks:
        setup.services = Services(clock=setup.clock, post=setup.posted.append, record=setup.record, tasks=tasks)
        deliveries = setup.engine.state.deliveries

        def called(name: str) -> str | None:
            return name if name in setup.engine.state.agents else None

        setup.receipts = Receipts(
            spool=setup.spool,
            deliveries=deliveries,
            services=setup.services,
            config=setup.config,
            called=called,
            dead_letters=DeadLetters(
                spool=setup.spool,
                deliveries=deliveries,
                called=called,
                post=setup.posted.append,
                config=setup.config,
            ),
            dead_letter_requests=NotedReceipts(setup.dead_letter_requests),
            agent_requests=setup.make_requests(),
            reload_requests=NotedReceipts([]),
            checkpoints=CheckpointReceipts(
                spool=setup.spool, kept=CheckpointFiles(root / "state" / "checkpoints"), services=setup.services
            ),
        )
        setup.intake = Intake(
            spool=setup.spool,
            deliveries=deliveries,
            services=setup.services,
            config=setup.config,
            agent_of=setup.join,
            receipts=setup.receipts,
            alarm=lambda: setup.alarms.append("a box is gone"),
        )
        assert setup.intake.meet_box("leader")
        yield setup
        tasks.cancel_scope.cancel()
