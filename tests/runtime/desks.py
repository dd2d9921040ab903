"""An intake and a letterbox at work over a real spool, for their tests."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

import anyio

from ackd.adapters.checkpoints import Checkpoints
from ackd.adapters.clock import SystemClock
from ackd.adapters.spool import Spool
from ackd.core import events
from ackd.core.engine import Engine
from ackd.core.errors import CannotStart
from ackd.core.message import Folder, Place, Receipt
from ackd.core.policy import UNLIMITED, AgentPolicy, EnginePolicy
from ackd.runtime.agent_requests import AgentRequests
from ackd.runtime.checkpoint_receipts import CheckpointReceipts
from ackd.runtime.intake import Intake
from ackd.runtime.letterbox import Letterbox
from ackd.runtime.pauses import Pauses
from tests.acceptance.teams import mime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

SETTLE_S = 0.05
INBOX = AgentPolicy(max_in_flight=UNLIMITED, reminds=True)


class Lives:
    """Who keeps agents alive: says what it was asked, and answers when ``go`` is set."""

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


class Desk:
    """An intake, the engine whose book it looks into, and what it posted and recorded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = SystemClock()
        self.spool = Spool(root, max_message_bytes=100_000, durable=False)
        self.spool.ensure_layout()
        self.engine = Engine(EnginePolicy(), random.Random(1))
        self.posted: list[events.Event] = []
        self.facts: list[tuple[str, dict[str, object]]] = []
        self.operated: list[Receipt] = []
        self.alarms: list[str] = []
        self.intake: Intake
        self.letterbox: Letterbox
        self.requests: AgentRequests
        self.pauses: Pauses
        self.lives: Lives
        for name in ("user", "leader"):
            self.join(name)

    def join(self, name: str) -> str:
        if name not in self.engine.desk.book.agents:
            self.handle(events.AgentJoined(name, INBOX, "inbox"))
        return name

    def handle(self, event: events.Event) -> None:
        self.engine.handle(event, self.clock.now())

    def record(self, type_: str, data: dict[str, object]) -> None:
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
        """The engine knows of it, and its agent does not take it yet."""
        self.handle(events.AgentPaused("leader"))
        event = self.intake.look(place)
        assert isinstance(event, events.Arrived)
        self.handle(event)

    def told(self, name: str = "m.mime", data: bytes | None = None) -> Place:
        """In processed/, in its agent's hands."""
        event = self.intake.look(self.put(name, data))
        assert isinstance(event, events.Arrived)
        self.handle(event)
        key = self.engine.desk.book.of_id(event.message.message_id, "leader")[-1].key
        moved = self.spool.move(event.place, Folder.PROCESSED)
        self.handle(events.Claimed(key, moved))
        self.handle(events.Told(key, "told"))
        return moved

    async def shown(self) -> None:
        """As the status page: it says what was decided, which here is everything that was posted."""
        await anyio.lowlevel.checkpoint()
        self.facts.append(("page", {"says": self.posted[-1] if self.posted else None}))

    def requests_in(self, tasks: TaskGroup) -> AgentRequests:
        self.pauses = Pauses(self.root / "state")
        self.lives = Lives()
        book, posted = self.engine.desk.book, self.posted.append
        called = {
            "leader": "leader",
            "user": "user",
            "worker-1": "worker_1",
            "worker_1": "worker_1",
            "found": "found",
        }.get
        self.requests = AgentRequests(
            self.spool, book, self.clock, posted, tasks, called, self.record, self.pauses, self.lives, self.shown
        )
        return self.requests

    async def until(self, holds: Callable[[], object]) -> None:
        with anyio.fail_after(60):
            while not holds():  # noqa: ASYNC110 - a look at the disk, no event
                await anyio.sleep(0.005)


@contextlib.asynccontextmanager
async def desk_in(root: Path) -> AsyncIterator[Desk]:
    desk = Desk(root)
    async with anyio.create_task_group() as tasks:
        desk.letterbox = Letterbox(
            desk.spool,
            desk.engine.desk.book,
            desk.clock,
            desk.posted.append,
            tasks,
            SETTLE_S,
            frozenset(),
            lambda name: name if name in desk.engine.desk.book.agents else None,
            desk.record,
            desk.operated.append,
            desk.requests_in(tasks),
            CheckpointReceipts(
                desk.spool, Checkpoints(root / "state" / "checkpoints"), desk.posted.append, tasks, desk.record
            ),
        )
        desk.intake = Intake(
            desk.spool,
            desk.engine.desk.book,
            desk.clock,
            desk.posted.append,
            tasks,
            SETTLE_S,
            frozenset(),
            desk.join,
            desk.record,
            desk.letterbox,
            lambda: desk.alarms.append("a box is gone"),
        )
        assert desk.intake.meet_box("leader")
        yield desk
        tasks.cancel_scope.cancel()
