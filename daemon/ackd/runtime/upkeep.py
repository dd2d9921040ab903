"""Periodic work: scans without a hint, keeping the lock, sweeping, looking for room on the disks, checking whether a
fault of the machine is over, and reporting to the service manager's watchdog.

Each task runs until it is cancelled. An error of the disk is logged, and ends no task. If another daemon has taken the
root, ``fail`` is called, which stops this one.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core.daemon_facts import archive_swept, overslept, room_back, room_low
from ackd.core.errors import RootHeld
from ackd.core.events import FaultEnded, RoomBack, RoomLow, SignOfLife
from ackd.storage import room_probe
from ackd.storage.backup import snapshot
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

    from ackd.config.live import LiveConfig
    from ackd.core.events import Now
    from ackd.core.ports import Clock, Inhabited, Post
    from ackd.core.state import Agent, Deliveries
    from ackd.runtime.intake.intake import Intake
    from ackd.runtime.pump import Pump
    from ackd.runtime.recorder import Recorder
    from ackd.runtime.systemd import ServiceManager
    from ackd.runtime.watching import SpoolWatch
    from ackd.storage.checkpoints import CheckpointFiles
    from ackd.storage.room_probe import Shortage
    from ackd.storage.root_lock import RootLock
    from ackd.storage.spool import Spool

#: How often old days of the archive and temporary files of crashed writers are removed.
SWEEP_EVERY_S: Final = 3600.0
TEMP_AGE_S: Final = 3600.0
#: How often it is tried, while the machine refuses something, whether that is over.
PROBE_EVERY_S: Final = 1.0
#: How often it is looked how much room there is, and how much more than the least there must be before messages are
#: taken up again.
ROOM_EVERY_S: Final = 5.0
ROOM_MARGIN: Final = 1.25
#: How often it is looked which directories are file systems of their own, besides whenever a queue comes or goes.
MOUNTS_EVERY_S: Final = 60.0
#: With more queues than this, those that lie on another mount are not looked at: nearly all teams have one mount.
MOST_BOXES: Final = 50
#: A check of all file systems that takes longer hangs on one of them.
PROBE_PATIENCE_S: Final = 10.0
#: A watcher without a sign of life for this long, and for three of its own periods, is taken for dead.
WATCHER_PATIENCE_S: Final = 20.0


def _day(wall: float) -> date:
    return datetime.fromtimestamp(wall, UTC).date()


@dataclass(kw_only=True)
class Upkeep:
    config: LiveConfig
    spool: Spool
    lock: RootLock
    clock: Clock
    recorder: Recorder
    intake: Intake
    fail: Callable[[str], None]
    #: Tells people that there is hardly any room: once, when it begins.
    tell_of_shortage: Callable[[Shortage], None]
    #: What there is too little of, and since when, as wall time.
    short_of: tuple[Shortage, float] | None = None
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _measuring: threading.Lock = field(default_factory=threading.Lock)
    #: One directory of each file system that we write to; by which queues, and when that was looked up.
    _mounts: list[Path] = field(default_factory=list)
    _mounts_of: tuple[int, float] = (-1, 0.0)

    async def reconcile(self) -> None:
        while True:
            await anyio.sleep(self.config.now.watch.reconcile_interval_s)
            self.keep_lock()
            with self.recorder.reporting("scan"):
                await self.intake.scan()

    async def look_round(self, late_s: float) -> None:
        """Find receipts, arrivals and deletions after the process did not run for a while. Deadlines come later."""
        self.recorder.record(overslept(seconds=round(late_s, 1)))
        with self.recorder.reporting("scan"):
            await self.intake.receipts.scan()
            await self.intake.scan()
        await anyio.sleep(2 * self.intake.settle_s)  # long enough to prove a deletion

    def keep_lock(self) -> None:
        """Take the lock again if its file was removed (``git clean``). If another daemon was quicker, stop.

        While the root itself is away nothing is made in its place: a root that is moved away and back is no loss, and
        no other daemon serves a root that is not there.
        """
        if not self.spool.is_there():
            return
        try:
            with self.recorder.reporting("run/ackd.lock"):
                self.lock.keep()
        except RootHeld as held:
            self.fail(f"the root was removed or replaced: {held}")

    async def _has_room(self) -> bool:
        """Check whether the machine has room again. A check that hangs on a mount is left alone, and until it ends no
        other is begun."""
        if self._looking.locked():
            return False
        starting, found = self.recorder.faults.of_starting, False
        with anyio.move_on_after(PROBE_PATIENCE_S), contextlib.suppress(OSError):  # the thread itself may be refused
            found = await in_thread(self._look, self._directories(), starting, abandon_on_cancel=True)
        return found and starting == self.recorder.faults.of_starting  # a refused start met meanwhile was not checked

    def _look(self, directories: list[Path], starting: bool) -> bool:
        """Check for room in a thread. The thread may begin after its caller has given up, beside a later one."""
        if not self._looking.acquire(blocking=False):
            return False
        try:
            return room_probe.has_room(directories, starting=starting)
        finally:
            self._looking.release()

    async def see_faults_end(self, pump: Pump) -> None:
        """Wait for the end of faults of the machine, then scan at once, so that everything that was refused goes on."""
        while True:
            await anyio.sleep(PROBE_EVERY_S)
            if self.recorder.log.failing is not None:
                pump.wake()  # refused lines are tried again at the end of a turn, and there may be no other turn
            if not self.recorder.faults:
                continue
            if await self._has_room():
                await in_thread(self.spool.clear_left)
                self.recorder.relieved()
                pump.post(FaultEnded())
                with self.recorder.reporting("scan"):
                    await self.intake.scan()

    async def keep_room(self, post: Post) -> None:
        """Stop taking messages up while there is hardly any room, so that what is in hand has enough to go on."""
        while True:
            await anyio.sleep(ROOM_EVERY_S)
            await self.look_for_room(post)

    async def look_for_room(self, post: Post) -> None:
        known, found = self.short_of, await self._measured()
        if found is None and known is not None:
            self.short_of = None
            self.recorder.record(room_back(seconds=round(max(0.0, self.clock.now().wall - known[1]), 3)))
            post(RoomBack())
        elif found is not None and known is None:
            self.short_of = found, self.clock.now().wall
            self.recorder.record(room_low(where=found.where, what=found.what, free=found.free, least=found.least))
            post(RoomLow())
            self.tell_of_shortage(found)
        elif found is not None and known is not None:
            self.short_of = found, known[1]

    async def _measured(self) -> Shortage | None:
        """Return what there is too little of. A mount that hangs changes nothing until it answers."""
        known = self.short_of[0] if self.short_of is not None else None
        min_free_bytes, margin = self.config.now.min_free_mb * 1_000_000, ROOM_MARGIN if known is not None else 1.0
        found = known
        with anyio.move_on_after(PROBE_PATIENCE_S), contextlib.suppress(OSError):  # the thread itself may be refused
            found = await in_thread(self._measure, min_free_bytes, margin, known, abandon_on_cancel=True)
        return found

    def _measure(self, min_free_bytes: float, margin: float, known: Shortage | None) -> Shortage | None:
        if not self._measuring.acquire(blocking=False):
            return known
        try:
            return room_probe.shortage(self._mounts_now(), min_free_bytes, margin=margin)
        finally:
            self._measuring.release()

    def _mounts_now(self) -> list[Path]:
        """Return one directory of each file system that we write to. If one of them cannot be looked at, all that we
        write to: the others may be short of room all the same."""
        boxes, now_s = self.intake.box_changes, self.clock.now().mono
        if boxes != self._mounts_of[0] or now_s - self._mounts_of[1] >= MOUNTS_EVERY_S:
            directories = self._directories() if len(self.intake.boxes) <= MOST_BOXES else self._own_directories()
            every = [self.config.now.root_dir, *directories]
            try:
                self._mounts = room_probe.one_of_each_mount(every)
            except OSError:
                return every
            self._mounts_of = boxes, now_s
        return self._mounts

    def _directories(self) -> list[Path]:
        """List all directories that we write to. Any of them may be a file system of its own."""
        boxes = [self.config.now.root_dir / "queue" / box for box in self.intake.boxes]
        return [*self._own_directories(), *boxes, *(box / "processed" for box in boxes)]

    def _own_directories(self) -> list[Path]:
        names = ("run", "state", "logs", "receipts", "archive", "queue", "queue/dead_letter", "queue/corrupt")
        return [self.config.now.root_dir / name for name in names]

    async def sweep(self) -> None:
        """Remove leftovers, and old days of the archive. The archive is not swept at once, because a machine may start
        with a wrong clock and set it after a while."""
        began = self.clock.now()
        await self._sweep_leftovers()
        while True:
            await anyio.sleep(SWEEP_EVERY_S)
            with self.recorder.reporting("sweep of the archive"):
                await self._sweep_archive(began, self.clock.now())
            await self._sweep_leftovers()

    async def _sweep_archive(self, began: Now, now: Now) -> None:
        keep_days, swept = self.config.now.archive_days, list[str]()
        ran_s = now.mono - began.mono
        ours = (_day(began.wall), _day(began.wall + ran_s)) if ran_s < keep_days * 86_400 else None
        try:
            for day in await in_thread(self.spool.archive_old, keep_days, _day(now.wall), ours):
                await in_thread(self.spool.archive_remove, day)
                swept.append(day)
        finally:
            if swept:
                self.recorder.record(archive_swept(days=swept))

    async def _sweep_leftovers(self) -> None:
        now = self.clock.now().wall
        with self.recorder.reporting("sweep"):
            await in_thread(self.spool.sweep_temps, TEMP_AGE_S, now)
            await in_thread(snapshot.sweep, self.config.now.root_dir / "run")
            await self._compact_journal(now)

    async def _compact_journal(self, now: float) -> None:
        journal = self.recorder.journal
        if journal.too_large:
            window_s = self.config.now.delivery.dedup_window_s
            journal.finish_compaction(await in_thread(journal.prepare_compaction, now, window_s))

    async def watchdog(self, service: ServiceManager, pump: Pump, watching: SpoolWatch) -> None:
        """Feed the service manager's watchdog, but only while the watcher lives and the pump makes turns: a daemon that
        is stuck must be restarted."""
        assert service.watchdog_s is not None
        turns, beats, beaten_at = -1, -1, anyio.current_time()
        patience_s = max(WATCHER_PATIENCE_S, 3 * self.config.now.watch.poll_interval_s)
        while True:
            pump.wake()
            await anyio.sleep(service.watchdog_s / 3)
            if watching.beats != beats:
                beats, beaten_at = watching.beats, anyio.current_time()
            if pump.turns != turns and anyio.current_time() - beaten_at < patience_s:
                service.alive()
            turns = pump.turns


#: Limits of the interval of the liveness poll, however short or long the timeouts are.
LEAST_S: Final = 0.1
MOST_S: Final = 60.0


@dataclass(kw_only=True)
class LivenessPoll:
    deliveries: Deliveries
    #: Returns an agent's endpoint if a process or a pane lives behind it, else None.
    inhabited: Callable[[str], Inhabited | None]
    post: Post

    async def run(self) -> None:
        while True:
            await anyio.sleep(self._every_s())
            self.look()

    def look(self) -> None:
        for agent in self.deliveries.agents.values():
            inhabited = self.inhabited(agent.name) if agent.window and agent.is_watched else None
            if inhabited is not None and (sign := inhabited.pulse()) is not None:
                self.post(SignOfLife(agent.name, sign))

    def _every_s(self) -> float:
        shortest = min(map(_timeout_s, self.deliveries.agents.values()), default=4 * MOST_S)
        return min(MOST_S, max(LEAST_S, shortest / 4))


def _timeout_s(agent: Agent) -> float:
    """Return the shortest silence of the agent after which the engine does something."""
    policy = agent.policy
    if policy.heartbeat_timeout_s is None:
        return 4 * MOST_S
    if not policy.shows:
        return policy.heartbeat_timeout_s
    return min(policy.ack_timeout_s, policy.hung_after_s or policy.ack_timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCleanup:
    store: CheckpointFiles
    deliveries: Deliveries

    def ended(self, agent: str, message_id: str) -> None:
        if not self.deliveries.of_id(message_id, agent):
            self.store.forget(agent, message_id)

    async def clear(self, unread: Container[str]) -> None:
        """Remove checkpoints of messages that are over. Called once every message has been met; checkpoints of messages
        that cannot be read yet (``unread``) are kept."""
        for agent, message_id in await in_thread(lambda: list(self.store.kept())):
            if message_id not in unread:
                self.ended(agent, message_id)
