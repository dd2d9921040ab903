"""The seed's two patiences (ensemble-v3, "timeouts"): a report that does not come, and a summary that does not.

Owns the polling of reports/, which begins when a report is overdue and ends when it is there, and the one escalation
when the conductor's time is up. The decisions are ``core.dispatches``'; clocks outlive us in the register. Fails with
OSError, when the escalation could not be written: it is tried again at the next look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ackd.core import dispatches

if TYPE_CHECKING:
    from ackd.config_coordination import Ensemble
    from ackd.runtime.gateways.ensemble.register import Register
    from ackd.runtime.gateways.ensemble.voice import Voice


@dataclass
class Patience:
    config: Ensemble
    register: Register
    voice: Voice
    _polled_at: float = 0.0

    @property
    def is_polling(self) -> bool:
        return dispatches.is_polled(self.register.tasks)

    def wants_reports(self, now: float) -> bool:
        """Whether reports/ is to be looked at now, though nothing hinted at it."""
        due = self.is_polling and now - self._polled_at >= self.config.report_poll_s
        if due:
            self._polled_at = now
        return due

    async def run_out(self, now: float) -> None:
        """Whatever is overdue by now is said."""
        register = self.register
        for one in dispatches.late(register.tasks, now, self.config.report_timeout_s):
            self._polled_at = now
            self.voice.report_overdue(one, now - one.since)
            register.change(dispatches.changed(register.tasks, one.message_id, overdue=True))
        work = register.work
        if work is not None and dispatches.summary_is_late(work, now, self.config.summary_timeout_s):
            await self.voice.no_summary(work, [one for one in register.tasks if one.given_ns >= work.given_ns])
            register.set_work(replace(work, told=True))

    def next_in(self, now: float) -> float | None:
        """Seconds until something is to be said, or looked at."""
        waits = (self.config.report_timeout_s, self.config.summary_timeout_s)
        due = dispatches.next_in(self.register.tasks, self.register.work, now, *waits)
        if not self.is_polling:
            return due
        poll = max(0.0, self._polled_at + self.config.report_poll_s - now)
        return poll if due is None else min(due, poll)
