"""The seed's two deadlines (ensemble-v3, "timeouts"): for a report that does not come, and for the summary.

When a report is overdue, reports/ is polled until it is there. When the summary is overdue, somebody is told once. The
decisions are in rules/dispatches; the times survive a restart in the saved state. Fails with OSError when the
escalation could not be written; then it is tried again at the next look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ackd.coordination.ensemble.rules import dispatches

if TYPE_CHECKING:
    from ackd.coordination.ensemble.notices import EnsembleNotices
    from ackd.coordination.ensemble.saved_state import SavedEnsemble
    from ackd.coordination.ensemble.settings import EnsembleSettings


@dataclass
class Deadlines:
    config: EnsembleSettings
    saved: SavedEnsemble
    notices: EnsembleNotices
    _polled_at: float = 0.0

    @property
    def is_polling(self) -> bool:
        return dispatches.is_polled(self.saved.tasks)

    def wants_reports(self, now: float) -> bool:
        """True once in every poll interval while a report is overdue: reports/ is then looked at without a hint."""
        due = self.is_polling and now - self._polled_at >= self.config.report_poll_s
        if due:
            self._polled_at = now
        return due

    async def run_out(self, now: float) -> None:
        """Report everything that has become overdue."""
        saved = self.saved
        for one in dispatches.late(saved.tasks, now, self.config.report_timeout_s):
            self._polled_at = now
            self.notices.report_overdue(one, now - one.since)
            saved.change(dispatches.changed(saved.tasks, one.message_id, overdue=True))
        work = saved.work
        if work is not None and dispatches.summary_is_late(work, now, self.config.summary_timeout_s):
            await self.notices.no_summary(work, [one for one in saved.tasks if one.given_ns >= work.given_ns])
            saved.set_work(replace(work, told=True))

    def next_in(self, now: float) -> float | None:
        """Seconds until something becomes overdue, or reports/ is to be polled."""
        waits = (self.config.report_timeout_s, self.config.summary_timeout_s)
        due = dispatches.next_in(self.saved.tasks, self.saved.work, now, *waits)
        if not self.is_polling:
            return due
        poll = max(0.0, self._polled_at + self.config.report_poll_s - now)
        return poll if due is None else min(due, poll)
