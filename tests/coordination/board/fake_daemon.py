"""A board's gateway on a real directory, with a fake daemon that keeps mail, events and log lines in lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.coordination.board.gateway import BoardGateway
from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import Answer, Channel
from ackd.coordination.board.rules.meeting import Meeting, Seat, recorded
from ackd.coordination.board.rules.phases import BoardCheckpoint
from ackd.coordination.board.settings import BoardSettings
from ackd.coordination.board.track_board import TrackBoard
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.gateway import GatewayServices
from ackd.core.errors import UnknownAgent
from ackd.core.events import Event, Now
from tests.live_config import live_config

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.fact import Fact
    from ackd.core.message import Draft

NAMES = ("CA", "CPO", "CSO")
BOARD = BoardSettings(
    directors=dict.fromkeys(NAMES, "all"), assess_timeout_s=60, discuss_timeout_s=30, vote_timeout_s=20
)


class FakeDaemon:
    """The part of a daemon that a gateway uses, and a clock that the test moves. ``unknown``: names of no agent."""

    def __init__(self, base: Path) -> None:
        self.base, self.root = base, base / ".ackd"
        self.root.mkdir()
        self.bus = base / "tracks/api/.message-bus"
        self.bus.mkdir(parents=True)
        self.wall, self.mono = 1769947200.0, 50.0
        self.mails: list[Draft] = []
        self.posted: list[Event] = []
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.unknown: set[str] = set()
        self.refuse: OSError | None = None
        self.track_board = TrackBoard(Track(str(self.bus), "api"), durable=False)
        self.gateway = self.made()

    def made(self) -> BoardGateway:
        """Make the gateway as after a restart: it knows only the files."""
        state = self.root / "state"
        inside = (self, self._record, self._mail, self.posted.append, lambda name: name)
        services = GatewayServices(*inside, self.base, self.root, state, live=live_config(settle_s=0.1), durable=False)
        self.gateway = BoardGateway(
            settings=BOARD, bus=BusSettings(tracks=("tracks/*",)), escalate_to="boss", services=services
        )
        return self.gateway

    def now(self) -> Now:
        return Now(self.mono, self.wall)

    def pass_time(self, seconds: float) -> None:
        self.wall, self.mono = self.wall + seconds, self.mono + seconds

    def _record(self, fact: Fact) -> None:
        type_, data = fact
        self.lines.append((type_, data))

    async def _mail(self, draft: Draft) -> None:
        if self.refuse is not None:
            raise self.refuse
        if draft.recipient in self.unknown:
            raise UnknownAgent(draft.recipient)
        self.mails.append(draft)

    def open(self, *, quick: bool = False) -> str:
        seats = tuple(Seat(name, "all", name) for name in NAMES)
        kind = BoardCheckpoint.QUICK_REVIEW if quick else BoardCheckpoint.PRE_LAUNCH
        opened = self.track_board.open(
            self.wall, lambda ident, size: Meeting(ident, kind, "Launch", None, "leader", self.wall, seats, 1, size)
        )
        return opened.meeting_id

    def say(self, answer: Answer) -> None:
        self.track_board.change(None, lambda meeting: recorded(meeting, answer, Channel.ACKD, self.wall), self.wall)

    def assess(self, *names: str) -> None:
        for name in names or NAMES:
            self.say(answers.assessment(name, {"verdict": "APPROVE"}))

    def facts(self, type_: str) -> list[dict[str, object]]:
        return [data for kind, data in self.lines if kind == type_]
