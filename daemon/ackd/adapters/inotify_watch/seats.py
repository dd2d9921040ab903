"""Seats: what a watch stands for, which events are worth hearing there, and what lies there when it is set.

Owns the masks. Refuses to know what a message is; it opens no file and believes no name beyond "this could be an
agent's". A listing that fails says HintsLost, for something may lie there.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

from inotify_simple import flags

from ackd.core.message import Folder, Place
from ackd.ports import FileReady, Hint, HintsLost, ReceiptReady

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

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
# EXCL_UNLINK: whoever still writes to a deleted file is nobody's news.
_FILES: Final = COMPLETE | WENT | CREATED | int(flags.ONLYDIR | flags.DONT_FOLLOW | flags.EXCL_UNLINK) | _SELF
_RECEIPTS: Final = COMPLETE | CREATED | int(flags.ONLYDIR | flags.EXCL_UNLINK) | _SELF

Listing: TypeAlias = "Generator[Hint, None, None]"

NOTHING_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


#: wd, mask, cookie, length of the name, which is padded with NULs.
_HEAD: Final = struct.Struct("iIII")
_HEAD_BYTES: Final = _HEAD.size
_DOT: Final = ord(".")
#: As ``os.fsdecode`` does it, at a quarter of the cost.
_NAMES: Final = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
#: What an event takes at most: its head, and the longest name that a file system has.
LARGEST_EVENT_BYTES: Final = _HEAD_BYTES + 256


def events_in(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Watch, mask and name of each event that was read, but for dot-names: who writes a message makes three events of
    its temporary file, which are nobody's news. (inotify_simple makes objects of them, and takes twice as long.)"""
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
class Seat:
    """What a watch stands for. ``box`` and ``folder`` have a meaning for MAIL only."""

    role: Role
    path: str
    box: str = ""
    folder: Folder = Folder.QUEUE

    def hint(self, name: str, *, closed: bool) -> Hint:
        if self.role is Role.RECEIPTS:
            return ReceiptReady(name)
        return FileReady(Place(self.box, self.folder, name), closed=closed)


def listing(seat: Seat) -> Listing:
    """What lies in a directory whose watch has just been set. Opened when it is this one's turn."""
    try:
        with os.scandir(seat.path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or (
                    is_processed(seat, entry.name) and entry.is_dir(follow_symlinks=False)
                ):
                    continue
                yield seat.hint(entry.name, closed=False)
    except OSError as error:
        if error.errno not in NOTHING_THERE:
            yield HintsLost()  # something may lie there, and only a scan can say what


def is_processed(seat: Seat, name: str) -> bool:
    return name == Folder.PROCESSED.value and seat.role is Role.MAIL and seat.folder is Folder.QUEUE
