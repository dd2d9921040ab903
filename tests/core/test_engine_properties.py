"""The three promises, held against arbitrary orders of events.

A world of files, lanes and receipts is driven at random: effects are carried out, refused or left waiting; answers come
late or twice; agents ack, finish, refuse, delete; the daemon crashes and comes back knowing only what is on disk. After
every step:

(a) **Nothing is lost.** Every file in queue/ and processed/ is known to the engine, or its hint, move or answer is under
    way; what left them was asked for by the engine or removed by somebody; every end has its line, and only one.
(b) **Silence is noticed.** Every living message is waited for: an effect or answer about it is under way, a timer of
    its own runs, or it is in its agent's hands (seen, acked), or it stands in line and there is a reason why it is not
    offered (``reason_to_wait``). See ``is_waited_for``.
(c) **It is all there to see.** Every change of state comes with its line, and lines come in an order that can be true.

In the end the world is run fairly, without faults: everything must end.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.availability import QUIET, AgentState
from ackd.core.delivery import IN_DEAD_LETTER, IN_WINDOW, MOVING, State
from ackd.core.idleness import Doing
from ackd.core.message import MONITOR, USER, Folder, Place, Priority
from ackd.core.policy import NEVER, AgentPolicy, CompletesOn, OnDeadline, completes_on
from ackd.core.timers import ENGINE, TimerKind
from ackd.core.waits import Wait, Waiting
from ackd.core.worker import WorkerState
from tests.core.engine_world import EXEC, HANDLER, INBOX, PANE, PROCESS, START_MONO, WATCHED_PANE, World, make_message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.core.effects import Effect
    from ackd.core.events import Event
    from ackd.core.message import Draft
    from ackd.core.state import Delivery

S = State
TEAM = {
    USER: (INBOX, "inbox"),
    "leader": (replace(EXEC, retry_limit=2), "exec"),
    "worker": (PANE, "tmux"),
    "pair": (replace(PANE, max_in_flight=2, busy_timeout_s=200, task_timeout_s=400), "tmux"),
    "runner": (EXEC, "exec"),
    "pane": (replace(WATCHED_PANE, max_in_flight=2), "tmux"),
    "child": (PROCESS, "process"),
    "strict": (replace(PANE, on_deadline=OnDeadline.CANCEL), "tmux"),
    "owned": (AgentPolicy(processing_timeout_s=NEVER, task_timeout_s=NEVER, busy_timeout_s=NEVER), "tmux"),
    MONITOR: (HANDLER, "handler"),
}
INHABITED = ("pane", "child")
NAMES = sorted([*TEAM, "crew"])
WAITING = (Folder.QUEUE, Folder.PROCESSED)
MOVES = (fx.ClaimMessage, fx.ArchiveMessage, fx.BuryMessage, fx.ReviveMessage, fx.ReturnMessage)
#: A command, a pane, a child and one that may have two in hand share a queue.
POOLS = {"crew": ("runner", "worker", "child", "pair")}
#: Agents whose tables change, one of them a pool's, and what they become.
RELOADED = ("worker", "pair", "runner", "strict", "pane", "child", "crew")
ROLES = ((INBOX, "inbox"), (EXEC, "exec"), (PANE, "tmux"), (PROCESS, "process"), (HANDLER, "handler"))
#: Ways in which an endpoint may answer.
WAYS = ("well", "away", "busy", "stuck", "badly", "hindered")
TERMINAL = ("message_completed", "message_dead", "message_withdrawn", "message_duplicate")
#: The line that is recorded on entering each state.
ENTERED_BY = {S.DELIVERED: "message_told", S.ACKED: "message_acked", S.RETRYING: "message_retry"}


def _addressee(data: dict[str, object]) -> object:
    """The agent or pool that the message of a line was sent to."""
    return data.get("pool", data.get("agent"))


def _is_about_death(draft: Draft) -> bool:
    """A notice of a dead letter, or an escalation that answers the dead message and is its notice, too."""
    return draft.type in ("dead_letter", "escalation") and draft.in_reply_to is not None


class Watched(World):
    """A world that checks every single step of the engine, and knows what is under way."""

    def __init__(self) -> None:
        self.uncounted: set[int] = set()  # keys that entered the window by themselves
        self.emitted: list[tuple[str, dict[str, object]]] = []  # lines in the order of decision
        self.crashed = False
        self.noticed: set[int] = set()  # numbers of files that this engine has been told of
        self.given_up: set[int] = set()  # numbers of files that were cancelled, withdrawn or expired, on disk
        super().__init__(TEAM, pools=POOLS)

    def handle(self, event: Event) -> list[Effect]:
        before = {d.key: d.state for d in self.engine.state.deliveries} if hasattr(self, "engine") else {}
        if isinstance(event, ev.Arrived) and not self._looks_like_own_move(event):
            self.noticed.add(self.files[event.place].number)
        asked = super().handle(event)
        facts = [e for e in asked if isinstance(e, fx.RecordFact)]
        self.emitted.extend((f.type, f.data) for f in facts)
        self._check_lines(before, facts, event)
        self._check_window(before, event)
        self._check_commit_order(before, asked)
        if not isinstance(event, ev.NudgeAsked):  # a person's word goes before every timer
            self._check_nudges(asked)
        self._check_reminders(asked)
        self._check_passing(before)
        return asked

    def carry_out(self, effect: Effect) -> Iterable[Event]:
        """Carry it out, and check that nothing is told that was cancelled or has expired, as far as the disk says."""
        file = self.files.get(effect.place) if isinstance(effect, (*MOVES, fx.TellAgent)) else None
        if isinstance(effect, fx.TellAgent) and file is not None:
            assert file.number not in self.given_up, effect
        answers = super().carry_out(effect)
        if file is not None and "X-ACKD-Ended" in file.headers and any(isinstance(one, ev.Moved) for one in answers):
            self.given_up.add(file.number)
        if file is not None and isinstance(effect, fx.ReviveMessage):
            self.given_up.discard(file.number)
        return answers

    def _looks_like_own_move(self, event: ev.Arrived) -> bool:
        """Return whether the file may be one that the engine is just moving there.

        The answer to the move has not come, and the file may have got another name on the way, so the engine cannot
        tell it from a copy that somebody dropped. It passes the hint over; the scan after the answer meets the copy.
        """
        moving = {Folder.QUEUE: (S.REVIVING, S.RETURNING), Folder.PROCESSED: (S.CLAIMING,)}.get(event.place.folder, ())
        same = self.engine.state.deliveries.of_id(event.message.message_id, event.message.recipient)
        return any(
            one.state in moving and one.message.digest == event.message.digest and self.move_under_way(one.key)
            for one in same
        )

    def _check_lines(self, before: dict[int, State], facts: list[fx.RecordFact], event: Event) -> None:
        lines = {(f.type, f.data.get("message_id")) for f in facts}
        types = Counter(f.type for f in facts)
        deliveries = self.engine.state.deliveries
        for delivery in deliveries:
            old = before.get(delivery.key)
            name = ENTERED_BY.get(delivery.state)
            if old is None or old is delivery.state or name is None:
                continue
            assert (name, delivery.message.message_id) in lines, (old, delivery.state, event)
        ended = [key for key in before if deliveries.get(key) is None and before[key] not in IN_DEAD_LETTER]
        if not isinstance(
            event, ev.MoveLost
        ):  # a dead letter that was gone when it was to be requeued is only forgotten
            assert sum(types[name] for name in TERMINAL) >= len(ended), (event, lines)

    def _check_window(self, before: dict[int, State], event: Event) -> None:
        for agent in self.engine.state.agents.values():
            entered = {key for key in agent.window if before.get(key) not in IN_WINDOW}
            acked_in_queue = {  # claimed at once, or, if the disk refused that, when its timer is due
                key
                for key in entered
                if (d := self.engine.state.deliveries.get(key)) is not None and d.pending_event is not None
            }
            self.uncounted |= acked_in_queue
            if not isinstance(event, ev.Claimed | ev.Ticked):
                by_itself = {key for key in entered if self.engine.state.deliveries.get(key).state is S.ACKED}  # type: ignore[union-attr]
                self.uncounted |= by_itself
                if isinstance(event, ev.Arrived) and event.recovered:
                    self.uncounted |= entered
            offered = agent.window - self.uncounted - agent.beside
            may_be_full = not entered & offered  # a config that was read again may allow less than was offered before
            assert len(offered) <= agent.policy.max_in_flight or may_be_full, (agent.name, event)
            if agent.ladder is not None:
                holder = self.engine.state.deliveries.get(agent.ladder.key)
                assert holder is not None
                assert holder.state in (S.DELIVERED, S.ACKED)

    def _check_commit_order(self, before: dict[int, State], asked: list[Effect]) -> None:
        """Check that the notice of each death (an escalation that answers the dead message is one, too) precedes its
        burial in the lane, and that mail from ackd leads to no mail."""
        notices: Counter[tuple[str, str | None]] = Counter()
        for effect in asked:
            if isinstance(effect, fx.SendMessage) and _is_about_death(effect.draft):
                notices[effect.lane, effect.draft.in_reply_to] += 1
            elif isinstance(effect, fx.BuryMessage) and before.get(effect.key) not in (S.BURYING, S.ANNULLING):
                told_of = (effect.lane, effect.message.message_id)
                deserved = effect.message.sender in TEAM and effect.message.sender != MONITOR
                notices[told_of] -= deserved
                assert notices[told_of] >= 0, asked
        assert not +notices, asked

    def _check_nudges(self, asked: list[Effect]) -> None:
        for effect in asked:
            if isinstance(effect, fx.NudgeAgent):
                told = self.engine.state.deliveries.get(effect.key)
                agent = self.agent(effect.lane)
                assert told is not None
                assert told.state in (S.DELIVERED, S.ACKED)
                if told.seen:  # taken, and then found hanging: the line alone would not help
                    assert agent.is_watched
                    assert effect.rung >= 2
                assert agent.state in QUIET
                hung = agent.ladder is not None and agent.ladder.hung
                assert agent.doing is not Doing.BUSY or hung, "busy is no silence"
                assert agent.last_life is None or self.mono - agent.last_life >= agent.policy.ack_timeout_s

    def _check_reminders(self, asked: list[Effect]) -> None:
        """Check that reminders are only of messages that were taken, only to agents seen to be idle, one at a time, and
        two in all."""
        for effect in asked:
            if isinstance(effect, fx.RemindAgent):
                held, agent = self.engine.state.deliveries.get(effect.key), self.agent(effect.lane)
                assert held is not None
                assert held.state in (S.DELIVERED, S.ACKED)
                assert held.seen
                assert held.waiting in (Waiting.NOT, Waiting.CIRCLE), "who waits for others is not idle"
                assert held.idled.reminders < 2
                assert agent.doing is Doing.IDLE
                assert agent.reminding == effect.key
            if isinstance(effect, fx.ProbeAgent):
                assert not self.agent(effect.lane).policy.shows

    def _check_passing(self, before: dict[int, State]) -> None:
        """Check that messages stand beside a window only for agents whose screens are read, never for a command or a
        child."""
        for agent in self.engine.state.agents.values():
            assert agent.beside <= agent.window
            assert not agent.beside or agent.policy.shows

    # --- what is under way ------------------------------------------------------------------------------------------
    def under_way(self, key: int) -> bool:
        waiting = any(getattr(e, "key", None) == key for lane in self.lanes.values() for e in lane)
        return waiting or any(getattr(e, "key", None) == key for e in self.answers)

    def move_under_way(self, key: int) -> bool:
        waiting = any(isinstance(e, MOVES) and e.key == key for lane in self.lanes.values() for e in lane)
        answers = (ev.Claimed, ev.Moved, ev.MoveLost, ev.SpoolFailed)
        return waiting or any(isinstance(e, answers) and e.key == key for e in self.answers)

    def runs(self, kind: TimerKind, of: int | str) -> bool:
        return (kind, of) in self.engine.state.timers

    def reason_to_wait(self, delivery: Delivery) -> str | None:
        """Return why a message that stands in line is not offered just now."""
        agent, state = self.agent(delivery.agent), self.engine.state
        if state.no_room:
            return "hardly any room"
        if state.recovering and self.runs(TimerKind.RECOVERY, ENGINE):
            return "recovering"
        if agent.state is AgentState.PARKED:
            return "parked" if self.runs(TimerKind.PARK, agent.name) else None
        if agent.state in (AgentState.PAUSED, AgentState.DOWN):
            return "paused or down"
        if agent.becomes is not None:
            return "gets another endpoint" if agent.window else None
        if not agent.has_room:
            return "window full"
        return "more to offer" if self.runs(TimerKind.OFFER, agent.name) else None

    def reason_to_wait_in_pool(self, delivery: Delivery) -> str | None:
        """Return why a message that stands in a pool's line is given to nobody just now. None starves beside a member
        that could take it."""
        queue, state = self.agent(delivery.agent), self.engine.state
        if state.no_room:
            return "hardly any room"
        if (state.recovering and self.runs(TimerKind.RECOVERY, ENGINE)) or queue.state is not AgentState.AVAILABLE:
            return "recovering, or held back by hand"
        if self.runs(TimerKind.OFFER, queue.name):
            return "more to offer"
        members = [self.agent(name) for name in state.pools[queue.name].members]
        free = [one for one in members if one.state is AgentState.AVAILABLE and one.has_room]
        if queue.becomes is not None:
            return None
        return None if free else "nobody is free"

    def is_waited_for(self, delivery: Delivery) -> bool:
        key, agent = delivery.key, self.agent(delivery.agent)
        # Whoever brings an agent whose times never end waits for its messages.
        owned = agent.policy.processing_timeout_s == NEVER
        match delivery.state:
            case S.QUEUED if agent.pool is not None:
                in_line = key in agent.line and self.reason_to_wait_in_pool(delivery) is not None
                return in_line or self.runs(TimerKind.RETRY, key)
            case S.QUEUED:
                in_line = key in agent.line and self.reason_to_wait(delivery) is not None
                return in_line or self.runs(TimerKind.RETRY, key)  # it lay in a pool, which has become an agent
            case S.RETRYING:
                in_line = key in agent.line and self.reason_to_wait(delivery) is not None
                return in_line or self.runs(TimerKind.RETRY, key)
            case S.PROCESSING:
                return self.under_way(key) and (owned or self.runs(TimerKind.PROCESSING, key))
            case S.DELIVERED | S.ACKED if owned:
                return True
            case S.DELIVERED | S.ACKED if delivery.seen and agent.is_watched:
                return self.runs(TimerKind.LIVENESS, agent.name) or self.runs(TimerKind.ACK, key)
            case S.DELIVERED if delivery.seen or (agent.policy.volatile and agent.policy.rungs is None):
                return True
            case S.DELIVERED if agent.policy.rungs is not None:
                return self.runs(TimerKind.ACK, key)
            case S.DELIVERED:
                return self.runs(TimerKind.REMIND, key) or bool(
                    [e for t, e in self.emitted if t == "reminder" and e["agent"] == agent.name]
                )
            case S.ACKED:
                overdue = [
                    d
                    for t, d in self.emitted
                    if t == "message_overdue" and d["message_id"] == delivery.message.message_id
                ]
                return self.runs(TimerKind.TASK, key) or bool(overdue)
            case S.CANCELLING:
                return self.runs(TimerKind.CANCEL, key)
            case state if state in MOVING:
                return self.move_under_way(key) or self.runs(TimerKind.DISK, key)
            case _:
                return False


class Promises(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = Watched()
        self.sent = 0
        self.removed: Counter[tuple[str, str]] = Counter()  # by agents and people
        #: Message and agent of ends whose answer or line died with the daemon: recovery's to tell of, by its journal.
        self.unsaid: set[tuple[object, object]] = set()

    @initialize(
        busy=st.lists(st.sampled_from(["worker", "pair", "runner", "leader", "crew", *INHABITED, USER]), max_size=6)
    )
    def begin(self, busy: list[str]) -> None:
        """Start with messages in hand, because most of what can go wrong goes wrong with those."""
        for to in busy:
            self.send(to=to, sender="leader", priority=Priority.NORMAL, kind="message", answers=0, noticed=True)
        self.world.settle()

    # --- people and agents ------------------------------------------------------------------------------------------
    @rule(
        to=st.sampled_from([*NAMES, "crew", "crew", "crew"]),
        sender=st.sampled_from(["leader", "worker", "runner", "pane", "stranger", MONITOR]),
        priority=st.sampled_from(Priority),
        kind=st.sampled_from(
            ["message", "task_assignment", "evaluation_request", "escalation", "task_completed", "progress_update"]
        ),
        answers=st.integers(0, 3),
        noticed=st.booleans(),
        expires_s=st.sampled_from([None, None, None, -5, 3, 200]),
        due_s=st.sampled_from([None, None, None, 0, 100, 900]),
        part=st.booleans(),
    )
    def send(
        self, to: str, sender: str, priority: Priority, kind: str, answers: int, noticed: bool,
        expires_s: float | None = None, due_s: float | None = None, part: bool = False,
    ) -> None:  # fmt: skip
        """Send a message, perhaps an answer to an earlier one, or a part of the first."""
        self.sent += 1
        about = f"m{self.sent - answers}" if answers and self.sent > answers else None
        message = make_message(f"m{self.sent}", to, sender=sender, type=kind, priority=priority, in_reply_to=about)
        now = self.world.wall
        message = replace(
            message,
            expires_at=now + expires_s if expires_s is not None else None,
            deadline_at=now + due_s if due_s is not None else None,
            part_of="m1" if part else None,
            notify=part or None,
        )
        place = self.world.drop(message)
        if noticed:
            self.world.handle(self.world.arrival(place))

    @precondition(lambda self: self.waiting())
    @rule(pick=st.integers(0), copied=st.booleans())
    def send_again(self, pick: int, copied: bool) -> None:
        """Send the same message once more, or another under the same id."""
        self.world._move_clock(self.world.mono + 0.001)  # no two files are written at one time
        file = self.world.files[self.choose(self.waiting(), pick)]
        message = replace(file.message, digest=f"{file.message.digest}!") if copied else file.message
        self.world.handle(self.world.arrival(self.world.drop(message)))

    @precondition(lambda self: self.waiting())
    @rule(pick=st.integers(0), kind=st.sampled_from(["seen", "ack", "done", "refuse", "defer"]), noticed=st.booleans())
    def say(self, pick: int, kind: str, noticed: bool) -> None:
        place = self.choose(self.waiting(), pick)
        message = self.world.files[place].message
        speakers = [place.box, *POOLS.get(message.recipient, ())]  # others than its holder, too
        speaker = speakers[0] if pick % 3 else speakers[pick % len(speakers)]
        receipt = self.world.receipt(kind, message.message_id, speaker)
        if noticed:
            self.world.handle(ev.ReceiptCame(receipt))

    @precondition(lambda self: self.waiting())
    @rule(pick=st.integers(0), by=st.sampled_from(["sender", "sender", USER, "stranger"]), noticed=st.booleans())
    def cancel(self, pick: int, by: str, noticed: bool) -> None:
        message = self.world.files[self.choose(self.waiting(), pick)].message
        receipt = self.world.receipt("cancel", message.message_id, message.recipient)
        receipt = replace(receipt, by=message.sender if by == "sender" else by)
        self.world.receipts[receipt.name] = receipt
        if noticed:
            self.world.handle(ev.ReceiptCame(receipt))

    @precondition(lambda self: self.in_hand(S.CANCELLING))
    @rule(pick=st.integers(0), outcome=st.sampled_from([None, *ev.Outcome]), attempt=st.sampled_from([0, 0, 1, 7]))
    def lets_go(self, pick: int, outcome: ev.Outcome | None, attempt: int) -> None:
        """Have an agent let go of a cancelled message, in time or late, or complete it all the same."""
        held = self.in_hand(S.CANCELLING)
        key = held[pick % len(held)].key
        if outcome is None:
            self.world.handle(ev.LetGo(key, "typed", attempt))
        else:
            self.world.handle(ev.RunEnded(key, outcome, outcome.value, attempt))

    @rule(agent=st.sampled_from(["worker", "pair", "runner", *INHABITED]), answers=st.booleans())
    def letting_go_fares(self, agent: str, answers: bool) -> None:
        """Set whether an agent that is told of a cancellation answers by itself from now on."""
        self.world.on_call_off.pop(agent, None)
        if not answers:
            self.world.on_call_off[agent] = lambda _order: []

    @precondition(lambda self: self.world.receipts)
    @rule(pick=st.integers(0))
    def notice_receipt(self, pick: int) -> None:
        """Notice a receipt, perhaps not for the first time."""
        names = sorted(self.world.receipts)
        receipt = self.world.receipts[names[pick % len(names)]]
        self.look_up(receipt.message_id, receipt.agent or "")
        self.world.handle(ev.ReceiptCame(receipt))

    @precondition(lambda self: self.waiting())
    @rule(pick=st.integers(0), noticed=st.booleans())
    def delete(self, pick: int, noticed: bool) -> None:
        self.remove(self.choose(self.waiting(), pick))
        if noticed:
            self.reconcile()

    @precondition(lambda self: self.in_hand())
    @rule(pick=st.integers(0), outcome=st.sampled_from(ev.Outcome), attempt=st.sampled_from([0, 0, 1, 7]))
    def run_ends(self, pick: int, outcome: ev.Outcome, attempt: int) -> None:
        delivery = self.in_hand()[pick % len(self.in_hand())]
        self.world.handle(ev.RunEnded(delivery.key, outcome, outcome.value, attempt))

    @precondition(lambda self: self.in_hand())
    @rule(pick=st.integers(0), what=st.sampled_from(["seen", "told", "not told"]))
    def hear_late_or_twice(self, pick: int, what: str) -> None:
        delivery = self.in_hand()[pick % len(self.in_hand())]
        if delivery.state is S.PROCESSING and what == "told":
            return  # that is no repetition
        if what == "told":
            self.world.handle(ev.Told(delivery.key, "again"))
        elif what == "seen" or delivery.state is S.PROCESSING:
            self.world.handle(ev.Seen(delivery.key, "opened"))
        else:
            self.world.handle(ev.NotTold(delivery.key, "a nudge failed"))

    @rule(agent=st.sampled_from(NAMES), what=st.sampled_from(["pause", "resume", "live", "live"]))
    def treat(self, agent: str, what: str) -> None:
        event: dict[str, Event] = {"pause": ev.AgentPaused(agent), "resume": ev.AgentResumed(agent)}
        self.world.handle(event.get(what, ev.SignOfLife(agent, "the pane changed")))

    @rule(
        agent=st.sampled_from(INHABITED),
        what=st.sampled_from(
            ["starts", "dies", "dies for good", "is stuck", "asks", "is at a limit", "is ready", "is nudged"]
        ),
    )
    def lives(self, agent: str, what: str) -> None:
        event: dict[str, Event] = {
            "starts": ev.AgentStarted(agent, "pid 7"),
            "dies": ev.AgentDied(agent, "exit 1", again_in_s=2),
            "dies for good": ev.AgentDied(agent, "died 5 times in 60 s"),
            "is stuck": ev.AgentStuck(agent, "permission prompt"),
            "asks": ev.AgentStuck(agent, "Bash: rm x", new=bool(self.sent % 2)),
            "is at a limit": ev.AgentStuck(agent, "usage limit", self.world.wall + 500),
            "is ready": ev.AgentReady(agent, "its prompt is there"),
            "is nudged": ev.NudgeAsked(agent),
        }
        self.world.handle(event[what])

    @rule(agent=st.sampled_from(RELOADED), role=st.sampled_from(ROLES), most=st.sampled_from([1, 2]))
    def reload(self, agent: str, role: tuple[AgentPolicy, str], most: int) -> None:
        """Change an agent's table: other numbers, another kind of endpoint, or none any more, which makes an inbox."""
        policy, kind = role
        if kind != "inbox":
            policy = replace(policy, max_in_flight=most, retry_limit=most)
        self.world.reload(agent, policy, kind)

    @rule(members=st.sets(st.sampled_from(POOLS["crew"]), min_size=1))
    def reload_pool(self, members: set[str]) -> None:
        self.world.reload_pool("crew", *sorted(members))

    @rule(window_s=st.sampled_from([0.0, 60.0, 86_400.0]), rounds=st.sampled_from([1, 5]))
    def reload_team(self, window_s: float, rounds: int) -> None:
        self.world.policy = replace(self.world.policy, dedup_window_s=window_s, loop_limit=rounds)
        self.world.handle(ev.TeamChanged(self.world.policy))

    @rule(doing=st.sampled_from([Doing.IDLE, Doing.IDLE, Doing.BUSY, Doing.UNCLEAR]))
    def screen_shows(self, doing: Doing) -> None:
        self.world.handle(ev.AgentShowed("pane", doing))

    @rule(waits=st.sampled_from([(), (Wait(None, "board meeting b1"),), (Wait("worker", "a lease"),)]))
    def pane_waits(self, waits: tuple[Wait, ...]) -> None:
        self.world.handle(ev.AgentWaits("pane", "leases", waits))

    @rule(made=st.booleans())
    def reminders_fare(self, made: bool) -> None:
        """Have reminders typed, or not, from now on."""
        self.world.on_remind = lambda order: ev.Reminded(order.key, made=made, detail="", attempt=order.attempt)

    @precondition(lambda self: self.in_hand("child"))
    @rule(pick=st.integers(0), attempt=st.sampled_from([0, 1, 7]))
    def cannot_be_asked(self, pick: int, attempt: int) -> None:
        held = self.in_hand("child")
        self.world.handle(ev.NotProbed(held[pick % len(held)].key, "its stdin is full", attempt))

    @precondition(lambda self: self.in_hand(*INHABITED))
    @rule(
        pick=st.integers(0),
        what=st.sampled_from(["says", "fills up", "is blocked", "checkpoint", "hands over"]),
        attempt=st.sampled_from([0, 0, 1, 7]),
    )
    def worker_speaks(self, pick: int, what: str, attempt: int) -> None:
        held = self.in_hand(*INHABITED)
        delivery = held[pick % len(held)]
        key, agent = delivery.key, delivery.agent
        event: dict[str, Event] = {
            "says": ev.WorkerSaid(agent, key, WorkerState.VERIFYING, 0.3, "tests", attempt=attempt),
            "fills up": ev.WorkerSaid(agent, key, context_usage=0.9, attempt=attempt),
            "is blocked": ev.WorkBlocked(key, "no schema", "leader", attempt),
            "checkpoint": ev.CheckpointCame(key, attempt),
            "hands over": ev.CheckpointCame(key, attempt, 0.9),
        }
        self.world.handle(event[what])

    @precondition(lambda self: self.letters())
    @rule(pick=st.integers(0), kind=st.sampled_from(["requeue", "requeue", "done", "ack"]))
    def dig_up(self, pick: int, kind: str) -> None:
        message = self.world.files[self.choose(self.letters(), pick)].message
        receipt = self.world.receipt(kind, message.message_id, message.recipient)
        self.look_up(message.message_id, message.recipient)
        self.world.handle(ev.ReceiptCame(receipt))

    def clean(self, box: str) -> None:
        """Remove a directory with all that is in it, as ``git clean`` does."""
        gone = tuple(place for place in self.waiting() if place.box == box)
        if not gone:
            return
        for place in gone:
            self.remove(place)
        known = tuple(
            d.place for d in self.world.engine.state.deliveries if d.place.box == box and d.place.folder in WAITING
        )
        self.world.handle(ev.SpoolLost(box, tuple(p for p in known if p not in self.world.files)))

    # --- the daemon's side ------------------------------------------------------------------------------------------
    @precondition(lambda self: self.busy_lanes())
    @rule(pick=st.integers(0), times=st.integers(1, 6))
    def work(self, pick: int, times: int) -> None:
        for _ in range(times):
            if lanes := self.busy_lanes():
                self.world.work(lanes[pick % len(lanes)])

    @rule(agent=st.sampled_from(["worker", "pair", "runner", "leader", *INHABITED]), how=st.sampled_from(WAYS))
    def endpoint_fares(self, agent: str, how: str) -> None:
        """Set how an endpoint answers from now on."""
        self.world.on_tell.pop(agent, None)
        if how == "away":
            self.world.on_tell[agent] = lambda order: [ev.EndpointAway(order.key, "pane gone")]
        elif how in ("busy", "stuck"):
            why = ev.Absence(how)
            self.world.on_tell[agent] = lambda order: [ev.EndpointAway(order.key, how, why=why)]
        elif how == "badly":
            self.world.on_tell[agent] = lambda order: [ev.NotTold(order.key, "Enter was swallowed")]
        elif how == "hindered":
            self.world.on_tell[agent] = lambda order: [ev.Hindered(order.key, "No space left on device")]

    @rule()
    def fault_ends(self) -> None:
        """Report that a fault of the machine is over, whether or not it is."""
        self.world.tell(ev.FaultEnded())

    @rule(low=st.sampled_from([True, False, False]))
    def room_fares(self, low: bool) -> None:
        self.world.tell(ev.RoomLow() if low else ev.RoomBack())

    @rule(refused=st.sets(st.sampled_from(MOVES), max_size=2))
    def disk_fares(self, refused: set[type[Effect]]) -> None:
        """Set which moves the disk refuses from now on."""
        self.world.refused = refused

    @precondition(lambda self: self.world.answers)
    @rule(times=st.integers(1, 6))
    def hear(self, times: int) -> None:
        for _ in range(min(times, len(self.world.answers))):
            self.world.deliver()

    @rule()
    def carry_on(self) -> None:
        self.reconcile()
        self.world.settle()

    @rule(seconds=st.sampled_from([0.01, 0.3, 5, 61, 301, 2000]))
    def wait(self, seconds: float) -> None:
        """Let timers come, whatever is still under way."""
        world, end = self.world, self.world.mono + seconds
        for _ in range(400):
            due = world.engine.next_deadline()
            if due is None or due > end:
                break
            world._move_clock(max(due, world.mono))
            world.handle(ev.Ticked())
        world._move_clock(max(end, world.mono))

    @rule(seconds=st.sampled_from([0.3, 61, 130, 301]))
    def wait_and_work(self, seconds: float) -> None:
        """Let time pass while everything is carried out: this is how ladders are climbed to their end."""
        self.world.wait(seconds)

    @rule(
        what=st.sampled_from(["crash", "crash", "stop", "clean", "clock"]),
        box=st.sampled_from(NAMES),
        seconds=st.sampled_from([0, 10, 4000, 86_400]),
    )
    def calamity(self, what: str, box: str, seconds: float) -> None:
        if what == "clean":
            self.clean(box)
        elif what == "clock":
            self.world.wall += 5 - seconds
        else:
            self.crash(seconds, stopped=what == "stop")

    def crash(self, away_s: float, *, stopped: bool) -> None:
        world = self.world
        if stopped:
            world.handle(ev.StopRequested())
            world.settle()
        for delivery in world.engine.state.deliveries:  # a move was made, and its answer dies with us
            if delivery.state in MOVING and delivery.place not in world.files:
                self.unsaid.add((delivery.message.message_id, delivery.addressee))
        for effect in (e for lane in world.lanes.values() for e in lane):
            if isinstance(effect, fx.RecordFact) and effect.type in TERMINAL:
                self.unsaid.add((effect.data["message_id"], _addressee(effect.data)))
        world.crashed = True
        world.uncounted.clear()
        world.noticed.clear()
        world.restart(away_s=away_s)
        assert world.mono == START_MONO

    # --- the promises -----------------------------------------------------------------------------------------------
    @invariant()
    def every_file_is_known(self) -> None:
        """(a): every file is known once it was noticed, unless the answer to its move is under way.

        A file leaves the queue only by somebody's hand or by a move that the engine asked for.
        """
        deliveries = self.world.engine.state.deliveries
        coming = {e.place for e in self.world.answers if isinstance(e, ev.Claimed | ev.Moved)}
        for place in self.waiting():
            if self.world.files[place].number in self.world.noticed:
                assert deliveries.at(place) is not None or place in coming, f"{place} was forgotten"
        for delivery in deliveries:
            if delivery.place.folder in WAITING and delivery.place not in self.world.files:
                moved = delivery.state in MOVING and self.world.move_under_way(delivery.key)
                key = (delivery.message.message_id, delivery.addressee)
                assert moved or self.removed[key], f"{delivery.place} vanished by nobody's hand"

    @invariant()
    def every_message_is_waited_for(self) -> None:
        """(b) as ``is_waited_for`` says."""
        for delivery in self.world.engine.state.deliveries:
            assert self.world.is_waited_for(delivery), delivery

    @invariant()
    def what_only_informs_and_was_seen_is_on_its_way_out(self) -> None:
        """(b): nobody says `done` for a notice, so nothing else would ever free its place in the window."""
        for delivery in self.world.engine.state.deliveries:
            policy = self.world.agent(delivery.agent).policy
            if delivery.seen and completes_on(delivery.message, policy) is CompletesOn.SEEN:
                assert delivery.state in (*MOVING, *IN_DEAD_LETTER, S.CANCELLING), delivery

    @invariant()
    def a_receipt_is_there_until_what_it_says_is_on_disk(self) -> None:
        """(a): after a crash it must be read again."""
        for delivery in self.world.engine.state.deliveries:
            if delivery.state in (S.FINISHING, S.CANCELLING, S.ANNULLING, S.WITHDRAWING):
                assert {receipt.name for receipt in delivery.receipts} <= self.world.receipts.keys(), delivery

    @invariant()
    def the_counts_are_those_of_the_deliveries(self) -> None:
        deliveries = self.world.engine.state.deliveries
        counted = Counter((d.agent, d.state) for d in deliveries)
        for name, agent in deliveries.agents.items():
            assert (agent.queued, agent.retrying) == (counted[name, State.QUEUED], counted[name, State.RETRYING])

    @invariant()
    def a_message_of_a_pool_has_one_holder_and_the_others_nothing_of_it(self) -> None:
        for delivery in self.world.engine.state.deliveries:
            if delivery.addressee in POOLS:
                assert delivery.agent in (delivery.addressee, *POOLS[delivery.addressee])
            for name, agent in self.world.engine.state.deliveries.agents.items():
                assert delivery.key not in agent.window or name == delivery.agent
                assert delivery.key not in agent.line or name == delivery.agent

    @invariant()
    def whoever_is_down_was_told_on(self) -> None:
        for agent in self.world.engine.state.agents.values():
            if agent.state is AgentState.DOWN:
                told = [d for t, d in self.world.emitted if t == "agent_state" and d["agent"] == agent.name]
                assert told[-1]["state"] == "down"

    @invariant()
    def lines_come_in_an_order_that_can_be_true(self) -> None:
        """(c): by message and recipient, where an id is used once and the daemon has not crashed."""
        if self.world.crashed:
            return
        once = Counter((d["message_id"], d["agent"]) for t, d in self.world.emitted if t == "message_queued")
        lives: dict[tuple[object, object], list[str]] = {}
        for type_, data in self.world.log:
            key = (data.get("message_id"), _addressee(data))
            if once[key] == 1 and type_.startswith("message_") and type_ != "message_warning":
                lives.setdefault(key, []).append(type_)
        for key, lines in lives.items():
            assert_true_order(key, lines)

    @invariant()
    def every_end_has_its_line_once(self) -> None:
        """(a): counted over all files of one id, when nothing is under way."""
        world = self.world
        if world.answers or self.busy_lanes():
            return
        lines: Counter[tuple[object, object]] = Counter()
        for type_, data in world.log:
            key = (data.get("message_id"), _addressee(data))
            lines[key] += type_ in TERMINAL
            undone = type_ == "message_requeued" or (type_ == "message_completed" and bool(data.get("late")))
            lines[key] -= undone and not world.crashed
        ended: Counter[tuple[object, object]] = Counter()
        for place, file in world.files.items():
            ended[file.message.message_id, file.message.recipient] += place.folder not in WAITING
        for key in ended.keys() | lines.keys():
            gone = self.removed[key]  # type: ignore[index]
            if world.crashed:  # what was under way may have been done twice, and said twice
                assert not ended[key] or lines[key] or key in self.unsaid, key
                continue
            assert ended[key] <= lines[key] <= ended[key] + gone, (key, ended[key], lines[key], gone)

    def teardown(self) -> None:
        """Run the world fairly and without faults: everything must end."""
        world = self.world
        world.refused = set()
        world.on_tell.clear()
        world.on_call_off.clear()
        world.tell(ev.RoomBack())
        for name in NAMES:
            world.tell(ev.AgentResumed(name))
        for _ in range(300):
            world.settle()
            self.reconcile()
            for receipt in list(world.receipts.values()):
                self.look_up(receipt.message_id, receipt.agent or "")
                world.tell(ev.ReceiptCame(receipt))
            for delivery in self.in_hand():
                if delivery.state is not S.PROCESSING:
                    world.says("done", delivery.message.message_id, delivery.agent)
            if not len(world.engine.state.deliveries) and not self.waiting():
                break
            due = world.engine.next_deadline()
            world.wait(max(0.01, (due or world.mono) - world.mono))
        assert not self.waiting(), "a message is waiting for nothing"
        assert not len(world.engine.state.deliveries)
        assert not world.receipts
        self.every_end_has_its_line_once()
        self.lines_come_in_an_order_that_can_be_true()

    # --- looking ----------------------------------------------------------------------------------------------------
    def waiting(self) -> list[Place]:
        return sorted((p for p in self.world.files if p.folder in WAITING), key=str)

    def letters(self) -> list[Place]:
        return sorted((p for p in self.world.files if p.folder is Folder.DEAD), key=str)

    def busy_lanes(self) -> list[str]:
        return sorted(name for name, waiting in self.world.lanes.items() if waiting)

    def in_hand(self, *agents: str | State) -> list[Delivery]:
        """Return the messages in the hands of these agents, or of all; or those in this state."""
        states = [one for one in agents if isinstance(one, State)] or [S.PROCESSING, S.DELIVERED, S.ACKED]
        held = [d for d in self.world.engine.state.deliveries if d.state in states]
        names = [one for one in agents if isinstance(one, str)]
        return [d for d in held if d.agent in names] if names else held

    def choose(self, places: list[Place], pick: int) -> Place:
        return places[pick % len(places)]

    def remove(self, place: Place) -> None:
        message = self.world.files.pop(place).message
        self.removed[message.message_id, message.recipient] += 1

    def look_up(self, message_id: str, agent: str) -> None:
        """Look up a dead letter, as the runtime does: a receipt for a message that the engine has forgotten may mean
        one."""
        if self.world.engine.state.deliveries.of_id(message_id, agent):
            return
        for place in self.letters():
            file = self.world.files[place]
            if (file.message.message_id, file.message.recipient) == (message_id, agent):
                self.world.handle(self.world.arrival(place))
                return

    def reconcile(self) -> None:
        """Scan without a hint: report files that nobody told of, and known files that are gone."""
        world, deliveries = self.world, self.world.engine.state.deliveries
        for delivery in deliveries:
            place = delivery.place
            if place.folder not in WAITING or place in world.files or deliveries.at(place) is not delivery:
                continue
            other = Folder.QUEUE if place.folder is Folder.PROCESSED else Folder.PROCESSED
            elsewhere = place._replace(folder=other)
            moved = elsewhere if elsewhere in world.files and deliveries.at(elsewhere) is None else None
            world.handle(ev.Vanished(place, moved))
        for place in self.waiting():
            if deliveries.at(place) is None:
                world.handle(world.arrival(place))


def assert_true_order(key: object, lines: list[str]) -> None:
    """Check the lines of one message: queued, then anything in hand, then one end. A dead one may be requeued, or
    completed late."""
    assert lines[0] == "message_queued", (key, lines)
    claimed = dead = over = False
    for line in lines[1:]:
        match line:
            case "message_requeued":
                assert dead, (key, lines)
                claimed = dead = over = False
            case "message_completed":
                assert not over, (key, lines)
                over, dead = True, False
            case "message_dead" | "message_withdrawn" | "message_duplicate":
                assert not over, (key, lines)
                assert not dead, (key, lines)
                dead, over = line == "message_dead", line != "message_dead"
            case "message_claimed":
                assert not claimed, (key, lines)
                claimed = True
            case "message_handed_back":
                assert claimed, (key, lines)
                assert not over, (key, lines)
                claimed = False
            case "message_told":
                assert claimed, (key, lines)
                assert not over, (key, lines)
            case _:
                assert not over, (key, lines)


def test_a_copy_dropped_while_its_letter_is_moved_back_is_met_by_the_scan_after_the_move() -> None:
    steps = Promises()
    steps.begin(busy=[])
    steps.lives(agent="pane", what="dies for good")  # an escalation to the leader
    steps.carry_on()
    steps.run_ends(pick=0, outcome=ev.Outcome.REFUSED, attempt=0)
    steps.carry_on()
    steps.dig_up(pick=0, kind="requeue")
    steps.work(pick=0, times=1)  # it is back in the queue, and the engine has not heard of that
    steps.send_again(pick=0, copied=False)
    steps.every_file_is_known()
    copy = Place("leader", Folder.QUEUE, "escalation_0000000000000004.mime")
    assert steps.world.engine.state.deliveries.at(copy) is None
    steps.world.settle()
    steps.carry_on()
    assert copy not in steps.world.files
    assert [d["file"] for d in steps.world.facts("message_duplicate")] == [str(copy._replace(folder=Folder.ARCHIVE))]
    steps.teardown()


EXAMPLES = int(os.environ.get("ACKD_HYPOTHESIS_EXAMPLES", "120"))
Promises.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestPromises = Promises.TestCase
