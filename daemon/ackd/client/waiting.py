"""Waiting until every recipient was told of a message, or has seen, acked or completed it: the session log is followed.

Only a line of the log counts, never a file that has moved. When the time is over, or the daemon has gone, the message
goes on without the caller, and the answer says what the log proves so far.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ackd.client.message_history import RecipientHistory, addressee, after_line
from ackd.client.sending import RecipientState, Waited
from ackd.client.standing import Hindrances, standing
from ackd.core.message import identity
from ackd.core.message_facts import (
    message_acked,
    message_completed,
    message_rejected,
    message_retry,
    message_seen,
    message_told,
)
from ackd.storage import root_lock, session_log

if TYPE_CHECKING:
    from ackd.client.sending import Progress, Sent
    from ackd.config.site import Site
    from ackd.storage.session_log import Line

POLL_S: Final = 0.05
#: A daemon that was just started, or is being restarted, takes this long at most to take its lock.
DAEMON_GRACE_S: Final = 3.0
#: Lines that were written before the time was over are still read, for this long at most.
CATCH_UP_S: Final = 1.0
#: The stages in their order, with the line that proves each; a line of a later stage proves it, too.
_LINES: Final = {
    "told": message_told.type,
    "seen": message_seen.type,
    "acked": message_acked.type,
    "completed": message_completed.type,
}
_GOOD: Final = {stage: frozenset([*_LINES.values()][number:]) for number, stage in enumerate(_LINES)}
_BAD: Final = frozenset({"dead", "cancelled", "withdrawn", "rejected"})


class LogWaiter:
    """Follows the log from the moment it is made, which is before the message is written."""

    def __init__(self, site: Site, until: str, grace_s: float | None = None) -> None:
        self._site = site
        self._until = until
        self._grace_s = DAEMON_GRACE_S if grace_s is None else grace_s
        self._follower = session_log.Follower(site.logs)
        self._histories: dict[str, RecipientHistory] = {}  # by the agent's identity
        self._retries: dict[str, Line] = {}
        self._open: set[str] = set()
        self._met_daemon = False
        self._hindrances = Hindrances(site, lambda _words: None)

    def wait(self, sent: Sent, timeout_s: float, progress: Progress) -> Waited:
        """Wait for all recipients of a message that was queued since this waiter was made."""
        self._histories = {identity(name): RecipientHistory(name) for name in sent.recipients}
        self._open = set(self._histories)
        self._hindrances = Hindrances(self._site, progress.hindered)
        trouble = ""
        try:
            outcome = self._follow(sent, time.monotonic() + timeout_s, progress)
        except OSError as error:  # the message is queued all the same: no outcome that says otherwise
            trouble, outcome = str(error), "timeout"
        return Waited(
            outcome,
            {history.agent: self._state(who) for who, history in self._histories.items()},
            "" if outcome in ("done", "failed") else self._words(outcome, timeout_s),
            trouble,
        )

    # --- following ----------------------------------------------------------------------------------------------------
    def _follow(self, sent: Sent, deadline: float, progress: Progress) -> str:
        names = {path.rpartition("/")[2] for path in sent.files}
        last_alive = time.monotonic()
        self._hindrances.look(self._histories.values())
        for line in session_log.follow(self._follower, poll_s=POLL_S):
            now = time.monotonic()
            if line is not None:
                self._hindrances.take(line)
                self._take(line, sent, names, progress)
                if any(history.state in _BAD for history in self._histories.values()):
                    return "failed"  # nothing that the others do can make it a yes
                if not self._open:
                    return "done"
            elif root_lock.holder(self._site.run) is not None:
                last_alive, self._met_daemon = now, True
            if now - last_alive > self._grace_s:
                return "no daemon"
            if now >= (deadline if line is None else deadline + CATCH_UP_S):
                return "timeout" if self._met_daemon else "no daemon"
        raise AssertionError("follow() ended")

    def _take(self, line: Line, sent: Sent, names: set[str], progress: Progress) -> None:
        who = identity(addressee(line))
        if who not in self._open:
            return
        history = self._histories[who]
        if _is_rejection_of(line, names):
            history = replace(history, state="rejected", reason=str(line.data.get("reason")))
        elif line.data.get("message_id") == sent.message_id:
            history = after_line(history, line)
        else:
            return
        self._histories[who] = history
        if line.type == message_retry.type:
            self._retries[who] = line
        if line.type in _GOOD[self._until] or history.state in _BAD:
            self._open.discard(who)
            progress.settled(sent, self._state(who))

    # --- saying -------------------------------------------------------------------------------------------------------
    def _state(self, who: str) -> RecipientState:
        history = self._histories[who]
        receipts = tuple((one.receipt, one.at, one.proof) for one in history.receipts)
        reason = history.reason if history.state in {"retrying", *_BAD} else None
        if reason is None and who in self._open:
            reason = self._hindrances.words(history.agent) or None
        return RecipientState(history.agent, history.state, reason, receipts, history.holder)

    def _words(self, outcome: str, timeout_s: float) -> str:
        standing = "; ".join(self._standing(who) for who in sorted(self._open))
        if outcome == "timeout":
            return f"not {self._until} within {timeout_s:g} s: {standing}"
        if not self._met_daemon:
            return "no daemon is running: the message stays queued, and is delivered when one starts (`ackd run`)"
        return f"the daemon has stopped: {standing}; the next one goes on from there"

    def _standing(self, who: str) -> str:
        """The last proof there is of one recipient, and what hinders it."""
        history = self._histories[who]
        why = self._hindrances.words(history.agent) if history.state in ("queued", "retrying") else ""
        return standing(history, self._retries.get(who)) + (f"; {why}" if why else "")


def _is_rejection_of(line: Line, names: set[str]) -> bool:
    """A file that could not be read has no id in the log, only its name."""
    return line.type == message_rejected.type and str(line.data.get("file", "")).rpartition("/")[2] in names
