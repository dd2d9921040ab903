"""Periodic work. Time passes here only by sleeping, so that an hour takes no time."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from ackd.config.live import LiveConfig
from ackd.config.model import Config, WatchSettings
from ackd.core.events import Arrived, FaultEnded, Now, SignOfLife
from ackd.core.fact import Fact
from ackd.core.message import Folder, Place
from ackd.core.policy import AgentPolicy
from ackd.core.state import Agent, Deliveries
from ackd.core.words import MessageEnd
from ackd.runtime import upkeep as module
from ackd.runtime.recorder import Recorder
from ackd.runtime.systemd import ServiceManager
from ackd.runtime.upkeep import (
    LEAST_S,
    MOST_S,
    SWEEP_EVERY_S,
    TEMP_AGE_S,
    WATCHER_PATIENCE_S,
    CheckpointCleanup,
    LivenessPoll,
    Upkeep,
)
from ackd.storage import room_probe, root_lock
from ackd.storage.checkpoints import CheckpointFiles
from ackd.storage.journal import Journal, PutAway
from ackd.storage.spool import spool as spool_module
from ackd.system.clock import SystemClock
from tests.acceptance.teams import mime
from tests.core.engine_world import PROCESS, TEAM, World, make_message
from tests.runtime.intake_fixture import IntakeSetup, intake_in
from tests.runtime.recording_view import RecordingView

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from ackd.core.events import Event
    from ackd.core.state import Delivery
    from ackd.storage.spool import Spool


class OverError(Exception):
    """Raised by the last sleep of the test."""


@dataclass
class VirtualTime:
    """Virtual time of the module: each sleep runs the next act of the script, and the sleep after the last act ends the
    test."""

    script: Sequence[Callable[[], object]]
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) > len(self.script):
            raise OverError
        self.script[len(self.slept) - 1]()

    def current_time(self) -> float:
        return sum(self.slept)


@dataclass
class UpkeepSetup:
    intake_setup: IntakeSetup
    recorder: Recorder
    lock: root_lock.RootLock
    upkeep: Upkeep
    monkeypatch: pytest.MonkeyPatch
    failures: list[str]
    shown: list[tuple[str, dict[str, object]]]

    async def through(
        self, task: Callable[..., Awaitable[None]], *args: Any, script: Sequence[Callable[[], object]]
    ) -> list[float]:
        time = VirtualTime(script)
        stand_in = SimpleNamespace(
            sleep=time.sleep,
            current_time=time.current_time,
            to_thread=anyio.to_thread,
            move_on_after=anyio.move_on_after,
        )
        self.monkeypatch.setattr(module, "anyio", stand_in)
        with pytest.raises(OverError):
            await task(*args)
        return time.slept

    def troubles(self) -> list[object]:
        self.recorder.show()
        return [data["what"] for type_, data in self.shown if type_ == "io_error"]


@pytest.fixture
def new_upkeep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    @contextlib.asynccontextmanager
    async def made(**config: Any) -> AsyncIterator[UpkeepSetup]:
        view = RecordingView()
        failures: list[str] = []
        async with intake_in(tmp_path) as setup:
            journal = Journal.open(tmp_path / "state/journal.ndjson")
            recorder = Recorder(journal=journal, clock=setup.clock, view=view, wake=lambda: None)
            recorder.open(tmp_path / "logs")
            lock = root_lock.hold(tmp_path / "run")
            settings = Config(root=str(tmp_path), **config)
            upkeep = Upkeep(
                config=LiveConfig(settings),
                spool=setup.spool,
                lock=lock,
                clock=setup.clock,
                recorder=recorder,
                intake=setup.intake,
                fail=failures.append,
                tell_of_shortage=lambda found: failures.append(found.what),
            )
            yield UpkeepSetup(setup, recorder, lock, upkeep, monkeypatch, failures, view.shown)
            lock.release()
            recorder.close()

    return made


# --- reconciling ------------------------------------------------------------------------------------------------------
async def test_the_scan_finds_what_no_hint_told_of(new_upkeep: Callable[..., Any]) -> None:
    async with new_upkeep(watch=WatchSettings(reconcile_interval_s=30)) as setup:
        slept = await setup.through(setup.upkeep.reconcile, script=[lambda: None, setup.intake_setup.put])
        assert slept == [30, 30, 30]
        await setup.intake_setup.until(
            lambda: [event.place.name for event in setup.intake_setup.of(Arrived)] == ["m.mime"]
        )


async def test_a_scan_that_the_disk_refuses_is_a_line_and_the_next_one_comes(
    new_upkeep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_upkeep() as setup:
        scans: list[int] = []

        async def refused() -> None:
            scans.append(1)
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(setup.intake_setup.intake, "scan", refused)
        await setup.through(setup.upkeep.reconcile, script=[lambda: None] * 3)
        assert len(scans) == 3
        assert setup.troubles() == ["scan"]


# --- the lock ---------------------------------------------------------------------------------------------------------
async def test_a_lock_that_was_removed_is_taken_anew(new_upkeep: Callable[..., Any]) -> None:
    async with new_upkeep() as setup:
        setup.lock.path.unlink()
        await setup.through(setup.upkeep.reconcile, script=[lambda: None])
        assert setup.lock.still_ours()
        assert root_lock.holder(setup.lock.path.parent) == os.getpid()
        assert setup.failures == []


async def test_a_root_that_another_has_taken_is_an_end(new_upkeep: Callable[..., Any]) -> None:
    async with new_upkeep() as setup:
        root = setup.lock.path.parent.parent
        root.rename(root.with_name("away"))
        (root / "queue").mkdir(parents=True)
        theirs = root_lock.hold(setup.lock.path.parent)
        setup.upkeep.keep_lock()
        (why,) = setup.failures
        assert why.startswith("the root was removed or replaced")
        assert theirs.still_ours()
        theirs.release()


# --- sweeping ---------------------------------------------------------------------------------------------------------
class LaterClock(SystemClock):
    def now(self) -> Now:
        now = super().now()
        return Now(now.mono + TEMP_AGE_S, now.wall + TEMP_AGE_S)


def archived(root: Path) -> list[str]:
    return sorted(path.parts[-3] for path in root.glob("archive/*/*/*"))


def archive(setup: UpkeepSetup, root: Path, *days: str, at: float) -> None:
    """Archive a message under each of the days, with ``at`` as the time of its directories."""
    for day in days:
        setup.intake_setup.spool.move(setup.intake_setup.put(), Folder.ARCHIVE, date=day)
        for path in (root / "archive" / day / "leader", root / "archive" / day):
            os.utime(path, (at, at))


async def test_what_the_archive_kept_too_long_is_swept_an_hour_after_the_start_and_said(
    tmp_path: Path, new_upkeep: Callable[..., Any]
) -> None:
    async with new_upkeep(archive_days=30) as setup:
        archive(setup, tmp_path, "20200101", "29990101", at=1.6e9)
        assert await setup.through(setup.upkeep.sweep, script=[]) == [SWEEP_EVERY_S]
        assert archived(tmp_path) == ["20200101", "29990101"], "the clock may be wrong yet"
        await setup.through(setup.upkeep.sweep, script=[lambda: None] * 2)
        assert archived(tmp_path) == ["29990101"]
        setup.recorder.show()
        assert [data for type_, data in setup.shown if type_ == "archive_swept"] == [{"days": ["20200101"]}]


class WrongClock(SystemClock):
    """A clock that is wrong by ``by_s`` seconds."""

    by_s = 0.0

    def now(self) -> Now:
        now = super().now()
        return Now(now.mono, now.wall + self.by_s)


@pytest.mark.parametrize("years", [-50, 50])
async def test_a_clock_that_is_wrong_at_the_start_and_set_later_takes_no_day(
    tmp_path: Path, new_upkeep: Callable[..., Any], years: int
) -> None:
    async with new_upkeep(archive_days=30) as setup:
        clock = setup.upkeep.clock = WrongClock()
        clock.by_s = years * 365 * 86_400.0
        right, wrong = SystemClock().now().wall, clock.now().wall
        days = {time.strftime("%Y%m%d", time.gmtime(at)): at for at in (right, wrong)}
        for day, at in days.items():
            archive(setup, tmp_path, day, at=at)
        await setup.through(setup.upkeep.sweep, script=[lambda: setattr(clock, "by_s", 0.0), lambda: None])
        assert archived(tmp_path) == sorted(days)


async def test_what_was_swept_is_said_also_if_the_next_day_is_refused(
    tmp_path: Path, new_upkeep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_upkeep(archive_days=30) as setup:
        archive(setup, tmp_path, "20200101", "20200102", at=1.6e9)
        remove = setup.intake_setup.spool.archive_remove

        def refuse(day: str) -> None:
            if day == "20200102":
                raise OSError(5, "Input/output error")
            remove(day)

        monkeypatch.setattr(setup.intake_setup.spool, "archive_remove", refuse)
        await setup.through(setup.upkeep.sweep, script=[lambda: None])
        assert setup.troubles() == ["sweep of the archive"]
        assert ("archive_swept", {"days": ["20200101"]}) in setup.shown


async def test_what_writers_left_behind_is_swept(tmp_path: Path, new_upkeep: Callable[..., Any]) -> None:
    def left_behind() -> int:
        return len(list(tmp_path.rglob(".ackd-*")))

    async with new_upkeep() as setup:
        left = setup.intake_setup.spool.prepare_drop("leader", "m.mime", mime()).temp
        dead = await anyio.run_process(["sh", "-c", "echo $$"])
        orphan = left.replace(f"-{os.getpid()}-", f"-{int(dead.stdout)}-")
        os.rename(left, orphan)  # noqa: PTH104 - its writer has ended
        assert await setup.through(setup.upkeep.sweep, script=[]) == [SWEEP_EVERY_S]
        assert left_behind() == 1
        setup.upkeep.clock = LaterClock()
        await setup.through(setup.upkeep.sweep, script=[])
        assert left_behind() == 0


async def test_a_journal_that_grew_too_large_is_written_anew_and_loses_nothing(
    new_upkeep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_upkeep() as setup:
        journal, now = setup.recorder.journal, setup.intake_setup.clock.now().wall
        for n in range(200):
            journal.let_go(PutAway("leader", f"{n}@x", f"{n}.mime", MessageEnd.WITHDRAWN, "digest", now))
        journal.let_go(PutAway("leader", "kept@x", "kept.mime", MessageEnd.COMPLETED, "digest", now))
        journal.flush()
        size = journal._path.stat().st_size
        monkeypatch.setattr(journal, "_compact_above", size - 1)
        assert journal.too_large
        await setup.through(setup.upkeep.sweep, script=[])
        assert journal._path.stat().st_size < size / 10
        assert [done.message_id for done in journal.load(now, 3600).completed] == ["kept@x"]


async def test_a_sweep_that_the_disk_refuses_is_a_line_and_the_next_one_comes(
    new_upkeep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    async with new_upkeep() as setup:
        for name in ("archive_old", "sweep_temps"):
            monkeypatch.setattr(setup.intake_setup.spool, name, refuse)
        assert len(await setup.through(setup.upkeep.sweep, script=[lambda: None] * 2)) == 3
        assert setup.recorder.faults.page()[0]["what"] == "sweep"
        assert setup.troubles() == ["sweep"]


# --- faults of the machine --------------------------------------------------------------------------------------------
class FakePump:
    """Stands in for the pump, with the part that the end of a fault needs."""

    def __init__(self) -> None:
        self.posted: list[object] = []

    def post(self, event: object) -> None:
        self.posted.append(event)

    def wake(self) -> None:
        pass


def met(setup: UpkeepSetup, code: int) -> None:
    setup.recorder.record(Fact("io_error", {"what": "start", "error": str(OSError(code, os.strerror(code)))}))


async def test_no_room_for_a_process_is_over_when_one_could_be_started(
    new_upkeep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    async with new_upkeep() as setup:
        pump = FakePump()
        met(setup, errno.EAGAIN)
        with monkeypatch.context() as full:
            full.setattr(os, "posix_spawnp", refuse)
            await setup.through(setup.upkeep.see_faults_end, pump, script=[lambda: None] * 3)
        assert pump.posted == []
        assert setup.recorder.faults
        await setup.through(setup.upkeep.see_faults_end, pump, script=[lambda: None] * 3)
        assert pump.posted == [FaultEnded()]
        assert not setup.recorder.faults


def is_there(path: str) -> bool:
    return Path(path).exists()


async def test_what_a_read_only_disk_kept_of_a_rewrite_is_removed_when_it_is_writable_again(
    new_upkeep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    async with new_upkeep() as setup:
        spool: Spool = setup.intake_setup.spool
        prepared = spool.prepare_rewrite(setup.intake_setup.put(), b"other")
        with monkeypatch.context() as read_only:
            read_only.setattr(spool_module, "put_in_place_of", refuse)
            read_only.setattr(os, "unlink", refuse)
            with pytest.raises(OSError, match="Read-only"):
                spool.commit_rewrite(prepared)
        assert is_there(prepared.temp)
        met(setup, errno.EROFS)
        await setup.through(setup.upkeep.see_faults_end, FakePump(), script=[lambda: None])
        assert not is_there(prepared.temp)


async def test_no_process_is_started_for_a_full_disk(
    new_upkeep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_upkeep() as setup:
        met(setup, errno.ENOSPC)
        monkeypatch.setattr(os, "posix_spawnp", lambda *_: pytest.fail("started"))
        await setup.through(setup.upkeep.see_faults_end, FakePump(), script=[lambda: None])
        assert not setup.recorder.faults


async def test_a_mount_that_hangs_holds_up_one_look_and_no_fault_after_it(
    new_upkeep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    comes_back, ended, looks = threading.Event(), threading.Event(), []

    def hang(*_: object, **__: object) -> bool:
        looks.append(1)
        comes_back.wait()
        ended.set()
        return True

    async with new_upkeep() as setup:
        pump = FakePump()
        met(setup, errno.ENOSPC)
        monkeypatch.setattr(module, "PROBE_PATIENCE_S", 0.05)
        with monkeypatch.context() as hung:
            hung.setattr(room_probe, "has_room", hang)
            with anyio.fail_after(10):
                await setup.through(setup.upkeep.see_faults_end, pump, script=[lambda: None] * 5)
            assert (len(looks), pump.posted) == (1, [])
            comes_back.set()
            await anyio.to_thread.run_sync(ended.wait)
        monkeypatch.setattr(module, "PROBE_PATIENCE_S", 10)
        await setup.intake_setup.until(lambda: not setup.upkeep._looking.locked())
        await setup.through(setup.upkeep.see_faults_end, pump, script=[lambda: None])
        assert pump.posted == [FaultEnded()]


# --- the watchdog -----------------------------------------------------------------------------------------------------
class FakeServiceManager(ServiceManager):
    """A service manager that expects a sign of life every three seconds."""

    def __init__(self) -> None:
        super().__init__({"WATCHDOG_USEC": "3000000"})
        self.fed = 0

    def alive(self) -> None:
        self.fed += 1


@dataclass
class Progress:
    """Stands in for the pump and the watcher, with the counts that the watchdog looks at."""

    turns: int = 0
    beats: int = 0
    woken: int = 0

    def wake(self) -> None:
        self.woken += 1

    def turn(self) -> None:
        self.turns += 1

    def both(self) -> None:
        self.turns += 1
        self.beats += 1


async def times_fed(setup: UpkeepSetup, progress: Progress, script: Sequence[Callable[[], object]]) -> int:
    manager = FakeServiceManager()
    await setup.through(setup.upkeep.watchdog, manager, progress, progress, script=script)
    return manager.fed


async def test_the_manager_hears_of_us_three_times_in_its_own_time(new_upkeep: Callable[..., Any]) -> None:
    async with new_upkeep() as setup:
        progress = Progress()
        assert await times_fed(setup, progress, [progress.both] * 9) == 9
        assert progress.woken == 10, "an idle pump is asked to come round"


async def test_a_pump_that_is_stuck_lets_the_manager_starve(new_upkeep: Callable[..., Any]) -> None:
    async with new_upkeep() as setup:
        progress = Progress()
        assert await times_fed(setup, progress, [progress.both] * 3 + [lambda: None] * 9) == 3


@pytest.mark.parametrize(("poll_interval_s", "patience_s"), [(2, WATCHER_PATIENCE_S), (30, 90)])
async def test_a_watcher_is_given_its_time_then_taken_for_dead_until_it_comes_round(
    new_upkeep: Callable[..., Any], poll_interval_s: float, patience_s: float
) -> None:
    async with new_upkeep(watch=WatchSettings(poll_interval_s=poll_interval_s)) as setup:
        progress = Progress()
        alone: list[Callable[[], object]] = [progress.turn] * (int(patience_s) * 2)
        assert await times_fed(setup, progress, [progress.both, *alone]) == patience_s
        assert await times_fed(setup, progress, [progress.both, *alone, progress.both]) == patience_s + 1


@dataclass
class FakeEndpoint:
    """An endpoint with signs of life, each of which is returned once."""

    signs: list[str] = field(default_factory=list)
    asked: int = 0

    def pulse(self) -> str | None:
        self.asked += 1
        return self.signs.pop() if self.signs else None


def new_liveness_poll(world: World, inhabited: Any) -> tuple[LivenessPoll, list[Event]]:
    posted: list[Event] = []
    return LivenessPoll(
        deliveries=world.engine.state.deliveries, inhabited=lambda _: inhabited, post=posted.append
    ), posted


def test_who_holds_work_is_looked_at_and_a_sign_is_told() -> None:
    world = World({**TEAM, "worker": (PROCESS, "process")})
    endpoint = FakeEndpoint(["CPU time"])
    liveness_poll, posted = new_liveness_poll(world, endpoint)
    liveness_poll.look()
    assert endpoint.asked == 0
    world.send(make_message("m1"))
    liveness_poll.look()
    liveness_poll.look()
    assert (endpoint.asked, posted) == (2, [SignOfLife("worker", "CPU time")])


def test_endpoints_behind_which_nothing_lives_have_no_pulse() -> None:
    world = World()
    world.send(make_message("m1", "runner"))
    liveness_poll, posted = new_liveness_poll(world, None)
    liveness_poll.look()
    assert posted == []


def test_four_looks_in_the_shortest_timeout_within_reason() -> None:
    def every_s(timeout_s: float) -> float:
        team = {**TEAM, "worker": (replace(PROCESS, heartbeat_timeout_s=timeout_s), "process")}
        return new_liveness_poll(World(team), None)[0]._every_s()

    assert [every_s(timeout_s) for timeout_s in (0.01, 2, 120, 3600)] == [LEAST_S, 0.5, 30, MOST_S]


def worker_deliveries() -> Deliveries:
    found = Deliveries()
    found.agents["worker"] = Agent("worker", AgentPolicy(), "process")
    return found


def opened(of: Deliveries, name: str) -> Delivery:
    return of.open(make_message("m1"), Place("worker", Folder.PROCESSED, name), 0, 0)


async def test_it_goes_when_its_message_has_ended(tmp_path: Path) -> None:
    work = CheckpointCleanup(store=CheckpointFiles(tmp_path / "kept"), deliveries=worker_deliveries())
    delivery = opened(work.deliveries, "a.mime")
    await work.store.keep("worker", "m1", {"text": "half way"})
    work.deliveries.close(delivery)
    work.ended("worker", "m1")
    assert list(work.store.kept()) == []


async def test_the_end_of_a_duplicate_takes_nothing_from_its_twin(tmp_path: Path) -> None:
    work = CheckpointCleanup(store=CheckpointFiles(tmp_path / "kept"), deliveries=worker_deliveries())
    opened(work.deliveries, "a.mime")
    duplicate = opened(work.deliveries, "b.mime")
    await work.store.keep("worker", "m1", {"text": "half way"})
    work.deliveries.close(duplicate)
    work.ended("worker", "m1")
    assert work.store.read("worker", "m1") == {"text": "half way"}


async def test_what_a_crash_left_of_ended_messages_is_cleared_at_the_next_start(tmp_path: Path) -> None:
    work = CheckpointCleanup(store=CheckpointFiles(tmp_path / "kept"), deliveries=worker_deliveries())
    opened(work.deliveries, "a.mime")
    for message_id in ("m1", "m2"):
        await work.store.keep("worker", message_id, {"text": "half way"})
    await work.store.keep("nobody", "m1", {"text": "of an agent that has gone"})
    await work.store.keep("worker", "m3", {"text": "of a message that cannot be read yet"})
    await work.clear(unread={"m3"})
    assert sorted(work.store.kept()) == [("worker", "m1"), ("worker", "m3")]
