"""A gateway on real files, with a daemon that only writes down what it is asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.bus import Bus
from ackd.config_coordination import Bus as Settings
from ackd.core.escalations import stamp
from ackd.core.events import Now
from ackd.runtime.gateways.bus import BusGateway
from ackd.runtime.gateways.gateway import Around

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.core.bus_layout import Track
    from ackd.core.bus_words import BusLine
    from ackd.core.deadlock import FileWait, Wait
    from ackd.core.message import Draft
    from ackd.runtime.gateways.subscriber import Subscriber

AGENTS = ("orchestrator", "builder", "tester", "user", "system", "queue_monitor")


async def _nobody_waits(_track: Track, _blocked: Sequence[FileWait]) -> list[Wait]:
    return []


@dataclass
class Clock:
    wall: float = 1_794_843_994.0

    def now(self) -> Now:
        return Now(self.wall, self.wall)


@dataclass
class House:
    """``mail`` by id, as the engine keeps one of each; ``sent``: however often."""

    place: Path
    settings: dict[str, Any] = field(default_factory=dict)
    subscribers: Sequence[Subscriber] = ()
    clock: Clock = field(default_factory=Clock)
    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    mail: dict[str, Draft] = field(default_factory=dict)
    sent: list[Draft] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)
    waits: list[list[Wait]] = field(default_factory=list)
    refuse: Callable[[Draft], None] | None = None

    def __post_init__(self) -> None:
        (self.place / ".ackd/state/gateways").mkdir(parents=True, exist_ok=True)
        self.bus = Bus(self.place / "tracks/login")
        self.bus.make()
        self.gateway = self.started()

    def started(self) -> BusGateway:
        """As by a new daemon."""
        around = Around(
            clock=self.clock,
            record=lambda type_, data: self.lines.append((type_, data)),
            mail=self._mail,
            post=self.posted.append,
            called={name.replace("-", "_"): name for name in AGENTS}.get,
            base=self.place,
            root=self.place / ".ackd",
            state=self.place / ".ackd/state/gateways",
            settle_s=0.05,
            durable=False,
        )
        settings = Settings(tracks=("tracks/*",), **self.settings)
        return BusGateway(settings, "orchestrator", around, self.subscribers, self, _nobody_waits)

    async def _mail(self, draft: Draft) -> None:
        if self.refuse is not None:
            self.refuse(draft)
        self.sent.append(draft)
        assert self.mail.setdefault(draft.message_id, draft) == draft, "the same id for another mail"

    async def look(self, track: Track, waits: Sequence[Wait], agent_of: Callable[[str], str | None]) -> None:
        """As the search for deadlocks."""
        self.waits.append(list(waits))

    # --- what agents do -----------------------------------------------------------------------------------------------
    def echo(self, type_: str, source: str, /, **payload: Any) -> None:
        self.write(json.dumps({"type": type_, "source": source, "payload": payload}) + "\n")

    def write(self, text: str) -> None:
        with Path(self.bus.track.queue).open("a") as file:
            file.write(text)

    def say_at(self, type_: str, source: str, /, **payload: Any) -> None:
        """With a time, which is now."""
        said = {"type": type_, "source": source, "timestamp": stamp(self.clock.wall), "payload": payload}
        self.write(json.dumps(said) + "\n")

    def put(self, file: str, text: str) -> None:
        """The file's whole content, in place, as a shell writes it."""
        (Path(self.bus.track.bus) / file).write_text(text)

    def replace(self, text: str) -> None:
        """Another queue.jsonl in place of the one there is."""
        new = Path(self.bus.track.bus) / "new"
        new.write_text(text)
        new.rename(self.bus.track.queue)

    def status(self, **entries: Any) -> None:
        self.put("worker-status.json", json.dumps(entries))

    # --- what came of it ----------------------------------------------------------------------------------------------
    def said(self, type_: str) -> list[dict[str, Any]]:
        return [data for name, data in self.lines if name == type_]

    def told(self, agent: str) -> list[str]:
        return [str(draft.body["content"]) for draft in self.mail.values() if draft.recipient == agent]

    def queue(self) -> str:
        return Path(self.bus.track.queue).read_text()

    def all_events(self) -> set[str]:
        return {path.name for path in Path(self.bus.track.events).iterdir()}

    def events(self) -> set[str]:
        return {name for name in self.all_events() if not name.startswith("MESSAGE_")}


@dataclass
class Hearing:
    """A subscriber. ``refusals``: so often the disk refuses it. ``broken``: something stands in its files' place."""

    name = "hearing"
    heard: list[tuple[str, BusLine]] = field(default_factory=list)
    refusals: int = 0
    broken: OSError | None = None

    async def line(self, track: Track, line: BusLine) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(28, "No space left on device")
        if self.broken is not None:
            raise self.broken
        self.heard.append((track.name, line))
