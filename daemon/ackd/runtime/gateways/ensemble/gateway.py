"""The Ensemble gateway: ``queue/tasks``, ``queue/reports``, ``queue/ack`` of a team, and its conductor's instruction.

A new version of a task is mail for its worker, one of a report mail for whom its route names, one of the instruction in
``queue/conductor`` mail for dispatch, an ACK file that is newer than its task a receipt. Looks at the directories,
mails, and then notes in the register how far it came: a crash in between makes the same mail again. Refuses to know
what a file says (letters). Never touches a file of the team's. OSError: told of by whoever asked, and looked at again.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Final

from ackd.core import dispatches, faults
from ackd.core.dispatches import Dispatch, End, Work
from ackd.core.errors import BadMessage
from ackd.core.escalations import stamp
from ackd.dialects import ensemble
from ackd.dialects.ensemble import Kind
from ackd.runtime.gateways.ensemble import shelf
from ackd.runtime.gateways.ensemble.acks import Acks
from ackd.runtime.gateways.ensemble.letters import Letters, Sheet, digest_of
from ackd.runtime.gateways.ensemble.patience import Patience
from ackd.runtime.gateways.ensemble.register import BadRegister, Known, Register
from ackd.runtime.gateways.ensemble.voice import Voice
from ackd.runtime.gateways.gateway import LookRefused

if TYPE_CHECKING:
    from ackd.config_coordination import Ensemble
    from ackd.runtime.gateways.ensemble.shelf import Found
    from ackd.runtime.gateways.gateway import Around

TASKS: Final = "tasks"
REPORTS: Final = "reports"
ACKS: Final = "ack"
#: The conductor's instruction, and nothing else that lies there: where the queue is ackd's own, it is somebody's box.
CONDUCTOR: Final = "conductor"
OURS: Final = (TASKS, REPORTS, ACKS)
PLACES: Final = (CONDUCTOR, *OURS)  # in this order: a report or an ACK means a task that is known by then
_ENDS: Final = {
    "message_completed": End.COMPLETED,
    "message_dead": End.GIVEN_UP,
    "message_withdrawn": End.GIVEN_UP,
}
#: Ends of messages that were heard of before we knew that they were tasks.
_RECENT: Final = 1_000


class EnsembleGateway:
    name = "ensemble"
    listens = frozenset(_ENDS)

    def __init__(self, config: Ensemble, escalate_to: str, around: Around, max_message_bytes: int = 1_048_576) -> None:
        self._config = config
        self._around = around
        self._queue = os.path.abspath(around.base / config.queue)  # noqa: PTH100 - a link that the team chose stays one
        self._letters = Letters(config, around.called, max_message_bytes)
        self._register = Register(around.state / "ensemble.json", around.durable)
        self._voice = Voice(config, escalate_to, around, self._register)
        self._acks = Acks(ACKS, around.root / "receipts", around.durable, self._register, self._voice)
        self._patience = Patience(config, self._register, self._voice)
        self._begun = False
        self._births: dict[str, int] = {}
        #: Where something is still being written, and when to look there again.
        self._again: dict[str, float] = {}
        self._ended: deque[tuple[str, End]] = deque(maxlen=_RECENT)

    # --- the port -----------------------------------------------------------------------------------------------------
    def heard(self, type_: str, data: dict[str, object]) -> None:
        message_id, end = str(data.get("message_id")), _ENDS[type_]
        self._ended.append((message_id, end))
        if any(one.message_id == message_id for one in self._register.tasks):
            self._register.change(dispatches.changed(self._register.tasks, message_id, end=end))

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
            await self._patience.run_out(self._mono())
        except OSError as error:
            refused["who is late"] = error
        await self._register.save(self._around.clock.now())
        if refused:
            raise LookRefused(refused, self._wish())
        return self._wish()

    def page(self) -> dict[str, object]:
        owed = [one.task_id for one in self._register.tasks if one.owes_report]
        work = self._register.work
        since = {"waits_for_summary_since": stamp(work.wall)} if work is not None else {}
        polling = self._patience.is_polling
        return {"queue": self._queue, "tasks_without_report": owed[-20:], "polling": polling, **since}

    def _wish(self) -> float | None:
        now = self._mono()
        waits = [max(0.0, at - now) for at in self._again.values()]
        due = self._patience.next_in(now)
        return min([*waits, *([] if due is None else [due])], default=None)

    # --- beginning ----------------------------------------------------------------------------------------------------
    async def _begin(self) -> None:
        for directory in (self._queue, *map(self._directory, OURS)):
            os.makedirs(directory, mode=0o700, exist_ok=True)  # noqa: PTH103
        now = self._around.clock.now()
        try:
            known = self._register.load(now)
        except BadRegister as bad:
            self._around.record("io_error", {"what": "state/gateways/ensemble.json", "error": str(bad)})
            known = False
        if not known:
            self._pass_over_what_is_done()
            self._register.dirty = True
            await self._register.save(now)
        self._begun = True

    def _pass_over_what_is_done(self) -> None:
        """Of what a team did before it had us: a task that has its report already is nobody's work any more."""
        reports = shelf.listed(self._directory(REPORTS)) or []
        reported = {ensemble.reported_task(one.name): one.mtime_ns for one in reports}
        summed_up = max((one.mtime_ns for one in reports if ensemble.kind_of(one.name) is Kind.SUMMARY), default=0)
        for found in shelf.listed(self._directory(CONDUCTOR)) or []:
            meant = found.regular and ensemble.is_instruction(found.name) and found.mtime_ns < summed_up
            if meant and (sheet := self._sheet(CONDUCTOR, found, 1)) is not None:
                self._register.note(sheet.key, Known(1, sheet.digest, found.mark))
                self._voice.passed_over(sheet, ensemble.stem(found.name), "a completion summary is newer")
        for found in shelf.listed(self._directory(TASKS)) or []:
            sheet = self._sheet(TASKS, found, 1) if found.regular and ensemble.is_yaml(found.name) else None
            if sheet is None:
                continue
            names = self._letters.names_of(sheet, sheet.content())
            if any(reported.get(name, 0) > found.mtime_ns for name in names):
                self._register.note(sheet.key, Known(1, sheet.digest, found.mark))
                self._voice.passed_over(sheet, names[0], "it has its report already")

    # --- where to look ------------------------------------------------------------------------------------------------
    def _chosen(self, where: frozenset[str] | None) -> list[str]:
        if where is None or not where <= set(map(self._directory, PLACES)):
            self._replaced()
            return list(PLACES)
        now = self._mono()
        due = {place for place, at in self._again.items() if at <= now} | self._replaced()
        if self._patience.wants_reports(now):
            due.add(REPORTS)
        return [place for place in PLACES if place in due or self._directory(place) in where]

    def _replaced(self) -> set[str]:
        """Directories that are others than at the last look: looked at twice, for the watch on them is new, too."""
        births = {place: _birth(self._directory(place)) for place in PLACES}
        replaced = {place for place in PLACES if births[place] != self._births.get(place)}
        self._births = births
        for place in replaced:
            self._look_again(place, shelf.QUIET_S)
        return replaced

    async def _look_at(self, places: list[str]) -> None:
        """One file that cannot be read keeps no other waiting: it is raised when all were looked at."""
        refused: dict[str, OSError] = {}
        for place in places:
            if self._again.get(place, 0.0) <= self._mono():
                self._again.pop(place, None)
            found = shelf.listed(self._directory(place))
            if found is None:  # the directory is gone: that says nothing about what was in it
                continue
            self._register.miss(place, {f"{place}/{one.name}" for one in found}, self._around.clock.now().wall)
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
    async def _take(self, place: str, found: Found) -> None:
        known = self._register.files.get(f"{place}/{found.name}")
        if known is not None and known.mark == found.mark and known.gone_at is None:
            return
        if not self._is_meant(place, found):
            return
        wait_s = shelf.wait_s(found, self._around.clock.now().wall, self._around.settle_s)
        sheet = self._sheet(place, found, known.version + 1 if known else 1) if wait_s <= 0 else None
        if sheet is None:
            self._look_again(place, max(wait_s, 0.01))
        elif known is not None and known.digest == sheet.digest and not self._is_another(known, found):
            self._register.note(sheet.key, Known(known.version, known.digest, found.mark))
        else:
            await self._mail(place, sheet, found)
            self._register.note(sheet.key, Known(sheet.version, sheet.digest, found.mark))

    async def _mail(self, place: str, sheet: Sheet, found: Found) -> None:
        if place == TASKS:
            await self._give_out(sheet, found)
        elif place == REPORTS:
            await self._pass_on(sheet, found)
        else:
            await self._instruct(sheet)

    def _is_meant(self, place: str, found: Found) -> bool:
        """A regular file, by a name that tasks or reports have. What is none is said once, but for drafts and locks."""
        if place == CONDUCTOR and not ensemble.is_instruction(found.name):
            return False
        named = self._letters.is_report(found.name) if place == REPORTS else ensemble.is_yaml(found.name)
        if named and found.regular:
            return True
        if named:
            self._voice.stray(place, found, "it is not a regular file: it is not opened")
        elif found.regular and not ensemble.is_passing(found.name):
            self._voice.stray(place, found, "the name does not end in .yaml: nobody is told of it")
        return False

    def _is_another(self, known: Known, found: Found) -> bool:
        """The same bytes once more are another version if the file was away in between; not if it was only moved."""
        if known.gone_at is None or known.mark[0] == found.mark[0]:
            return False
        return found.came_ns / 1e9 > known.gone_at + self._around.settle_s

    def _sheet(self, place: str, found: Found, version: int) -> Sheet | None:
        """None: it changed as we read it."""
        key, shown = f"{place}/{found.name}", self._voice.shown(place, found)
        try:
            data = shelf.read(found, self._letters.limit)
        except BadMessage as bad:
            self._voice.stray(place, found, f"{bad.detail}: it is not read, only told of")
            size = f"{found.mark[1]} bytes"
            return Sheet(key, found.name, shown, version, size, None, f"{bad.detail}: read it there")
        return None if data is None else Sheet(key, found.name, shown, version, digest_of(data), data)

    async def _give_out(self, sheet: Sheet, found: Found) -> None:
        task = self._letters.task(sheet)
        if task is None:
            await self._voice.task_for_nobody(sheet)
            return
        draft, now, file_ns = task.draft, self._around.clock.now(), found.came_ns
        await self._around.mail(draft)
        self._voice.taken_in(sheet, draft, task.names[0])
        end = dict(self._ended).get(draft.message_id, End.NOT_YET)
        sent = (draft.message_id, draft.recipient, task.names, sheet.shown)
        given = Dispatch(*sent, given_ns=file_ns, since=now.mono, wall=now.wall, end=end)
        self._register.change(dispatches.added(self._register.tasks, given))
        if self._register.work is None:
            self._register.set_work(Work(draft.message_id, file_ns, now.mono, now.wall))

    async def _pass_on(self, sheet: Sheet, found: Found) -> None:
        report = self._letters.report(sheet, self._register.tasks, found.mtime_ns)
        await self._around.mail(report.draft)
        self._voice.taken_in(sheet, report.draft, report.task_id)
        if report.vague:
            self._voice.vague(sheet, report.draft, report.vague)
        if report.about is not None and report.completes:
            changed = dispatches.changed(self._register.tasks, report.about.message_id, reported=True)
            self._register.change(changed)
        work = self._register.work
        if report.kind is Kind.SUMMARY and work is not None and found.mtime_ns > work.given_ns:
            self._register.set_work(None)

    async def _instruct(self, sheet: Sheet) -> None:
        draft = self._letters.instruction(sheet)
        await self._around.mail(draft)
        self._voice.taken_in(sheet, draft, None)

    # --- the small things ---------------------------------------------------------------------------------------------
    def _look_again(self, place: str, wait_s: float) -> None:
        at = self._mono() + wait_s
        self._again[place] = min(at, self._again.get(place, at))

    def _mono(self) -> float:
        return self._around.clock.now().mono

    def _directory(self, place: str) -> str:
        return f"{self._queue}/{place}"


def _birth(directory: str) -> int:
    try:
        return os.stat(directory).st_ino  # noqa: PTH116
    except OSError:
        return 0
