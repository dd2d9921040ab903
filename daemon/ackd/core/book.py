"""What the engine knows of messages and agents: records and their indexes.

Memory is a cache of the directories: everything here can be rebuilt by a scan. Owns the look-ups; refuses to decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.availability import AgentState
from ackd.core.delivery import IN_WINDOW, MOVING, Happening, State
from ackd.core.events import Absence
from ackd.core.idleness import Doing
from ackd.core.lineup import Lineup
from ackd.core.liveness import Vital
from ackd.core.message import FRESH, Idled, identity
from ackd.core.waits import Wait, Waiting
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.core.ladder import Ladder
    from ackd.core.message import Message, Place, ReceiptFile
    from ackd.core.policy import AgentPolicy

# To ask an enum for a member takes Python 3.11 longer than the rest of counting a state, which every step does.
_QUEUED, _RETRYING = State.QUEUED, State.RETRYING
_COUNTED = frozenset({_QUEUED, _RETRYING})

#: Told and not answered, or answered and then fallen silent.
ON_LADDER: Final = frozenset({State.DELIVERED, State.ACKED})
#: Attempts that an escalation quotes; older ones are in the session log.
STORY_LENGTH = 20


@dataclass(slots=True)
class Delivery:
    """One message on its way to one recipient."""

    key: int
    message: Message
    place: Place
    agent: str
    arrived_at: float  # wall, the file's mtime, not later than when it was met
    state: State = State.QUEUED
    retries: int = 0  # X-IGNITE-Retry-Count
    delay_s: float = 0.0  # of the next retry
    crashes: int = 0
    stamp: int = 0  # which file it was when it was met in queue/
    tells: int = 0
    told_at: float | None = None  # monotonic, the last telling or nudge
    first_told_at: float = 0.0  # monotonic, of this attempt
    met_at: float = 0.0  # wall, for how long it took
    told: bool = False  # the log says so, of this telling
    assigned: bool = False  # the log says that its agent works on it
    seen: bool = False
    taken_at: float = 0.0  # monotonic, seen or acked: from then on it owes signs of life
    started: bool = False
    busy_told: bool = False  # someone was told that its agent lives and does not take it
    reason: str = ""  # of the death that is under way
    by: str = ""  # what completed it
    only_seen: bool = False  # it is completed because it was seen: nobody has said that it is dealt with
    wish: tuple[Happening, str] | None = None  # came while a move was under way
    swept: str = ""  # why its file is gone by nobody's word, learned while a move was under way
    recovered: bool = False  # met by the scan at a start
    idled: Idled = FRESH
    clock_from: float = 0.0  # monotonic: idle time of its agent counts from here, told, acked or no longer waited
    counted_to: float = 0.0  # monotonic: idle time up to here is in ``idled``
    written_s: float = 0.0  # so much of it is on disk
    untyped: int = 0  # reminders in a row that could not be typed
    waiting: Waiting = Waiting.NOT
    waits_for: tuple[Wait, ...] = ()
    moved_at: float = 0.0  # monotonic: something of what it waits for moved
    moves: frozenset[object] = frozenset()  # what that looked like then
    opened_by_then: int = 0  # the newest key when it was told; 0: before this session
    told_wall: float = 0.0
    is_answer: bool = False  # to a message of its agent's own
    duplicate: bool = False
    held: bool = False  # in the queue, and not in line
    passed_on: bool = False  # an escalation that could not be delivered: a person was told
    late: bool = False  # a dead letter
    receipts: list[ReceiptFile] = field(default_factory=list)  # acted on, to be dropped when that is on disk
    heard: set[ReceiptFile] = field(default_factory=set)  # all receipts so far: a hint may come twice
    story: list[tuple[float, str]] = field(default_factory=list)

    def remember(self, at_wall: float, what: str) -> None:
        self.story.append((at_wall, what))
        del self.story[:-STORY_LENGTH]

    def live_again(self, at_wall: float) -> None:
        """Dug up: counts and times begin anew. The story stays, for whoever reads of the next death."""
        self.arrived_at = self.met_at = at_wall
        self.retries = self.crashes = self.tells = self.stamp = 0
        self.seen = self.started = self.told = self.assigned = self.busy_told = self.late = False
        self.told_at, self.reason, self.by, self.swept = None, "", "", ""
        self.idled, self.waiting, self.waits_for, self.untyped = FRESH, Waiting.NOT, (), 0


@dataclass(slots=True)
class Agent:
    """One agent's standing and its waiting mail."""

    name: str
    policy: AgentPolicy
    endpoint: str
    state: AgentState = AgentState.AVAILABLE
    reason: str = ""
    until: float | None = None  # wall, of a park
    parks: int = 0  # in a row
    hindered: bool = False  # parked by a fault of the machine, not by an absence of its own
    absence_told: bool = False  # someone knows that it is away
    window: set[int] = field(default_factory=set)
    #: Those of the window that fill no place in it.
    beside: set[int] = field(default_factory=set)
    #: How many of its messages stand in line, and how many wait for another try.
    queued: int = 0
    retrying: int = 0
    line: Lineup = field(init=False)
    ladder: Ladder | None = None
    last_life: float | None = None  # monotonic
    reminded: bool = False
    #: Of what lives behind its endpoint, if anything does.
    vital: Vital = Vital.UNSEEN
    asked_at: float | None = None  # monotonic, the last status check
    unasked: bool = False  # that could not be made
    worker: WorkerState = WorkerState.IDLE
    context_usage: float | None = None
    detail: str = ""  # "pid 4242", "pane %3"
    generation: int = 0
    deaths: int = 0
    #: The message with which it is handed over to a fresh generation.
    handing_over: int | None = None
    #: Why it is parked, if only its own word ends that: it is at work, or waits for a person or a limit.
    waits: Absence | None = None
    waits_until: float | None = None  # wall, of a limit; a person has no time
    #: What its screen says that it is doing; None: nobody has looked since it was told, or at all.
    doing: Doing | None = None
    doing_since: float = 0.0  # monotonic
    spell_from: float | None = None  # monotonic: idle without a break since then; None: it is not
    stepped_at: float = 0.0  # monotonic: the last reminder, tried or typed
    reminding: int | None = None  # the message of which it is being reminded
    busy_told: bool = False  # someone was told that it shows nothing but busy, or nothing that can be read
    #: What it waits for besides answers, by who knows of it.
    waits_on: dict[str, tuple[Wait, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.line = Lineup(self.policy.aging_s)

    def came_back(self) -> None:
        self.parks, self.absence_told, self.waits = 0, False, None

    @property
    def is_watched(self) -> bool:
        return self.policy.heartbeat_timeout_s is not None

    def count(self, state: State, by: int) -> None:
        """One message of its more, or less, in this state."""
        if state is _QUEUED:
            self.queued += by
        elif state is _RETRYING:
            self.retrying += by

    @property
    def has_room(self) -> bool:
        return len(self.window) - len(self.beside) < self.policy.max_in_flight

    def show(self, doing: Doing | None, at_mono: float) -> None:
        self.doing, self.doing_since, self.busy_told = doing, at_mono, False
        self.spell_from = at_mono if doing is Doing.IDLE else None


class Book:
    """All living deliveries, by key, by place on disk and by (message id, agent)."""

    def __init__(self) -> None:
        self._last_key = 0
        self._by_key: dict[int, Delivery] = {}
        self._by_place: dict[Place, int] = {}
        self._by_id: dict[tuple[str, str], list[int]] = {}
        self._by_sender: dict[str, set[int]] = {}
        self.agents: dict[str, Agent] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(list(self._by_key.values()))

    def open(self, message: Message, place: Place, arrived_at: float, met_at: float, stamp: int = 0) -> Delivery:
        self._last_key += 1
        of = (message, place, message.recipient, arrived_at)
        delivery = Delivery(self._last_key, *of, met_at=met_at, stamp=stamp)
        self._by_key[delivery.key] = delivery
        self._by_place[place] = delivery.key
        self._by_id.setdefault((message.message_id, message.recipient), []).append(delivery.key)
        self._by_sender.setdefault(identity(message.sender), set()).add(delivery.key)
        self.agents[delivery.agent].count(delivery.state, 1)
        return delivery

    @property
    def last_key(self) -> int:
        return self._last_key

    def sent_by(self, name: str) -> list[Delivery]:
        """Living messages of one agent's own, the oldest first."""
        return [self._by_key[key] for key in sorted(self._by_sender.get(identity(name), ()))]

    def close(self, delivery: Delivery) -> None:
        if self._by_key.pop(delivery.key, None) is not None:
            self.agents[delivery.agent].count(delivery.state, -1)
            sender = identity(delivery.message.sender)
            self._by_sender[sender].discard(delivery.key)
            if not self._by_sender[sender]:
                del self._by_sender[sender]
        self._drop_place(delivery)
        ident = (delivery.message.message_id, delivery.agent)
        keys = [key for key in self._by_id.get(ident, ()) if key != delivery.key]
        if keys:
            self._by_id[ident] = keys
        else:
            self._by_id.pop(ident, None)
        agent = self.agents[delivery.agent]
        agent.window.discard(delivery.key)
        agent.beside.discard(delivery.key)
        agent.line.discard(delivery.key)

    def relocate(self, delivery: Delivery, place: Place) -> None:
        self._drop_place(delivery)
        delivery.place = place
        self._by_place[place] = delivery.key

    def _drop_place(self, delivery: Delivery) -> None:
        if self._by_place.get(delivery.place) == delivery.key:
            del self._by_place[delivery.place]

    def set_state(self, delivery: Delivery, state: State) -> None:
        """Keeps the agent's window, and its ladder: only a message that is in its agent's hands stands on one."""
        agent = self.agents[delivery.agent]
        before, delivery.state = delivery.state, state
        if before is not state:
            if before in _COUNTED:
                agent.count(before, -1)
            if state in _COUNTED:
                agent.count(state, 1)
            if state in IN_WINDOW:
                agent.window.add(delivery.key)
            else:
                agent.window.discard(delivery.key)
            self.place_in_window(agent, delivery)
        if agent.ladder is not None and state not in ON_LADDER and agent.ladder.key == delivery.key:
            agent.ladder = None

    def place_in_window(self, agent: Agent, delivery: Delivery) -> None:
        if delivery.idled.beside and delivery.key in agent.window:
            agent.beside.add(delivery.key)
        else:
            agent.beside.discard(delivery.key)

    def get(self, key: int) -> Delivery | None:
        return self._by_key.get(key)

    def at(self, place: Place) -> Delivery | None:
        key = self._by_place.get(place)
        return None if key is None else self._by_key[key]

    def of_id(self, message_id: str, agent: str) -> list[Delivery]:
        keys = self._by_id.get((message_id, agent))
        return [self._by_key[key] for key in keys] if keys else []

    def addressed(self, message_id: str, agent: str) -> Delivery | None:
        """The one a receipt means. An id that was copied has several: the one in its agent's hands comes first."""
        return min(self.of_id(message_id, agent), key=_nearness, default=None)

    def dead_one(self, message_id: str, agent: str) -> Delivery | None:
        return next((d for d in self.of_id(message_id, agent) if d.state is State.DEAD), None)


def _nearness(delivery: Delivery) -> tuple[int, int]:
    if delivery.state in IN_WINDOW:
        return (0, delivery.key)
    settled = delivery.state in MOVING or delivery.state is State.DEAD
    return (2 if settled else 1, delivery.key)
