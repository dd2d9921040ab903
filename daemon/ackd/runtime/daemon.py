"""The composition root: every part of the daemon is made here, started in order, and ended in order.

Start: take the lock, make the directories, open the log, begin to watch (before the scan, so that no file falls
between the two), report ready, recover.

Stop: claim nothing more, ask workers for a checkpoint, let running deliveries finish for ``drain_timeout_s``, end the
rest (they are offered again by the next daemon, and the attempt is not counted), write the last lines, release the
lock. With SIGUSR2 another daemon follows at once, and commands that run are left to it. A second signal ends the
process at once. The journal then lacks its closing entry, and so the next start treats it as a crash.

``serve`` raises ``RootHeld``, ``NewerState``, ``BadConfig`` (a handler that is not installed), or ``CannotGoOn`` when
the daemon stopped by itself. A bug ends the daemon at once, with its own exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import anyio

from ackd import __version__
from ackd.config.live import LiveConfig
from ackd.config.site import ALWAYS
from ackd.coordination.gateway import GatewayContext, GatewayServices
from ackd.core import alerts, message_facts
from ackd.core.agent_facts import child_ended
from ackd.core.daemon_facts import io_error, session_end, session_start, session_stopping, signal_ignored
from ackd.core.delivery import State
from ackd.core.engine import Engine
from ackd.core.errors import Busy, UnknownAgent
from ackd.core.escalations import derived_id, escalation, stamp
from ackd.core.events import StopRequested
from ackd.core.message import MONITOR, USER, identity
from ackd.core.ports import Services
from ackd.core.signals import MessageEnded, MessageMet
from ackd.endpoints.making import Offered
from ackd.formats import ignite
from ackd.runtime.builtin_handlers import SystemHandler, queue_monitor
from ackd.runtime.gateways import Gateways, make_gateways
from ackd.runtime.groups import Groups
from ackd.runtime.intake.copies import Copies
from ackd.runtime.intake.intake import Intake
from ackd.runtime.log_upkeep import LogUpkeep
from ackd.runtime.mail_reader import MailReader
from ackd.runtime.notifier import Notifier
from ackd.runtime.pump import Pump
from ackd.runtime.receipts.agent_requests import AgentRequests
from ackd.runtime.receipts.dead_letters import DeadLetterRequests, DeadLetters
from ackd.runtime.receipts.receipts import CheckpointReceipts, Receipts
from ackd.runtime.receipts.snapshots import SnapshotRequests
from ackd.runtime.recorder import Recorder
from ackd.runtime.recovery.backlog import Backlog
from ackd.runtime.recovery.missing import MissingMessages
from ackd.runtime.recovery.recovery import Recovery
from ackd.runtime.reloading import Reloads
from ackd.runtime.runner.runner import EffectRunner
from ackd.runtime.saved_totals import SavedTotals, marks
from ackd.runtime.signals import Signals
from ackd.runtime.status_page import StatusPage, describe, status_line
from ackd.runtime.supervisor import Supervisor
from ackd.runtime.systemd import ServiceManager
from ackd.runtime.team import Makers, Team, command_environment, environment
from ackd.runtime.upkeep import CheckpointCleanup, LivenessPoll, Upkeep
from ackd.runtime.watching import SpoolWatch
from ackd.storage import root_lock, state_version
from ackd.storage.backup import restored
from ackd.storage.checkpoints import CheckpointFiles
from ackd.storage.group_flush import DeviceFlusher, NoFlusher
from ackd.storage.journal import Journal
from ackd.storage.paused import RESTORED, BadPauses, Pauses
from ackd.storage.room_probe import words_of_shortage
from ackd.storage.spool import Spool
from ackd.system.clock import SystemClock
from ackd.system.terminal import has_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import TaskGroup

    from ackd.config.model import Config
    from ackd.config.site import Site
    from ackd.core.effects import Effect
    from ackd.core.message import Draft
    from ackd.core.ports import Clock, Post, View
    from ackd.handlers import Handler
    from ackd.storage.backup.restored import Restored
    from ackd.storage.room_probe import Shortage

#: Signals that mean an orderly stop: somebody asked for it, or the power or the allowed CPU time runs out.
ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGPWR, signal.SIGXCPU)
#: The signal for a stop after which another daemon is started at once: commands that run are left to it. The units
#: name it in RestartKillSignal=, so that `systemctl restart` costs no command its run, and `systemctl stop` ends all.
RESTARTING: Final = signal.SIGUSR2
#: Signals that would end the process by default and mean nothing here. Each is logged once. They are handled and not
#: ignored, because an ignored signal stays ignored in every command that we start. (Python itself ignores SIGPIPE and
#: SIGXFSZ.)
MEANINGLESS: Final = (
    signal.SIGUSR1,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGSTKFLT,
)
#: Time for the last lines and notifications after everything has stopped.
LAST_WORDS_S: Final = 5.0


@dataclass
class CannotGoOn(Busy):
    """The daemon stopped by itself. Whoever started it may try again."""

    why: str

    def __str__(self) -> str:
        return self.why


@dataclass
class Daemon:
    config: Config
    site: Site
    view: View
    clock: Clock = field(default_factory=SystemClock)
    service: ServiceManager = field(default_factory=ServiceManager)
    #: The process was started in a terminal, whose end is the daemon's.
    in_terminal: bool = field(default_factory=has_terminal)
    rng: random.Random = field(default_factory=random.Random)  # for jitter, not for secrets

    async def serve(self) -> None:
        """Run until a signal. Raises ``RootHeld`` if another daemon serves this root."""
        self._lock = root_lock.hold(self.site.run)
        try:
            state_version.require(self.site.state)  # before anything is made or changed
            await self._serve()
        except BaseExceptionGroup as group:
            raise _first(group) from group  # so that the user reads the error itself
        finally:
            self._lock.release()
        if self._failure:
            raise CannotGoOn(self._failure)

    async def _serve(self) -> None:
        async with anyio.create_task_group() as tasks:
            self._make(tasks)
            try:
                await self._start(tasks)
                await self._stop_asked.wait()
                await self._drain()
            finally:
                self._gateways.close()
            tasks.cancel_scope.cancel()
        await self._close()  # no task runs any more that could write a line after the last one

    # --- making -------------------------------------------------------------------------------------------------------
    def _make(self, tasks: TaskGroup) -> None:
        config, site = self.config, self.site
        self._config = LiveConfig(config)
        self._fingerprint = config.fingerprint()  # kept, because the status page is written twice a second
        durable = config.delivery.durability == "power"  # for good: files that exist were written by it
        self._spool = Spool(
            site.root,
            max_message_bytes=partial(attrgetter("now.max_message_bytes"), self._config),  # asked for every message
            durable=durable,
            reserved=site.reserved,
        )
        self._spool.ensure_layout()
        self._begun = state_version.begin(site.state, self.clock.now().wall)
        self._restored = restored.pending(site.state)
        self._backlog = Backlog(self._spool)
        self._engine = Engine(config.engine_policy(), self.rng)
        self._pump = Pump(self._engine, self.clock, self._carry_out, self._claim, self._commit)
        journal = Journal.open(site.state / "journal.ndjson")
        journal.root_is_ours = self._lock.still_ours
        self._signals = Signals()
        self._recorder = Recorder(journal=journal, clock=self._pump, view=self.view, wake=self._pump.wake)
        self._services = Services(
            clock=self.clock,
            post=self._pump.post,
            record=self._recorder.record,
            tasks=tasks,
            emit=self._signals.emit,
        )
        self._flusher: DeviceFlusher | NoFlusher = DeviceFlusher() if durable else NoFlusher()
        self._saved_totals = SavedTotals(
            state_dir=site.state,
            engine=self._engine,
            logs_dir=site.logs,
            lying=self._escalations_with,
            record=self._recorder.record,
        )
        self._up, self._stop_asked, self._reason, self._failure = anyio.Event(), anyio.Event(), "", ""
        self._is_ready = False
        self._leaves = False
        self._make_team(tasks)
        self._make_receipts()
        self._make_intake()
        self._make_upkeep(tasks)
        self._make_gateways()

    def _make_team(self, tasks: TaskGroup) -> None:
        config, record, post = self._config, self._recorder.record, self._pump.post
        self._notifier = Notifier(
            config=config,
            env=command_environment(self.site),
            tasks=tasks,
            record=record,
        )
        self._checkpoints = CheckpointFiles(self.site.state / "checkpoints")
        self._supervisor = self._make_supervisor(post)
        self._mail = MailReader(self._spool)
        self._handlers: dict[str, Handler] = {
            identity("system"): SystemHandler(self._describe),
            identity(MONITOR): queue_monitor,
        }
        self._offered = Offered(
            services=self._services,
            live=config,
            site=self.site,
            files=self._mail,
            send=self._send,
            checkpoints=self._checkpoints,
            keeper=self._supervisor,
            is_stopped=self._was_stopped,
            environment=environment(self.site),
            handlers=self._handlers,
        )
        self._makers = Makers(self._offered)
        self._checkpoint_cleanup = CheckpointCleanup(store=self._checkpoints, deliveries=self._engine.state.deliveries)
        ended = self._checkpoint_cleanup.ended
        self._team = Team(
            config=config,
            site=self.site,
            makers=self._makers,
            post=post,
            keeper=self._supervisor,
            tasks=tasks,
            work_ended=ended,
        )
        self._runner = EffectRunner(
            spool=self._spool,
            flusher=self._flusher,
            services=replace(self._services, clock=self._pump),
            journal=self._recorder.journal,
            wake=self._pump.wake,
            team=self._team,
            ring=self._notifier.ring,
            look=lambda place: self._intake.look(place),  # noqa: PLW0108 - the intake is made later
            is_wanted=self._engine.is_wanted,
            renamed=lambda source, target: self._watching.own_move(source, target),  # noqa: PLW0108 - as above
        )

    def _make_supervisor(self, post: Post) -> Supervisor:
        return Supervisor(
            tasks=self._services.tasks, post=post, record=self._recorder.record, rng=self.rng, config=self._config
        )

    def _make_receipts(self) -> None:
        state, called = self._engine.state, self._team.called
        dead_letters = DeadLetters(
            spool=self._spool,
            deliveries=state.deliveries,
            called=called,
            post=self._pump.post,
            config=self._config,
        )
        self._requests = AgentRequests(
            spool=self._spool,
            deliveries=state.deliveries,
            services=self._services,
            called=called,
            pauses=Pauses(self.site.state),
            supervisor=self._supervisor,
            shown=self._shown,
        )
        self._make_reloads()
        self._receipts = Receipts(
            spool=self._spool,
            deliveries=state.deliveries,
            services=self._services,
            config=self._config,
            called=called,
            dead_letters=dead_letters,
            dead_letter_requests=DeadLetterRequests(
                spool=self._spool, services=self._services, dead_letters=dead_letters, purged=state.totals.purged
            ),
            agent_requests=self._requests,
            snapshots=SnapshotRequests(
                root=self.site.root, spool=self._spool, services=self._services, commit=self._recorder.commit
            ),
            reload_requests=self._reloads,
            checkpoints=CheckpointReceipts(spool=self._spool, kept=self._checkpoints, services=self._services),
        )
        self._signals.subscribe(MessageMet, self._receipts.was_met)

    def _make_reloads(self) -> None:
        self._reloads = Reloads(
            site=self.site,
            config=self._config,
            services=self._services,
            spool=self._spool,
            state=self._engine.state,
            team=self._team,
            makers=self._makers,
            admit=lambda box: self._intake.meet_box(box),  # noqa: PLW0108 - the intake is made later
            shown=self._shown,
            begins=self.service.reloading,
            ended=self._tell_ready,
            swap=self._take_config,
        )

    def _make_intake(self) -> None:
        state, called = self._engine.state, self._team.called
        copies = Copies(
            root=self.site.root,
            logs=self.site.logs,
            spool=self._spool,
            state=state,
            services=self._services,
            called=called,
            config=self._config,
            put=self._runner.put,
        )
        groups = Groups(config=self._config, spool=self._spool, copies=copies, since=self.clock.now().wall)
        self._team.own_endpoints.append(groups.endpoint)
        self._intake = Intake(
            spool=self._spool,
            deliveries=state.deliveries,
            services=self._services,
            config=self._config,
            agent_of=self._join,
            receipts=self._receipts,
            alarm=lambda: self._upkeep.keep_lock(),  # noqa: PLW0108 - the upkeep is made later
            read_cache=self._mail.cache,
            first_start=self._begun.first_start,
            copies=copies,
        )
        self._watching = SpoolWatch(
            site=self.site,
            config=self._config,
            intake=self._intake,
            services=self._services,
            fail=self._fail,
            begins=self._pump.hold,
            through=self._pump.come_round,
        )

    def _make_upkeep(self, tasks: TaskGroup) -> None:
        def tell_of_shortage(found: Shortage) -> None:
            tasks.start_soon(self._tell_of_shortage, found, name="hardly any room")

        self._upkeep = Upkeep(
            config=self._config,
            spool=self._spool,
            lock=self._lock,
            clock=self.clock,
            recorder=self._recorder,
            intake=self._intake,
            fail=self._fail,
            tell_of_shortage=tell_of_shortage,
        )
        self._log_upkeep = LogUpkeep(
            config=self._config,
            recorder=self._recorder,
            deliveries=self._engine.state.deliveries,
            spool=self._spool,
            clock=self.clock,
            logs_dir=self.site.logs,
            shown_in=lambda: self._gateways.log_directory(),  # noqa: PLW0108 - the gateways are made later
            counted=lambda: self._saved_totals.counted_log,
        )
        self._pump.overslept = self._upkeep.look_round
        self._page = StatusPage(
            self.site.run / "status.json",
            self.clock,
            self._status_page,
            told=self._tell_status,
        )
        self._liveness_poll = LivenessPoll(
            deliveries=self._engine.state.deliveries, inhabited=self._team.inhabited, post=self._pump.post
        )

    def _make_gateways(self) -> None:
        site = self.site
        services = GatewayServices(
            clock=self.clock,
            record=self._recorder.record,
            mail=self._send,
            post=self._pump.post,
            called=self._team.called,
            base=site.base,
            root=site.root,
            state=site.state / "gateways",
            live=self._config,
            durable=site.fsync,
            written=self._recorder.written,
            emit=self._signals.emit,
        )
        context = GatewayContext(
            live=self._config,
            site=site,
            services=services,
            spool=self._spool,
            offered=self._offered,
            new_supervisor=self._make_supervisor,
            handlers=self._handlers,
            endpoint_makers=self._team.own_endpoints,
            box=self._team.box,
            admit=self._intake.meet_box,
            escalate=self._escalate,
        )
        self._gateways = Gateways(
            gateways=make_gateways(context),
            config=self._config,
            recorder=self._recorder,
            signals=self._signals,
            mode=lambda: self._watching.mode,
        )

    # --- starting -----------------------------------------------------------------------------------------------------
    async def _start(self, tasks: TaskGroup) -> None:
        lost = self._lost_boxes()
        self._gateways.prepare()
        left_behind = await self._makers.clear()
        shared = (*self.config.groups, *self.config.pools)
        agents = (*self.config.agents, *ALWAYS, *self.config.agents_brought, *shared)
        for name in agents:
            self._team.join(name)  # BadConfig, before anything is written
        self._recorder.open(self.site.logs, self._gateways.log_directory())
        self._log_upkeep.attach()
        boxes = self.site.boxes_by_agent()
        for name in agents:
            known = boxes.get(identity(name), [])
            self._intake.meet_box(name if name in known or not known else known[0])
        tasks.start_soon(self._hear_signals, name="signals")  # early: a stop during recovery is a clean stop, too
        while not self._pump.idle():  # one turn is bounded and may not announce the whole team
            self._pump.turn()
        self._saved_totals.load()
        await self._upkeep.look_for_room(self._pump.post)
        await self._recover(tasks, lost, left_behind)
        gc.freeze()  # objects made so far live as long as the daemon: the collector need not look at them again
        gc.set_threshold(20_000, 20, 20)
        gc.enable()  # `ackd run` starts without it
        tasks.start_soon(self._pump.run, name="pump")
        tasks.start_soon(self._upkeep.sweep, name="sweep")
        tasks.start_soon(self._saved_totals.keep_counting, name="totals")
        tasks.start_soon(self._upkeep.see_faults_end, self._pump, name="faults")
        tasks.start_soon(self._upkeep.keep_room, self._pump.post, name="room")
        tasks.start_soon(self._page.run, self._pump.turned, name="status page")
        tasks.start_soon(self._liveness_poll.run, name="liveness poll")
        self._gateways.start(tasks)
        self._reloads.begin()
        self._up.set()
        await self._shown()
        self._is_ready = True
        self._tell_status(self._status_page())
        tasks.start_soon(self._reloads.watch, name="watch of the config")
        if self.service.watchdog_s is not None:
            tasks.start_soon(self._upkeep.watchdog, self.service, self._pump, self._watching, name="watchdog")

    def _tell_ready(self) -> None:
        self.service.ready(self._status_line(self._status_page()))

    def _lost_boxes(self) -> frozenset[str]:
        """List queue directories that were removed or replaced since the last session.

        Must be called before any directory is made anew. A directory that cannot be looked at is not lost.
        """
        lost = set()
        for box, then in self._saved_totals.boxes().items():
            with contextlib.suppress(OSError):
                if marks(self._spool.births(box)) != then:
                    lost.add(box)
        return frozenset(lost)

    async def _recover(self, tasks: TaskGroup, lost: frozenset[str], left_behind: list[str]) -> None:
        journal = self._recorder.journal
        state = journal.load(self.clock.now().wall, self.config.delivery.dedup_window_s)
        runs = self._makers.found_runs()
        record = self._recorder.record
        missing = MissingMessages(
            spool=self._spool,
            engine=self._engine,
            services=self._services,
            journal=journal,
            logs_dir=self.site.logs,
            own_log=self._recorder.log.path,
            box=self._team.box,
            lost_boxes=lost,
        )
        self._signals.subscribe(MessageMet, missing.was_met)
        self._signals.subscribe(MessageEnded, missing.was_met)
        recovery = Recovery(
            spool=self._spool,
            engine=self._engine,
            pump=self._pump,
            intake=self._intake,
            journal=journal,
            services=self._services,
            adopt=self._team.adopt,
            missing=missing,
            backlog=self._backlog,
            progress=self.service.progress,
        )
        self._first_line(recovery.count(state, runs))
        for agent in left_behind:
            record(child_ended(agent=agent, why="left behind by a daemon that was killed"))
        self._requests.load()
        if self._restored is not None and not self._requests.unknown:
            with self._recorder.reporting("the pauses of a restored root"):
                self._pause_restored(self._restored)
        for name in self._engine.state.agents:
            self._requests.joined(name)
        if self._requests.unknown:
            tasks.start_soon(self._escalate, self._pauses_unknown(self._requests.unknown), name="who is paused")
        with self._recorder.reporting("journal"):
            journal.compact(state)
        self._signals.subscribe(MessageMet, recovery.was_met)
        self._intake.hold()  # until recovery has met the messages in hand
        await self._watching.begin()
        # Nothing that comes from now on is missed. What waits already may be long, and nobody has to wait for it.
        self.service.ready(f"watching ({self._watching.mode}), and reading what waits")
        await recovery.recover(state, runs)
        tasks.start_soon(self._catch_up, tasks, recovery, missing, name="backlog")

    def _pause_restored(self, mark: Restored) -> None:
        """Pause every agent of a root that was restored from a backup: the root that it was taken of may still be
        served, and no message must be worked on twice without a person's word. The mark is changed last, so that a
        start that was interrupted does it again."""
        shared = {identity(name) for name in (*self.config.groups, *self.config.pools)}
        agents = [name for name in self._engine.state.agents if identity(name) not in shared]
        self._requests.pause_all(agents, RESTORED)
        restored.save(self.site.state, mark._replace(done=True))

    def _pauses_unknown(self, why: str) -> Draft:
        """Draft the escalation to a person. Its id allows one an hour, however often the daemon is started."""
        wall = self.clock.now().wall
        shared = len(self.config.groups) + len(self.config.pools)
        count = len(self._engine.state.agents) - len(ALWAYS) - shared
        what = f"{why}. all {count} agents are paused, and their mail waits"
        action = "`ackd agent resume NAME` for each that is to go on; or mend or remove the file, and start ackd again"
        ident = derived_id("pauses_unknown", int(wall) // 3600)
        return escalation(ident, USER, MONITOR, "pauses_unknown", what, action, None, wall)

    async def _catch_up(self, tasks: TaskGroup, recovery: Recovery, missing: MissingMessages) -> None:
        """Read the backlog and the old logs while deliveries go on, because both may be long.

        Periodic scans begin only after the backlog, because a scan would meet the files that are still to be read.
        """
        await recovery.read_backlog()
        gc.freeze()
        tasks.start_soon(self._upkeep.reconcile, name="reconcile")
        with self._recorder.reporting("checkpoints"):
            await self._checkpoint_cleanup.clear(recovery.unread_ids)
        with self._recorder.reporting("the logs of the sessions before"):
            await missing.fill_in()
            self._log_upkeep.all_met = missing.has_read_all and not recovery.unread_ids
        tasks.start_soon(self._log_upkeep.run, name="logs")  # nothing is removed that the start has still to read

    def _first_line(self, recovered: dict[str, int]) -> None:
        self._recorder.record(
            session_start(
                version=__version__,
                pid=os.getpid(),
                root=str(self.site.root),
                config_hash=self._fingerprint,
                recovered=recovered,
                restored=self._restored.words if self._restored is not None else None,
            )
        )
        if self._begun.refused is not None:
            self._recorder.record(io_error(what="write state/version", error=str(self._begun.refused)))
        self._recorder.log.flush()

    # --- stopping -----------------------------------------------------------------------------------------------------
    async def _hear_signals(self) -> None:
        heard = [*ENDING, RESTARTING]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # SIGHUP is ignored under nohup, and stays so
            heard.append(signal.SIGHUP)
        nothing = [number for number in MEANINGLESS if signal.getsignal(number) is signal.SIG_DFL]
        said: set[signal.Signals] = set()
        with anyio.open_signal_receiver(*heard, *nothing) as signals:
            async for number in signals:
                if number is signal.SIGHUP and not self._has_hung_up():
                    self._reloads.ask("SIGHUP")
                    continue
                if number in nothing:
                    if number not in said:
                        said.add(number)
                        self._recorder.record(signal_ignored(signal=number.name))
                    continue
                if self._stop_asked.is_set():
                    self._leave_at_once(number)
                self._reason, self._leaves = number.name, number is RESTARTING
                self._stop_asked.set()

    def _has_hung_up(self) -> bool:
        """Say whether SIGHUP means that the terminal has gone, and not that the config is to be read again."""
        return self.in_terminal and not has_terminal()

    def _leave_at_once(self, number: signal.Signals) -> None:
        """End the process, and leave running commands to the next start.

        Nothing here may delay the end, neither an error of the disk nor one of the terminal that shows our output.
        """
        with contextlib.suppress(Exception):
            self._team.abandon()
            self._commit()
            self._do_deferred()
        os._exit(128 + number)

    def _fail(self, why: str) -> None:
        self._failure = why
        self._stop_asked.set()

    async def _drain(self) -> None:
        self.service.stopping()
        self._pump.post(StopRequested())
        drain_s = self._config.now.daemon.drain_timeout_s
        at_stop = self._team.at_stop(leaves=self._leaves)
        if (drain_s and at_stop.waited_for) or at_stop.left:
            self._recorder.record(
                session_stopping(
                    agents=at_stop.waited_for,
                    seconds=drain_s,
                    asked=(drain_s and at_stop.asked) or None,
                    left=at_stop.left or None,
                )
            )
        async with anyio.create_task_group() as ending:
            for endpoint in self._team.endpoints():
                ending.start_soon(endpoint.leave if self._leaves else endpoint.stop, drain_s)
        await self._supervisor.shutdown()
        with anyio.move_on_after(LAST_WORDS_S):
            await self._runner.settled(self._pump.idle)
            await self._notifier.stop(LAST_WORDS_S)

    async def _close(self) -> None:
        totals: Any = self._describe()["totals"]
        self._log_upkeep.detach()
        self._recorder.record(session_end(reason=self._failure or self._reason, totals=totals))
        self._commit()
        self._do_deferred()
        self._page.write()
        if self._recorder.log.failing is None:  # else the next start counts from the lines that the log could take
            with self._recorder.reporting("totals"):
                self._saved_totals.save()
        self._recorder.close()
        await self._flusher.aclose()

    # --- callbacks of the parts ---------------------------------------------------------------------------------------
    def _carry_out(self, effects: list[Effect]) -> None:
        self._runner.carry_out(effects)

    def _claim(self) -> None:
        self._runner.claim_gathered()

    def _commit(self) -> None:
        """End a turn: its lines reach the kernel now, and work that can wait follows in a later callback."""
        self._recorder.commit()
        asyncio.get_running_loop().call_soon(self._do_deferred)

    def _do_deferred(self) -> None:
        """Do the work that can wait until the turn's answers have been sent."""
        self._runner.flush_gathered()
        if self._recorder.has_news:
            self._recorder.show()
        self._saved_totals.note_changes()
        self._saved_totals.note_boxes(self._intake.boxes, self._intake.box_changes)

    async def _send(self, draft: Draft) -> None:
        """Send a handler's message. Raises UnknownAgent instead of making a queue directory for an unknown name."""
        if self._team.called(draft.recipient) is None:
            raise UnknownAgent(draft.recipient)
        await self._runner.send(draft)

    async def _escalate(self, draft: Draft) -> None:
        """Escalate for a part outside the engine: write the message durably, log it, and call a person."""
        await self._send(draft)
        body = draft.body
        self._recorder.record(
            message_facts.escalation(
                agent=str(body["agent"]),
                cause=str(body["cause"]),
                to=draft.recipient,
                counted=1,
                escalation_id=draft.message_id,
            )
        )
        self._notifier.ring(draft.message_id, ignite.encode_draft(draft, self.clock.now().wall))

    async def _tell_of_shortage(self, found: Shortage) -> None:
        """Tell a person, who alone can make room: also if the message itself finds none."""
        wall = self.clock.now().wall
        what = f"{words_of_shortage(found)}. No message is taken up; what is in hand goes on"
        action = "make room on that file system (df -h, df -i); everything that waits then goes on by itself"
        ident = derived_id("room_low", int(wall), found.where)
        draft = escalation(ident, USER, MONITOR, "room_low", what, action, None, wall)
        told = False
        with self._recorder.reporting("escalation of a disk that is nearly full"):
            await self._escalate(draft)
            told = True
        if not told:
            self._notifier.ring(draft.message_id, ignite.encode_draft(draft, wall))

    def _join(self, name: str) -> str:
        agent = self._team.join(name)
        self._requests.joined(agent)
        return agent

    def _was_stopped(self, agent: str) -> bool:
        """Tell whether a person stopped the agent before this start. If that cannot be read, assume so. On a root that
        was restored from a backup nothing is started: the original may still run.

        There is no log yet to report the error to. `_recover` reads the file again, and reports it.
        """
        if self._restored is not None:
            return True
        pauses = Pauses(self.site.state)
        try:
            pauses.load()
        except (OSError, BadPauses):
            return True
        return pauses.is_stopped(agent)

    async def _shown(self) -> None:
        """Return when the status page shows everything decided so far. A person's request is answered after that.

        The first page is not written before the daemon is up.
        """
        await self._up.wait()
        await self._pump.heard()
        self._page.write()

    def _escalations_with(self, agent: str) -> Iterator[bytes]:
        """Yield the header blocks of the escalations that lie with an agent; of a group or pool, those with its members
        as well."""
        for name in dict.fromkeys((agent, *alerts.readers(self._engine.state, agent))):
            yield from self._spool.heads(self._team.box(name), "escalation_")

    def _describe(self) -> dict[str, object]:
        return describe(self._engine, self._backlog.by_agent(self._team.join))

    def _tell_status(self, page: dict[str, object]) -> None:
        if self._is_ready:
            self.service.status(self._status_line(page))

    def _status_line(self, page: dict[str, object]) -> str:
        config = self._config.now
        return status_line(page, {*config.groups, *config.pools, *ALWAYS})

    def _take_config(self, config: Config, fingerprint: str) -> None:
        """Put a config in force."""
        self._config.swap(config)
        self._fingerprint = fingerprint
        self._watching.config_changed()

    def _shortage(self) -> list[dict[str, object]]:
        """Return the entry of the status page for a disk that is nearly full."""
        if self._upkeep.short_of is None:
            return []
        found, since = self._upkeep.short_of
        waiting = sum(one.state is State.QUEUED for one in self._engine.state.deliveries)
        what = f"no message is taken up; {waiting} waiting go on by themselves when there is room"
        return [{"error": words_of_shortage(found), "what": what, "since": stamp(since)}]

    def _status_page(self) -> dict[str, object]:
        log, watch = self._recorder.log, self._watching.mode
        told = {"file": log.path.name, "bytes": log.size_bytes()}
        daemon = {"pid": os.getpid(), "session_id": log.session_id, "version": __version__, "watch": watch, "log": told}
        daemon |= {"config_hash": self._fingerprint, "config": self._reloads.page()}
        faults = [*self._recorder.faults.page(), *self._shortage()]
        return {"daemon": daemon, "faults": faults, **self._describe(), **self._gateways.page()}


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the group's first error. The others mostly follow from it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
