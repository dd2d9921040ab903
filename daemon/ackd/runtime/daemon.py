"""The composition root: everything is made here, started in order, and ended in order.

Start: lock, layout, log, watch (first, so that nothing falls between), recover (the scan), ready. Stop: claim nothing
more, let what runs finish for ``drain_timeout_s``, end the rest (offered again, uncounted), last lines, unlock. A
second signal leaves at once; the journal without its last word makes the next start treat it as a crash.

Fails with ``RootHeld``, with ``BadConfig`` (a handler that is not installed), with ``CannotGoOn`` after a stop of its
own; a bug ends it at once, with its own exception.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from ackd import __version__, ports
from ackd.adapters import exec_runs, root_lock
from ackd.adapters.clock import SystemClock
from ackd.adapters.group_flush import GroupFlusher, NoFlusher
from ackd.adapters.inotify_watch import InotifyWatcher
from ackd.adapters.journal import Journal
from ackd.adapters.notifier import Notifier
from ackd.adapters.polling_watch import PollingWatcher
from ackd.adapters.session_log import SessionLog
from ackd.adapters.spool import Spool
from ackd.adapters.systemd import ServiceManager
from ackd.core.engine import Engine
from ackd.core.errors import Busy, RootHeld, UnknownAgent
from ackd.core.events import StopRequested
from ackd.core.message import Folder
from ackd.dialects import ignite
from ackd.handlers import Mail
from ackd.runtime.effect_runner import EffectRunner
from ackd.runtime.intake import Intake
from ackd.runtime.memory import Memory, marks
from ackd.runtime.operator import Operator
from ackd.runtime.pump import Pump
from ackd.runtime.recovery import Recovery
from ackd.runtime.status_page import StatusPage, describe
from ackd.runtime.team import Team, command_environment
from ackd.site import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anyio.abc import TaskGroup

    from ackd.config import Config
    from ackd.core.effects import Effect
    from ackd.core.message import Draft, Place, Receipt
    from ackd.ports import Hint, Watcher
    from ackd.site import Site

#: What the archive keeps too long is swept this often, and so are crashed writers' temporary files.
SWEEP_EVERY_S: Final = 3600.0
TEMP_AGE_S: Final = 3600.0
#: How long the last lines may take after everything has stopped.
LAST_WORDS_S: Final = 5.0
#: A watcher that has not come round for this long, and for three of its own periods, is taken for dead.
WATCHER_PATIENCE_S: Final = 20.0


@dataclass
class CannotGoOn(Busy):
    """We stopped by ourselves: whoever started us may try again."""

    why: str

    def __str__(self) -> str:
        return self.why


@dataclass
class Daemon:
    config: Config
    site: Site
    display: Callable[[str, dict[str, object], float], None]
    clock: ports.Clock = field(default_factory=SystemClock)
    service: ServiceManager = field(default_factory=ServiceManager)

    async def serve(self) -> None:
        """Runs until a signal. ``RootHeld`` if another daemon serves this root."""
        self._lock = root_lock.hold(self.site.run)
        try:
            await self._serve()
        except BaseExceptionGroup as group:
            raise _first(group) from group  # its own words, not a group's
        finally:
            self._lock.release()
        if self._failure:
            raise CannotGoOn(self._failure)

    async def _serve(self) -> None:
        async with anyio.create_task_group() as tasks:
            self._make(tasks)
            await self._start(tasks)
            await self._stop_asked.wait()
            await self._drain()
            tasks.cancel_scope.cancel()
        await self._close()  # nobody runs any more who could add a line to the last one

    # --- making -----------------------------------------------------------------------------------------------------
    def _make(self, tasks: TaskGroup) -> None:
        config, site = self.config, self.site
        durable = config.delivery.durability == "power"
        self._spool = Spool(
            site.root, max_message_bytes=config.max_message_bytes, durable=durable, reserved=site.reserved
        )
        self._spool.ensure_layout()
        self._journal = Journal.open(site.state / "journal.ndjson")
        self._engine = Engine(config.engine_policy(), random.Random())  # noqa: S311 - jitter, not a secret
        self._pump = Pump(self._engine, self.clock, self._carry_out, self._commit)
        self._flusher: GroupFlusher | NoFlusher = GroupFlusher() if durable else NoFlusher()
        self._memory = Memory(site.state, self._engine, site.logs)
        self._stop_asked, self._reason, self._failure = anyio.Event(), "", ""
        self._trouble: dict[str, str] = {}
        self._make_team(tasks)
        self._make_doors(tasks)

    def _make_team(self, tasks: TaskGroup) -> None:
        self._notifier = Notifier(
            self.config.on_escalation,
            str(self.config.base_dir),
            command_environment(self.site),
            tasks,
            self.record,
        )
        self._team = Team(
            self.config,
            self.site,
            self._spool,
            tasks,
            self._pump.post,
            self.record,
            self._read_mail,
            self._send,
            self._status,
        )
        self._runner = EffectRunner(
            spool=self._spool,
            flusher=self._flusher,
            record=self.record,
            journal=self._journal,
            clock=self.clock,
            post=self._pump.post,
            tasks=tasks,
            team=self._team,
            ring=self._notifier.ring,
        )

    def _make_doors(self, tasks: TaskGroup) -> None:
        self._operator = Operator(
            self._spool,
            self._engine.desk.book,
            self._pump.post,
            self.record,
            self._dig_up,
            self._purged,
        )
        self._intake = Intake(
            self._spool,
            self._engine.desk.book,
            self.clock,
            self._pump.post,
            tasks,
            self.config.watch.settle_s,
            frozenset(self.config.extra_types),
            self._team.join,
            self._team.called,
            self.record,
            self._operator.operate,
        )
        self._page = StatusPage(self.site.run / "status.json", self.clock, self._status_page)

    # --- starting ---------------------------------------------------------------------------------------------------
    async def _start(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        lost = self._lost_boxes()
        self._assemble()
        self._log = SessionLog.open(self.site.logs, started_at=self.clock.now().wall)
        self._journal.ahead = self._log.flush
        tasks.start_soon(self._signals, name="signals")  # early: who stops us while we recover means a clean stop
        state = self._journal.load(self.clock.now().wall, self.config.delivery.dedup_window_s)
        runs = exec_runs.scan_runs(self.site.state / "runs")
        self._pump.turn()
        self._memory.load()
        recovery = Recovery(
            self._spool,
            self._engine,
            self._pump,
            self._intake,
            self._journal,
            self.clock,
            self.site.logs,
            self.record,
            self._team.adopt,
            lost,
        )
        self._first_line(recovery.count(state, runs))
        with self._reporting("journal"):
            self._journal.compact(state)
        await self._watch(tasks)
        await recovery.recover(state, runs)
        tasks.start_soon(self._pump.run, name="pump")
        tasks.start_soon(self._reconcile, name="reconcile")
        tasks.start_soon(self._sweep, name="sweep")
        tasks.start_soon(self._page.run, lambda: self._pump.turns, name="status page")
        self._page.write()
        self.service.ready(f"watching {len(self._intake.boxes)} queues ({self._watching})")
        if self.service.watchdog_s is not None:
            tasks.start_soon(self._watchdog, self.service.watchdog_s / 3, name="watchdog")

    def _lost_boxes(self) -> frozenset[str]:
        """Asked before any directory is made anew."""
        before = self._memory.boxes()
        return frozenset(box for box, then in before.items() if marks(self._spool.births(box)) != then)

    def _assemble(self) -> None:
        for name in (*self.config.agents, *ALWAYS):
            self._team.join(name)
            self._spool.ensure_box(self._team.box(name))
        for box in self._spool.boxes():
            self._team.join(box)

    def _first_line(self, recovered: dict[str, int]) -> None:
        data: dict[str, object] = {"version": __version__, "pid": os.getpid(), "root": str(self.site.root)}
        self.record("session_start", {**data, "config_hash": self.config.fingerprint(), "recovered": recovered})
        self._log.flush()

    async def _watch(self, tasks: TaskGroup) -> None:
        """Set before the scan: what comes in between is told twice rather than never."""
        watcher: Watcher
        if self.config.watch.mode == "polling":
            watcher, self._watching = self._polling(), "polling"
        else:
            watcher, self._watching = InotifyWatcher(self.site.queue, self.site.receipts), "inotify"
        await self._run_watcher(tasks, watcher)

    def _polling(self) -> PollingWatcher:
        return PollingWatcher(self.site.queue, self.site.receipts, self.config.watch.poll_interval_s)

    async def _run_watcher(self, tasks: TaskGroup, watcher: Watcher) -> None:
        ready = anyio.Event()
        self._watcher = watcher
        tasks.start_soon(watcher.run, lambda hint: self._hint(hint, ready), ready.set, name="watcher")
        await ready.wait()

    def _hint(self, hint: Hint, ready: anyio.Event) -> None:
        if not isinstance(hint, ports.WatchFailed):
            self._intake.hint(hint)
            return
        self.record("watch_degraded", {"reason": hint.reason, "mode": "polling"})
        ready.set()
        if self.config.watch.mode == "inotify":
            self._fail(f"[watch] mode is inotify, and it cannot be had: {hint.reason}")
            return
        self._watching = "polling"
        self._tasks.start_soon(self._fall_back, name="fall back to polling")

    async def _fall_back(self) -> None:
        await self._run_watcher(self._tasks, self._polling())
        await self._intake.scan()

    def _fail(self, why: str) -> None:
        self._failure = why
        self._stop_asked.set()

    # --- running ----------------------------------------------------------------------------------------------------
    async def _reconcile(self) -> None:
        """The scan that needs no hint."""
        while True:
            await anyio.sleep(self.config.watch.reconcile_interval_s)
            self._keep_lock()
            try:
                await self._intake.scan()
            except OSError as error:
                self.record("io_error", {"what": "scan", "error": str(error)})

    def _keep_lock(self) -> None:
        """Removed with the rest (``git clean``) it is taken anew; if another daemon was quicker, the root is theirs."""
        if self._lock.still_ours():
            return
        try:
            anew = root_lock.hold(self.site.run)
        except RootHeld as held:
            self._fail(f"run/ackd.lock was removed or replaced: {held}")
        except OSError as error:
            self.record("io_error", {"what": "run/ackd.lock", "error": str(error)})
        else:
            self._lock.release()
            self._lock = anew

    async def _sweep(self) -> None:
        while True:
            today = datetime.fromtimestamp(self.clock.now().wall, UTC).date()
            try:
                await anyio.to_thread.run_sync(self._spool.archive_sweep, self.config.archive_days, today)
                await anyio.to_thread.run_sync(self._spool.sweep_temps, TEMP_AGE_S, self.clock.now().wall)
                await self._compact_journal()
            except OSError as error:
                self.record("io_error", {"what": "sweep", "error": str(error)})
            await anyio.sleep(SWEEP_EVERY_S)

    async def _compact_journal(self) -> None:
        if self._journal.too_large:
            window_s, now = self.config.delivery.dedup_window_s, self.clock.now().wall
            prepared = await anyio.to_thread.run_sync(self._journal.prepare_compaction, now, window_s)
            self._journal.finish_compaction(prepared)

    async def _watchdog(self, every_s: float) -> None:
        """Only while the watcher lives and the pump comes round: a daemon that is stuck must be restarted."""
        turns, beats, beaten_at = -1, -1, anyio.current_time()
        patience_s = max(WATCHER_PATIENCE_S, 3 * self.config.watch.poll_interval_s)
        while True:
            self._pump.wake()
            await anyio.sleep(every_s)
            if self._watcher.beats != beats:
                beats, beaten_at = self._watcher.beats, anyio.current_time()
            if self._pump.turns != turns and anyio.current_time() - beaten_at < patience_s:
                self.service.alive()
            turns = self._pump.turns

    async def _signals(self) -> None:
        heard = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup: the terminal was closed
            heard.append(signal.SIGHUP)
        with anyio.open_signal_receiver(*heard) as signals:
            async for number in signals:
                if self._stop_asked.is_set():
                    self._leave_at_once(number)
                self._reason = number.name
                self._stop_asked.set()

    def _leave_at_once(self, number: signal.Signals) -> None:
        """What runs is left to the next start. Nothing here may keep us: not the disk, not who reads our output."""
        with contextlib.suppress(Exception):
            self._team.abandon()
            self._commit()
        os._exit(128 + number)

    # --- stopping ---------------------------------------------------------------------------------------------------
    async def _drain(self) -> None:
        self.service.stopping()
        self._pump.post(StopRequested())
        async with anyio.create_task_group() as ending:
            for endpoint in self._team.endpoints():
                ending.start_soon(endpoint.stop, self.config.daemon.drain_timeout_s)
        with anyio.move_on_after(LAST_WORDS_S):
            await self._runner.settled(self._pump.idle)
            await self._notifier.stop(LAST_WORDS_S)

    async def _close(self) -> None:
        self.record("session_end", {"reason": self._failure or self._reason, "totals": self._totals()})
        self._commit()
        self._page.write()
        with self._reporting("last words"):  # a full disk: the next start takes it for a crash, and copes
            self._memory.save()
            self._journal.stop()
            self._journal.close()
        self._log.close()
        await self._flusher.aclose()

    def _totals(self) -> dict[str, object]:
        totals = describe(self._engine)["totals"]
        assert isinstance(totals, dict)
        return totals

    # --- what the parts call ------------------------------------------------------------------------------------------
    def _carry_out(self, effects: list[Effect]) -> None:
        self._runner.carry_out(effects)

    def _commit(self) -> None:
        """The end of a turn: everything recorded is the kernel's. The log first: what the journal has let go of is
        asked about no more, so its line must be there."""
        self._log.flush()
        with self._reporting("journal"):
            self._journal.flush()
        if self._log.failing is not None:
            self._show_trouble("session log", self._log.failing)
        else:
            self._trouble.pop("session log", None)
        self._memory.note_changes()
        self._memory.note_boxes(self._intake.boxes)

    @contextlib.contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        """A disk that refuses is heard of once, not at every turn."""
        try:
            yield
        except OSError as error:
            if self._trouble.get(what) != str(error):
                self._trouble[what] = str(error)
                self.record("io_error", {"what": what, "error": str(error)})
        else:
            self._trouble.pop(what, None)

    def _show_trouble(self, what: str, error: OSError) -> None:
        """What the log itself cannot tell."""
        if self._trouble.get(what) != str(error):
            self._trouble[what] = str(error)
            self.display("io_error", {"what": what, "error": str(error)}, self.clock.now().wall)

    def record(self, type_: str, data: dict[str, object], at: float | None = None) -> None:
        """One fact, for the log and for the operator's eyes. What is recorded outside a turn, the next one flushes."""
        wall = self.clock.now().wall if at is None else at
        self._log.record(type_, data, wall)
        self.display(type_, data, wall)
        self._pump.wake()

    def _read_mail(self, place: Place) -> Mail:
        data = self._spool.read(place).data
        message = ignite.decode(data, self._team.join(place.box), extra_types=frozenset(self.config.extra_types))
        return Mail(
            message.message_id,
            message.sender,
            message.recipient,
            message.type,
            message.priority,
            ignite.split(data).body.decode(),
            message.thread_id,
            message.in_reply_to,
        )

    async def _send(self, draft: Draft) -> None:
        """For handlers. A name that nobody has is theirs to hear of, not ours to make a directory for."""
        if self._team.called(draft.recipient) is None:
            raise UnknownAgent(draft.recipient)
        await self._runner.send(draft)

    def _purged(self, folder: Folder) -> None:
        totals = self._engine.desk.totals
        if folder is Folder.DEAD:
            totals.dead = max(0, totals.dead - 1)
        else:
            totals.rejected = max(0, totals.rejected - 1)

    def _dig_up(self, receipt: Receipt) -> tuple[str, str] | None:
        return self._intake.dig_up(receipt)

    def _status(self) -> dict[str, object]:
        return describe(self._engine)

    def _status_page(self) -> dict[str, object]:
        daemon = {
            "pid": os.getpid(),
            "session_id": self._log.session_id,
            "version": __version__,
            "watch": self._watching,
        }
        return {"daemon": daemon, **describe(self._engine)}


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What began it: the others are mostly its echo."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
