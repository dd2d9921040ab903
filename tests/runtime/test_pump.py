"""The loop, with the real engine and a clock that only the test moves."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import anyio
import pytest

from ackd.core.effects import ClaimMessage, Effect, RecordFact, ReviveMessage
from ackd.core.engine import Engine
from ackd.core.events import AgentJoined, Arrived, Event, Now, ReceiptCame, StopRequested, Ticked
from ackd.core.message import Folder, Message, Place, Priority, Receipt, ReceiptKind
from ackd.core.policy import AgentPolicy, EnginePolicy
from ackd.core.timers import TimerKind
from ackd.runtime.pump import EVENTS_A_TURN, Pump
from ackd.system.clock import SystemClock


@dataclass
class Clock:
    mono: float = 0.0

    def now(self) -> Now:
        return Now(self.mono, 1_800_000_000.0 + self.mono)


@dataclass
class Loop:
    clock: Clock = field(default_factory=Clock)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine(EnginePolicy(), random.Random(1))
        self.pump = Pump(self.engine, self.clock, self.carry_out, self.gathered, lambda: self.log.append("commit"))
        self.gathering: list[Event] = []

    def carry_out(self, effects: list[Effect]) -> None:
        self.log += [type(effect).__name__ for effect in effects]

    def gathered(self) -> None:
        while self.gathering:
            self.log.append("gathered")
            self.pump.post(self.gathering.pop())


def arrival(number: int = 1) -> Arrived:
    message = Message(f"1800.{number}.abc@ignite.local", "leader", "worker", "message", Priority.NORMAL, f"d{number}")
    return Arrived(message, Place("worker", Folder.QUEUE, f"message_{number}.mime"), 1_800_000_000.0)


def test_while_a_start_reads_what_was_said_no_clock_rings() -> None:
    loop = Loop()
    loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
    loop.pump.post(arrival())
    loop.pump.turn()
    loop.engine.state.start_timer(TimerKind.PROCESSING, 1, 10)
    loop.clock.mono += 100
    loop.pump.timers_wait = True
    loop.pump.turn()
    assert loop.engine.next_deadline() is not None
    loop.pump.timers_wait = False
    loop.pump.turn()
    assert loop.engine.next_deadline() is None


def test_a_turn_decides_what_came_begins_it_and_commits_last() -> None:
    loop = Loop()
    loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
    loop.pump.post(arrival())
    assert not loop.pump.idle()
    loop.pump.turn()
    assert loop.log == [RecordFact.__name__, ClaimMessage.__name__, "commit"]
    assert loop.pump.idle()
    assert loop.pump.turns == 1


async def test_who_waits_to_be_heard_goes_on_when_all_that_was_posted_before_is_decided() -> None:
    loop = Loop()
    agents = [f"worker-{number}" for number in range(2 * EVENTS_A_TURN)]
    for agent in agents:
        loop.pump.post(AgentJoined(agent, AgentPolicy(), "exec"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(loop.pump.run)
        await loop.pump.heard()
        assert set(loop.engine.state.agents) >= set(agents)
        tasks.cancel_scope.cancel()


async def test_who_has_posted_all_it_had_need_not_leave_it_to_the_next_lap() -> None:
    loop = Loop()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(loop.pump.run)
        await loop.pump.turned()
        loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
        loop.pump.come_round()
        assert "worker" in loop.engine.state.agents
        turns = loop.pump.turns
        loop.pump.come_round()
        await loop.pump.turned()
        assert loop.pump.turns == turns  # nothing was left, neither for a second call nor for the next callback
        tasks.cancel_scope.cancel()


async def test_who_holds_it_posts_all_it_has_and_no_lap_of_the_loop_is_asked_for_meanwhile() -> None:
    loop = Loop()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(loop.pump.run)
        await loop.pump.turned()
        turns = loop.pump.turns
        loop.pump.hold()
        loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
        loop.pump.wake()
        assert loop.pump._soon is None
        loop.pump.come_round()
        assert "worker" in loop.engine.state.agents
        assert loop.pump.turns == turns + 1
        loop.pump.hold()
        loop.pump.come_round()
        assert loop.pump.turns == turns + 1  # nothing was posted
        loop.pump.post(AgentJoined("other", AgentPolicy(), "exec"))
        await loop.pump.heard()
        assert "other" in loop.engine.state.agents  # and rounds come by themselves as before
        tasks.cancel_scope.cancel()


def test_what_was_gathered_is_done_when_no_event_is_left_and_answered_in_the_same_turn() -> None:
    loop = Loop()
    loop.gathering.append(arrival())
    loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
    loop.pump.post(StopRequested())
    loop.pump.turn()
    assert loop.log == ["gathered", RecordFact.__name__, "commit"]


def test_what_comes_of_an_event_has_the_time_at_which_it_was_decided() -> None:
    loop, times = Loop(), list[Now]()

    def carry_out(_: list[Effect]) -> None:
        loop.clock.mono += 5.0
        times.append(loop.pump.now())

    loop.pump = Pump(loop.engine, loop.clock, carry_out, lambda: None, lambda: times.append(loop.pump.now()))
    loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
    loop.pump.turn()
    assert [now.mono for now in times] == [0.0, 5.0]  # the end of the turn has a time of its own


def test_a_flood_of_arrivals_holds_up_no_answer() -> None:
    loop = Loop()
    loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
    for number in range(3):
        loop.pump.post(arrival(number))
    loop.pump.post(StopRequested())  # heard first: nothing is offered
    loop.pump.turn()
    assert loop.log == [RecordFact.__name__] * 3 + ["commit"]


def test_a_dead_letter_is_met_before_the_receipt_that_asked_for_it() -> None:
    loop = Loop()
    loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
    letter = replace(arrival(), place=Place("worker", Folder.DEAD, "message_1.mime"))
    loop.pump.post(letter)
    loop.pump.post(ReceiptCame(Receipt(ReceiptKind.REQUEUE, letter.message.message_id, "worker", "requeue_1.json")))
    loop.pump.turn()
    assert ReviveMessage.__name__ in loop.log


def test_a_file_that_is_met_twice_before_it_is_decided_on_is_one_arrival() -> None:
    loop = Loop()
    loop.pump.post(AgentJoined("worker", AgentPolicy(), "exec"))
    for number in (1, 2, 1):
        loop.pump.post(arrival(number))
    loop.pump.post(StopRequested())
    loop.pump.turn()
    assert loop.log == [RecordFact.__name__] * 2 + ["commit"]


def test_a_turn_is_bounded_so_that_a_flood_leaves_room_for_others() -> None:
    loop = Loop()
    for _ in range(EVENTS_A_TURN + 1):
        loop.pump.post(StopRequested())
    loop.pump.turn()
    assert not loop.pump.idle()
    loop.pump.turn()
    assert loop.pump.idle()
    assert loop.log == ["commit", "commit"]


def test_a_deadline_that_is_due_is_handled_and_one_that_is_not_is_left() -> None:
    loop = Loop()
    loop.engine.state.start_timer(TimerKind.OFFER, "nobody", 5)
    loop.clock.mono = 4.9
    loop.pump.turn()
    assert loop.engine.next_deadline() == 5
    loop.clock.mono = 5.0
    loop.pump.post(AgentJoined("nobody", AgentPolicy(), "exec"))
    loop.pump.turn()
    assert loop.engine.next_deadline() is None


async def test_it_comes_round_for_events_for_deadlines_and_when_woken() -> None:
    done = anyio.Event()
    handled: list[Event] = []

    class Listening(Engine):
        def handle(self, event: Event, now: Now) -> list[Effect]:
            handled.append(event)
            return super().handle(event, now)

    engine = Listening(EnginePolicy(), random.Random(1))
    pump = Pump(engine, SystemClock(), lambda _: None, lambda: None, lambda: done.set() if len(handled) == 3 else None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump.run)
        await anyio.lowlevel.checkpoint()
        pump.post(AgentJoined("nobody", AgentPolicy(), "exec"))
        await anyio.lowlevel.checkpoint()
        engine.state.start_timer(TimerKind.OFFER, "nobody", 0.01)
        pump.post(StopRequested())  # no event follows: only the timer can cause a round
        with anyio.fail_after(60):
            await done.wait()
        turns = pump.turns
        pump.wake()
        with anyio.fail_after(60):
            while pump.turns == turns:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert [type(event).__name__ for event in handled] == ["AgentJoined", "StopRequested", "Ticked"]


async def test_a_deadline_that_is_met_late_waits_for_what_was_said_meanwhile() -> None:
    """The clock jumps while the pump sleeps; an answer is read a moment after it wakes."""
    handled: list[str] = []
    clock = Clock()

    class Listening(Engine):
        def handle(self, event: Event, now: Now) -> list[Effect]:
            handled.append(type(event).__name__)
            return super().handle(event, now)

    engine = Listening(EnginePolicy(), random.Random(1))
    pump = Pump(engine, clock, lambda _: None, lambda: None, lambda: None)
    late: list[float] = []

    async def look_round(late_s: float) -> None:
        late.append(late_s)
        for _ in range(3 * EVENTS_A_TURN):
            pump.post(StopRequested())

    pump.overslept = look_round
    pump.post(AgentJoined("nobody", AgentPolicy(), "exec"))
    pump.turn()
    engine.state.start_timer(TimerKind.OFFER, "nobody", 0.1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump.run)
        await anyio.lowlevel.checkpoint()
        clock.mono = 60.0
        pump.wake()
        with anyio.fail_after(60):
            while "Ticked" not in handled:  # noqa: ASYNC110 - the engine's, which has no event
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert late == [pytest.approx(59.9)]
    assert handled == ["AgentJoined", *["StopRequested"] * (3 * EVENTS_A_TURN), "Ticked"]


@pytest.mark.parametrize("when", ["in a turn", "while it catches up"])
async def test_what_falls_due_while_it_is_frozen_waits_for_what_was_said_meanwhile(when: str) -> None:
    """A deadline is due, and the process is stopped just then until after a second one: only the first may be acted
    on."""
    clock, rang = Clock(), list[float | None]()
    looked: list[int] = []

    class Freezing(Engine):
        def handle(self, event: Event, now: Now) -> list[Effect]:
            if isinstance(event, Ticked):
                rang.append(event.until)
            elif isinstance(event, StopRequested):
                clock.mono = 60.0
            return super().handle(event, now)

    engine = Freezing(EnginePolicy(), random.Random(1))
    pump = Pump(engine, clock, lambda _: None, lambda: None, lambda: None)

    async def look_round(_late_s: float) -> None:
        looked.append(len(rang))

    pump.overslept = look_round
    for agent in ("one", "other"):
        pump.post(AgentJoined(agent, AgentPolicy(), "exec"))
    pump.turn()
    engine.state.start_timer(TimerKind.OFFER, "one", 0.1)
    engine.state.start_timer(TimerKind.OFFER, "other", 5)
    async with anyio.create_task_group() as tasks:
        clock.mono = {"in a turn": 0.12, "while it catches up": 0.2}[when]
        pump.post(StopRequested())
        tasks.start_soon(pump.run)
        with anyio.fail_after(60):
            while len(rang) < 2:  # noqa: ASYNC110 - the engine's, which has no event
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert looked == [1]
    assert rang == [{"in a turn": 0.12, "while it catches up": pytest.approx(0.2)}[when], 60.0]


async def test_the_time_that_looking_round_takes_is_not_overslept() -> None:
    """A look round waits seconds for proofs. A deadline of that time comes when it is over, and is no second
    oversleeping."""
    clock, rang, slept = Clock(), list[float | None](), list[float]()

    class Listening(Engine):
        def handle(self, event: Event, now: Now) -> list[Effect]:
            if isinstance(event, Ticked):
                rang.append(event.until)
            return super().handle(event, now)

    engine = Listening(EnginePolicy(), random.Random(1))
    pump = Pump(engine, clock, lambda _: None, lambda: None, lambda: None)

    async def look_round(late_s: float) -> None:
        slept.append(late_s)
        clock.mono += 4.0

    pump.overslept = look_round
    for agent in ("one", "other"):
        pump.post(AgentJoined(agent, AgentPolicy(), "exec"))
    pump.turn()
    engine.state.start_timer(TimerKind.OFFER, "one", 0.1)
    engine.state.start_timer(TimerKind.OFFER, "other", 60.5)
    async with anyio.create_task_group() as tasks:
        clock.mono = 60.0
        tasks.start_soon(pump.run)
        with anyio.fail_after(60):
            while not rang:  # noqa: ASYNC110 - the engine's, which has no event
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert slept == [pytest.approx(59.9)]
    assert rang == [64.0]
    assert engine.next_deadline() is None
