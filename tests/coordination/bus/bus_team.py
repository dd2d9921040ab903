"""A team with one message bus on disk, and its gateway. Lists of mail, events and log lines stand for the daemon."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.bus import Bus
from ackd.coordination.bus.gateway import BusGateway
from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.gateway import GatewayServices
from ackd.core.escalations import stamp
from ackd.core.events import Now
from tests.live_config import live_config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.rules.track import TrackView
    from ackd.coordination.bus.rules.words import BusLine, WorkerWait
    from ackd.coordination.bus.subscriber import Subscriber
    from ackd.core.message import Draft

AGENTS = ("orchestrator", "builder", "tester", "user", "system", "queue_monitor")


@dataclass
class WallClock:
    wall: float = 1_794_843_994.0

    def now(self) -> Now:
        return Now(self.wall, self.wall)


@dataclass
class BusTeam:
    """A team in ``place`` with the track "login".

    ``mail`` has each message once, by id, as the engine keeps it; ``sent`` has every sending. ``refuse`` may raise to
    refuse a draft. ``waits`` has the waits that each look found.
    """

    place: Path
    settings: dict[str, Any] = field(default_factory=dict)
    subscribers: Sequence[Subscriber] = ()
    clock: WallClock = field(default_factory=WallClock)
    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    mail: dict[str, Draft] = field(default_factory=dict)
    sent: list[Draft] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)
    waits: list[list[WorkerWait]] = field(default_factory=list)
    refuse: Callable[[Draft], None] | None = None
    what: str = "circles"

    def __post_init__(self) -> None:
        (self.place / ".ackd/state/gateways").mkdir(parents=True, exist_ok=True)
        self.bus = Bus(self.place / "tracks/login")
        self.bus.make()
        self.gateway = self.started()

    def started(self) -> BusGateway:
        """Make a gateway as a new daemon does: it knows only the files."""
        services = GatewayServices(
            clock=self.clock,
            record=self.lines.append,
            mail=self._mail,
            post=self.posted.append,
            called={name.replace("-", "_"): name for name in AGENTS}.get,
            base=self.place,
            root=self.place / ".ackd",
            state=self.place / ".ackd/state/gateways",
            live=live_config(settle_s=0.05),
            durable=False,
        )
        settings = BusSettings(tracks=("tracks/*",), **self.settings)
        gateway = BusGateway(config=settings, orchestrator="orchestrator", services=services)
        gateway.subscribers.extend(self.subscribers)
        gateway.observers.append(self)
        return gateway

    async def _mail(self, draft: Draft) -> None:
        if self.refuse is not None:
            self.refuse(draft)
        self.sent.append(draft)
        assert self.mail.setdefault(draft.message_id, draft) == draft, "the same id for another mail"

    async def looked(self, track: Track, view: TrackView, agent_of: Callable[[str], str | None]) -> None:
        """Note the waits: the gateway calls this because the team is one of its observers (``TrackObserver``)."""
        self.waits.append(view.blocked())

    # --- the acts of agents -------------------------------------------------------------------------------------------
    def echo(self, type_: str, source: str, /, **payload: Any) -> None:
        self.write(json.dumps({"type": type_, "source": source, "payload": payload}) + "\n")

    def write(self, text: str) -> None:
        with Path(self.bus.track.queue).open("a") as file:
            file.write(text)

    def say_at(self, type_: str, source: str, /, **payload: Any) -> None:
        """Write a line that carries a time: now, by the test's clock."""
        said = {"type": type_, "source": source, "timestamp": stamp(self.clock.wall), "payload": payload}
        self.write(json.dumps(said) + "\n")

    def put(self, file: str, text: str) -> None:
        """Write the whole file in place, as a shell does."""
        (Path(self.bus.track.bus) / file).write_text(text)

    def replace(self, text: str) -> None:
        """Put another queue.jsonl in place of the present one, by renaming."""
        new = Path(self.bus.track.bus) / "new"
        new.write_text(text)
        new.rename(self.bus.track.queue)

    def status(self, **entries: Any) -> None:
        self.put("worker-status.json", json.dumps(entries))

    # --- the results --------------------------------------------------------------------------------------------------
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
class RecordingSubscriber:
    """A subscriber that keeps the lines it got.

    The first ``refusals`` lines fail as if the disk were full; with ``broken`` every line fails with that error.
    """

    name = "recording"
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
