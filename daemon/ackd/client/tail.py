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

from ackd.client import log_history
from ackd.client.errors import NoSessionLog
from ackd.core.errors import UnknownAgent
from ackd.storage import session_log
from ackd.storage.log_index import LineQuery, LogSearch

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
        """Tell whether there is any condition at all."""
        return bool(self.types or self.agent or self.message or self.since is not None)

    def takes(self, line: Line) -> bool:
        return self.query.takes(line)

    @property
    def query(self) -> LineQuery:
        return LineQuery(types=self.types, agent=self.agent, message=self.message, since=self.since)


def known_agent(site: Site, name: str) -> str:
    """Return the name of an agent whose lines are wanted. One that has left the team may still be in the log.

    Fails with ``UnknownAgent`` if no line of the log is about the name either.
    """
    try:
        return site.resolve_address(name)
    except UnknownAgent:
        if next(iter(log_history.search(site).find(LineQuery(agent=name), limit=1)), None) is not None:
            return name
        raise


class LogTail:
    """The lines of the log that fit, before and after the moment at which this was made."""

    def __init__(self, logs_dir: Path, wanted: LogFilter | None = None, search: LogSearch | None = None) -> None:
        """``search`` finds the lines before that moment; by default all logs are read for them."""
        self.wanted = wanted or LogFilter()
        self._search = search or LogSearch(logs_dir)
        self._follower = session_log.Follower(logs_dir)

    @property
    def has_log(self) -> bool:
        return self._follower.found_any

    def last(self, count: int | None = None) -> list[Line]:
        """Return the newest lines before that moment, oldest first. Without ``count``: 20, or all with ``since``."""
        wanted = self.wanted
        if count is None:
            count = DEFAULT_LINES if wanted.since is None else sys.maxsize
        return self._search.find(wanted.query, newest_first=True, limit=count, ends=self._follower.ends)[::-1]

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
    if wanted is not None and wanted.agent is not None:
        known_agent(site, wanted.agent)
    log = LogTail(site.logs, wanted, log_history.search(site))
    if not log.has_log and not follow:
        raise NoSessionLog(site.logs)
    return itertools.chain(log.last(count), filter(None, log.follow()) if follow else ())
