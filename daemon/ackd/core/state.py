"""Everything the engine knows: messages, agents, timers, totals, and the effects of the event in hand.

The parts of the engine (transitions.py, arrivals.py, agent_rules.py …) share one ``EngineState`` and make the
decisions; this module only stores and looks up. Memory is a cache of the directories: all of it can be rebuilt by a
scan, apart from what is saved in state/ (escalations, notices, held messages, totals).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.availability import AgentState, Occupied, Parked
from ackd.core.dedup import CompletedMessages
from ackd.core.delivery import IN_DEAD_LETTER, IN_WINDOW, MOVING, Completion, Happening, State, Uptake
from ackd.core.effects import RecordFact
from ackd.core.escalations import Escalations
from ackd.core.events import Now
from ackd.core.lineup import Lineup
from ackd.core.liveness import Asked, Vital
from ackd.core.loops import Chains, Loops, words_of_chain
from ackd.core.message import FRESH, Folder, Idled, identity
from ackd.core.notices import Notices
from ackd.core.parts_told import Families
from ackd.core.policy import NEVER
from ackd.core.pools import NO_LABELS, PoolLineup
from ackd.core.timers import Timers
from ackd.core.values import value
from ackd.core.waits import Spell, Wait, Waiting
from ackd.core.worker import WorkerState

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from ackd.core.due_times import DueTimes
    from ackd.core.effects import Effect
    from ackd.core.events import AgentJoined
    from ackd.core.fact import Fact
    from ackd.core.idleness import Doing
    from ackd.core.ladder import Ladder
    from ackd.core.message import Message, Place, ReceiptFile
    from ackd.core.policy import AgentPolicy, EnginePolicy
    from ackd.core.pools import Labels, Pool
    from ackd.core.signals import Signal
    from ackd.core.timers import TimerKind

# To ask an enum for a member takes Python 3.11 longer than the rest of counting a state, which every step does.
_QUEUED, _RETRYING = State.QUEUED, State.RETRYING
_COUNTED = frozenset({_QUEUED, _RETRYING})
_UNSEEN, _DUPLICATE, _WAITS_FOR_NOBODY = Uptake.UNSEEN, Completion.DUPLICATE, Waiting.NOT

#: States in which a message may stand on its agent's ladder: told and not answered, or answered and then fallen silent.
ON_LADDER: Final = frozenset({State.DELIVERED, State.ACKED})
#: How many attempts an escalation quotes; older ones are in the session log.
HISTORY_LENGTH: Final = 20

#: A message's id and the agent it went to.
About: TypeAlias = tuple[str, str]


@value
class Cancellation:
    """A cancellation: by whom, and why. ``of``: the message from which it came, and with which it is cancelled."""

    by: str
    reason: str | None = None
    of: str | None = None

    @property
    def words(self) -> str:
        said = f"cancelled by {self.by}"
        if self.of is not None:
            said += f" with {self.of}"
        return f"{said}: {self.reason}" if self.reason else said


@dataclass(slots=True)
class Delivery:
    """A message on its way to one recipient."""

    key: int
    message: Message
    place: Place
    agent: str  # whoever has it now
    addressee: str  # the agent or pool that it was sent to
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
    assigned: bool = False  # the log says that its agent works on it: before it says "told" if an ack was quicker
    uptake: Uptake = Uptake.UNSEEN  # with each telling anew
    taken_at: float = 0.0  # monotonic, seen or acked: from then on its agent owes signs of life
    busy_told: bool = False  # someone was told that its agent lives and does not take it
    reason: str = ""  # of the death that is under way
    by: str = ""  # what completed it
    completion: Completion = Completion.DEALT_WITH  # if it is completed, or being completed
    pending_event: tuple[Happening, str] | None = None  # came while a move was under way
    lost_reason: str = ""  # why its file is gone though nobody removed it, learned while a move was under way
    recovered: bool = False  # met by the scan at a start
    idled: Idled = FRESH
    clock_from: float = 0.0  # monotonic: idle time of its agent counts from here: told, acked, or no longer waiting
    counted_to: float = 0.0  # monotonic: idle time up to here is in ``idled``
    written_s: float = 0.0  # so much idle time is on disk
    untyped: int = 0  # reminders in a row that could not be typed
    waits: Spell | None = None  # for others, with this message in hand
    opened_by_then: int = 0  # the newest key when it was told; 0: before this session
    told_wall: float = 0.0
    is_answer: bool = False  # to a message that its agent sent
    held: bool = False  # it is the one that ``EngineState.held`` names, until its file has left the queue
    passed_on: bool = False  # an escalation that could not be delivered: a person was told
    due: DueTimes | None = None  # when it expires, and its deadline; None: it has neither
    cancellation: Cancellation | None = None
    ended: str = ""  # X-ACKD-Ended
    had_by: tuple[str, ...] = ()  # members of its pool that gave it back, in order
    not_before: float = 0.0  # monotonic: back in its pool's queue, it is given to nobody until then
    receipts: list[ReceiptFile] = field(default_factory=list)  # acted on, to be dropped when that is on disk
    heard: set[ReceiptFile] = field(default_factory=set)  # all receipts so far: a hint may come twice
    history: list[tuple[float, str]] = field(default_factory=list)  # attempts, with their wall times

    @property
    def seen(self) -> bool:
        return self.uptake is not _UNSEEN

    @property
    def duplicate(self) -> bool:
        return self.completion is _DUPLICATE

    @property
    def waiting(self) -> Waiting:
        return _WAITS_FOR_NOBODY if self.waits is None else self.waits.stage

    @property
    def waits_for(self) -> tuple[Wait, ...]:
        return () if self.waits is None else self.waits.things

    def remember(self, at_wall: float, what: str) -> None:
        self.history.append((at_wall, what))
        del self.history[:-HISTORY_LENGTH]

    def reset_for_requeue(self, at_wall: float) -> None:
        """Begin counts and times anew. The history stays, for whoever reads of the next death."""
        self.arrived_at = self.met_at = at_wall
        self.retries = self.crashes = self.tells = self.stamp = 0
        self.told = self.assigned = self.busy_told = False
        self.completion = Completion.DEALT_WITH
        self.uptake, self.told_at, self.reason, self.by, self.lost_reason = _UNSEEN, None, "", "", ""
        self.idled, self.waits, self.untyped = FRESH, None, 0
        self.due, self.cancellation, self.ended = None, None, ""
        self.had_by, self.not_before = (), 0.0


@dataclass(slots=True)
class Agent:
    """An agent: whether it can be told, what it does, and its mail."""

    name: str
    policy: AgentPolicy
    endpoint: str
    state: AgentState = AgentState.AVAILABLE
    reason: str = ""
    parked: Parked | None = None  # while its state is PARKED
    occupied: Occupied | None = None
    parks: int = 0  # in a row
    absence_told: bool = False  # someone knows that it is away
    window: set[int] = field(default_factory=set)
    #: Messages of the window that fill no place in it.
    beside: set[int] = field(default_factory=set)
    #: How many of its messages are queued, and how many wait for another try.
    queued: int = 0
    retrying: int = 0
    line: Lineup = field(init=False)
    ladder: Ladder | None = None
    last_life: float | None = None  # monotonic
    reminded: bool = False  # a person was, of unread mail, and has given no sign of life since
    #: Whether the child or pane behind its endpoint is alive, if it has one.
    vital: Vital = Vital.UNSEEN
    asked: Asked | None = None  # by a status check, in this generation
    worker: WorkerState = WorkerState.IDLE
    context_usage: float | None = None
    detail: str = ""  # "pid 4242", "pane %3"
    generation: int = 0
    deaths: int = 0
    #: The message with which it is handed over to a fresh generation.
    handing_over: int | None = None
    #: Its activity, as its screen shows it; None: nobody has looked since it was told, or at all.
    doing: Doing | None = None
    doing_since: float = 0.0  # monotonic; of an agent that is idle, since its last sign of life
    stepped_at: float = 0.0  # monotonic: the last reminder, tried or typed
    reminding: int | None = None  # the message of which it is being reminded
    busy_told: bool = False  # someone was told that it shows nothing but busy, or nothing that can be read
    #: The things that it waits for besides answers, by the source that said so.
    waits_on: dict[str, tuple[Wait, ...]] = field(default_factory=dict)
    labels: Labels = NO_LABELS
    #: Set if it is a pool: mail that lies in its queue goes to one of its members.
    pool: Pool | None = None
    #: The pools of which it is a member; and those of which it was one since the start, whose mail it may still have.
    pools: tuple[str, ...] = ()
    served_pools: tuple[str, ...] = ()
    #: It gets another endpoint when its window is empty, and is offered nothing until then.
    becomes: AgentJoined | None = None

    def __post_init__(self) -> None:
        self.line = PoolLineup(self.policy.aging_s) if self.pool is not None else Lineup(self.policy.aging_s)

    def came_back(self) -> None:
        self.parks, self.absence_told, self.occupied = 0, False, None

    @property
    def is_watched(self) -> bool:
        return self.policy.heartbeat_timeout_s is not None

    def count(self, state: State, by: int) -> None:
        """Count one of its messages more, or less, in this state."""
        if state is _QUEUED:
            self.queued += by
        elif state is _RETRYING:
            self.retrying += by

    @property
    def has_room(self) -> bool:
        return len(self.window) - len(self.beside) < self.policy.max_in_flight and self.becomes is None

    def serve(self, pool: str) -> None:
        """Make it a member of the pool."""
        self.pools = (*self.pools, pool)
        if pool not in self.served_pools:
            self.served_pools = (*self.served_pools, pool)

    def show(self, doing: Doing | None, at_mono: float) -> None:
        self.doing, self.doing_since, self.busy_told = doing, at_mono, False


class Deliveries:
    """The open deliveries, by key, by place on disk, by (message id, agent) and by sender."""

    def __init__(self) -> None:
        self._last_key = 0
        self._by_key: dict[int, Delivery] = {}
        self._by_place: dict[Place, int] = {}
        self._by_id: dict[About, list[int]] = {}
        self._by_sender: dict[str, set[int]] = {}
        self.agents: dict[str, Agent] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(list(self._by_key.values()))

    def open(self, message: Message, place: Place, arrived_at: float, met_at: float, stamp: int = 0) -> Delivery:
        self._last_key += 1
        key, agent, addressee = self._last_key, message.recipient, message.pool or message.recipient
        delivery = Delivery(key, message, place, agent, addressee, arrived_at, met_at=met_at, stamp=stamp)
        self._by_key[key] = delivery
        self._by_place[place] = key
        self._by_id.setdefault((message.message_id, addressee), []).append(key)
        self._by_sender.setdefault(identity(message.sender), set()).add(key)
        holder = self.agents[agent]
        holder.count(delivery.state, 1)
        if message.pool and message.pool not in holder.served_pools:  # it has left the pool while no daemon ran
            holder.served_pools = (*holder.served_pools, message.pool)
        return delivery

    @property
    def last_key(self) -> int:
        return self._last_key

    @property
    def oldest_key(self) -> int | None:
        """Return the smallest key; None if no message is open. Keys are given, and kept, in ascending order."""
        return next(iter(self._by_key), None)

    def sent_by(self, name: str) -> list[Delivery]:
        """Return the open messages that this agent sent, the oldest first."""
        return [self._by_key[key] for key in sorted(self._by_sender.get(identity(name), ()))]

    def close(self, delivery: Delivery) -> None:
        if self._by_key.pop(delivery.key, None) is not None:
            self.agents[delivery.agent].count(delivery.state, -1)
            sender = identity(delivery.message.sender)
            self._by_sender[sender].discard(delivery.key)
            if not self._by_sender[sender]:
                del self._by_sender[sender]
        self._drop_place(delivery)
        ident = (delivery.message.message_id, delivery.addressee)
        keys = [key for key in self._by_id.get(ident, ()) if key != delivery.key]
        if keys:
            self._by_id[ident] = keys
        else:
            self._by_id.pop(ident, None)
        agent = self.agents[delivery.agent]
        agent.window.discard(delivery.key)
        agent.beside.discard(delivery.key)
        agent.line.discard(delivery.key)

    def give(self, delivery: Delivery, to: str) -> None:
        """Make another agent the one that has the message: a member of its pool, or its pool again."""
        before, after = self.agents[delivery.agent], self.agents[to]
        before.line.discard(delivery.key)
        before.count(delivery.state, -1)
        after.count(delivery.state, 1)
        pool = "" if to == delivery.addressee else delivery.addressee
        delivery.agent, delivery.message = to, replace(delivery.message, recipient=to, pool=pool)

    def relocate(self, delivery: Delivery, place: Place) -> None:
        self._drop_place(delivery)
        delivery.place = place
        self._by_place[place] = delivery.key

    def _drop_place(self, delivery: Delivery) -> None:
        if self._by_place.get(delivery.place) == delivery.key:
            del self._by_place[delivery.place]

    def set_state(self, delivery: Delivery, state: State) -> None:
        """Set the state, and take the message off its agent's window and ladder if it is no longer in its hands."""
        agent = self.agents[delivery.agent]
        before, delivery.state = delivery.state, state
        if before is not state:
            if before in _COUNTED:
                agent.count(before, -1)
            if state in _COUNTED:
                agent.count(state, 1)
            if state in IN_WINDOW:
                agent.window.add(delivery.key)
            elif before in IN_WINDOW:
                agent.window.discard(delivery.key)
            if agent.beside or delivery.idled.beside:
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
        """Return the open messages of this id that were sent to this agent or pool, or that it holds for its pool."""
        keys = self._by_id.get((message_id, agent))
        found = [self._by_key[key] for key in keys] if keys else []
        member = self.agents.get(agent)
        for pool in member.served_pools if member is not None else ():
            held = (self._by_key[key] for key in self._by_id.get((message_id, pool), ()))
            found += [one for one in held if one.agent == agent]
        return found

    def sent_to(self, message_id: str, addressee: str) -> list[Delivery]:
        """Return the open messages of this id that were sent to this agent or pool, whoever has them."""
        return [self._by_key[key] for key in self._by_id.get((message_id, addressee), ())]

    def of_pools(self, message_id: str, agent: str) -> list[Delivery]:
        """Return the open messages of this id that were sent to pools of this agent, whoever has them."""
        member = self.agents.get(agent)
        pools = member.served_pools if member is not None else ()
        return [one for pool in pools for one in self.sent_to(message_id, pool)]

    def given_back(self, message_id: str, agent: str) -> Delivery | None:
        """Return the open message of this id that this member of its pool had, and gave back."""
        return next((one for one in self.of_pools(message_id, agent) if agent in one.had_by), None)

    def is_known_to(self, message_id: str, agent: str) -> bool:
        """Return whether an open message of this id is the agent's, or was sent to a pool of it: what the agent says
        of it, or somebody about it, can be heard now."""
        return bool(self.of_id(message_id, agent) or self.of_pools(message_id, agent))

    def addressed(self, message_id: str, agent: str) -> Delivery | None:
        """Return the delivery that a receipt means: of several with one id, the one in its agent's hands first."""
        return min(self.of_id(message_id, agent), key=_nearness, default=None)

    def dead_one(self, message_id: str, agent: str) -> Delivery | None:
        return next((d for d in self.of_id(message_id, agent) if d.state in IN_DEAD_LETTER), None)


def _nearness(delivery: Delivery) -> tuple[int, int]:
    if delivery.state in IN_WINDOW:
        return (0, delivery.key)
    settled = delivery.state in MOVING or delivery.state in IN_DEAD_LETTER
    return (2 if settled else 1, delivery.key)


@value
class Held:
    """The reason why a message is held: the agents that answer each other, for how many rounds, and since when
    (wall)."""

    members: tuple[str, ...]
    rounds: int
    since: float

    @property
    def words(self) -> str:
        return words_of_chain(self.members, self.rounds)


@value
class Answer:
    """The effect of a reply on the message that it answers. ``report``: the message is completed, else acknowledged.

    ``old``: the reply may have counted before a restart, so it acknowledges only a message that still waits for it.
    """

    report: bool
    old: bool


@dataclass(slots=True)
class Totals:
    """Counts of the messages that ended, over all sessions that the log still tells of."""

    completed: int = 0
    dead: int = 0
    withdrawn: int = 0
    rejected: int = 0
    duplicates: int = 0

    def purged(self, folder: Folder) -> None:
        """Count out a dead letter or a quarantined file that a person removed for good, or took back."""
        if folder is Folder.DEAD:
            self.dead = max(0, self.dead - 1)
        else:
            self.rejected = max(0, self.rejected - 1)


@dataclass
class EngineState:
    policy: EnginePolicy
    rng: random.Random
    deliveries: Deliveries = field(default_factory=Deliveries)
    timers: Timers = field(default_factory=Timers)
    escalations: Escalations = field(default_factory=Escalations)
    notices: Notices = field(default_factory=Notices)
    #: The parts of messages, for whoever sent them.
    families: Families = field(default_factory=Families)
    #: Messages that stay in the queue until a person releases them: links of a chain of answers without an end.
    held: dict[About, Held] = field(default_factory=dict)
    held_changes: int = 0  # for whoever saves them on disk
    totals: Totals = field(default_factory=Totals)
    now: Now = field(default=Now(0, 0))
    stopping: bool = False
    #: The disk is nearly full: nothing is offered, and what is in hand goes on with the room that is left.
    no_room: bool = False
    #: After a start: files and receipts from before are still being met, and nothing is offered until they are.
    recovering: bool = False
    #: Work is offered, but not all queues are read yet: what they hold may have been answered already.
    reading: bool = False
    #: Answers met meanwhile, whose question may not have been met yet.
    answers: dict[About, Answer] = field(default_factory=dict)
    #: Keys of the open messages whose sender gave a time.
    timed: set[int] = field(default_factory=set)
    #: Messages that were cancelled while everything from before a start was still being met: a run of them that goes on
    #: may not be known yet, so their agents are told afterwards.
    to_call_off: list[int] = field(default_factory=list)
    #: Messages that go back to their pools once everything from before a start was met: what is said about them names
    #: the member that had them.
    to_hand_back: list[tuple[int, str, float]] = field(default_factory=list)
    #: Agents whose line or window changed, in order. They are offered work when the event has been handled.
    to_offer: dict[str, None] = field(default_factory=dict)
    #: The effects of the event in hand so far.
    effects: list[Effect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.agents = self.deliveries.agents
        self.pools: dict[str, Pool] = {}
        self.completed = CompletedMessages(self.policy.dedup_window_s)
        self.loops, self.chains = Loops(self.policy.loop_limit), Chains(self.policy.loop_limit)
        self._names: dict[str, str] = {}
        self._began: Now | None = None

    @property
    def takes_up(self) -> bool:
        """Tell whether messages that wait may be offered at all."""
        return not (self.stopping or self.no_room)

    @property
    def steady_wall(self) -> float:
        """Return wall time that does not jump: the first reading, and from there on by the monotonic clock.

        A wall clock that is set must not make the engine forget what was completed a minute ago.
        """
        if self._began is None:
            self._began = self.now
        return self._began.wall + (self.now.mono - self._began.mono)

    def add_agent(self, agent: Agent) -> None:
        self.agents[agent.name] = agent
        self._names[identity(agent.name)] = agent.name
        if agent.pool is not None:
            self.pools[agent.name] = agent.pool
        for pool in self.pools.values():
            if agent.name in pool.members:
                agent.serve(pool.name)
        for member in agent.pool.members if agent.pool is not None else ():
            if member in self.agents:
                self.agents[member].serve(agent.name)
                self.offer_later(member)

    def agent_called(self, name: str) -> str | None:
        """Return the agent's name in its own spelling; None if there is no such agent."""
        return self._names.get(identity(name))

    def end_hold(self, delivery: Delivery) -> bool:
        """Forget that the message is held, whatever becomes of it. Return False if it was not."""
        delivery.held = False
        if self.held.pop((delivery.message.message_id, delivery.agent), None) is None:
            return False
        self.held_changes += 1
        return True

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def record(self, fact: Fact, signal: Signal | None = None) -> None:
        """Emit a fact for the session log, to be written at once."""
        self.effects.append(RecordFact(fact, signal=signal))

    def offer_later(self, agent: str) -> None:
        self.to_offer[agent] = None

    def start_timer(self, kind: TimerKind, owner: int | str, in_s: float) -> None:
        """Start the timer, in place of the one that runs. One that is due after ``NEVER`` is only cancelled."""
        if in_s == NEVER:
            self.timers.cancel(kind, owner)
            return
        self.timers.start(kind, owner, self.now.mono + in_s)
