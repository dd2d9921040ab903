"""What a daemon does by itself, now and then: the scan that needs no hint, keeping its lock, sweeping, seeing whether a
fault of the machine is over, and telling the service manager that it lives.

Owns the periods. Each task runs until cancelled; trouble with the disk is a line, never an end. A root that another
daemon has taken is ``fail``.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

import anyio

from ackd.adapters import room_probe
from ackd.core.errors import RootHeld
from ackd.core.events import FaultEnded
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.adapters.root_lock import RootLock
    from ackd.adapters.spool import Spool
    from ackd.adapters.systemd import ServiceManager
    from ackd.config import Config
    from ackd.core.events import Now
    from ackd.ports import Clock
    from ackd.runtime.chronicle import Chronicle
    from ackd.runtime.intake import Intake
    from ackd.runtime.lookout import Lookout
    from ackd.runtime.pump import Pump

#: What the archive keeps too long is swept this often, and so are crashed writers' temporary files.
SWEEP_EVERY_S: Final = 3600.0
TEMP_AGE_S: Final = 3600.0
#: While the machine refuses something, it is asked again this often.
PROBE_EVERY_S: Final = 1.0
#: A look at all file systems that takes longer hangs with one of them.
PROBE_PATIENCE_S: Final = 10.0
#: A watcher that has not come round for this long, and for three of its own periods, is taken for dead.
WATCHER_PATIENCE_S: Final = 20.0


def _day(wall: float) -> date:
    return datetime.fromtimestamp(wall, UTC).date()


@dataclass
class Upkeep:
    config: Config
    spool: Spool
    lock: RootLock
    clock: Clock
    chronicle: Chronicle
    intake: Intake
    fail: Callable[[str], None]
    _looking: threading.Lock = field(default_factory=threading.Lock)

    async def reconcile(self) -> None:
        while True:
            await anyio.sleep(self.config.watch.reconcile_interval_s)
            self.keep_lock()
            with self.chronicle.reporting("scan"):
                await self.intake.scan()

    async def look_round(self, late_s: float) -> None:
        """We did not run for a while: receipts, arrivals and deletions first, then what the clocks say."""
        self.chronicle.record("overslept", {"seconds": round(late_s, 1)})
        with self.chronicle.reporting("scan"):
            await self.intake.letterbox.scan()
            await self.intake.scan()
        await anyio.sleep(2 * self.intake.settle_s)  # a deletion is proven by then

    def keep_lock(self) -> None:
        """Removed with the rest (``git clean``) it is taken anew; if another daemon was quicker, the root is theirs.

        While the root itself is away nothing is made in its place: moved away and back is no loss, and nobody else
        serves what is not there.
        """
        if not self.spool.is_there():
            return
        try:
            with self.chronicle.reporting("run/ackd.lock"):
                self.lock.keep()
        except RootHeld as held:
            self.fail(f"the root was removed or replaced: {held}")

    async def _has_room(self) -> bool:
        """A look that hangs, with a mount, is left to hang, and until it ends none is begun beside it."""
        if self._looking.locked():
            return False
        starting, found = self.chronicle.faults.of_starting, False
        with anyio.move_on_after(PROBE_PATIENCE_S), contextlib.suppress(OSError):  # not even for the thread that looks
            found = await in_thread(self._look, self._directories(), starting, abandon_on_cancel=True)
        return found and starting == self.chronicle.faults.of_starting  # or such a one was met meanwhile

    def _look(self, directories: list[Path], starting: bool) -> bool:
        """In a thread, which may begin when it was given up already."""
        if not self._looking.acquire(blocking=False):
            return False
        try:
            return room_probe.has_room(directories, starting=starting)
        finally:
            self._looking.release()

    async def see_faults_end(self, pump: Pump) -> None:
        """What the machine refused is found again by a scan, and goes on: nothing waits for the next one."""
        while True:
            await anyio.sleep(PROBE_EVERY_S)
            if self.chronicle.log.failing is not None:
                pump.wake()  # what the log could not take is tried at the end of a turn, and there may be none
            if not self.chronicle.faults:
                continue
            if await self._has_room():
                await in_thread(self.spool.clear_left)
                self.chronicle.relieved()
                pump.post(FaultEnded())
                with self.chronicle.reporting("scan"):
                    await self.intake.scan()

    def _directories(self) -> list[Path]:
        """Wherever we write: any of them may be another file system."""
        root = self.config.root_dir
        names = ("run", "state", "logs", "receipts", "archive", "queue", "queue/dead_letter", "queue/corrupt")
        boxes = [root / "queue" / box for box in self.intake.boxes]
        return [*(root / name for name in names), *boxes, *(box / "processed" for box in boxes)]

    async def sweep(self) -> None:
        """The archive not at once: a machine may start with a wrong clock, and set it after a while."""
        began = self.clock.now()
        await self._sweep_leftovers()
        while True:
            await anyio.sleep(SWEEP_EVERY_S)
            with self.chronicle.reporting("sweep of the archive"):
                await self._sweep_archive(began, self.clock.now())
            await self._sweep_leftovers()

    async def _sweep_archive(self, began: Now, now: Now) -> None:
        keep_days, swept = self.config.archive_days, list[str]()
        ran_s = now.mono - began.mono
        ours = (_day(began.wall), _day(began.wall + ran_s)) if ran_s < keep_days * 86_400 else None
        try:
            for day in await in_thread(self.spool.archive_old, keep_days, _day(now.wall), ours):
                await in_thread(self.spool.archive_remove, day)
                swept.append(day)
        finally:
            if swept:
                self.chronicle.record("archive_swept", {"days": swept})

    async def _sweep_leftovers(self) -> None:
        now = self.clock.now().wall
        with self.chronicle.reporting("sweep"):
            await in_thread(self.spool.sweep_temps, TEMP_AGE_S, now)
            await self._compact_journal(now)

    async def _compact_journal(self, now: float) -> None:
        journal = self.chronicle.journal
        if journal.too_large:
            window_s = self.config.delivery.dedup_window_s
            journal.finish_compaction(await in_thread(journal.prepare_compaction, now, window_s))

    async def watchdog(self, service: ServiceManager, pump: Pump, lookout: Lookout) -> None:
        """Fed only while the watcher lives and the pump comes round: a daemon that is stuck must be restarted."""
        assert service.watchdog_s is not None
        turns, beats, beaten_at = -1, -1, anyio.current_time()
        patience_s = max(WATCHER_PATIENCE_S, 3 * self.config.watch.poll_interval_s)
        while True:
            pump.wake()
            await anyio.sleep(service.watchdog_s / 3)
            if lookout.beats != beats:
                beats, beaten_at = lookout.beats, anyio.current_time()
            if pump.turns != turns and anyio.current_time() - beaten_at < patience_s:
                service.alive()
            turns = pump.turns
