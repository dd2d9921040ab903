"""Watch directories that are not the spool's, and report that something happened in one of them.

The report only names the directory: a notification is a hint, and whoever receives it looks at the disk.
Nothing below a directory is watched. Fails with ``CannotWatch``, from ``open`` or ``follow``, at one of inotify's
limits; a path that is no directory (yet) is passed over.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from inotify_simple import flags

from ackd.storage.inotify_watch.watches import AT_THE_LIMIT, CannotWatch, new_instance, watch_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from inotify_simple import INotify

_MASK: Final = (
    flags.CREATE
    | flags.MODIFY  # a writer that keeps a log open appends without ever closing it
    | flags.CLOSE_WRITE
    | flags.ATTRIB  # touch
    | flags.MOVED_TO
    | flags.MOVED_FROM
    | flags.DELETE
    | flags.DELETE_SELF
    | flags.MOVE_SELF
    | flags.ONLYDIR
)
_MOVED_OR_GONE: Final = flags.DELETE_SELF | flags.MOVE_SELF | flags.IGNORED | flags.UNMOUNT


class DirectoryWatch:
    """Calls ``changed`` with directories in which something happened, several at a time; with all that are followed
    after an overflow. Events of files named in ``passed_over`` are ignored: these are lock files, which a reader has to
    open, so that it would be told of its own look."""

    def __init__(self, changed: Callable[[frozenset[str]], None], passed_over: frozenset[str] = frozenset()) -> None:
        self._changed = changed
        self._passed_over = passed_over
        self._inotify: INotify | None = None
        self._paths: dict[int, str] = {}

    def open(self) -> None:
        self._inotify = new_instance()
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._read)

    def close(self) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None
            self._paths.clear()

    def follow(self, directories: Iterable[str]) -> None:
        """Watch these directories and no others. A directory that was replaced since is watched anew."""
        assert self._inotify is not None
        wanted = set(directories)
        for wd, path in list(self._paths.items()):
            if path not in wanted:
                self._drop(wd)
        for path in wanted.difference(self._paths.values()):
            try:
                self._paths[self._inotify.add_watch(path, _MASK)] = path
            except OSError as error:
                if error.errno in AT_THE_LIMIT:
                    raise CannotWatch(watch_limit()) from error

    def _read(self) -> None:
        assert self._inotify is not None
        changed: set[str] = set()
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                changed.update(self._paths.values())
                continue
            path = self._paths.get(event.wd)
            if path is None or event.name in self._passed_over:
                continue
            changed.add(path)
            if event.mask & _MOVED_OR_GONE:
                self._drop(event.wd)
        if changed:
            self._changed(frozenset(changed))

    def _drop(self, wd: int) -> None:
        self._paths.pop(wd, None)
        if self._inotify is not None:
            with contextlib.suppress(OSError):  # EINVAL: the watch has ended with its directory
                self._inotify.rm_watch(wd)
