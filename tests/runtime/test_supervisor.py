"""Keeping agents alive: restarts, and their end. Agents here are fakes; tests/endpoints/process has real ones."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.core.errors import CannotStart
from ackd.core.events import AgentDied, AgentStarted, Event
from ackd.core.ports import Exit
from ackd.core.restarts import RestartMode, RestartPolicy
from ackd.runtime import supervisor as supervisor_module
from ackd.runtime.supervisor import KeptStanding, Supervisor
from tests.live_config import live_config
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK = RestartPolicy(base_s=0.001, cap_s=0.001)
SLOW = RestartPolicy(base_s=600, cap_s=600)


@dataclass
class FakeLiving:
    """A ``Living`` that the test controls. ``refuses``: the number of starts that fail."""

    refuses: int = 0
    starts: int = 0
    stops: list[float] = field(default_factory=list)
    hold: anyio.Event | None = None
    hindered: bool = False
    _end: anyio.Event = field(default_factory=anyio.Event)
    _exit: Exit = field(default_factory=lambda: Exit("none"))

    outlives_us: bool = False

    async def start(self) -> str:
        self.starts += 1
        self._end = anyio.Event()
        if self.hold is not None:
            await self.hold.wait()
        if self.refuses:
            self.refuses -= 1
            raise CannotStart("no such program", nobodys=self.hindered)
        return f"life {self.starts}"

    async def exited(self) -> Exit:
        await self._end.wait()
        return self._exit

    async def stop(self, timeout_s: float) -> None:
        self.stops.append(timeout_s)
        self.die(143)

    def die(self, code: int, at: float | None = None) -> None:
        if not self._end.is_set():
            self._exit = Exit(f"exit {code}", code, at)
            self._end.set()


@dataclass
class Stage:
    supervisor: Supervisor
    events: list[Event]
    facts: list[tuple[str, dict[str, object]]]

    def keep(self, living: FakeLiving, policy: RestartPolicy = QUICK, agent: str = "a") -> FakeLiving:
        self.supervisor.keep(agent, living, policy)
        return living

    async def comes(self, event: Event) -> None:
        await until(lambda: event in self.events)

    async def stands(self, standing: KeptStanding, agent: str = "a") -> None:
        await until(lambda: self.supervisor.standing(agent) is standing)


@asynccontextmanager
async def stage(**more: object) -> AsyncIterator[Stage]:
    events: list[Event] = []
    facts: list[tuple[str, dict[str, object]]] = []
    async with anyio.create_task_group() as tasks:
        supervisor = Supervisor(
            tasks=tasks,
            post=events.append,
            record=facts.append,
            rng=random.Random(1),
            config=live_config(stop_timeout_s=7),
            **more,  # type: ignore[arg-type]
        )
        yield Stage(supervisor, events, facts)
        await supervisor.shutdown()


async def test_what_is_kept_is_started_and_told_of() -> None:
    async with stage() as on:
        on.keep(FakeLiving())
        await on.comes(AgentStarted("a", "life 1"))
        assert on.supervisor.standing("a") is KeptStanding.UP


async def test_one_that_dies_is_started_again_and_both_are_told() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        living.die(1)
        await on.comes(AgentStarted("a", "life 2"))
        died = on.events[1]
        assert isinstance(died, AgentDied)
        assert (died.why, died.again_in_s is not None and died.again_in_s <= 0.001) == ("exit 1", True)
        assert on.facts[0][0] == "child_restart"
        assert on.facts[0][1]["agent"] == "a"
        assert on.facts[0][1]["count"] == 1


@pytest.mark.parametrize(("ago_s", "left_s"), [(0.0, (300, 600)), (100.0, (200, 500)), (700.0, (0, 0))])
async def test_the_wait_counts_from_its_death_not_from_when_what_it_left_was_cleared_away(
    ago_s: float, left_s: tuple[float, float]
) -> None:
    async with stage() as on:
        living = on.keep(FakeLiving(), SLOW)
        await on.stands(KeptStanding.UP)
        living.die(1, anyio.current_time() - ago_s)
        await until(lambda: bool(on.facts))
        [died] = [event for event in on.events if isinstance(event, AgentDied)]
        assert died.again_in_s is not None
        assert left_s[0] - 1 <= died.again_in_s <= left_s[1]
        assert 300 <= float(str(on.facts[0][1]["in_s"])) <= 600  # the delay that was drawn
        if not left_s[1]:
            await on.comes(AgentStarted("a", "life 2"))


async def test_one_that_dies_too_often_is_given_up_and_someone_is_told() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving(refuses=100))
        await on.stands(KeptStanding.GIVEN_UP)
        assert living.starts == 6
        assert on.events[-1] == AgentDied("a", "no such program; restarted 5 times in 60 s, and given up")
        assert [event.again_in_s for event in on.events if isinstance(event, AgentDied)][-1] is None
        with pytest.raises(CannotStart, match="no such program"):
            await on.supervisor.ready("a")
        assert living.starts == 7  # a request makes it try again


async def test_a_machine_that_refuses_is_asked_on_and_nobody_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "HINDERED_S", 0.001)
    async with stage() as on:
        living = on.keep(FakeLiving(refuses=20, hindered=True))
        await on.stands(KeptStanding.UP)
        assert living.starts == 21
        assert AgentDied("a", "no such program", again_in_s=0.001) in on.events


async def test_given_up_by_hand_it_is_started_with_a_clean_slate() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving(refuses=6))
        await on.stands(KeptStanding.GIVEN_UP)
        assert await on.supervisor.start("a") == "life 7"
        assert on.events[-1] == AgentStarted("a", "life 7")
        assert living.starts == 7


async def test_while_it_waits_it_says_how_long_and_by_hand_it_need_not() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving(), SLOW)
        await on.stands(KeptStanding.UP)
        living.die(1)
        await on.stands(KeptStanding.WAITING)
        with pytest.raises(CannotStart, match=r"exit 1; it is started again in \d+ s"):
            await on.supervisor.ready("a")
        await on.supervisor.start("a")
        assert living.starts == 2


async def test_told_as_its_restart_is_due_it_is_waited_for() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving(), RestartPolicy(base_s=0.2, cap_s=0.2))
        await on.stands(KeptStanding.UP)
        living.die(1)
        await on.stands(KeptStanding.WAITING)
        await on.supervisor.ready("a")
        assert (living.starts, on.supervisor.standing("a")) == (2, KeptStanding.UP)


async def test_exit_0_of_an_on_failure_worker_is_rest_until_it_is_told() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        living.die(0)
        await on.stands(KeptStanding.RESTING)
        assert on.events == [AgentStarted("a", "life 1")]  # no death is reported
        await on.supervisor.ready("a")
        assert living.starts == 2


async def test_exit_0_of_one_that_is_kept_always_is_a_death() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving(), RestartPolicy(RestartMode.ALWAYS, base_s=0.001))
        await on.stands(KeptStanding.UP)
        living.die(0)
        await on.comes(AgentStarted("a", "life 2"))
        assert [type(event) for event in on.events] == [AgentStarted, AgentDied, AgentStarted]


@pytest.mark.parametrize(("code", "told"), [(0, 0), (1, 1)])
async def test_one_that_is_never_started_again_stays_down(code: int, told: int) -> None:
    async with stage() as on:
        living = on.keep(FakeLiving(), RestartPolicy(RestartMode.NEVER))
        await on.stands(KeptStanding.UP)
        living.die(code)
        await on.stands(KeptStanding.GIVEN_UP)
        with pytest.raises(CannotStart):
            await on.supervisor.ready("a")
        assert living.starts == 1
        assert len(on.events) == 1 + told
        await on.supervisor.start("a")  # by hand it is started
        assert living.starts == 2


async def test_a_restart_is_told_as_a_death_with_its_reason_and_not_counted() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        for _ in range(10):
            await on.supervisor.restart("a", "it hangs")
        assert living.starts == 11
        assert on.events[-2:] == [AgentDied("a", "it hangs", again_in_s=0.0), AgentStarted("a", "life 11")]
        assert set(living.stops) == {7}


async def test_a_quiet_restart_tells_only_of_the_start() -> None:
    async with stage() as on:
        on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        await on.supervisor.restart("a", "its context is full", quiet=True)
        assert on.events == [AgentStarted("a", "life 1"), AgentStarted("a", "life 2")]


async def test_a_restart_that_fails_is_tried_on() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        living.refuses = 1
        with pytest.raises(CannotStart, match="no such program"):
            await on.supervisor.restart("a", "it hangs")
        await on.comes(AgentStarted("a", "life 3"))


async def test_a_replacement_that_fails_is_nobodys_exception() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        living.refuses = 1
        await on.supervisor.replace("a", "it hangs")
        assert on.supervisor.standing("a") is KeptStanding.WAITING
        await on.comes(AgentStarted("a", "life 3"))


async def test_a_restart_by_hand_is_a_wanted_end() -> None:
    async with stage() as on:
        on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        await on.supervisor.restart("a", "by hand", wanted=True)
        assert AgentDied("a", "by hand", again_in_s=0.0, wanted=True) in on.events


async def test_a_restart_of_one_that_just_died_is_one_start() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        living.die(1)
        await on.supervisor.restart("a", "by hand")
        assert living.starts == 2
        assert on.supervisor.standing("a") is KeptStanding.UP


async def test_stopped_by_hand_it_stays_down_until_it_is_started_by_hand() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        await on.supervisor.stop("a")
        assert on.events[-1] == AgentDied("a", "it was stopped by hand", wanted=True)
        with pytest.raises(CannotStart, match="stopped by hand"):
            await on.supervisor.ready("a")
        await on.supervisor.stop("a")
        assert len(on.events) == 2
        await on.supervisor.start("a")
        assert living.starts == 2


async def test_one_that_was_stopped_by_hand_before_is_not_started() -> None:
    async with stage() as on:
        living = FakeLiving()
        on.supervisor.keep("a", living, QUICK, start=False)
        with pytest.raises(CannotStart):
            await on.supervisor.ready("a")
        assert living.starts == 0
        await on.supervisor.start("a")
        assert living.starts == 1


async def test_a_stop_and_a_start_at_once_end_in_one_life() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        async with anyio.create_task_group() as hands:
            hands.start_soon(on.supervisor.stop, "a")
            hands.start_soon(on.supervisor.start, "a")
            hands.start_soon(on.supervisor.restart, "a", "why not")
        assert on.supervisor.standing("a") is KeptStanding.UP
        assert living.starts - sum(stop > 0 for stop in living.stops) == 1


async def test_starts_are_in_order_and_only_so_many_at_a_time() -> None:
    async with stage(starts_at_a_time=2) as on:
        go = anyio.Event()
        fakes = [on.keep(FakeLiving(hold=go), agent=name) for name in "abcd"]
        await until(lambda: fakes[1].starts)
        assert [living.starts for living in fakes] == [1, 1, 0, 0]
        go.set()
        await until(lambda: len(on.events) == 4)
        assert [event.agent for event in on.events if isinstance(event, AgentStarted)] == list("abcd")


async def test_one_slow_start_delays_nobody() -> None:
    """FAILURES: dispatch of one slow agent blocks the loop for all."""
    async with stage() as on:
        never = on.keep(FakeLiving(hold=anyio.Event()), agent="slow")
        on.keep(FakeLiving(), agent="quick")
        await on.comes(AgentStarted("quick", "life 1"))
        assert never.starts == 1
        assert never.hold is not None
        never.hold.set()


async def test_one_that_is_stopped_before_its_turn_is_not_started() -> None:
    async with stage(starts_at_a_time=1) as on:
        go = anyio.Event()
        on.keep(FakeLiving(hold=go), agent="first")
        second = on.keep(FakeLiving(), agent="second")
        await anyio.wait_all_tasks_blocked()
        await on.supervisor.stop("second")
        go.set()
        await on.comes(AgentStarted("first", "life 1"))
        assert second.starts == 0


async def test_retired_it_is_not_started_again_and_nobody_hears_of_its_end() -> None:
    async with stage() as on:
        living = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        on.supervisor.retire("a")
        living.die(1)
        await on.stands(KeptStanding.STOPPED)
        with pytest.raises(CannotStart, match="ackd is stopping"):
            await on.supervisor.start("a")
        await on.supervisor.stop("a", "ackd is stopping")
        assert on.events == [AgentStarted("a", "life 1")]


async def test_at_the_end_all_are_ended_side_by_side() -> None:
    async with stage() as on:
        fakes = [on.keep(FakeLiving(), agent=name) for name in "abc"]
        await until(lambda: len(on.events) == 3)
    assert all(living.stops[0] == 7 for living in fakes)
    assert len(on.events) == 3


async def test_what_outlives_us_is_left_alone() -> None:
    async with anyio.create_task_group() as tasks:
        supervisor = Supervisor(
            tasks=tasks, post=lambda _: None, record=lambda _: None, rng=random.Random(1), config=live_config()
        )
        pane = FakeLiving(outlives_us=True)
        supervisor.keep("a", pane, QUICK)
        await until(lambda: supervisor.standing("a") is KeptStanding.UP)
        await supervisor.shutdown()
        tasks.cancel_scope.cancel()
    assert pane.stops == []


async def test_a_cancelled_supervisor_ends_what_it_keeps_at_once() -> None:
    async with anyio.create_task_group() as tasks:
        supervisor = Supervisor(
            tasks=tasks, post=lambda _: None, record=lambda _: None, rng=random.Random(1), config=live_config()
        )
        living = FakeLiving()
        supervisor.keep("a", living, QUICK)
        await until(lambda: supervisor.standing("a") is KeptStanding.UP)
        tasks.cancel_scope.cancel()
    assert living.stops == [0]


async def test_what_outlives_us_is_left_alone_at_our_end() -> None:
    pane, events = FakeLiving(outlives_us=True), list[Event]()
    async with anyio.create_task_group() as tasks:
        supervisor = Supervisor(
            tasks=tasks, post=events.append, record=lambda *_: None, rng=random.Random(1), config=live_config()
        )
        supervisor.keep("a", pane, QUICK)
        await until(lambda: events)
        await supervisor.shutdown()
        tasks.cancel_scope.cancel()
    assert pane.stops == []


@pytest.mark.parametrize(
    ("outlives_us", "end", "ended"), [(False, False, True), (True, True, True), (True, False, False)]
)
async def test_what_is_forgotten_is_ended_unless_it_may_outlive_us_and_another_takes_its_place(
    outlives_us: bool, end: bool, ended: bool
) -> None:
    async with stage() as on:
        old = on.keep(FakeLiving(outlives_us=outlives_us))
        await on.comes(AgentStarted("a", "life 1"))
        await on.supervisor.forget("a", end=end)
        assert not on.supervisor.keeps("a")
        assert bool(old.stops) is ended
        new = on.keep(FakeLiving())
        await on.stands(KeptStanding.UP)
        assert (old.starts, new.starts) == (1, 1)
        old.die(1)
        assert on.supervisor.standing("a") is KeptStanding.UP, "the end of the old one is nothing to the new"
        assert not [each for each in on.events if isinstance(each, AgentDied)]


async def test_whoever_waits_for_the_start_of_one_that_is_forgotten_hears_of_it() -> None:
    async with stage() as on:
        on.keep(FakeLiving(hold=anyio.Event(), outlives_us=True))
        waits: list[str] = []

        async def wait() -> None:
            with pytest.raises(CannotStart, match=r"ackd\.toml"):
                await on.supervisor.ready("a")
            waits.append("over")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            await on.supervisor.forget("a", end=False)
        assert waits == ["over"]
