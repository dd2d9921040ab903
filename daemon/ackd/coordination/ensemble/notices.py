"""The log lines and escalations of the Ensemble gateway.

Only the wording is here; the moment for each is decided elsewhere. Lines that would repeat at every look are written
once. The id of an escalation derives from its cause: repeated after a crash it is the same message. Fails with OSError
when an escalation could not be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ackd.coordination.ensemble import facts
from ackd.coordination.ensemble.facts import ack_stale, file_taken_in, task_passed_over, vague_report
from ackd.core import message_facts
from ackd.core.escalations import derived_id, escalation, stamp
from ackd.core.message import USER
from ackd.core.message_facts import stray_file
from ackd.core.names import identity

if TYPE_CHECKING:
    from ackd.coordination.ensemble.directory import FoundFile
    from ackd.coordination.ensemble.drafts import FileVersion
    from ackd.coordination.ensemble.rules.dispatches import Dispatch, OpenWork
    from ackd.coordination.ensemble.saved_state import SavedEnsemble
    from ackd.coordination.ensemble.settings import EnsembleSettings
    from ackd.coordination.gateway import GatewayServices
    from ackd.core.message import Draft


@dataclass(frozen=True)
class EnsembleNotices:
    config: EnsembleSettings
    escalate_to: str
    services: GatewayServices
    saved: SavedEnsemble

    def shown(self, place: str, found: FoundFile) -> str:
        """The file's path, as the config writes it."""
        return f"{self.config.queue}/{place}/{found.shown}"

    def taken_in(self, file: FileVersion, draft: Draft, task_id: str | None) -> None:
        task = {} if task_id is None else {"task_id": task_id}
        self.services.record(
            file_taken_in(
                message_id=draft.message_id,
                agent=draft.recipient,
                from_=draft.sender,
                file=file.shown,
                version=file.version,
                **task,
            )
        )

    def vague(self, file: FileVersion, draft: Draft, words: tuple[str, ...]) -> None:
        self.services.record(
            vague_report(message_id=draft.message_id, agent=draft.sender, file=file.shown, words=list(words))
        )

    def passed_over(self, file: FileVersion, task_id: str, reason: str) -> None:
        self.services.record(task_passed_over(file=file.shown, task_id=task_id, reason=reason))

    def stray(self, place: str, found: FoundFile, why: str) -> None:
        if self.saved.is_news(f"stray {place}/{found.name} {why}"):
            self.services.record(stray_file(file=self.shown(place, found), reason=why))

    def stale_ack(self, place: str, found: FoundFile, task: Dispatch) -> None:
        if self.saved.is_news(f"stale {found.name} {found.mtime_ns} {task.message_id}"):
            older_s = round((task.given_ns - found.mtime_ns) / 1e9, 3)
            self.services.record(ack_stale(**_about(task), file=self.shown(place, found), older_s=older_s))

    def report_overdue(self, task: Dispatch, seconds: float) -> None:
        self.services.record(
            facts.report_overdue(
                **_about(task), file=task.file, seconds=round(seconds, 3), poll_s=self.config.report_poll_s
            )
        )

    async def task_for_nobody(self, file: FileVersion) -> None:
        what = (
            f"The task in {file.shown} is for nobody: 0 of the team's agents' names and 0 of the "
            f"{len(self.config.workers)} prefixes in [ensemble] workers fit"
        )
        action = "Name the file after its worker, or give its beginning an agent in [ensemble] workers"
        cause = (file.key, file.version, file.digest)
        await self._escalate("task_for_nobody", self.config.dispatch, what, action, *cause)

    async def no_summary(self, work: OpenWork, given: list[Dispatch]) -> None:
        """Escalate that the summary is late. ``given``: the tasks given out since the last summary."""
        config, reported = self.config, sum(one.reported for one in given)
        what = (
            f"{config.dispatch} wrote no {config.queue}/reports/completion-summary.yaml for "
            f"{config.summary_timeout_s:.0f} s since the first task of {stamp(work.wall)}: "
            f"{reported} of {len(given)} tasks are reported ({100 * reported // max(1, len(given))}%)"
        )
        action = f"Look at {config.dispatch}; `ackd status --json` has the tasks without a report"
        await self._escalate("no_summary", config.dispatch, what, action, work.first)

    async def _escalate(self, cause: str, agent: str, what: str, action: str, *of: object) -> None:
        known = self.services.called(self.escalate_to)
        to = USER if known is None or identity(known) == identity(agent) else known
        ident = derived_id("ensemble escalation", cause, *(f"of {one}" for one in of))
        wall = self.services.clock.now().wall
        await self.services.mail(escalation(ident, to, agent, cause, what, action, None, wall))
        self.services.record(message_facts.escalation(agent=agent, cause=cause, to=to, escalation_id=ident, counted=1))


def _about(task: Dispatch) -> dict[str, Any]:
    return {"message_id": task.message_id, "agent": task.agent, "task_id": task.task_id}
