"""Lists and reads one directory of an Ensemble team, and tells finished files from those still being written.

Only regular files are opened. A directory that does not exist is None. Fails with OSError; ``BadMessage`` for a file
that cannot be read.
"""

from __future__ import annotations

import os
import stat
from typing import Final, TypeAlias

from ackd.core.errors import BadMessage
from ackd.core.values import value
from ackd.storage.spool import reading

#: inode, size, mtime and ctime in nanoseconds: a file whose mark has changed is read again.
Mark: TypeAlias = tuple[int, int, int, int]

#: A writer that has closed its file may yet append to it (`echo >f; echo >>f`): this is how long it may take.
QUIET_S: Final = 0.05
#: The time after which a file that someone has open is looked at again, if no notification tells of its closing.
_AGAIN_S: Final = 0.1


@value
class FoundFile:
    name: str
    path: str
    mark: Mark
    regular: bool
    directory: bool

    @property
    def mtime_ns(self) -> int:
        return self.mark[2]

    @property
    def came_ns(self) -> int:
        """The earliest time at which the file can have appeared under its name: a copy may keep the original's
        mtime."""
        return max(self.mark[2], self.mark[3])

    @property
    def shown(self) -> str:
        """The name for logs and messages: bytes that are no UTF-8 are written as escapes."""
        return self.name.encode("utf-8", "backslashreplace").decode()


def listed(directory: str) -> list[FoundFile] | None:
    """The files in the directory, the oldest first, without hidden ones."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = (_look(directory, name) for name in names)
    return sorted((one for one in found if one is not None), key=lambda one: (one.mtime_ns, one.name))


def wait_s(found: FoundFile, now_wall: float, settle_s: float) -> float:
    """Return for how many seconds the file must be left to its writer; 0: it is finished.

    A file that is provably closed is finished soon; an empty one, or one that may be open, after ``settle_s``.
    """
    try:
        closed = reading.is_closed(found.path)
    except (FileNotFoundError, BadMessage):
        return _AGAIN_S
    if closed is False:
        return max(settle_s / 4, _AGAIN_S)
    needed = min(settle_s, QUIET_S) if closed and found.mark[1] else settle_s
    age_s = now_wall - found.came_ns / 1e9
    return needed - age_s if 0 <= age_s < needed else 0.0


def read(found: FoundFile, limit: int) -> bytes | None:
    """The file's bytes; None if another file has taken its place. ``BadMessage``: too large, or no regular file."""
    try:
        data = reading.read_regular(found.path, limit).data
        now = _look(os.path.dirname(found.path), found.name)  # noqa: PTH120 - as the rest here
    except FileNotFoundError:
        return None
    return data if now is not None and now.mark == found.mark else None


def _look(directory: str, name: str) -> FoundFile | None:
    path = f"{directory}/{name}"
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return None
    mark = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return FoundFile(name, path, mark, stat.S_ISREG(info.st_mode), stat.S_ISDIR(info.st_mode))
