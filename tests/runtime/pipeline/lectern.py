"""A lead at its desk: real records and queues on disk, and workers that are only a list of what was done to them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import anyio

from ackd.adapters.clock import SystemClock
from ackd.adapters.spool import Spool
from ackd.adapters.story_files import StoryFiles
from ackd.config_pipeline import Pipeline, StageWorker
from ackd.core.errors import CannotStart
from ackd.core.events import Told
from ackd.core.story import StoryState
from ackd.core.story_record import Story
from ackd.handlers import Context, Mail
from ackd.runtime.gateways.gateway import Around
from ackd.runtime.pipeline.boxes import Boxes
from ackd.runtime.pipeline.conduct import Conduct
from ackd.runtime.pipeline.lead import Lead
from ackd.runtime.pipeline.reports import Reports
from ackd.runtime.pipeline.rooms import Room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ackd.config import Config
    from ackd.core.effects import TellAgent
    from ackd.core.events import Event
    from ackd.core.message import Draft
    from ackd.core.story_record import Try
    from ackd.ports import TellAnswer
    from ackd.runtime.pipeline.ear import Printed
    from ackd.runtime.pipeline.rooms import Over
    from ackd.runtime.pipeline.workers import StageWorkers

NEW = Story("A-1", StoryState.WAITING, 1_770_000_000.0, 1)


@dataclass(eq=False)
class Life:
    """Whatever it is told, it answers what it was given to answer."""

    reads_mail: bool = False
    answer: object = None
    told: list[str] = field(default_factory=list)

    async def start(self) -> None: ...

    async def tell(self, order: TellAgent) -> TellAnswer:
        self.told.append(order.message.message_id)
        return cast("TellAnswer", self.answer or Told(order.key, "told", attempt=order.attempt))

    async def ask(self, text: str) -> None:
        self.told.append(text)

    def pulse(self) -> str | None:
        return None

    async def end(self, why: str) -> None:
        self.told.append(f"end: {why}")

    async def stop(self, drain_s: float) -> None: ...

    def printed(self, key: int) -> str:
        return ""

    def words(self) -> list[Printed]:
        return []

    def took(self, said: Printed) -> None: ...

    def acknowledge(self, text: str) -> None:
        self.told.append(text)

    def forget(self) -> None: ...


@dataclass(eq=False)
class Workers:
    """Rooms, and nobody in them. ``refuses``: why none can be started."""

    files: StoryFiles
    done: list[str]
    refuses: str = ""
    stopping: bool = False
    lost: dict[tuple[str, int], Over] = field(default_factory=dict)
    settled_in: anyio.Event = field(default_factory=anyio.Event)
    lives: dict[tuple[str, int], Room] = field(default_factory=dict)

    def get(self, story_id: str, generation: int) -> Room | None:
        return self.lives.get((story_id, generation))

    async def leaving(self, story: Story, one: Try) -> Room | None:
        return self.get(story.story_id, one.generation)

    def discard_left(self) -> None: ...

    def rooms(self) -> list[Room]:
        return list(self.lives.values())

    async def open(self, story: Story, one: Try) -> Room:
        if self.refuses:
            raise CannotStart(self.refuses)
        self.done.append(f"start {one.generation}")
        room = Room(story.story_id, one.stage, one.generation, story.worker, Life())
        self.lives[room.key] = room
        return room

    async def close(self, room: Room, why: str) -> None:
        self.done.append(f"end {room.generation}")
        self.lives.pop(room.key, None)
        await room.life.end(why)


@dataclass(eq=False)
class Lectern:
    """``done``: what was done, in order; ``facts``: what the log has; ``posted``: what the engine was told."""

    conduct: Conduct
    workers: Workers
    files: StoryFiles
    spool: Spool
    done: list[str]
    drafts: list[Draft]
    facts: list[tuple[str, dict[str, object]]]
    posted: list[Event]

    @property
    def story(self) -> Story:
        found = self.files.read("A-1")
        assert found is not None
        return found

    async def hear(self, text: str, *, sender: str = "story-A-1-s0", generation: int | None = 1, type_: str = "message",
                   message_id: str = "") -> None:  # fmt: skip
        body: dict[str, object] = {"content": text} | ({"generation": generation} if generation is not None else {})
        name = message_id or f"m{len(self.facts)}"
        mail = Mail(name, sender, "pipeline-lead", type_, 2, "", load=lambda _: body)  # type: ignore[arg-type]
        await Reports(self.conduct)(mail, cast("Context", None))

    def lead(self) -> Lead:
        """A new one, as after a restart. It looks when it is asked to."""
        config = SimpleNamespace(liveness=SimpleNamespace(heartbeat_timeout_s=3600, probe_timeout_s=3600))
        return Lead(config=cast("Config", config), conduct=self.conduct)

    def types(self) -> list[str]:
        return [type_ for type_, _ in self.facts]


@asynccontextmanager
async def lectern(place: Path, story: Story = NEW, *, leave_s: float = 0.01) -> AsyncIterator[Lectern]:
    done: list[str] = []
    drafts: list[Draft] = []
    facts: list[tuple[str, dict[str, object]]] = []
    posted: list[Event] = []
    files = StoryFiles(place / "state/stories", durable=False)
    files.change(story.story_id, lambda _: story)
    spool = Spool(place, max_message_bytes=100_000, durable=False)
    spool.ensure_layout()
    workers = Workers(files, done)

    async def mail(draft: Draft) -> None:
        state = files.read("A-1")
        assert state is not None
        what = str(draft.body.get("content", draft.type)) if draft.type != "escalation" else "escalation"
        done.append(f"{what} [{state.state.value}]")
        drafts.append(draft)

    def record(type_: str, data: dict[str, object]) -> None:
        facts.append((type_, data))

    around = Around(
        SystemClock(),
        record,
        mail,
        posted.append,
        lambda name: name if name != "nobody" else None,
        place,
        place,
        place / "state",
        0.1,
        durable=False,
    )
    async with anyio.create_task_group() as tasks:
        conduct = Conduct(
            pipeline=Pipeline(worker=StageWorker(command=("true",)), leave_s=leave_s),
            around=around,
            files=files,
            workers=cast("StageWorkers", workers),
            boxes=Boxes(spool, lambda name: name),
            tasks=tasks,
            admit=lambda _: True,
            escalate=mail,
        )
        yield Lectern(conduct, workers, files, spool, done, drafts, facts, posted)
