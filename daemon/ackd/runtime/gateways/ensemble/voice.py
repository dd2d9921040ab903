"""What an Ensemble team's files make us say: lines of the log, once each where it matters, and escalations.

Owns the words. Escalations bear ids that derive from their cause: said again after a crash they are the same. Refuses
to know when something is to be said. Fails with OSError, when an escalation could not be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.core.escalations import derived_id, escalation, stamp
from ackd.core.message import USER
from ackd.core.names import identity

if TYPE_CHECKING:
    from ackd.config_coordination import Ensemble
    from ackd.core.dispatches import Dispatch, Work
    from ackd.core.message import Draft
    from ackd.runtime.gateways.ensemble.letters import Sheet
    from ackd.runtime.gateways.ensemble.register import Register
    from ackd.runtime.gateways.ensemble.shelf import Found
    from ackd.runtime.gateways.gateway import Around


@dataclass(frozen=True)
class Voice:
    config: Ensemble
    escalate_to: str
    around: Around
    register: Register

    def shown(self, place: str, found: Found) -> str:
        """Its path, as the config writes it."""
        return f"{self.config.queue}/{place}/{found.shown}"

    def taken_in(self, sheet: Sheet, draft: Draft, task_id: str | None) -> None:
        data = {"message_id": draft.message_id, "agent": draft.recipient, "from": draft.sender, "file": sheet.shown}
        task = {} if task_id is None else {"task_id": task_id}
        self.around.record("file_taken_in", {**data, "version": sheet.version, **task})

    def vague(self, sheet: Sheet, draft: Draft, words: tuple[str, ...]) -> None:
        data: dict[str, object] = {"message_id": draft.message_id, "agent": draft.sender, "file": sheet.shown}
        self.around.record("vague_report", {**data, "words": list(words)})

    def passed_over(self, sheet: Sheet, task_id: str, reason: str) -> None:
        self.around.record("task_passed_over", {"file": sheet.shown, "task_id": task_id, "reason": reason})

    def stray(self, place: str, found: Found, why: str) -> None:
        if self.register.is_news(f"stray {place}/{found.name} {why}"):
            self.around.record("stray_file", {"file": self.shown(place, found), "reason": why})

    def stale_ack(self, place: str, found: Found, task: Dispatch) -> None:
        if self.register.is_news(f"stale {found.name} {found.mtime_ns} {task.message_id}"):
            older_s = round((task.given_ns - found.mtime_ns) / 1e9, 3)
            data = {**_about(task), "file": self.shown(place, found), "older_s": older_s}
            self.around.record("ack_stale", data)

    def report_overdue(self, task: Dispatch, seconds: float) -> None:
        waits = {"file": task.file, "seconds": round(seconds, 3), "poll_s": self.config.report_poll_s}
        self.around.record("report_overdue", {**_about(task), **waits})

    async def task_for_nobody(self, sheet: Sheet) -> None:
        what = (
            f"The task in {sheet.shown} is for nobody: 0 of the team's agents' names and 0 of the "
            f"{len(self.config.workers)} prefixes in [ensemble] workers fit"
        )
        action = "Name the file after its worker, or give its beginning an agent in [ensemble] workers"
        cause = (sheet.key, sheet.version, sheet.digest)
        await self._escalate("task_for_nobody", self.config.dispatch, what, action, *cause)

    async def no_summary(self, work: Work, given: list[Dispatch]) -> None:
        """``given``: what was given out since the last one."""
        config, reported = self.config, sum(one.reported for one in given)
        what = (
            f"{config.dispatch} wrote no {config.queue}/reports/completion-summary.yaml for "
            f"{config.summary_timeout_s:.0f} s since the first task of {stamp(work.wall)}: "
            f"{reported} of {len(given)} tasks are reported ({100 * reported // max(1, len(given))}%)"
        )
        action = f"Look at {config.dispatch}; `ackd status --json` has the tasks without a report"
        await self._escalate("no_summary", config.dispatch, what, action, work.first)

    async def _escalate(self, cause: str, agent: str, what: str, action: str, *of: object) -> None:
        known = self.around.called(self.escalate_to)
        to = USER if known is None or identity(known) == identity(agent) else known
        ident = derived_id("ensemble escalation", cause, *(f"of {one}" for one in of))
        wall = self.around.clock.now().wall
        await self.around.mail(escalation(ident, to, agent, cause, what, action, None, wall))
        data: dict[str, object] = {"agent": agent, "cause": cause, "to": to}
        self.around.record("escalation", {**data, "escalation_id": ident, "counted": 1})


def _about(task: Dispatch) -> dict[str, object]:
    return {"message_id": task.message_id, "agent": task.agent, "task_id": task.task_id}
