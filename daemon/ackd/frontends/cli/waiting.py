"""`--wait`: watching the session log until every recipient has acked or completed a message.

Owns what the lines mean for the one who waits. Refuses to guess: only a line of the log counts, never a file that has
moved. Ends 0 when all have, 1 when one never will, 69 when no daemon came or the one there was went away, 75 when the
time is over. In the last two the message goes on without us, and what is proven of it so far is said.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ackd.adapters import root_lock, session_log
from ackd.core.message import identity
from ackd.frontends.agent_states import last_agent_state
from ackd.frontends.cli.errors import NO, NO_DAEMON, TRY_AGAIN, Ended, accepted
from ackd.frontends.cli.output import echo, print_json
from ackd.frontends.facts import duration, visible
from ackd.frontends.story_of_message import Course, advanced, hindrance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackd.adapters.session_log import Line
    from ackd.site import Site

POLL_S: Final = 0.05
#: A daemon that was started just now takes this long at most to take its lock; one that is restarted, too.
DAEMON_GRACE_S: Final = 3.0
#: What was written before the time was over is still read, unless there is no end to it.
CATCH_UP_S: Final = 1.0
_GOOD: Final = {
    "acked": frozenset({"message_acked", "message_completed"}),
    "completed": frozenset({"message_completed"}),
}
_BAD: Final = frozenset({"dead", "withdrawn", "rejected"})
_OUTCOMES: Final = {0: "done", NO: "failed", NO_DAEMON: "no daemon", TRY_AGAIN: "timeout"}


class Waiter:
    """Made before the message is written; follows the log from there."""

    def __init__(self, site: Site, until: str, grace_s: float | None = None) -> None:
        self._site = site
        self._until = until
        self._grace_s = DAEMON_GRACE_S if grace_s is None else grace_s
        self._follower = session_log.Follower(site.logs)
        self._courses: dict[str, Course] = {}  # by the agent's identity
        self._retries: dict[str, Line] = {}
        self._open: set[str] = set()
        self._met_daemon = False

    def wait(
        self, message_id: str, recipients: Sequence[str], files: Sequence[str], timeout_s: float, *, as_json: bool
    ) -> None:
        self._courses = {identity(name): Course(name) for name in recipients}
        self._open = set(self._courses)
        names = {path.rpartition("/")[2] for path in files}
        try:
            exit_code = self._follow(message_id, names, time.monotonic() + timeout_s, as_json)
        except OSError as error:  # the message is queued all the same: no code that says otherwise
            echo(f"{message_id} is queued; cannot wait: {error}", err=True)
            exit_code = TRY_AGAIN
        with accepted(f"{message_id} is queued"):
            if as_json:
                states = {course.agent: self._as_data(who) for who, course in self._courses.items()}
                print_json(
                    {
                        "message_id": message_id,
                        "files": list(files),
                        "daemon_running": exit_code != NO_DAEMON,
                        "outcome": _OUTCOMES[exit_code],
                        "recipients": states,
                    }
                )
            elif exit_code in (TRY_AGAIN, NO_DAEMON):
                echo(self._words(exit_code, timeout_s), err=True)
        if exit_code:
            raise Ended(exit_code)

    # --- following ----------------------------------------------------------------------------------------------------
    def _follow(self, message_id: str, names: set[str], deadline: float, as_json: bool) -> int:
        last_alive = time.monotonic()
        for line in session_log.follow(self._follower, poll_s=POLL_S):
            now = time.monotonic()
            if line is not None:
                self._take(line, message_id, names, as_json)
                if any(course.state in _BAD for course in self._courses.values()):
                    return NO  # what the others do cannot make it a yes
                if not self._open:
                    return 0
            elif root_lock.holder(self._site.run) is not None:
                last_alive, self._met_daemon = now, True
            if now - last_alive > self._grace_s:
                return NO_DAEMON
            if now >= (deadline if line is None else deadline + CATCH_UP_S):
                return TRY_AGAIN if self._met_daemon else NO_DAEMON
        raise AssertionError("follow() ended")

    def _take(self, line: Line, message_id: str, names: set[str], as_json: bool) -> None:
        who = identity(str(line.data.get("agent", "")))
        if who not in self._open:
            return
        course = self._courses[who]
        if _is_rejection_of(line, names):
            course = replace(course, state="rejected", reason=str(line.data.get("reason")))
        elif line.data.get("message_id") == message_id:
            course = advanced(course, line)
        else:
            return
        self._courses[who] = course
        if line.type == "message_retry":
            self._retries[who] = line
        if line.type in _GOOD[self._until] or course.state in _BAD:
            self._open.discard(who)
            if not as_json:
                why = f" ({visible(course.reason)})" if course.reason and course.state in _BAD else ""
                with accepted(f"{message_id} is queued"):
                    echo(f"{course.state}: {visible(course.agent)}{why}")

    # --- saying -------------------------------------------------------------------------------------------------------
    def _as_data(self, who: str) -> dict[str, Any]:
        course = self._courses[who]
        receipts = [{"receipt": one.receipt, "at": one.at, "proof": one.proof} for one in course.receipts]
        reason = course.reason if course.state in {"retrying", *_BAD} else None
        if reason is None and who in self._open:
            reason = self._hindrance(course).removeprefix("; ") or None
        return {"state": course.state, "receipts": receipts, **({"reason": reason} if reason else {})}

    def _words(self, exit_code: int, timeout_s: float) -> str:
        standing = "; ".join(self._standing(who) for who in sorted(self._open))
        if exit_code == TRY_AGAIN:
            return f"not {self._until} within {timeout_s:g} s: {standing}"
        if not self._met_daemon:
            return "no daemon is running: the message stays queued, and is delivered when one starts (`ackd run`)"
        return f"the daemon has stopped: {standing}; the next one goes on from there"

    def _standing(self, who: str) -> str:
        """The last proof there is of one recipient, and what keeps it."""
        course = self._courses[who]
        name = visible(course.agent)
        words = {
            "queued": f"{name} has not taken it yet",
            "processing": f"{name} is being told",
            "delivered": f"{name} was told{_proof(course, 'told')} and has {_seen(course)}",
            "acked": f"{name} has acked it{_proof(course, 'acked')}",
            "retrying": f"{name}: {self._retrying(who)}",
        }.get(course.state, f"{name}: {course.state}")
        return words + (self._hindrance(course) if course.state in ("queued", "retrying") else "")

    def _retrying(self, who: str) -> str:
        data = self._retries[who].data if who in self._retries else {}
        count = (
            f"{data.get('retry_count')} of {data.get('retry_limit')}" if data.get("counted", True) else "not counted"
        )
        return f"retrying after: {visible(self._courses[who].reason)} ({count}), {_again(data)}"

    def _hindrance(self, course: Course) -> str:
        state = last_agent_state(self._site.logs, course.agent)
        return hindrance(state, visible(course.agent)) if state is not None else ""


def _is_rejection_of(line: Line, names: set[str]) -> bool:
    """A file that could not be read has no id in the log, only its name."""
    return line.type == "message_rejected" and str(line.data.get("file", "")).rpartition("/")[2] in names


def _proof(course: Course, receipt: str) -> str:
    proven = course.proof_of(receipt)
    if proven is None:
        return ""
    proof = re.sub(r" \(attempt (\d+)\)$", lambda tried: f", attempt {tried[1]}" * (tried[1] != "1"), proven.proof)
    return f" ({visible(proof)})"


def _seen(course: Course) -> str:
    return "seen it" if course.proof_of("seen") else "not acked it"


def _again(data: dict[str, Any]) -> str:
    try:
        due = datetime.fromisoformat(str(data.get("next_retry_after"))).timestamp()
    except (ValueError, OverflowError):
        return "again when it is due"
    return f"again in {duration(round(due - time.time()))}" if due > time.time() else "again now"
