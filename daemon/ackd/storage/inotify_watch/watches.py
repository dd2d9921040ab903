"""Watches of the kernel: which directory each stands for, which events it reports, and why there may be none left.

A ``WatchedDirectory`` is a path and its role; ``Watches`` knows which number of the kernel stands for which. A
directory's path is watched again whenever an event concerns it, and the kernel answers with the number of the old watch
if and only if the same directory still lies there. So moved away and back, deleted and made again, replaced, swapped,
an event that comes late, and the losses of an overflow are one case. Inode numbers could not tell them apart (ext4
gives a freed one to the next directory).

No file is opened, and no name is believed beyond "this could be an agent's". Fails with ``CannotWatch`` at the user's
limit, in words that name the setting to raise; a directory that may not be read keeps the number it had, and a box
among them is remembered in ``shut``. A listing that fails gives HintsLost, because something may lie there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from inotify_simple import INotify, flags

from ackd.core.message import Folder, Place
from ackd.core.ports import FileReady, Hint, HintsLost, ReceiptReady

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


# Plain ints: an IntEnum's operators cost more than the rest of an event's handling.
ISDIR: Final = int(flags.ISDIR)
CREATED: Final = int(flags.CREATE)
OVERFLOWED: Final = int(flags.Q_OVERFLOW)
MOVED_HERE: Final = int(flags.MOVED_TO)
MOVED_AWAY: Final = int(flags.MOVED_FROM)
COMPLETE: Final = int(flags.CLOSE_WRITE) | MOVED_HERE
WENT: Final = int(flags.DELETE) | MOVED_AWAY
_SELF: Final = int(flags.DELETE_SELF | flags.MOVE_SELF)
ENDED: Final = _SELF | int(flags.IGNORED | flags.UNMOUNT)

_DIRECTORIES: Final = CREATED | WENT | int(flags.MOVED_TO | flags.ONLYDIR) | _SELF
_BOXES: Final = _DIRECTORIES | int(flags.ATTRIB)  # chmod may open a box that could not be read
# EXCL_UNLINK: writes to a file that was deleted, but is still open, are not reported.
_FILES: Final = COMPLETE | WENT | CREATED | int(flags.ONLYDIR | flags.DONT_FOLLOW | flags.EXCL_UNLINK) | _SELF
_RECEIPTS: Final = COMPLETE | CREATED | int(flags.ONLYDIR | flags.EXCL_UNLINK) | _SELF

Listing: TypeAlias = "Generator[Hint, None, None]"

NOTHING_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


#: wd, mask, cookie, length of the name, which is padded with NULs.
_HEAD: Final = struct.Struct("iIII")
_HEAD_BYTES: Final = _HEAD.size
_DOT: Final = ord(".")
#: Decodes names as ``os.fsdecode`` does, at a quarter of the cost.
_NAMES: Final = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
#: The largest size of an event: its head, and the longest name that a file system has.
LARGEST_EVENT_BYTES: Final = _HEAD_BYTES + 256


def events_in(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield watch, mask and name of each event that was read, except for dot-names: the temporary file of a writer
    makes three events that nobody needs. (inotify_simple makes objects of them, and takes twice as long.)"""
    at, end = 0, len(data)
    while at < end:
        wd, mask, _cookie, length = _HEAD.unpack_from(data, at)
        name_at, at = at + _HEAD_BYTES, at + _HEAD_BYTES + length
        if length == 0 or data[name_at] != _DOT:
            yield wd, mask, data[name_at:at].rstrip(b"\0").decode(*_NAMES)


class Role(Enum):
    ROOT = auto()  # holds queue/ and receipts/
    QUEUE = auto()  # queue/ itself
    RECEIPTS = auto()
    MAIL = auto()  # queue/<box>/ or its processed/


MASKS: Final = {
    Role.ROOT: _DIRECTORIES,
    Role.QUEUE: _BOXES,
    Role.RECEIPTS: _RECEIPTS,
    Role.MAIL: _FILES,
}


@dataclass(frozen=True, slots=True)
class WatchedDirectory:
    """A watched directory. ``box`` and ``folder`` have a meaning for MAIL only."""

    role: Role
    path: str
    box: str = ""
    folder: Folder = Folder.QUEUE

    def hint(self, name: str, *, closed: bool) -> Hint:
        if self.role is Role.RECEIPTS:
            return ReceiptReady(name)
        return FileReady(Place(self.box, self.folder, name), closed=closed)


def listing(watched: WatchedDirectory) -> Listing:
    """Yield hints for the files in a directory whose watch has just been set. The directory is opened at the first
    step."""
    try:
        with os.scandir(watched.path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or (
                    is_processed(watched, entry.name) and entry.is_dir(follow_symlinks=False)
                ):
                    continue
                yield watched.hint(entry.name, closed=False)
    except OSError as error:
        if error.errno not in NOTHING_THERE:
            yield HintsLost()  # something may lie there, and only a scan can find it


def is_processed(watched: WatchedDirectory, name: str) -> bool:
    return name == Folder.PROCESSED.value and watched.role is Role.MAIL and watched.folder is Folder.QUEUE


# --- inotify's limits -------------------------------------------------------------------------------------------------
AT_THE_LIMIT: Final = frozenset({errno.ENOSPC, errno.ENOMEM})


class CannotWatch(Exception):  # noqa: N818 - a condition, like those of core.errors
    """Inotify cannot be used, or a limit of it was met. ``reason`` becomes WatchFailed's."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def new_instance() -> INotify:
    try:
        return INotify(nonblocking=True)
    except OSError as error:
        raise CannotWatch(_no_instance(error)) from error


def _no_instance(error: OSError) -> str:
    match error.errno:
        case errno.EMFILE:
            return (
                f"no inotify instance is left for this user ({_sysctl('max_user_instances')}; raise it with sysctl) "
                "or no file descriptor for this process (ulimit -n)"
            )
        case errno.ENFILE:
            return "the system has no file descriptor left (raise sysctl fs.file-max)"
        case errno.ENOSYS:
            return "this kernel has no inotify"
        case _:
            return f"inotify cannot be used: {error.strerror}"


def watch_limit() -> str:
    return f"no inotify watch is left for this user ({_sysctl('max_user_watches')}; raise it with sysctl)"


def _sysctl(name: str) -> str:
    """Return the setting with its value. Containers may have a lower one of their own (user.max_inotify_*)."""
    try:
        return f"fs.inotify.{name} = {Path('/proc/sys/fs/inotify', name).read_text().strip()}"
    except OSError:
        return f"fs.inotify.{name}"


# --- the watches ------------------------------------------------------------------------------------------------------
class Watches:
    """The watches of one instance. ``on_robbed`` is called with a directory that turned up in another place."""

    def __init__(self, inotify: INotify, on_robbed: Callable[[WatchedDirectory], None]) -> None:
        self.shut: set[str] = set()  # boxes that may not be read
        self._inotify = inotify
        self._on_robbed = on_robbed
        self._watched: dict[int, WatchedDirectory] = {}

    def watched(self, wd: int) -> WatchedDirectory | None:
        """Return the directory of a watch; None for late events of a watch that was given up."""
        return self._watched.get(wd)

    def watch(self, watched: WatchedDirectory, known: int | None) -> int | None:
        """Watch the directory at its path and return the watch's number; None if there is no directory."""
        try:
            wd: int = self._inotify.add_watch(watched.path, MASKS[watched.role])
            if self._watched.get(wd, watched) != watched:
                # The directory was moved here, and the event about its old place has not been read yet. It gets a fresh
                # number, so that events still to come for the old place are not taken for events of this one.
                self._rob(wd)
                wd = self._inotify.add_watch(watched.path, MASKS[watched.role])
        except OSError as error:
            return self._cannot_watch(watched, known, error)
        self._watched[wd] = watched
        return wd

    def unwatch(self, wd: int | None) -> None:
        if wd is None:
            return
        self._watched.pop(wd, None)
        with contextlib.suppress(OSError):  # EINVAL: its directory was deleted, and the watch with it
            self._inotify.rm_watch(wd)

    def _cannot_watch(self, watched: WatchedDirectory, known: int | None, error: OSError) -> int | None:
        if error.errno in NOTHING_THERE:
            return None
        if error.errno in AT_THE_LIMIT:
            raise CannotWatch(watch_limit()) from error
        if watched.role is Role.MAIL:
            self.shut.add(watched.box)
        return known if known in self._watched else None  # nothing shows that the directory has changed

    def _rob(self, wd: int) -> None:
        watched = self._watched[wd]
        self.unwatch(wd)
        self._on_robbed(watched)
