"""What is done now and then. Time passes here only by sleeping, so that an hour takes no time."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from ackd.adapters import room_probe, root_lock
from ackd.adapters.clock import SystemClock
from ackd.adapters.journal import End, Journal, LetGo
from ackd.adapters.spool import spool as spool_module
from ackd.adapters.systemd import ServiceManager
from ackd.config import Config, Watch
from ackd.core.events import Arrived, FaultEnded, Now
from ackd.core.message import Folder
from ackd.runtime import upkeep as module
from ackd.runtime.chronicle import Chronicle
from ackd.runtime.upkeep import SWEEP_EVERY_S, TEMP_AGE_S, WATCHER_PATIENCE_S, Upkeep
from tests.acceptance.teams import mime
from tests.runtime.desks import Desk, desk_in
from tests.runtime.onlooker import Onlooker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from ackd.adapters.spool import Spool


class OverError(Exception):
    """The last sleep of the test."""


@dataclass
class Hours:
    """The module's own time: each sleep takes the next act of the script, and after the last one it is over."""

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
class Care:
    desk: Desk
    chronicle: Chronicle
    lock: root_lock.RootLock
    upkeep: Upkeep
    monkeypatch: pytest.MonkeyPatch
    failures: list[str]
    shown: list[tuple[str, dict[str, object]]]

    async def through(
        self, task: Callable[..., Awaitable[None]], *args: Any, script: Sequence[Callable[[], object]]
    ) -> list[float]:
        hours = Hours(script)
        stand_in = SimpleNamespace(
            sleep=hours.sleep,
            current_time=hours.current_time,
            to_thread=anyio.to_thread,
            move_on_after=anyio.move_on_after,
        )
        self.monkeypatch.setattr(module, "anyio", stand_in)
        with pytest.raises(OverError):
            await task(*args)
        return hours.slept

    def troubles(self) -> list[object]:
        self.chronicle.show()
        return [data["what"] for type_, data in self.shown if type_ == "io_error"]


@pytest.fixture
def caring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    @contextlib.asynccontextmanager
    async def care(**config: Any) -> AsyncIterator[Care]:
        onlooker = Onlooker()
        failures: list[str] = []
        async with desk_in(tmp_path) as desk:
            journal = Journal.open(tmp_path / "state/journal.ndjson")
            chronicle = Chronicle(journal, desk.clock, onlooker, lambda: None)
            chronicle.open(tmp_path / "logs")
            lock = root_lock.hold(tmp_path / "run")
            settings = Config(root=str(tmp_path), **config)
            upkeep = Upkeep(settings, desk.spool, lock, desk.clock, chronicle, desk.intake, failures.append)
            yield Care(desk, chronicle, lock, upkeep, monkeypatch, failures, onlooker.shown)
            lock.release()
            chronicle.close()

    return care


# --- reconciling --------------------------------------------------------------------------------------------------------
async def test_the_scan_finds_what_no_hint_told_of(caring: Callable[..., Any]) -> None:
    async with caring(watch=Watch(reconcile_interval_s=30)) as care:
        slept = await care.through(care.upkeep.reconcile, script=[lambda: None, care.desk.put])
        assert slept == [30, 30, 30]
        await care.desk.until(lambda: [event.place.name for event in care.desk.of(Arrived)] == ["m.mime"])


async def test_a_scan_that_the_disk_refuses_is_a_line_and_the_next_one_comes(
    caring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caring() as care:
        scans: list[int] = []

        async def refused() -> None:
            scans.append(1)
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(care.desk.intake, "scan", refused)
        await care.through(care.upkeep.reconcile, script=[lambda: None] * 3)
        assert len(scans) == 3
        assert care.troubles() == ["scan"]


# --- the lock -------------------------------------------------------------------------------------------------------------
async def test_a_lock_that_was_removed_is_taken_anew(caring: Callable[..., Any]) -> None:
    async with caring() as care:
        care.lock.path.unlink()
        await care.through(care.upkeep.reconcile, script=[lambda: None])
        assert care.lock.still_ours()
        assert root_lock.holder(care.lock.path.parent) == os.getpid()
        assert care.failures == []


async def test_a_root_that_another_has_taken_is_an_end(caring: Callable[..., Any]) -> None:
    async with caring() as care:
        root = care.lock.path.parent.parent
        root.rename(root.with_name("away"))
        (root / "queue").mkdir(parents=True)
        theirs = root_lock.hold(care.lock.path.parent)
        care.upkeep.keep_lock()
        (why,) = care.failures
        assert why.startswith("the root was removed or replaced")
        assert theirs.still_ours()
        theirs.release()


# --- sweeping ---------------------------------------------------------------------------------------------------------------
class Later(SystemClock):
    def now(self) -> Now:
        now = super().now()
        return Now(now.mono + TEMP_AGE_S, now.wall + TEMP_AGE_S)


def archived(root: Path) -> list[str]:
    return sorted(path.parts[-3] for path in root.glob("archive/*/*/*"))


def archive(care: Care, root: Path, *days: str, at: float) -> None:
    """A message on each of the days, put there at that time."""
    for day in days:
        care.desk.spool.move(care.desk.put(), Folder.ARCHIVE, date=day)
        for path in (root / "archive" / day / "leader", root / "archive" / day):
            os.utime(path, (at, at))


async def test_what_the_archive_kept_too_long_is_swept_an_hour_after_the_start_and_said(
    tmp_path: Path, caring: Callable[..., Any]
) -> None:
    async with caring(archive_days=30) as care:
        archive(care, tmp_path, "20200101", "29990101", at=1.6e9)
        assert await care.through(care.upkeep.sweep, script=[]) == [SWEEP_EVERY_S]
        assert archived(tmp_path) == ["20200101", "29990101"], "the clock may be wrong yet"
        await care.through(care.upkeep.sweep, script=[lambda: None] * 2)
        assert archived(tmp_path) == ["29990101"]
        care.chronicle.show()
        assert [data for type_, data in care.shown if type_ == "archive_swept"] == [{"days": ["20200101"]}]


class Set(SystemClock):
    """Wrong by so many seconds."""

    by_s = 0.0

    def now(self) -> Now:
        now = super().now()
        return Now(now.mono, now.wall + self.by_s)


@pytest.mark.parametrize("years", [-50, 50])
async def test_a_clock_that_is_wrong_at_the_start_and_set_later_takes_no_day(
    tmp_path: Path, caring: Callable[..., Any], years: int
) -> None:
    async with caring(archive_days=30) as care:
        clock = care.upkeep.clock = Set()
        clock.by_s = years * 365 * 86_400.0
        right, wrong = SystemClock().now().wall, clock.now().wall
        days = {time.strftime("%Y%m%d", time.gmtime(at)): at for at in (right, wrong)}
        for day, at in days.items():
            archive(care, tmp_path, day, at=at)
        await care.through(care.upkeep.sweep, script=[lambda: setattr(clock, "by_s", 0.0), lambda: None])
        assert archived(tmp_path) == sorted(days)


async def test_what_was_swept_is_said_also_if_the_next_day_is_refused(
    tmp_path: Path, caring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caring(archive_days=30) as care:
        archive(care, tmp_path, "20200101", "20200102", at=1.6e9)
        remove = care.desk.spool.archive_remove

        def refuse(day: str) -> None:
            if day == "20200102":
                raise OSError(5, "Input/output error")
            remove(day)

        monkeypatch.setattr(care.desk.spool, "archive_remove", refuse)
        await care.through(care.upkeep.sweep, script=[lambda: None])
        assert care.troubles() == ["sweep of the archive"]
        assert ("archive_swept", {"days": ["20200101"]}) in care.shown


async def test_what_writers_left_behind_is_swept(tmp_path: Path, caring: Callable[..., Any]) -> None:
    def left_behind() -> int:
        return len(list(tmp_path.rglob(".ackd-*")))

    async with caring() as care:
        left = care.desk.spool.prepare_drop("leader", "m.mime", mime()).temp
        dead = await anyio.run_process(["sh", "-c", "echo $$"])
        orphan = left.replace(f"-{os.getpid()}-", f"-{int(dead.stdout)}-")
        os.rename(left, orphan)  # noqa: PTH104 - whoever wrote it has ended
        assert await care.through(care.upkeep.sweep, script=[]) == [SWEEP_EVERY_S]
        assert left_behind() == 1
        care.upkeep.clock = Later()
        await care.through(care.upkeep.sweep, script=[])
        assert left_behind() == 0


async def test_a_journal_that_grew_too_large_is_written_anew_and_loses_nothing(
    caring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caring() as care:
        journal, now = care.chronicle.journal, care.desk.clock.now().wall
        for n in range(200):
            journal.let_go(LetGo("leader", f"{n}@x", f"{n}.mime", End.WITHDRAWN, "digest", now))
        journal.let_go(LetGo("leader", "kept@x", "kept.mime", End.COMPLETED, "digest", now))
        journal.flush()
        size = journal._path.stat().st_size
        monkeypatch.setattr(journal, "_compact_above", size - 1)
        assert journal.too_large
        await care.through(care.upkeep.sweep, script=[])
        assert journal._path.stat().st_size < size / 10
        assert [done.message_id for done in journal.load(now, 3600).completed] == ["kept@x"]


async def test_a_sweep_that_the_disk_refuses_is_a_line_and_the_next_one_comes(
    caring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    async with caring() as care:
        for name in ("archive_old", "sweep_temps"):
            monkeypatch.setattr(care.desk.spool, name, refuse)
        assert len(await care.through(care.upkeep.sweep, script=[lambda: None] * 2)) == 3
        assert care.chronicle.faults.page()[0]["what"] == "sweep"
        assert care.troubles() == ["sweep"]


# --- faults of the machine --------------------------------------------------------------------------------------------------
class Posts:
    """The pump, as far as the end of a fault is told to it."""

    def __init__(self) -> None:
        self.posted: list[object] = []

    def post(self, event: object) -> None:
        self.posted.append(event)

    def wake(self) -> None:
        pass


def met(care: Care, code: int) -> None:
    care.chronicle.record("io_error", {"what": "start", "error": str(OSError(code, os.strerror(code)))})


async def test_no_room_for_a_process_is_over_when_one_could_be_started(
    caring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    async with caring() as care:
        pump = Posts()
        met(care, errno.EAGAIN)
        with monkeypatch.context() as full:
            full.setattr(os, "posix_spawnp", refuse)
            await care.through(care.upkeep.see_faults_end, pump, script=[lambda: None] * 3)
        assert pump.posted == []
        assert care.chronicle.faults
        await care.through(care.upkeep.see_faults_end, pump, script=[lambda: None] * 3)
        assert pump.posted == [FaultEnded()]
        assert not care.chronicle.faults


def is_there(path: str) -> bool:
    return Path(path).exists()


async def test_what_a_read_only_disk_kept_of_a_rewrite_is_removed_when_it_is_writable_again(
    caring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    async with caring() as care:
        spool: Spool = care.desk.spool
        prepared = spool.prepare_rewrite(care.desk.put(), b"other")
        with monkeypatch.context() as read_only:
            read_only.setattr(spool_module, "put_in_place_of", refuse)
            read_only.setattr(os, "unlink", refuse)
            with pytest.raises(OSError, match="Read-only"):
                spool.commit_rewrite(prepared)
        assert is_there(prepared.temp)
        met(care, errno.EROFS)
        await care.through(care.upkeep.see_faults_end, Posts(), script=[lambda: None])
        assert not is_there(prepared.temp)


async def test_no_process_is_started_for_a_full_disk(
    caring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caring() as care:
        met(care, errno.ENOSPC)
        monkeypatch.setattr(os, "posix_spawnp", lambda *_: pytest.fail("started"))
        await care.through(care.upkeep.see_faults_end, Posts(), script=[lambda: None])
        assert not care.chronicle.faults


async def test_a_mount_that_hangs_holds_up_one_look_and_no_fault_after_it(
    caring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    comes_back, ended, looks = threading.Event(), threading.Event(), []

    def hang(*_: object, **__: object) -> bool:
        looks.append(1)
        comes_back.wait()
        ended.set()
        return True

    async with caring() as care:
        pump = Posts()
        met(care, errno.ENOSPC)
        monkeypatch.setattr(module, "PROBE_PATIENCE_S", 0.05)
        with monkeypatch.context() as hung:
            hung.setattr(room_probe, "has_room", hang)
            with anyio.fail_after(10):
                await care.through(care.upkeep.see_faults_end, pump, script=[lambda: None] * 5)
            assert (len(looks), pump.posted) == (1, [])
            comes_back.set()
            await anyio.to_thread.run_sync(ended.wait)
        monkeypatch.setattr(module, "PROBE_PATIENCE_S", 10)
        await care.desk.until(lambda: not care.upkeep._looking.locked())
        await care.through(care.upkeep.see_faults_end, pump, script=[lambda: None])
        assert pump.posted == [FaultEnded()]


# --- the watchdog -----------------------------------------------------------------------------------------------------------
class Manager(ServiceManager):
    """Wants to hear from us every three seconds."""

    def __init__(self) -> None:
        super().__init__({"WATCHDOG_USEC": "3000000"})
        self.fed = 0

    def alive(self) -> None:
        self.fed += 1


@dataclass
class Hearts:
    """The pump and the watcher, as far as the watchdog looks at them."""

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


async def fed(care: Care, hearts: Hearts, script: Sequence[Callable[[], object]]) -> int:
    manager = Manager()
    await care.through(care.upkeep.watchdog, manager, hearts, hearts, script=script)
    return manager.fed


async def test_the_manager_hears_of_us_three_times_in_its_own_time(caring: Callable[..., Any]) -> None:
    async with caring() as care:
        hearts = Hearts()
        assert await fed(care, hearts, [hearts.both] * 9) == 9
        assert hearts.woken == 10, "an idle pump is asked to come round"


async def test_a_pump_that_is_stuck_lets_the_manager_starve(caring: Callable[..., Any]) -> None:
    async with caring() as care:
        hearts = Hearts()
        assert await fed(care, hearts, [hearts.both] * 3 + [lambda: None] * 9) == 3


@pytest.mark.parametrize(("poll_interval_s", "patience_s"), [(2, WATCHER_PATIENCE_S), (30, 90)])
async def test_a_watcher_is_given_its_time_then_taken_for_dead_until_it_comes_round(
    caring: Callable[..., Any], poll_interval_s: float, patience_s: float
) -> None:
    async with caring(watch=Watch(poll_interval_s=poll_interval_s)) as care:
        hearts = Hearts()
        alone: list[Callable[[], object]] = [hearts.turn] * (int(patience_s) * 2)
        assert await fed(care, hearts, [hearts.both, *alone]) == patience_s
        assert await fed(care, hearts, [hearts.both, *alone, hearts.both]) == patience_s + 1
