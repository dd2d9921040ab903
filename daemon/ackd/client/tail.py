"""Read the session log: the last lines that fit a filter, of live and finished sessions, and those that come.

``tail`` is an iterator for programs. ``LogTail`` has its parts, for callers that show something between two lines.
Following goes on across restarts of the daemon. Fails with ``NoSessionLog`` where there is none yet and the caller does
not want to wait for one, and with OSError where the logs cannot be read.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.client.errors import NoSessionLog
from ackd.core import message_ids
from ackd.core.message import identity
from ackd.storage import session_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.config.site import Site
    from ackd.storage.session_log import Line

DEFAULT_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines are wanted. All conditions that are given must hold; several types are alternatives.

    ``message`` is an id, a beginning of one, or its hash. ``since`` is a wall-clock time in seconds.
    """

    types: tuple[str, ...] = ()
    agent: str | None = None
    message: str | None = None
    since: float | None = None

    def __bool__(self) -> bool:
        """Whether there is any condition at all."""
        return bool(self.types or self.agent or self.message or self.since is not None)

    def takes(self, line: Line) -> bool:
        return (
            (not self.types or any(is_of_type(line.type, wanted) for wanted in self.types))
            and (self.agent is None or concerns(line, self.agent))
            and (self.message is None or message_ids.fits(self.message, str(line.data.get("message_id", ""))))
            and (self.since is None or line.at >= self.since)
        )


def is_of_type(type_: str, wanted: str) -> bool:
    """``message_dead`` is taken by its name, by its family ``message`` and by its last word ``dead``."""
    return type_ == wanted or type_.startswith(f"{wanted}_") or type_ == f"message_{wanted}"


def concerns(line: Line, agent: str) -> bool:
    """Tell whether the line is about the agent, or names it as sender, as the one told, or as a member of a loop."""
    named = (line.data.get(key) for key in ("agent", "from", "to", "a", "b"))
    return any(isinstance(name, str) and identity(name) == identity(agent) for name in named)


class LogTail:
    """The lines of the log that fit, before and after the moment at which this was made."""

    def __init__(self, logs_dir: Path, wanted: LogFilter | None = None) -> None:
        self.wanted = wanted or LogFilter()
        self._follower = session_log.Follower(logs_dir)

    @property
    def has_log(self) -> bool:
        return self._follower.found_any

    def last(self, count: int | None = None) -> list[Line]:
        """Return the newest lines before that moment, oldest first. Without ``count``: 20, or all with ``since``."""
        wanted = self.wanted
        if count is None:
            count = DEFAULT_LINES if wanted.since is None else sys.maxsize
        searched = wanted.message or ""
        containing = searched.encode() if searched.isascii() and '"' not in searched else b""
        ends = self._follower.ends
        lines = session_log.iter_logs(self._follower.logs_dir, newest_first=True, ends=ends, containing=containing)
        if wanted.since is not None:
            since = wanted.since
            lines = itertools.takewhile(lambda line: line.at >= since, lines)
        newest = itertools.islice((line for line in lines if wanted.takes(line)), count)
        return list(newest)[::-1]

    def new(self) -> Iterator[Line]:
        """Yield the lines that came since the last call, without waiting for more."""
        return (line for line in self._follower.poll() if self.wanted.takes(line))

    def follow(self) -> Iterator[Line | None]:
        """Yield lines as they come, for ever; None whenever there is none for a moment."""
        for line in session_log.follow(self._follower):
            if line is None or self.wanted.takes(line):
                yield line


def tail(
    site: Site, wanted: LogFilter | None = None, *, count: int | None = None, follow: bool = False
) -> Iterator[Line]:
    """Yield the last lines that fit and, with ``follow``, those that come, for ever."""
    log = LogTail(site.logs, wanted)
    if not log.has_log and not follow:
        raise NoSessionLog(site.logs)
    return itertools.chain(log.last(count), filter(None, log.follow()) if follow else ())
