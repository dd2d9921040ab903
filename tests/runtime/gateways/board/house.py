"""A gateway on a real directory, with a clock of its own and a daemon that only writes down what it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.config_coordination import Board, Bus
from ackd.core.board import answers
from ackd.core.board.answers import Answer, Door
from ackd.core.board.meeting import Meeting, Seat, recorded
from ackd.core.board.phases import Checkpoint
from ackd.core.bus_layout import Track
from ackd.core.errors import UnknownAgent
from ackd.core.events import Event, Now
from ackd.runtime.board_room import BoardRoom
from ackd.runtime.gateways import Around
from ackd.runtime.gateways.board import BoardGateway

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

NAMES = ("CA", "CPO", "CSO")
BOARD = Board(directors=dict.fromkeys(NAMES, "all"), assess_timeout_s=60, discuss_timeout_s=30, vote_timeout_s=20)


class House:
    """A daemon, as far as a gateway knows one."""

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
        self.room = BoardRoom(Track(str(self.bus), "api"), durable=False)
        self.gateway = self.made()

    def made(self) -> BoardGateway:
        """After a restart: nothing is remembered but the files."""
        state = self.root / "state"
        inside = (self, self._record, self._mail, self.posted.append, lambda name: name)
        around = Around(*inside, self.base, self.root, state, settle_s=0.1, durable=False)
        self.gateway = BoardGateway(BOARD, Bus(tracks=("tracks/*",)), "boss", around)
        return self.gateway

    def now(self) -> Now:
        return Now(self.mono, self.wall)

    def pass_time(self, seconds: float) -> None:
        self.wall, self.mono = self.wall + seconds, self.mono + seconds

    def _record(self, type_: str, data: dict[str, object]) -> None:
        self.lines.append((type_, data))

    async def _mail(self, draft: Draft) -> None:
        if self.refuse is not None:
            raise self.refuse
        if draft.recipient in self.unknown:
            raise UnknownAgent(draft.recipient)
        self.mails.append(draft)

    def open(self, *, quick: bool = False) -> str:
        seats = tuple(Seat(name, "all", name) for name in NAMES)
        kind = Checkpoint.QUICK_REVIEW if quick else Checkpoint.PRE_LAUNCH
        opened = self.room.open(
            self.wall, lambda ident, size: Meeting(ident, kind, "Launch", None, "leader", self.wall, seats, 1, size)
        )
        return opened.meeting_id

    def say(self, answer: Answer) -> None:
        self.room.change(None, lambda meeting: recorded(meeting, answer, Door.ACKD, self.wall), self.wall)

    def assess(self, *names: str) -> None:
        for name in names or NAMES:
            self.say(answers.assessment(name, {"verdict": "APPROVE"}))

    def facts(self, type_: str) -> list[dict[str, object]]:
        return [data for kind, data in self.lines if kind == type_]
