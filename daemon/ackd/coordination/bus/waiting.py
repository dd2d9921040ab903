"""Waits for an event on a bus, without a daemon: by the event files, and by the lines.

An event has happened when there is an event file of that name, or a line that would raise it. Files and lines are
looked at when the kernel says that something changed, and a few times a second where inotify cannot be had.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import time
from typing import TYPE_CHECKING, Final, Self

from ackd.coordination.bus.files.tailing import Position, position_at_end
from ackd.coordination.bus.rules.events import event_names
from ackd.core.errors import BadBusLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackd.bus import Bus

#: The longest sleep between two looks: without inotify, or if a notification is lost.
_POLL_S: Final = 0.1
_LOST_S: Final = 5.0


class EventWait:
    """``names``: the event files' names, as globs."""

    def __init__(self, bus: Bus, names: Sequence[str], *, new: bool) -> None:
        self._bus, self._names = bus, names
        self._position = position_at_end(bus.track.queue) if new else Position()
        self._known = dict(self._files()) if new else {}

    def wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with _ChangeWatch(self._bus.track.events, self._bus.track.bus) as bell:
            while not self._happened():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                bell.wait(left)
            return True

    def _happened(self) -> bool:
        return any(self._known.get(name) != stamp for name, stamp in self._files()) or self._was_said()

    def _files(self) -> Iterator[tuple[str, int]]:
        """The event files that match, each with a value that changes when it is raised again."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._bus.track.events) as entries:
            for entry in entries:
                if self._fits(entry.name):
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.name, entry.stat(follow_symlinks=False).st_mtime_ns

    def _was_said(self) -> bool:
        more = True
        while more:
            lines, self._position, more = self._bus.read_on(self._position)
            for line in lines:
                if not isinstance(line, BadBusLine):
                    names = event_names(line.type.value, line.message_id, line.payload)
                    if any(map(self._fits, names)):
                        return True
        return False

    def _fits(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, wanted) for wanted in self._names)


class _ChangeWatch:
    """Waits for a change in one of these directories."""

    def __init__(self, *directories: str) -> None:
        from inotify_simple import INotify, flags  # noqa: PLC0415

        mask = flags.CREATE | flags.MODIFY | flags.ATTRIB | flags.MOVED_TO | flags.ONLYDIR
        self._inotify: INotify | None = None
        self._pause_s = _LOST_S
        try:
            self._inotify = INotify()
            for directory in directories:
                self._inotify.add_watch(directory, mask)
        except OSError:  # inotify has no instance or watch left, or there is no such directory: poll
            self._pause_s = _POLL_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._inotify is not None:
            self._inotify.close()

    def wait(self, seconds: float) -> None:
        pause_s = min(seconds, self._pause_s)
        if self._inotify is None:
            time.sleep(pause_s)
        else:
            self._inotify.read(timeout=round(1000 * pause_s) + 1)
