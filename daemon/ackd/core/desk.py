"""What the engine's parts share while one event is handled: the tables, the clocks' reading, and the list of effects.

Owns nothing but the emptying of its tray; no decisions are made here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ackd.core.book import Book
from ackd.core.deadlines import Deadlines
from ackd.core.dedup import Completed
from ackd.core.effects import RecordFact
from ackd.core.escalations import Escalations
from ackd.core.events import Now
from ackd.core.loops import Chains, Loops
from ackd.core.message import Folder, identity
from ackd.core.notices import Notices
from ackd.core.values import value

if TYPE_CHECKING:
    import random

    from ackd.core.book import Delivery
    from ackd.core.effects import Effect
    from ackd.core.policy import EnginePolicy

#: What falls due: the kind, and the message's key or the agent's name.
Alarm: TypeAlias = tuple[str, int | str]


#: A message's id and whom it went to.
About: TypeAlias = tuple[str, str]


@value
class Held:
    """Why a message is held: who sends what around, how often; since when (wall)."""

    members: tuple[str, ...]
    rounds: int
    since: float

    @property
    def words(self) -> str:
        way = " and ".join(self.members) if len(self.members) == 2 else " → ".join((*self.members, self.members[0]))
        return f"{way} answered each other for {self.rounds} rounds within an hour"


@value
class Answer:
    """What a reply says of the message that it answers. ``report``: it is completed. ``old``: it may have been answered
    with before, so as a mere acknowledgement it counts only for what still waits for one."""

    report: bool
    old: bool


@dataclass(slots=True)
class Totals:
    """Ends so far, over all sessions that the log still tells of."""

    completed: int = 0
    dead: int = 0
    withdrawn: int = 0
    rejected: int = 0
    duplicates: int = 0

    def purged(self, folder: Folder) -> None:
        """A person removed a dead letter or a quarantined file for good, or took the latter back."""
        if folder is Folder.DEAD:
            self.dead = max(0, self.dead - 1)
        else:
            self.rejected = max(0, self.rejected - 1)


@dataclass
class Desk:
    policy: EnginePolicy
    rng: random.Random
    book: Book = field(default_factory=Book)
    alarms: Deadlines[Alarm] = field(default_factory=Deadlines)
    escalations: Escalations = field(default_factory=Escalations)
    notices: Notices = field(default_factory=Notices)
    #: Messages that stay in the queue until a person lets them go: links of a chain that goes around for ever.
    held: dict[About, Held] = field(default_factory=dict)
    held_changes: int = 0  # for whoever keeps them on disk
    totals: Totals = field(default_factory=Totals)
    now: Now = field(default=Now(0, 0))
    stopping: bool = False
    #: After a start: files and receipts from before are still being met, and nothing is offered until they are.
    recovering: bool = False
    #: Work is offered, but not all queues are read yet: what they hold may have been answered already.
    reading: bool = False
    #: Answers met meanwhile, whose question may not have been met yet.
    answers: dict[About, Answer] = field(default_factory=dict)
    #: Agents whose line or window changed, in order: offered work when the event is through.
    touched: dict[str, None] = field(default_factory=dict)
    tray: list[Effect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.completed = Completed(self.policy.dedup_window_s)
        self.loops, self.chains = Loops(self.policy.loop_limit), Chains(self.policy.loop_limit)
        self._names: dict[str, str] = {}
        self._began: Now | None = None
        #: Which clocks run for whom. One that has rung may still stand here.
        self._running: dict[int | str, set[str]] = {}

    @property
    def steady(self) -> float:
        """Wall time that does not jump: as it was once, and since then by the other clock. A clock that is set must not
        make us forget what was completed a minute ago."""
        if self._began is None:
            self._began = self.now
        return self._began.wall + (self.now.mono - self._began.mono)

    def name_agent(self, name: str) -> None:
        self._names[identity(name)] = name

    def agent_called(self, name: str) -> str | None:
        """The agent's own spelling, or None: nobody of that name."""
        return self._names.get(identity(name))

    def unhold(self, delivery: Delivery) -> bool:
        """It is held no longer, whatever becomes of it. False: it was not."""
        delivery.held = False
        if self.held.pop((delivery.message.message_id, delivery.agent), None) is None:
            return False
        self.held_changes += 1
        return True

    def put(self, effect: Effect) -> None:
        self.tray.append(effect)

    def fact(self, type_: str, /, **data: object) -> None:
        self.tray.append(RecordFact(type_, {key: value for key, value in data.items() if value is not None}))

    def touch(self, agent: str) -> None:
        self.touched[agent] = None

    def alarm(self, kind: str, of: int | str, in_s: float) -> None:
        self.alarm_at(kind, of, self.now.mono + in_s)

    def alarm_at(self, kind: str, of: int | str, at_mono: float) -> None:
        self.alarms.arm((kind, of), at_mono)
        self._running.setdefault(of, set()).add(kind)

    def hush(self, of: int | str, *kinds: str) -> None:
        for kind in kinds:
            self.alarms.disarm((kind, of))

    def hush_all(self, key: int) -> None:
        """All clocks of a message stop when its state changes."""
        for kind in self._running.pop(key, ()):
            self.alarms.disarm((kind, key))
