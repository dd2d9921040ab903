"""The Ensemble gateway: ``queue/tasks``, ``queue/reports``, ``queue/ack`` of a team, and its conductor's instruction.

A new version of a task becomes mail for its worker, one of a report mail for the agent that its route names, one of the
instruction in ``queue/conductor`` mail for dispatch (drafts makes these messages). An ACK file that is newer than its
task becomes a receipt. The gateway looks at the directories, mails, and then saves how far it came: a crash in between
makes the same mail again. Files of the team are never changed. After an OSError, which the caller logs, everything is
looked at again.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Final

from ackd.coordination.ensemble import directory as directories
from ackd.coordination.ensemble import wire as ensemble
from ackd.coordination.ensemble.acks import Acks
from ackd.coordination.ensemble.deadlines import Deadlines
from ackd.coordination.ensemble.drafts import EnsembleDrafts, FileVersion, digest_of
from ackd.coordination.ensemble.notices import EnsembleNotices
from ackd.coordination.ensemble.rules import dispatches
from ackd.coordination.ensemble.rules.dispatches import Dispatch, End, OpenWork
from ackd.coordination.ensemble.saved_state import BadSavedState, KnownFile, SavedEnsemble
from ackd.coordination.ensemble.settings import EnsembleSettings
from ackd.coordination.ensemble.wire import ReportKind
from ackd.coordination.gateway import Gateway, LookRefused
from ackd.core import faults
from ackd.core.daemon_facts import io_error
from ackd.core.errors import BadMessage
from ackd.core.escalations import stamp
from ackd.core.signals import MessageEnded, Signal
from ackd.core.words import MessageEnd

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ackd.coordination.ensemble.directory import FoundFile
    from ackd.coordination.gateway import GatewayContext, GatewayServices

TASKS: Final = "tasks"
REPORTS: Final = "reports"
ACKS: Final = "ack"
#: Only the conductor's instruction is taken from here: where the queue is ackd's own, this is an agent's directory.
CONDUCTOR: Final = "conductor"
OURS: Final = (TASKS, REPORTS, ACKS)
PLACES: Final = (CONDUCTOR, *OURS)  # in this order: tasks are known before their reports and ACKs are read
_ENDS: Final = {
    MessageEnd.COMPLETED: End.COMPLETED,
    MessageEnd.DEAD: End.GIVEN_UP,
    MessageEnd.WITHDRAWN: End.GIVEN_UP,
}
#: The most ends of messages that are remembered, in case their message turns out to be a task.
_RECENT: Final = 1_000


def make(context: GatewayContext, others: Mapping[str, Gateway]) -> Gateway | None:  # noqa: ARG001 - requires nobody
    settings = context.config.settings(EnsembleSettings)
    if settings is None:
        return None
    return EnsembleGateway(settings, context.escalate_to, context.services, context.config.max_message_bytes)


class EnsembleGateway(Gateway):
    name = "ensemble"
    listens: frozenset[type[Signal]] = frozenset({MessageEnded})

    def __init__(
        self, config: EnsembleSettings, escalate_to: str, services: GatewayServices, max_message_bytes: int
    ) -> None:
        self._config = config
        self._services = services
        self._queue = os.path.abspath(services.base / config.queue)  # noqa: PTH100 - a link that the team chose stays one
        self._drafts = EnsembleDrafts(config, services.called, max_message_bytes)
        self._saved = SavedEnsemble(services.state / "ensemble.json", services.durable)
        self._notices = EnsembleNotices(config, escalate_to, services, self._saved)
        self._acks = Acks(ACKS, services.root / "receipts", services.durable, self._saved, self._notices)
        self._deadlines = Deadlines(config, self._saved, self._notices)
        self._begun = False
        self._births: dict[str, int] = {}
        #: Directories in which a file is still being written, and when to look there again.
        self._again: dict[str, float] = {}
        self._ended: deque[tuple[str, End]] = deque(maxlen=_RECENT)

    # --- as a gateway -------------------------------------------------------------------------------------------------
    def heard(self, signal: Signal) -> None:
        if not isinstance(signal, MessageEnded) or signal.end is MessageEnd.DUPLICATE:
            return
        message_id, end = signal.message_id, _ENDS[signal.end]
        self._ended.append((message_id, end))
        if any(one.message_id == message_id for one in self._saved.tasks):
            self._saved.change(dispatches.changed(self._saved.tasks, message_id, end=end))

    def log_directory(self) -> Path | None:
        """[ensemble] log_dir: the place where people who use Ensemble look for the log."""
        return self._services.base / self._config.log_dir if self._config.log_dir else None

    def places(self) -> frozenset[str]:
        wanted = (self._queue, *map(self._directory, PLACES))
        there = frozenset(path for path in wanted if os.path.isdir(path))  # noqa: PTH112
        return there or frozenset({os.path.dirname(self._queue)})  # noqa: PTH120

    async def look(self, where: frozenset[str] | None) -> float | None:
        if not self._begun:
            await self._begin()
        refused: dict[str, OSError] = {}
        try:
            await self._look_at(self._chosen(where))
        except OSError as error:
            refused["its files"] = error
        try:
            await self._deadlines.run_out(self._mono())
        except OSError as error:
            refused["who is late"] = error
        await self._saved.save(self._services.clock.now())
        if refused:
            raise LookRefused(refused, self._next_look_s())
        return self._next_look_s()

    def page(self) -> dict[str, object]:
        owed = [one.task_id for one in self._saved.tasks if one.owes_report]
        work = self._saved.work
        since = {"waits_for_summary_since": stamp(work.wall)} if work is not None else {}
        polling = self._deadlines.is_polling
        return {"queue": self._queue, "tasks_without_report": owed[-20:], "polling": polling, **since}

    def _next_look_s(self) -> float | None:
        now = self._mono()
        waits = [max(0.0, at - now) for at in self._again.values()]
        due = self._deadlines.next_in(now)
        return min([*waits, *([] if due is None else [due])], default=None)

    # --- beginning ----------------------------------------------------------------------------------------------------
    async def _begin(self) -> None:
        for directory in (self._queue, *map(self._directory, OURS)):
            os.makedirs(directory, mode=0o700, exist_ok=True)  # noqa: PTH103
        now = self._services.clock.now()
        try:
            known = self._saved.load(now)
        except BadSavedState as bad:
            self._services.record(io_error(what="state/gateways/ensemble.json", error=str(bad)))
            known = False
        if not known:
            self._pass_over_what_is_done()
            self._saved.dirty = True
            await self._saved.save(now)
        self._begun = True

    def _pass_over_what_is_done(self) -> None:
        """At the very first start, skip the tasks and instructions that the team has finished without ackd."""
        reports = directories.listed(self._directory(REPORTS)) or []
        reported = {ensemble.reported_task(one.name): one.mtime_ns for one in reports}
        summed_up = max(
            (one.mtime_ns for one in reports if ensemble.kind_of(one.name) is ReportKind.SUMMARY), default=0
        )
        for found in directories.listed(self._directory(CONDUCTOR)) or []:
            meant = found.regular and ensemble.is_instruction(found.name) and found.mtime_ns < summed_up
            if meant and (file := self._read_version(CONDUCTOR, found, 1)) is not None:
                self._saved.note(file.key, KnownFile(1, file.digest, found.mark))
                self._notices.passed_over(file, ensemble.stem(found.name), "a completion summary is newer")
        for found in directories.listed(self._directory(TASKS)) or []:
            file = self._read_version(TASKS, found, 1) if found.regular and ensemble.is_yaml(found.name) else None
            if file is None:
                continue
            names = self._drafts.names_of(file, file.content())
            if any(reported.get(name, 0) > found.mtime_ns for name in names):
                self._saved.note(file.key, KnownFile(1, file.digest, found.mark))
                self._notices.passed_over(file, names[0], "it has its report already")

    # --- places to look at --------------------------------------------------------------------------------------------
    def _chosen(self, where: frozenset[str] | None) -> list[str]:
        if where is None or not where <= set(map(self._directory, PLACES)):
            self._replaced()
            return list(PLACES)
        now = self._mono()
        due = {place for place, at in self._again.items() if at <= now} | self._replaced()
        if self._deadlines.wants_reports(now):
            due.add(REPORTS)
        return [place for place in PLACES if place in due or self._directory(place) in where]

    def _replaced(self) -> set[str]:
        """The directories that were replaced since the last look. They are looked at twice: the watch on them is new,
        too."""
        births = {place: _birth(self._directory(place)) for place in PLACES}
        replaced = {place for place in PLACES if births[place] != self._births.get(place)}
        self._births = births
        for place in replaced:
            self._look_again(place, directories.QUIET_S)
        return replaced

    async def _look_at(self, places: list[str]) -> None:
        """Take in what is new in these places. A file that cannot be read delays no other: its error is raised last."""
        refused: dict[str, OSError] = {}
        for place in places:
            if self._again.get(place, 0.0) <= self._mono():
                self._again.pop(place, None)
            found = directories.listed(self._directory(place))
            if found is None:  # a directory that is gone says nothing about its files
                continue
            self._saved.miss(place, {f"{place}/{one.name}" for one in found}, self._services.clock.now().wall)
            for one in found:
                try:
                    await (self._acks.take(one) if place == ACKS else self._take(place, one))
                except OSError as error:
                    if faults.is_nobodys(error):  # a task that could not be given out comes before its report
                        raise
                    refused[f"{place}/{one.shown}"] = error
        if refused:
            raise LookRefused(refused, None)

    # --- tasks and reports --------------------------------------------------------------------------------------------
    async def _take(self, place: str, found: FoundFile) -> None:
        known = self._saved.files.get(f"{place}/{found.name}")
        if known is not None and known.mark == found.mark and known.gone_at is None:
            return
        if not self._is_meant(place, found):
            return
        wait_s = directories.wait_s(found, self._services.clock.now().wall, self._services.settle_s)
        file = self._read_version(place, found, known.version + 1 if known else 1) if wait_s <= 0 else None
        if file is None:
            self._look_again(place, max(wait_s, 0.01))
        elif known is not None and known.digest == file.digest and not self._is_another(known, found):
            self._saved.note(file.key, KnownFile(known.version, known.digest, found.mark))
        else:
            await self._mail(place, file, found)
            self._saved.note(file.key, KnownFile(file.version, file.digest, found.mark))

    async def _mail(self, place: str, file: FileVersion, found: FoundFile) -> None:
        if place == TASKS:
            await self._give_out(file, found)
        elif place == REPORTS:
            await self._pass_on(file, found)
        else:
            await self._instruct(file)

    def _is_meant(self, place: str, found: FoundFile) -> bool:
        """True for a regular file with the name of a task or report. Others are logged once, except drafts and
        locks."""
        if place == CONDUCTOR and not ensemble.is_instruction(found.name):
            return False
        named = self._drafts.is_report(found.name) if place == REPORTS else ensemble.is_yaml(found.name)
        if named and found.regular:
            return True
        if named:
            self._notices.stray(place, found, "it is not a regular file: it is not opened")
        elif found.regular and not ensemble.is_passing(found.name):
            self._notices.stray(place, found, "the name does not end in .yaml: nobody is told of it")
        return False

    def _is_another(self, known: KnownFile, found: FoundFile) -> bool:
        """True if the same bytes are a new version: the file was gone in between, and not only moved."""
        if known.gone_at is None or known.mark[0] == found.mark[0]:
            return False
        return found.came_ns / 1e9 > known.gone_at + self._services.settle_s

    def _read_version(self, place: str, found: FoundFile, version: int) -> FileVersion | None:
        """Read the file; None: it changed while it was read."""
        key, shown = f"{place}/{found.name}", self._notices.shown(place, found)
        try:
            data = directories.read(found, self._drafts.limit)
        except BadMessage as bad:
            self._notices.stray(place, found, f"{bad.detail}: it is not read, only told of")
            size = f"{found.mark[1]} bytes"
            return FileVersion(key, found.name, shown, version, size, None, f"{bad.detail}: read it there")
        return None if data is None else FileVersion(key, found.name, shown, version, digest_of(data), data)

    async def _give_out(self, file: FileVersion, found: FoundFile) -> None:
        task = self._drafts.task(file)
        if task is None:
            await self._notices.task_for_nobody(file)
            return
        draft, now, file_ns = task.draft, self._services.clock.now(), found.came_ns
        await self._services.mail(draft)
        self._notices.taken_in(file, draft, task.names[0])
        end = dict(self._ended).get(draft.message_id, End.NOT_YET)
        given = Dispatch(
            message_id=draft.message_id,
            agent=draft.recipient,
            names=task.names,
            file=file.shown,
            given_ns=file_ns,
            since=now.mono,
            wall=now.wall,
            end=end,
        )
        self._saved.change(dispatches.added(self._saved.tasks, given))
        if self._saved.work is None:
            self._saved.set_work(OpenWork(draft.message_id, file_ns, now.mono, now.wall))

    async def _pass_on(self, file: FileVersion, found: FoundFile) -> None:
        report = self._drafts.report(file, self._saved.tasks, found.mtime_ns)
        await self._services.mail(report.draft)
        self._notices.taken_in(file, report.draft, report.task_id)
        if report.vague:
            self._notices.vague(file, report.draft, report.vague)
        if report.about is not None and report.completes:
            changed = dispatches.changed(self._saved.tasks, report.about.message_id, reported=True)
            self._saved.change(changed)
        work = self._saved.work
        if report.kind is ReportKind.SUMMARY and work is not None and found.mtime_ns > work.given_ns:
            self._saved.set_work(None)

    async def _instruct(self, file: FileVersion) -> None:
        draft = self._drafts.instruction(file)
        await self._services.mail(draft)
        self._notices.taken_in(file, draft, None)

    # --- helpers ------------------------------------------------------------------------------------------------------
    def _look_again(self, place: str, wait_s: float) -> None:
        at = self._mono() + wait_s
        self._again[place] = min(at, self._again.get(place, at))

    def _mono(self) -> float:
        return self._services.clock.now().mono

    def _directory(self, place: str) -> str:
        return f"{self._queue}/{place}"


def _birth(directory: str) -> int:
    try:
        return os.stat(directory).st_ino  # noqa: PTH116
    except OSError:
        return 0
