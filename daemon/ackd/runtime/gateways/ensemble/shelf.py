"""One directory of an Ensemble team, as it lies there.

Owns listing it, telling a file whose writer is through from one that is being written, and reading it. What is no
regular file is never opened. Refuses to know what a file means. A directory that is not there has nothing to tell
(None); OSError otherwise; ``BadMessage`` for what cannot be read.
"""

from __future__ import annotations

import os
import stat
from typing import Final, TypeAlias

from ackd.adapters.spool import reading
from ackd.core.errors import BadMessage
from ackd.core.values import value

#: inode, size, mtime and ctime in nanoseconds: another mark is reason to read the file again.
Mark: TypeAlias = tuple[int, int, int, int]

#: A writer that has closed its file may yet append to it (`echo >f; echo >>f`): this is how long it may take.
QUIET_S: Final = 0.05
#: How soon a file that someone has open is looked at again, where nothing tells of its being closed.
_AGAIN_S: Final = 0.1


@value
class Found:
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
        """Not before this was it there under its name: a copy may keep the time of what it is a copy of."""
        return max(self.mark[2], self.mark[3])

    @property
    def shown(self) -> str:
        """Its name for logs and messages: half characters become something that can be written."""
        return self.name.encode("utf-8", "backslashreplace").decode()


def listed(directory: str) -> list[Found] | None:
    """What lies there, the oldest first. Hidden files are nobody's business."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = (_look(directory, name) for name in names)
    return sorted((one for one in found if one is not None), key=lambda one: (one.mtime_ns, one.name))


def wait_s(found: Found, now_wall: float, settle_s: float) -> float:
    """For how long its writer must be left alone; 0: it is through.

    A file that is provably closed has settled soon; one that is empty, or of which nobody can say, after ``settle_s``.
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


def read(found: Found, limit: int) -> bytes | None:
    """Its bytes; None if it is another file by now. ``BadMessage``: too large, or no file."""
    try:
        data = reading.read_regular(found.path, limit).data
        now = _look(os.path.dirname(found.path), found.name)  # noqa: PTH120 - as the rest here
    except FileNotFoundError:
        return None
    return data if now is not None and now.mark == found.mark else None


def _look(directory: str, name: str) -> Found | None:
    path = f"{directory}/{name}"
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return None
    mark = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return Found(name, path, mark, stat.S_ISREG(info.st_mode), stat.S_ISDIR(info.st_mode))
