"""A world for tests of the engine, without disk, clock or sleep: a virtual clock, and virtual files on which effects
are carried out.

The world keeps the promises that the runtime keeps: effects of one lane run in order, a fact without a lane is written
at once, every move is answered. ``settle`` carries everything out; a test that wants to stand in between calls
``handle``, ``work`` and ``deliver`` itself.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.engine import Engine
from ackd.core.headers import idle_of
from ackd.core.idleness import Doing
from ackd.core.message import (
    MONITOR,
    USER,
    Folder,
    Message,
    Place,
    Priority,
    Progress,
    Receipt,
    ReceiptKind,
    Standing,
    Status,
)
from ackd.core.parts import PartEnd, PartsNotice
from ackd.core.policy import UNLIMITED, AgentPolicy, CompletesOn, EnginePolicy
from ackd.core.pools import POOL_TIMEOUT_S
from ackd.core.words import MessageEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ackd.core.effects import Effect
    from ackd.core.events import Event
    from ackd.core.state import Agent, Delivery

START_MONO = 1_000.0
START_WALL = 1_800_000_000.0

INBOX = AgentPolicy(reminds=True, max_in_flight=UNLIMITED)
PANE = AgentPolicy(rungs=3, notices_complete_on=CompletesOn.SEEN)
#: With signs of life to be read, as panes and children are configured.
WATCHED_PANE = AgentPolicy(rungs=3, heartbeat_timeout_s=120, shows=True, notices_complete_on=CompletesOn.SEEN)
PROCESS = AgentPolicy(rungs=3, heartbeat_timeout_s=120, volatile=True, restarts=True)
EXEC = AgentPolicy(volatile=True)
HANDLER = AgentPolicy(volatile=True, unwatched=True, max_in_flight=UNLIMITED)

TEAM: dict[str, tuple[AgentPolicy, str]] = {
    USER: (INBOX, "inbox"),
    "leader": (INBOX, "inbox"),
    "worker": (PANE, "tmux"),
    "runner": (EXEC, "exec"),
    MONITOR: (HANDLER, "handler"),
}


class TopOfRange(random.Random):
    """A generator that always draws the longest delay, so that a test can see it."""

    def uniform(self, a: float, b: float) -> float:
        return b


def make_message(
    message_id: str,
    to: str = "worker",
    *,
    sender: str = "leader",
    type: str = "message",  # noqa: A002 - the domain's word
    priority: Priority = Priority.NORMAL,
    content: str = "",
    thread_id: str | None = None,
    in_reply_to: str | None = None,
    task_id: str | None = None,
    progress: Progress | None = None,
    part_of: str | None = None,
    notify: bool | None = None,
    expires_at: float | None = None,
    deadline_at: float | None = None,
    needs: frozenset[str] = frozenset(),
    prefers: frozenset[str] = frozenset(),
) -> Message:
    digest = f"{message_id}/{sender}/{type}/{content}"
    return Message(
        message_id, sender, to, type, priority, digest, thread_id, in_reply_to, task_id, progress,
        part_of=part_of, notify=notify, expires_at=expires_at, deadline_at=deadline_at, needs=needs, prefers=prefers,
    )  # fmt: skip


@dataclass
class File:
    """A file on the virtual disk. ``number`` is its identity through all moves."""

    number: int
    message: Message
    mtime: float
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def standing(self) -> Standing:
        def moment(name: str) -> float | None:
            text = self.headers.get(f"X-IGNITE-{name}")
            return None if text is None else datetime.fromisoformat(text).timestamp()

        return Standing(
            Status(self.headers.get("X-IGNITE-Status", "processing")),
            int(self.headers.get("X-IGNITE-Retry-Count", "0")),
            moment("Next-Retry-After"),
            moment("Processed-At"),
            seen=self.headers.get("X-IGNITE-Seen") == "yes",
            idled=idle_of(self.headers.get("X-IGNITE-Idle", "")),
            cancelled=self.headers.get("X-ACKD-Ended") == "cancelled",
            had_by=tuple(filter(None, self.headers.get("X-ACKD-Had-By", "").split(", "))),
        )


class World:
    """An engine with its team, virtual files, receipts, a log and lanes."""

    def __init__(
        self,
        team: dict[str, tuple[AgentPolicy, str]] | None = None,
        policy: EnginePolicy | None = None,
        *,
        pools: Mapping[str, tuple[str, ...]] | None = None,
        labels: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self.team = dict(TEAM if team is None else team)
        self.pools, self.labels = dict(pools or {}), labels or {}
        #: The kinds of the endpoints that are there, which a config that was read again may be ahead of.
        self.kinds: dict[str, str] = {}
        self.policy = policy or EnginePolicy(escalate_to="leader")
        self.mono, self.wall = START_MONO, START_WALL
        self.files: dict[Place, File] = {}
        self.receipts: dict[str, Receipt] = {}
        self.log: list[tuple[str, dict[str, object]]] = []
        self.done: list[Effect] = []  # carried out, in order
        self.sent: list[fx.SendMessage] = []
        self.lanes: dict[str, deque[Effect]] = {}
        self.answers: deque[Event] = deque()
        self.files_made = 0
        #: The journal, as far as it is about parts: those in hand, those that have ended, notices and those written.
        self.in_hand: dict[tuple[str, str], Message] = {}
        self.parts: dict[tuple[str, str], PartEnd] = {}
        self.notices: dict[str, PartsNotice] = {}
        self.told_parts: dict[tuple[str, str], PartEnd] = {}
        #: The answer of an agent's endpoint to a telling; by default that of its kind.
        self.on_tell: dict[str, Callable[[fx.TellAgent], Iterable[Event]]] = {}
        #: The answer to a reminder.
        self.on_remind: Callable[[fx.RemindAgent], Event] = lambda order: ev.Reminded(
            order.key, made=True, detail="typed", attempt=order.attempt
        )
        #: The answer to a cancellation; by default that of its endpoint's kind.
        self.on_call_off: dict[str, Callable[[fx.CallOff], Iterable[Event]]] = {}
        #: Effects that the disk refuses just now.
        self.refused: set[type[Effect]] = set()
        self._engine()

    def _engine(self) -> None:
        self.engine = Engine(self.policy, TopOfRange())
        self.kinds = {name: kind for name, (_, kind) in self.team.items()}
        for name, (policy, endpoint) in self.team.items():
            self.handle(ev.AgentJoined(name, policy, endpoint, self.labels.get(name, frozenset())))
        for name, members in self.pools.items():
            self.handle(ev.AgentJoined(name, AgentPolicy(), "pool", members=members, pool_timeout_s=POOL_TIMEOUT_S))

    # --- reloads --------------------------------------------------------------------------------------------------
    def reload(self, name: str, policy: AgentPolicy, kind: str) -> None:
        """Change an agent's table in the config, which a restart reads, too."""
        known = self.team.get(name)
        self.team[name] = (policy, kind)
        self.pools.pop(name, None)
        labels = self.labels.get(name, frozenset())
        replaced = name in self.engine.state.agents and (known is None or known[1] != kind)
        self.handle(ev.AgentJoined(name, policy, kind, labels, replaced=replaced))

    def reload_pool(self, name: str, *members: str) -> None:
        """Change who serves a pool, or make a pool of an agent."""
        replaced = self.team.pop(name, None) is not None
        self.pools[name] = members
        self.handle(ev.AgentJoined(name, AgentPolicy(), "pool", members=members, replaced=replaced))

    # --- time -----------------------------------------------------------------------------------------------------
    @property
    def now(self) -> ev.Now:
        return ev.Now(self.mono, self.wall)

    def wait(self, seconds: float) -> None:
        """Let time pass. Timers come when they are due, and what they cause is carried out."""
        end = self.mono + seconds
        while (due := self.engine.next_deadline()) is not None and due <= end:
            self._move_clock(max(due, self.mono))
            self.handle(ev.Ticked())
            self.settle()
        self._move_clock(end)

    def wait_for_next_timer(self) -> None:
        """Let time pass until a timer is due, and carry nothing out."""
        due = self.engine.next_deadline()
        assert due is not None
        self._move_clock(max(due, self.mono))
        self.handle(ev.Ticked())

    def _move_clock(self, mono: float) -> None:
        self.wall += mono - self.mono
        self.mono = mono

    # --- the engine's side ----------------------------------------------------------------------------------------
    def handle(self, event: Event) -> list[Effect]:
        """Tell the engine of an event, and queue up the effects."""
        asked = self.engine.handle(event, self.now)
        for effect in asked:
            lane = effect.lane
            if isinstance(effect, fx.RecordFact) and (lane is None or not self.lanes.get(lane)):
                if not effect.logged:
                    self.log.append((effect.type, effect.data))
            else:
                assert lane is not None
                self.lanes.setdefault(lane, deque()).append(effect)
        return asked

    def tell(self, *happened: Event) -> None:
        """Tell the engine of events, and carry everything out."""
        for event in happened:
            self.handle(event)
            self.settle()

    def settle(self) -> None:
        while self.answers or any(self.lanes.values()):
            while self.answers:
                self.deliver()
            for lane in [name for name, waiting in self.lanes.items() if waiting]:
                self.work(lane)

    def deliver(self) -> None:
        event = self.answers.popleft()
        if not isinstance(event, ev.Arrived) or event.place in self.files:  # a hint is followed by a look
            self.handle(event)

    def work(self, lane: str) -> Effect:
        """Carry out the next effect of a lane."""
        effect = self.lanes[lane].popleft()
        self.done.append(effect)
        self.answers.extend(self.carry_out(effect))
        return effect

    # --- the world's side -----------------------------------------------------------------------------------------
    def carry_out(self, effect: Effect) -> Iterable[Event]:
        match effect:
            case fx.RecordFact(fact):
                if not effect.logged:
                    self.log.append(fact)
            case fx.ClaimMessage():
                return [self._move(effect, Folder.PROCESSED, ev.Claimed)]
            case fx.ArchiveMessage(headers=headers):
                self._rewrite(effect.place, headers)
                return [self._move(effect, Folder.ARCHIVE, ev.Moved)]
            case fx.BuryMessage():
                self._rewrite(effect.place, effect.headers)
                return [self._move(effect, Folder.DEAD, ev.Moved)]
            case fx.ReviveMessage():
                return [self._revive(effect)]
            case fx.ReturnMessage():
                return [self._move(effect, Folder.QUEUE, ev.Moved)]
            case fx.TellAgent():
                return self._tell(effect)
            case fx.CallOff():
                return self._call_off(effect)
            case fx.RemindAgent():
                return [self.on_remind(effect), ev.AgentShowed(effect.lane, Doing.IDLE)]  # as the next look finds it
            case fx.NudgeAgent(key=key, attempt=attempt) | fx.ProbeAgent(key=key, attempt=attempt):
                return [ev.Told(key, "nudged", attempt=attempt)]
            case fx.AskCheckpoint(key=key, attempt=attempt):
                return [ev.Told(key, "asked", attempt=attempt)]
            case fx.RenewAgent(lane) | fx.RestartAgent(lane):
                return [ev.AgentStarted(lane, "pid 4242")]
            case fx.ReplaceEndpoint(lane):
                self.kinds[lane] = self.team[lane][1] if lane in self.team else "pool"
            case fx.WriteStatus():
                self._rewrite(effect.place, effect.headers)
            case fx.SendMessage():
                return [self._send(effect)]
            case fx.DropReceipt(_, name, which):
                if (there := self.receipts.get(name)) is not None and there.which == which:
                    del self.receipts[name]
            case fx.QuarantineFile(_, place, code, detail, sender):
                self.files[place._replace(folder=Folder.CORRUPT)] = self.files.pop(place)
                return [ev.Quarantined(place, place.name, code, detail, sender)]
            case fx.ForgetMessage(message=message, part=part):
                self.in_hand.pop((message.message_id, message.recipient), None)
                if part is not None and self.told_parts.get(part.key) != part:
                    self.parts[part.key] = part
            case fx.NoteParts(notice=notice, is_written=is_written):
                self._note_parts(notice, is_written=is_written)
            case fx.RemindPerson():
                pass
        return []

    def _move(
        self,
        effect: fx.ClaimMessage | fx.ArchiveMessage | fx.BuryMessage | fx.ReviveMessage | fx.ReturnMessage,
        folder: Folder,
        answer: type[ev.Claimed | ev.Moved],
    ) -> Event:
        self.in_hand[effect.message.message_id, effect.message.recipient] = effect.message
        if type(effect) in self.refused:
            return ev.SpoolFailed(effect.key, "No space left on device")
        file = self.files.pop(effect.place, None)
        if file is None:
            return ev.MoveLost(effect.key)
        place = effect.place._replace(folder=folder)
        if isinstance(effect, fx.ClaimMessage):
            place = place._replace(box=effect.message.recipient)
        elif isinstance(effect, fx.ReturnMessage | fx.BuryMessage):
            place = place._replace(box=effect.message.addressee)
        while place in self.files:  # renameat2(NOREPLACE), with a suffix on a clash
            place = place._replace(name=f"{place.name}+")
        self.files[place] = file
        return answer(effect.key, place)

    def _note_parts(self, notice: PartsNotice, *, is_written: bool) -> None:
        if is_written:
            self.notices.pop(notice.notice_id, None)
            return
        self.notices[notice.notice_id] = notice
        for part in notice.parts:
            self.parts.pop(part.key, None)
            self.told_parts[part.key] = part

    def _settle_parts(self) -> None:
        """Tell the engine of the parts that ended without its knowledge, as a start does by the journal."""
        there = {(f.message.message_id, f.message.recipient): p.folder for p, f in self.files.items()}
        ends = {Folder.ARCHIVE: MessageEnd.COMPLETED, Folder.DEAD: MessageEnd.DEAD, None: MessageEnd.COMPLETED}
        for key, message in list(self.in_hand.items()):
            folder = there.get(key)
            if folder in (Folder.QUEUE, Folder.PROCESSED):
                continue
            del self.in_hand[key]
            if message.part_of is not None and key not in self.parts and key not in self.told_parts:
                about = (message.part_of, message.sender, *key, message.type)
                part = self.parts[key] = PartEnd(*about, ends[folder], self.wall)
                self.handle(ev.PartEnded(part, message.notify))

    def _revive(self, effect: fx.ReviveMessage) -> Event:
        if effect.place in self.files and type(effect) not in self.refused:
            file = self.files[effect.place]
            file.headers.clear()
            file.mtime = self.wall
            file.message = replace(file.message, expires_at=None, deadline_at=None)
        return self._move(effect, Folder.QUEUE, ev.Moved)

    def _rewrite(self, place: Place, headers: tuple[tuple[str, str | None], ...]) -> None:
        file = self.files.get(place)
        if file is None:
            return
        for name, value in headers:
            if value is None:
                file.headers.pop(name, None)
            else:
                file.headers[name] = value

    def _tell(self, order: fx.TellAgent) -> Iterable[Event]:
        if order.lane in self.on_tell:
            return self.on_tell[order.lane](order)
        match self.kinds[order.lane]:
            case "exec":
                return [ev.Told(order.key, "it runs", seen=True, attempt=order.attempt)]
            case "handler":
                told = ev.Told(order.key, "called", seen=True, attempt=order.attempt)
                return [told, ev.RunEnded(order.key, ev.Outcome.DONE, "returned", order.attempt)]
            case "inbox":
                return [ev.Told(order.key, "placed in the inbox", attempt=order.attempt)]
            case _:
                return [ev.Told(order.key, "typed and read back", attempt=order.attempt)]

    def _call_off(self, order: fx.CallOff) -> Iterable[Event]:
        if order.lane in self.on_call_off:
            return self.on_call_off[order.lane](order)
        if self.kinds[order.lane] == "exec":
            return [ev.RunEnded(order.key, ev.Outcome.STOPPED, "its command was ended", order.attempt)]
        return [ev.LetGo(order.key, "typed and read back", order.attempt)]

    def _send(self, effect: fx.SendMessage) -> Event:
        self.sent.append(effect)
        draft = effect.draft
        message = Message(
            draft.message_id,
            draft.sender,
            draft.recipient,
            draft.type,
            draft.priority,
            f"{draft.message_id}/{draft.type}",
            draft.thread_id,
            draft.in_reply_to,
        )
        return self.arrival(self.drop(message))

    # --- what people and agents do ----------------------------------------------------------------------------------
    def drop(self, message: Message, folder: Folder = Folder.QUEUE, *, age_s: float = 0, name: str = "") -> Place:
        """Create a file that nobody has noticed yet."""
        self.files_made += 1
        place = Place(message.recipient, folder, name or f"{message.type}_{self.files_made:016d}.mime")
        assert place not in self.files
        self.files[place] = File(self.files_made, message, self.wall - age_s)
        return place

    def arrival(
        self, place: Place, *, recovered: bool = False, crashes: int = 0, run_alive: bool = False
    ) -> ev.Arrived:
        file = self.files[place]
        believed = place.folder in (Folder.PROCESSED, Folder.DEAD) or (recovered and place.box in self.pools)
        message = file.message
        if message.recipient != place.box:  # as the journal says
            message = replace(message, recipient=place.box, pool=message.recipient)
        standing = file.standing if believed else None
        return ev.Arrived(message, place, file.mtime, standing, recovered, crashes, run_alive)

    def send(self, message: Message, *, age_s: float = 0) -> Place:
        """Create a file, and have it noticed."""
        place = self.drop(message, age_s=age_s)
        self.tell(self.arrival(place))
        return place

    def receipt(self, kind: str, message_id: str, agent: str = "worker", reason: str | None = None) -> Receipt:
        """Create a receipt that nobody has noticed yet."""
        self.files_made += 1
        receipt = Receipt(ReceiptKind(kind), message_id, agent, f"{kind}_{self.files_made:016d}.json", reason)
        self.receipts[receipt.name] = receipt
        return receipt

    def cancels(self, message_id: str, agent: str = "worker", by: str = "leader", reason: str | None = None) -> None:
        receipt = replace(self.receipt("cancel", message_id, agent, reason), by=by)
        self.receipts[receipt.name] = receipt
        self.tell(ev.ReceiptCame(receipt))

    def says(self, kind: str, message_id: str, agent: str = "worker", reason: str | None = None) -> None:
        self.tell(ev.ReceiptCame(self.receipt(kind, message_id, agent, reason)))

    def deletes(self, message_id: str) -> None:
        place = self.place_of(message_id)
        del self.files[place]
        self.tell(ev.Vanished(place))

    def ends(self, message_id: str, outcome: ev.Outcome, detail: str = "exit status 1", attempt: int = 0) -> None:
        self.tell(ev.RunEnded(self.delivery(message_id).key, outcome, detail, attempt))

    def restart(self, *, away_s: float = 0) -> None:
        """Kill the daemon with everything it knew and had not carried out, and start another, which meets what is on
        disk."""
        self.lanes.clear()
        self.answers.clear()
        self._move_clock(self.mono + away_s)
        self.mono = START_MONO  # a monotonic clock of another boot
        self._engine()
        self.engine.state.families.restore(self.parts.values(), self.notices.values())
        for place in sorted(self.files, key=str):
            if place.folder in (Folder.QUEUE, Folder.PROCESSED):
                self.handle(self.arrival(place, recovered=True))
        for receipt in list(self.receipts.values()):
            self.handle(ev.ReceiptCame(receipt))
        self._settle_parts()
        self.settle()

    def dig_up(self, kind: str, message_id: str, agent: str) -> None:
        """Drop a receipt (an operator's requeue, or a late word) for a dead letter, which is looked up first, as the
        runtime does."""
        if not self.engine.state.deliveries.of_id(message_id, agent):
            for place, file in list(self.files.items()):
                is_it = (file.message.message_id, file.message.recipient) == (message_id, agent)
                if place.folder is Folder.DEAD and is_it:
                    self.handle(self.arrival(place))
        self.says(kind, message_id, agent)

    # --- what a test asks -------------------------------------------------------------------------------------------
    def delivery(self, message_id: str) -> Delivery:
        (found,) = (d for d in self.engine.state.deliveries if d.message.message_id == message_id)
        return found

    def agent(self, name: str) -> Agent:
        return self.engine.state.agents[name]

    def place_of(self, message_id: str) -> Place:
        (found,) = (place for place, file in self.files.items() if file.message.message_id == message_id)
        return found

    def folder_of(self, message_id: str) -> Folder:
        return self.place_of(message_id).folder

    def state_of(self, message_id: str) -> str:
        return self.delivery(message_id).state.value

    def facts(self, type_: str, message_id: str | None = None) -> list[dict[str, object]]:
        return [d for t, d in self.log if t == type_ and message_id in (None, d.get("message_id"))]

    def fact(self, type_: str, message_id: str | None = None) -> dict[str, object]:
        (found,) = self.facts(type_, message_id)
        return found

    def lines_about(self, message_id: str) -> list[str]:
        """Return the types of all lines about one message, in order."""
        return [type_ for type_, data in self.log if data.get("message_id") == message_id]

    def done_for(self, kind: type[Effect], message_id: str) -> list[Effect]:
        return [e for e in self.done if isinstance(e, kind) and getattr(e, "message", None) and _id_of(e) == message_id]

    def told(self, agent: str) -> list[str]:
        """Return the ids of messages in the order in which the agent was told."""
        return [e.message.message_id for e in self.done if isinstance(e, fx.TellAgent) and e.lane == agent]

    def mail(self, type_: str, to: str | None = None) -> list[fx.SendMessage]:
        return [e for e in self.sent if e.draft.type == type_ and to in (None, e.draft.recipient)]


def _id_of(effect: Effect) -> str:
    message = getattr(effect, "message", None)
    return message.message_id if isinstance(message, Message) else ""


def assert_effects(effects: Iterable[Effect], *expected: type[Effect] | str) -> None:
    """Compare the kinds of effects in order. A fact is expected by its type's name; facts that are not expected are
    skipped."""
    names = {one for one in expected if isinstance(one, str)}
    got: list[type[Effect] | str] = []
    for effect in effects:
        if not isinstance(effect, fx.RecordFact):
            got.append(type(effect))
        elif effect.type in names:
            got.append(effect.type)
    assert got == list(expected)
