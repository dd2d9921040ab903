"""The composition root: everything is made here, started in order, and ended in order.

Start: lock, layout, log, watch (first, so that nothing falls between), recover (the scan), ready. Stop: claim nothing
more, let what runs finish for ``drain_timeout_s``, end the rest (offered again, uncounted), last lines, unlock. A
second signal leaves at once; the journal without its last word makes the next start treat it as a crash.

Fails with ``RootHeld``, with ``NewerState``, with ``BadConfig`` (a handler that is not installed), with ``CannotGoOn``
after a stop of its own; a bug ends it at once, with its own exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd import __version__, state_version
from ackd.adapters import atomic_file, exec_runs, root_lock
from ackd.adapters.checkpoints import Checkpoints
from ackd.adapters.clock import SystemClock
from ackd.adapters.group_flush import DeviceFlusher, NoFlusher
from ackd.adapters.journal import Journal
from ackd.adapters.notifier import Notifier
from ackd.adapters.spool import Spool
from ackd.adapters.systemd import ServiceManager
from ackd.core.engine import Engine
from ackd.core.errors import Busy, UnknownAgent
from ackd.core.escalations import derived_id, escalation
from ackd.core.events import StopRequested
from ackd.core.message import MONITOR, USER
from ackd.core.stage_words import LEAD
from ackd.core.words import accepted_types
from ackd.dialects import ignite
from ackd.runtime import gateways
from ackd.runtime.aftermath import MET, Aftermath
from ackd.runtime.agent_requests import AgentRequests
from ackd.runtime.backlog import Backlog
from ackd.runtime.checkpoint_receipts import CheckpointReceipts
from ackd.runtime.chronicle import Chronicle
from ackd.runtime.copies import Copies
from ackd.runtime.effect_runner import EffectRunner
from ackd.runtime.intake import Intake
from ackd.runtime.kept_work import KeptWork
from ackd.runtime.letterbox import Letterbox
from ackd.runtime.lookout import Lookout
from ackd.runtime.memory import Memory, marks
from ackd.runtime.operator import Operator
from ackd.runtime.pauses import BadPauses, Pauses
from ackd.runtime.pulses import Pulses
from ackd.runtime.pump import Pump
from ackd.runtime.quarters import Quarters
from ackd.runtime.recovery import Recovery
from ackd.runtime.status_page import StatusPage, describe
from ackd.runtime.team import Team, command_environment, environment
from ackd.runtime.upkeep import Upkeep
from ackd.site import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anyio.abc import TaskGroup

    from ackd.config import Config
    from ackd.core.effects import Effect
    from ackd.core.message import Draft, Message, Place, Receipt
    from ackd.ports import Clock, View
    from ackd.site import Site

#: A stop, and never an end without a last word: asked for, or because the power or the allowed CPU time runs out.
ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGPWR, signal.SIGXCPU)
#: They would end us by default, and mean nothing here: each is written down once. Handled and not ignored, for what is
#: ignored is inherited by every command that we start. (Python itself ignores SIGPIPE and SIGXFSZ.)
MEANINGLESS: Final = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGSTKFLT,
)
#: How long the last lines may take after everything has stopped.
LAST_WORDS_S: Final = 5.0


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
    view: View
    clock: Clock = field(default_factory=SystemClock)
    service: ServiceManager = field(default_factory=ServiceManager)
    rng: random.Random = field(default_factory=random.Random)  # for jitter, not for secrets

    async def serve(self) -> None:
        """Runs until a signal. ``RootHeld`` if another daemon serves this root."""
        self._lock = root_lock.hold(self.site.run)
        try:
            state_version.require(self.site.state)  # before anything is made or changed
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
            try:
                await self._start(tasks)
                await self._stop_asked.wait()
                await self._drain()
            finally:
                self._gateways.close()
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
        self._begun = state_version.begin(site.state, self.clock.now().wall, atomic_file.put_durably)
        self._backlog = Backlog(self._spool)
        self._engine = Engine(config.engine_policy(), self.rng)
        self._pump = Pump(self._engine, self.clock, self._carry_out, self._claim, self._commit)
        journal = Journal.open(site.state / "journal.ndjson")
        journal.root_is_ours = self._lock.still_ours
        self._chronicle = Chronicle(journal, self._pump, self.view, self._pump.wake)
        self._flusher: DeviceFlusher | NoFlusher = DeviceFlusher() if durable else NoFlusher()
        self._memory = Memory(site.state, self._engine, site.logs, self._escalations_with, self._chronicle.record)
        self._up, self._stop_asked, self._reason, self._failure = anyio.Event(), anyio.Event(), "", ""
        self._make_team(tasks)
        self._make_doors(tasks)

    def _make_team(self, tasks: TaskGroup) -> None:
        config, record, post = self.config, self._chronicle.record, self._pump.post
        surroundings = command_environment(self.site)
        self._notifier = Notifier(config.on_escalation, str(config.base_dir), surroundings, tasks, record)
        self._checkpoints = Checkpoints(self.site.state / "checkpoints")
        self._quarters = Quarters(
            config=config,
            site=self.site,
            tasks=tasks,
            post=post,
            record=record,
            clock=self.clock,
            rng=self.rng,
            kept=self._checkpoints,
            resolve=self._spool.path,
            read=self._body,
            environment=environment(self.site),
            is_stopped=self._was_stopped,
        )
        self._kept_work = KeptWork(self._checkpoints, self._engine.desk.book)
        around = (self._send, self._describe, self._quarters, self._kept_work.ended)
        self._team = Team(config, self.site, self._spool, tasks, post, record, *around)
        self._runner = EffectRunner(
            spool=self._spool,
            flusher=self._flusher,
            record=record,
            journal=self._chronicle.journal,
            clock=self._pump,
            post=post,
            wake=self._pump.wake,
            tasks=tasks,
            team=self._team,
            ring=self._notifier.ring,
            look=lambda place: self._intake.look(place),  # noqa: PLW0108 - it is made later
            is_wanted=self._engine.is_wanted,
            renamed=self._renamed,
        )

    def _make_doors(self, tasks: TaskGroup) -> None:
        config, record, desk = self.config, self._chronicle.record, self._engine.desk
        graves = (self._dig_up, desk.totals.purged, self._letters_of)
        self._operator = Operator(self._spool, self._pump.post, record, *graves)
        common = (self._spool, desk.book, self.clock, self._pump.post, tasks)
        said = CheckpointReceipts(self._spool, self._checkpoints, self._pump.post, tasks, record)
        lives = self._quarters.supervisor
        kept = (Pauses(self.site.state), lives, self._shown)
        self._requests = AgentRequests(*common, self._team.called, record, *kept)
        settle_s, extra_types = config.watch.settle_s, accepted_types(config.extra_types, config.unknown_types)
        asked = (self._operator.operate, self._requests, said)
        self._letterbox = Letterbox(*common, settle_s, extra_types, self._team.called, record, *asked)
        self._chronicle.listeners.setdefault("message_queued", []).append(self._letterbox.was_met)
        around = (self._join, record, self._letterbox, self._keep_lock, self._team.fresh)
        self._intake = Intake(*common, settle_s, extra_types, *around, first_start=self._begun.first_start)
        kept_in = (self.site.root, self.site.logs, self._spool, desk, self.clock)
        self._intake.copies = Copies(*kept_in, self._team.called, self._runner.put, record)
        watched = (self._pump.hold, self._pump.come_round)
        self._lookout = Lookout(self.site, config.watch, self._intake, tasks, record, self._fail, *watched)
        self._upkeep = Upkeep(config, self._spool, self._lock, self.clock, self._chronicle, self._intake, self._fail)
        self._pump.overslept = self._upkeep.look_round
        self._page = StatusPage(self.site.run / "status.json", self.clock, self._status_page)
        self._pulses = Pulses(desk.book, self._team.inhabited, self._pump.post)
        self._make_gateways(tasks)

    def _make_gateways(self, tasks: TaskGroup) -> None:
        site, settle_s = self.site, self.config.watch.settle_s
        inside = (self.clock, self._chronicle.record, self._send, self._pump.post, self._team.called)
        where = (site.base, site.root, site.state / "gateways")
        around = gateways.Around(*inside, *where, settle_s, durable=site.fsync, written=self._chronicle.written)
        made = gateways.made(self.config, around)
        if self.config.pipeline is not None:
            made.append(self._make_lead(tasks, around))
        self._gateways = gateways.Gateways(made, self.config.watch, self._chronicle, lambda: self._lookout.mode)

    def _make_lead(self, tasks: TaskGroup, around: gateways.Around) -> gateways.Gateway:
        """The pipeline's lead, its workers, and their places in the team."""
        from ackd.adapters.story_files import StoryFiles  # noqa: PLC0415 - a team without stories need not wait for it
        from ackd.runtime import pipeline  # noqa: PLC0415

        self._stories = files = StoryFiles(self.site.state / "stories", durable=self.site.fsync)
        workers = pipeline.StageWorkers(
            config=self.config,
            site=self.site,
            files=files,
            tasks=tasks,
            post=self._pump.post,
            record=self._chronicle.record,
            clock=self.clock,
            rng=self.rng,
            kept=self._checkpoints,
            resolve=self._spool.path,
            read=self._body,
            environment=environment(self.site),
        )
        return pipeline.made(
            team=self._team,
            around=around,
            workers=workers,
            tasks=tasks,
            post=self._pump.post,
            admit=self._intake.meet_box,
            escalate=self._escalate,
        )

    # --- starting ---------------------------------------------------------------------------------------------------
    async def _start(self, tasks: TaskGroup) -> None:
        lost = self._lost_boxes()
        if self.config.pipeline is not None:
            from ackd.runtime.pipeline import clear_boxes  # noqa: PLC0415

            clear_boxes(self.site.queue, self.site.boxes(), self._stories, self.config.pipeline.id_pattern)
        left_behind = await self._quarters.clear()
        agents = (*self.config.agents, *ALWAYS, *((LEAD,) if self.config.pipeline is not None else ()))
        for name in agents:
            self._team.join(name)  # BadConfig, before anything is written
        ensemble = self.config.ensemble
        shown_in = self.config.base_dir / ensemble.log_dir if ensemble is not None and ensemble.log_dir else None
        self._chronicle.open(self.site.logs, shown_in)
        for name in agents:
            self._intake.meet_box(self._team.box(name))
        tasks.start_soon(self._signals, name="signals")  # early: who stops us while we recover means a clean stop
        while not self._pump.idle():  # all who are in the team, for a turn is bounded
            self._pump.turn()
        self._memory.load()
        await self._recover(tasks, lost, left_behind)
        gc.freeze()  # what was made so far stays: the collector need not look at it again and again
        gc.set_threshold(20_000, 20, 20)
        tasks.start_soon(self._pump.run, name="pump")
        tasks.start_soon(self._upkeep.sweep, name="sweep")
        tasks.start_soon(self._memory.keep_counting, name="totals")
        tasks.start_soon(self._upkeep.see_faults_end, self._pump, name="faults")
        tasks.start_soon(self._page.run, self._pump.turned, name="status page")
        tasks.start_soon(self._pulses.run, name="pulses")
        self._gateways.start(tasks)
        self._up.set()
        await self._shown()
        self.service.ready(f"watching {len(self._intake.boxes)} queues ({self._lookout.mode})")
        if self.service.watchdog_s is not None:
            tasks.start_soon(self._upkeep.watchdog, self.service, self._pump, self._lookout, name="watchdog")

    def _lost_boxes(self) -> frozenset[str]:
        """Asked before any directory is made anew. One that cannot be looked at is not lost."""
        lost = set()
        for box, then in self._memory.boxes().items():
            with contextlib.suppress(OSError):
                if marks(self._spool.births(box)) != then:
                    lost.add(box)
        return frozenset(lost)

    async def _recover(self, tasks: TaskGroup, lost: frozenset[str], left_behind: list[str]) -> None:
        journal = self._chronicle.journal
        state = journal.load(self.clock.now().wall, self.config.delivery.dedup_window_s)
        runs = exec_runs.scan_runs(self.site.state / "runs")
        record = self._chronicle.record
        common = (self._spool, self._engine)
        aftermath = Aftermath(*common, self._pump.post, journal, self.clock, self.site.logs, record, lost)
        for type_ in MET:
            self._chronicle.listeners.setdefault(type_, []).append(aftermath.heard)
        recovery = Recovery(
            *common,
            self._pump,
            self._intake,
            journal,
            self.clock,
            record,
            self._team.adopt,
            aftermath,
            self._backlog,
        )
        self._first_line(recovery.count(state, runs))
        for agent in left_behind:
            record("child_ended", {"agent": agent, "why": "left behind by a daemon that was killed"})
        self._requests.load()
        for name in self._engine.desk.book.agents:
            self._requests.joined(name)
        if self._requests.unknown:
            tasks.start_soon(self._escalate, self._pauses_unknown(self._requests.unknown), name="who is paused")
        with self._chronicle.reporting("journal"):
            journal.compact(state)
        self._chronicle.listeners.setdefault("message_queued", []).append(recovery.was_met)
        self._intake.hold()  # until recovery is through with what is in hand
        await self._lookout.begin()
        await recovery.recover(state, runs)
        tasks.start_soon(self._catch_up, tasks, recovery, aftermath, name="backlog")

    def _pauses_unknown(self, why: str) -> Draft:
        """To a person, once an hour at most, however often we are started."""
        wall = self.clock.now().wall
        count = len(self._engine.desk.book.agents) - len(ALWAYS)
        what = f"{why}. {count} of {count} agents (100%) are paused, and their mail waits"
        action = "`ackd agent resume NAME` for each that is to go on; or mend or remove the file, and start ackd again"
        ident = derived_id("pauses_unknown", int(wall) // 3600)
        return escalation(ident, USER, MONITOR, "pauses_unknown", what, action, None, wall)

    async def _catch_up(self, tasks: TaskGroup, recovery: Recovery, aftermath: Aftermath) -> None:
        """Beside the deliveries, for a queue and a log may be long. The scan would meet what is still to be read."""
        await recovery.read_backlog()
        gc.freeze()
        tasks.start_soon(self._upkeep.reconcile, name="reconcile")
        with self._chronicle.reporting("checkpoints"):
            await self._kept_work.clear(recovery.unread_ids)
        with self._chronicle.reporting("the logs of the sessions before"):
            await aftermath.fill_in()

    def _first_line(self, recovered: dict[str, int]) -> None:
        data: dict[str, object] = {"version": __version__, "pid": os.getpid(), "root": str(self.site.root)}
        found = {"config_hash": self.config.fingerprint(), "recovered": recovered}
        self._chronicle.record("session_start", {**data, **found})
        if self._begun.refused is not None:
            self._chronicle.record("io_error", {"what": "write state/version", "error": str(self._begun.refused)})
        self._chronicle.log.flush()

    # --- stopping ---------------------------------------------------------------------------------------------------
    async def _signals(self) -> None:
        ends = list(ENDING)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup: the terminal was closed
            ends.append(signal.SIGHUP)
        nothing = [number for number in MEANINGLESS if signal.getsignal(number) is signal.SIG_DFL]
        said: set[signal.Signals] = set()
        with anyio.open_signal_receiver(*ends, *nothing) as signals:
            async for number in signals:
                if number in nothing:
                    if number not in said:
                        said.add(number)
                        self._chronicle.record("signal_ignored", {"signal": number.name})
                    continue
                if self._stop_asked.is_set():
                    self._leave_at_once(number)
                self._reason = number.name
                self._stop_asked.set()

    def _leave_at_once(self, number: signal.Signals) -> None:
        """What runs is left to the next start. Nothing here may keep us: not the disk, not who reads our output."""
        with contextlib.suppress(Exception):
            self._team.abandon()
            self._commit()
            self._afterwards()
        os._exit(128 + number)

    def _fail(self, why: str) -> None:
        self._failure = why
        self._stop_asked.set()

    async def _drain(self) -> None:
        self.service.stopping()
        self._pump.post(StopRequested())
        async with anyio.create_task_group() as ending:
            for endpoint in self._team.endpoints():
                ending.start_soon(endpoint.stop, self.config.daemon.drain_timeout_s)
        await self._quarters.supervisor.shutdown()
        with anyio.move_on_after(LAST_WORDS_S):
            await self._runner.settled(self._pump.idle)
            await self._notifier.stop(LAST_WORDS_S)

    async def _close(self) -> None:
        reason, totals = self._failure or self._reason, self._describe()["totals"]
        self._chronicle.record("session_end", {"reason": reason, "totals": totals})
        self._commit()
        self._afterwards()
        self._page.write()
        if (
            self._chronicle.log.failing is None
        ):  # else the next start counts by what the log could take, and the journal
            with self._chronicle.reporting("totals"):
                self._memory.save()
        self._chronicle.close()
        await self._flusher.aclose()

    # --- what the parts call ------------------------------------------------------------------------------------------
    def _carry_out(self, effects: list[Effect]) -> None:
        self._runner.carry_out(effects)

    def _renamed(self, source: Place, target: Place) -> None:
        self._lookout.own_move(source, target)

    def _claim(self) -> None:
        self._runner.claim_gathered()

    def _commit(self) -> None:
        """The end of a turn."""
        self._chronicle.commit()
        asyncio.get_running_loop().call_soon(self._afterwards)

    def _afterwards(self) -> None:
        """What nobody waits for who was told in this turn."""
        self._runner.flush_gathered()
        if self._chronicle.has_news:
            self._chronicle.show()
        self._memory.note_changes()
        self._memory.note_boxes(self._intake.boxes)

    async def _send(self, draft: Draft) -> None:
        """For handlers. A name that nobody has is theirs to hear of, not ours to make a directory for."""
        if self._team.called(draft.recipient) is None:
            raise UnknownAgent(draft.recipient)
        await self._runner.send(draft)

    async def _escalate(self, draft: Draft) -> None:
        """Of parts that escalate by themselves: durable, written down, and a person is called."""
        await self._send(draft)
        body = draft.body
        facts = {"agent": body["agent"], "cause": body["cause"], "to": draft.recipient, "counted": 1}
        self._chronicle.record("escalation", {**facts, "escalation_id": draft.message_id})
        self._notifier.ring(draft.message_id, ignite.encode_draft(draft, self.clock.now().wall))

    def _join(self, name: str) -> str:
        agent = self._team.join(name)
        self._requests.joined(agent)
        return agent

    def _was_stopped(self, agent: str) -> bool:
        """Asked before there is a log to say it to if that cannot be known; `_recover` does, and nobody is started."""
        pauses = Pauses(self.site.state)
        try:
            pauses.load()
        except (OSError, BadPauses):
            return True
        return pauses.is_stopped(agent)

    async def _shown(self) -> None:
        """Whoever is answered finds it on the page, whenever he looks. The first one is of a daemon that is up."""
        await self._up.wait()
        await self._pump.heard()
        self._page.write()

    def _body(self, message: Message, place: Place) -> Mapping[str, object]:
        return self._team.body(message, place)

    def _escalations_with(self, agent: str) -> Iterator[bytes]:
        return self._spool.heads(self._team.box(agent), "escalation_")

    def _keep_lock(self) -> None:
        self._upkeep.keep_lock()

    def _dig_up(self, receipt: Receipt) -> tuple[str, str] | None:
        return self._letterbox.dig_up(receipt)

    def _letters_of(self, message_id: str, file: str | None) -> list[str]:
        return self._letterbox.letters.named(message_id, file)

    def _describe(self) -> dict[str, object]:
        return describe(self._engine, self._backlog.by_agent(self._team.join))

    def _status_page(self) -> dict[str, object]:
        log, watch = self._chronicle.log, self._lookout.mode
        told = {"file": log.path.name, "bytes": log.size_bytes()}
        daemon = {"pid": os.getpid(), "session_id": log.session_id, "version": __version__, "watch": watch, "log": told}
        faults = self._chronicle.faults.page()
        return {"daemon": daemon, "faults": faults, **self._describe(), **self._gateways.page()}


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What began it: the others are mostly its echo."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
