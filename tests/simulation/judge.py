"""The three promises while a run goes on.

Nothing is told again after its completion was committed, every message is waited for by something, and no file lies in
a queue unknown for long. When the world has been fair for hours, whatever is still open has a reason that can be said,
and the daemon's memory holds what is open and nothing else. What is judged of the disk and the log is in verdict.py.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ackd.core import effects as fx
from ackd.core.availability import QUIET, AgentState
from ackd.core.delivery import MOVING, State
from ackd.core.due_times import Deadline
from ackd.core.message import Folder, Place
from ackd.core.policy import CompletesOn, completes_on
from ackd.core.timers import ENGINE, TimerKind
from ackd.core.transitions import IN_HAND
from ackd.core.waits import Waiting
from tests.simulation.people import place_of
from tests.simulation.verdict import Broken, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.core.effects import Effect
    from ackd.core.policy import AgentPolicy
    from ackd.core.state import Delivery
    from ackd.runtime.daemon import Daemon
    from tests.simulation.people import Letter
    from tests.simulation.simulation import Simulation

S = State
#: Nothing waits for the disk, or for its lane, longer than this.
PATIENCE_S: Final = 4 * 3600.0
#: A message whose turn came before it expired is told within this time.
EXPIRED_SLACK_S: Final = 1800.0


class Judge:
    def __init__(self, run: Simulation) -> None:
        self._run = run
        self._completed: set[tuple[str, str, str]] = set()
        self._archiving: tuple[str, str, str] | None = None
        #: Cancelled, withdrawn or expired, and where it must lie for that.
        self._given_up: set[tuple[str, str, str]] = set()
        self._giving_up: tuple[tuple[str, str, str], str] | None = None
        self._excused: dict[int, tuple[State, float]] = {}
        self._unmet: dict[Place, float] = {}
        self._reminded: set[str] = set()
        self._overdue: set[tuple[str, str]] = set()  # someone was told that it is, since it was told last
        self._last_start = 0.0
        self.power_cuts = 0

    # --- while it runs ------------------------------------------------------------------------------------------------
    def notice(self, what: str, path: str, is_dir: bool) -> None:
        if self._giving_up is not None and what == "came" and self._giving_up[1] in path and "/." not in path:
            self._given_up.add(self._giving_up[0])
            self._giving_up = None
        if self._archiving is not None and what == "came" and "/archive/" in path and not is_dir:
            self._completed.add(self._archiving)
            self._archiving = None

    def about_to(self, effect: Effect) -> None:
        self._archiving = self._giving_up = None
        self._mind_the_given_up(effect)
        if isinstance(effect, fx.TellAgent):
            self._overdue.discard((effect.message.message_id, effect.lane))
        if isinstance(effect, fx.ArchiveMessage):
            delivery = (
                self._run.daemon._engine.state.deliveries.get(effect.key) if self._run.daemon is not None else None
            )
            withdrawn = bool(effect.headers)
            self._archiving = None if delivery is None or delivery.duplicate or withdrawn else _who(effect)
        elif isinstance(effect, fx.RemindPerson):
            self._reminded.add(effect.message.message_id)
        elif isinstance(effect, fx.RecordFact) and effect.type == "message_overdue":
            self._overdue.add((str(effect.data["message_id"]), str(effect.data["agent"])))
        elif isinstance(effect, fx.ReviveMessage):
            self._completed.discard(_who(effect))
        elif isinstance(effect, fx.TellAgent) and _who(effect) in self._completed:
            if not self.power_cuts:
                raise Broken(f"told again after its completion: {effect.message.message_id} to {effect.lane}")
            self._run.counts["told again after a power cut"] += 1

    def _mind_the_given_up(self, effect: Effect) -> None:
        """Nothing is told after its cancellation was committed, or after it has expired. A letter that was handed over
        twice is two."""
        if isinstance(effect, fx.ReviveMessage):
            self._given_up.discard(_who(effect))
            if (letter := self._letter_of(effect)) is not None:
                letter.expires = None
        if isinstance(effect, fx.ArchiveMessage | fx.BuryMessage) and dict(effect.headers).get("X-ACKD-Ended"):
            letter = self._letter_of(effect)
            folder = "/archive/" if isinstance(effect, fx.ArchiveMessage) else "/dead_letter/"
            self._giving_up = (_who(effect), folder) if letter is not None and letter.copies == 1 else None
        if not isinstance(effect, fx.TellAgent) or self.power_cuts:
            return
        letter, run = self._letter_of(effect), self._run
        if _who(effect) in self._given_up and letter is not None and letter.copies == 1:
            raise Broken(f"told after it was given up: {effect.message.message_id} to {effect.lane}")
        if letter is None or letter.expires is None or run.clock_was_set or letter.copies > 1:
            return
        if run.timeline.mono > letter.expires + EXPIRED_SLACK_S:
            raise Broken(f"told after it has expired: {effect.message.message_id} to {effect.lane}")

    def _letter_of(self, effect: fx.TellAgent | fx.ArchiveMessage | fx.BuryMessage | fx.ReviveMessage) -> Letter | None:
        return self._run.ledger.letters.get((effect.message.message_id, effect.message.addressee))

    def power_was_cut(self) -> None:
        self.power_cuts += 1

    def daemon_ended(self) -> None:
        self._archiving = self._giving_up = None
        self._excused.clear()
        self._unmet.clear()

    def daemon_starts(self) -> None:
        self._last_start = self._run.timeline.mono

    def look(self, daemon: Daemon) -> None:
        """Every living message is waited for; every file is known, or will be before long."""
        if not hasattr(daemon, "_watching") or daemon._stop_asked.is_set():
            return
        deliveries, now = daemon._engine.state.deliveries, self._run.timeline.mono
        alive: dict[int, tuple[State, float]] = {}
        for delivery in deliveries:
            if not self._is_waited_for(daemon, delivery):
                state, since = self._excused.get(delivery.key, (delivery.state, now))
                alive[delivery.key] = (delivery.state, since if state is delivery.state else now)
                if now - alive[delivery.key][1] > PATIENCE_S:
                    raise Broken(f"nothing waits for {delivery.message.message_id} ({delivery.state.value})")
        self._excused = alive
        self._look_at_files(daemon, now)

    def _look_at_files(self, daemon: Daemon, now: float) -> None:
        deliveries, unmet = daemon._engine.state.deliveries, {}
        for path, node in self._run.disk.walk(str(self._run.site.queue)):
            place = place_of(path[len(str(self._run.site.root)) + 1 :])
            waits = place is not None and place.folder in (Folder.QUEUE, Folder.PROCESSED)
            if (
                place is not None
                and waits
                and place.name[0] != "."
                and not node.writers
                and deliveries.at(place) is None
            ):
                unmet[place] = self._unmet.get(place, now)
                if now - unmet[place] > PATIENCE_S:
                    raise Broken(f"{place} lies there, and nobody has met it in {PATIENCE_S:.0f} s")
        self._unmet = unmet

    def _is_waited_for(self, daemon: Daemon, delivery: Delivery) -> bool:
        engine_state = daemon._engine.state
        agent, key, alarms = engine_state.agents[delivery.agent], delivery.key, engine_state.timers
        if delivery.state in IN_HAND and delivery.seen and _only_informs(delivery, agent.policy):
            return False  # nobody will ever say that a notice is done: seen, it must be on its way out
        match delivery.state:
            case S.QUEUED | S.RETRYING:
                return (TimerKind.RETRY, key) in alarms or (key in agent.line and _reason_to_wait(daemon, delivery))
            case S.PROCESSING:
                return (TimerKind.PROCESSING, key) in alarms
            case S.DELIVERED | S.ACKED if delivery.seen and agent.is_watched:
                return (TimerKind.LIVENESS, agent.name) in alarms or (TimerKind.ACK, key) in alarms
            case S.DELIVERED if delivery.seen or agent.policy.volatile:
                return True
            case S.DELIVERED if agent.policy.rungs is not None:
                return (TimerKind.ACK, key) in alarms
            case S.DELIVERED:
                return (
                    (TimerKind.REMIND, key) in alarms or agent.reminded or delivery.message.message_id in self._reminded
                )
            case S.ACKED:
                about = (delivery.message.message_id, delivery.agent)
                return (TimerKind.TASK, key) in alarms or about in self._overdue
            case S.CANCELLING:
                return (TimerKind.CANCEL, key) in alarms
            case state if state in MOVING:
                return (TimerKind.DISK, key) in alarms
            case _:
                return False

    # --- in the end -----------------------------------------------------------------------------------------------------
    def look_last(self, daemon: Daemon, before: Mapping[int, str]) -> None:
        """The world has been fair for hours: whatever is still open must be open for a reason that can be said.
        ``before``: what was open for none a moment ago, for anything may have got its turn just now."""
        for key, what in self.unfinished(daemon).items():
            if before.get(key) == what:
                raise Broken(what)
        self._judge_memory(daemon)

    def unfinished(self, daemon: Daemon) -> dict[int, str]:
        """By key: what it is, and that there is no reason for it."""
        if not hasattr(daemon, "_watching"):
            raise Broken("the daemon does not come up")
        return {
            one.key: f"{one.message.message_id} for {one.agent} is {one.state.value}: {why}"
            for one in daemon._engine.state.deliveries
            if (why := self._unfinished(daemon, one)) is not None
        }

    def _judge_memory(self, daemon: Daemon) -> None:
        """Whatever the runtime's parts hold is about what is open, and there is little of that."""
        bound = 2 * len(self._waiting_files()) + len(daemon._intake.boxes) + 8
        engine_state = daemon._engine.state
        sizes = {"deliveries": len(engine_state.deliveries), "alarms": len(engine_state.timers) // 2}
        for part in (daemon._runner, daemon._intake, daemon._receipts, daemon._upkeep, daemon._recorder):
            for name, value in vars(part).items():
                if isinstance(value, set | dict | list | deque):
                    sizes[f"{type(part).__name__}.{name}"] = len(value)
        for name, size in sizes.items():
            if size > bound:
                raise Broken(f"memory grows: {size} in {name}, with at most {bound} in use")

    def _unfinished(self, daemon: Daemon, delivery: Delivery) -> str | None:
        engine_state = daemon._engine.state
        due, now = delivery.due, engine_state.now.mono
        if due is not None and due.expires is not None and delivery.state in (S.QUEUED, S.RETRYING):
            return "it has expired, and waits" if due.expires + PATIENCE_S < now else None
        is_past = due is not None and due.deadline is not None and due.deadline + PATIENCE_S < now
        if due is not None and is_past and due.stage is not Deadline.PAST:
            return "its deadline is past, and nobody was told"
        agent = engine_state.agents[delivery.agent]
        if agent.pool is not None:
            return _unfinished_in_pool(daemon, delivery)
        if agent.state not in QUIET:
            return None if agent.state in (AgentState.PARKED, AgentState.DOWN) else "its agent is paused"
        if delivery.state in (S.DELIVERED, S.ACKED) and delivery.seen and agent.policy.shows:
            return self._unnoticed(daemon, delivery)
        if delivery.state is S.DELIVERED:
            at_work = any(
                other is not None and other.state is S.ACKED for other in map(engine_state.deliveries.get, agent.window)
            )
            policy, now = agent.policy, engine_state.now.mono
            patience_s = policy.busy_timeout_s + ((policy.rungs or 0) + 1) * policy.ack_timeout_s
            lives = agent.last_life is not None and now - agent.last_life < patience_s
            told_of = delivery.busy_told and (at_work or lives)  # whoever works is not woken with force
            lately = now - delivery.first_told_at < patience_s
            fine = policy.reminds or delivery.seen or told_of or lately
            return None if fine else "it was told, and its silence was not noticed"
        if delivery.state is S.ACKED:
            return None if delivery.seen else "acked, not seen"
        if delivery.state in (S.QUEUED, S.RETRYING) and not agent.has_room:
            return None
        recently = self._run.timeline.wall - delivery.met_at < 3600
        return None if recently else "nothing keeps it from going on"

    def _unnoticed(self, daemon: Daemon, delivery: Delivery) -> str | None:
        """Taken in a terminal that has shown for hours that it is idle: it waits for others, or someone was told."""
        engine_state = daemon._engine.state
        policy = engine_state.agents[delivery.agent].policy
        patience_s = 4 * policy.ack_timeout_s * len(engine_state.agents[delivery.agent].window) + policy.busy_timeout_s
        noticed = delivery.idled.told or delivery.idled.stalled or delivery.waiting is not Waiting.NOT
        lately = engine_state.now.mono - delivery.first_told_at < patience_s
        return None if noticed or lately else "its agent took it, is idle, and nobody was told"

    def conclude(self) -> None:
        Verdict(self._run, last_start=self._last_start, power_cuts=self.power_cuts).speak()

    def _waiting_files(self) -> list[str]:
        return [
            path
            for path, _ in self._run.disk.walk(str(self._run.site.queue))
            if "/dead_letter/" not in path and "/corrupt/" not in path and "/." not in path
        ]


def _reason_to_wait(daemon: Daemon, delivery: Delivery) -> bool:
    engine_state = daemon._engine.state
    agent = engine_state.agents[delivery.agent]
    if engine_state.recovering:
        return (TimerKind.RECOVERY, ENGINE) in engine_state.timers
    if agent.state is AgentState.PARKED:
        return (TimerKind.PARK, agent.name) in engine_state.timers
    if agent.pool is not None:
        members = (engine_state.agents[name] for name in agent.pool.members)
        free = any(one.state is AgentState.AVAILABLE and one.has_room for one in members)
        return not free or (TimerKind.OFFER, agent.name) in engine_state.timers
    return (
        agent.state in (AgentState.PAUSED, AgentState.DOWN)
        or not agent.has_room
        or (TimerKind.OFFER, agent.name) in engine_state.timers
    )


def _unfinished_in_pool(daemon: Daemon, delivery: Delivery) -> str | None:
    """It waits for its turn again, or no member has room."""
    engine_state = daemon._engine.state
    if (TimerKind.RETRY, delivery.key) in engine_state.timers or _reason_to_wait(daemon, delivery):
        return None
    return "it lies in its pool's queue, and a member is free"


def _only_informs(delivery: Delivery, policy: AgentPolicy) -> bool:
    return completes_on(delivery.message, policy) is CompletesOn.SEEN


def _who(effect: fx.TellAgent | fx.ArchiveMessage | fx.BuryMessage | fx.ReviveMessage) -> tuple[str, str, str]:
    return (effect.message.message_id, effect.message.addressee, effect.message.digest)
