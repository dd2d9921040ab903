"""`--wait`: watching the session log until every recipient has acked or completed a message.

Owns what the lines mean for the one who waits. Refuses to guess: only a line of the log counts, never a file that has
moved. Ends 0 when all have, 1 when one never will, 69 when the daemon went away, 75 when the time is over; the message
stays queued in the last two.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from ackd.adapters import root_lock, session_log
from ackd.core.message import identity
from ackd.frontends.cli.errors import NO, NO_DAEMON, TRY_AGAIN
from ackd.frontends.cli.options import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ackd.adapters.session_log import Line
    from ackd.site import Site

POLL_S: Final = 0.05
#: A daemon that is being restarted is away for a moment.
DAEMON_GRACE_S: Final = 3.0
_GOOD: Final = {
    "acked": {"message_acked": "acked", "message_completed": "completed"},
    "completed": {"message_completed": "completed"},
}
_BAD: Final = {"message_dead": "dead", "message_withdrawn": "withdrawn", "message_rejected": "rejected"}


class Waiter:
    """Made before the message is written; follows the log from there."""

    def __init__(self, site: Site, until: str) -> None:
        self._site = site
        self._until = until
        self._follower = session_log.Follower(site.logs)
        self._open: dict[str, str] = {}
        self._ended: dict[str, dict[str, str]] = {}

    def wait(
        self, message_id: str, recipients: Sequence[str], files: Sequence[Path], timeout_s: float, *, as_json: bool
    ) -> None:
        self._open = {identity(name): name for name in recipients}
        exit_code = self._follow(message_id, {path.name for path in files}, time.monotonic() + timeout_s, as_json)
        if as_json:
            paths = [str(path) for path in files]
            states = {name: self._ended.get(name, {"state": "queued"}) for name in recipients}
            print_json(
                {"message_id": message_id, "files": paths, "outcome": _OUTCOMES[exit_code], "recipients": states}
            )
        elif exit_code in (TRY_AGAIN, NO_DAEMON):
            why = "the daemon has stopped" if exit_code == NO_DAEMON else f"not {self._until} in time"
            click.echo(f"{why}: {', '.join(self._open.values())}; the message stays queued", err=True)
        if exit_code:
            raise click.exceptions.Exit(exit_code)

    def _follow(self, message_id: str, names: set[str], deadline: float, as_json: bool) -> int:
        last_alive = time.monotonic()
        for line in session_log.follow(self._follower, poll_s=POLL_S):
            if line is not None:
                self._take(line, message_id, names, as_json)
                if any(end["state"] in _BAD.values() for end in self._ended.values()):
                    return NO  # what the others do cannot make it a yes
                if not self._open:
                    return 0
                continue
            now = time.monotonic()
            if root_lock.holder(self._site.run) is not None:
                last_alive = now
            if now - last_alive > DAEMON_GRACE_S:
                return NO_DAEMON
            if now >= deadline:
                return TRY_AGAIN
        raise AssertionError("follow() ended")

    def _take(self, line: Line, message_id: str, names: set[str], as_json: bool) -> None:
        if line.data.get("message_id") != message_id and not _is_rejection_of(line, names):
            return
        state = _GOOD[self._until].get(line.type) or _BAD.get(line.type)
        agent = str(line.data.get("agent", ""))
        if state is None or identity(agent) not in self._open:
            return
        name = self._open.pop(identity(agent))
        reason = line.data.get("reason")
        self._ended[name] = {"state": state, **({"reason": str(reason)} if reason else {})}
        if not as_json:
            click.echo(f"{state}: {name}" + (f" ({reason})" if reason else ""))


_OUTCOMES: Final = {0: "done", NO: "failed", NO_DAEMON: "no daemon", TRY_AGAIN: "timeout"}


def _is_rejection_of(line: Line, names: set[str]) -> bool:
    """A file that could not be read has no id in the log, only its name."""
    return line.type == "message_rejected" and str(line.data.get("file", "")).rpartition("/")[2] in names
