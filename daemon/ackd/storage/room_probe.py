"""Find out whether the machine has room: before it has none, by asking how much is left (``shortage``), and afterwards,
by a small trial of what the daemon does: opening descriptors, writing files, starting threads and processes.

Enough of each is tried, because a fault that comes back with the next message has not ended. Blocks as long as the disk
does: to be called in a thread. Leaves nothing behind.
"""

# ruff: noqa: PTH108 - by descriptor and name, as the spool does it
from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.faults import is_nobodys
from ackd.storage import atomic_file
from ackd.system.threads import refused_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: The descriptors that are needed to start a command, with a few flushes beside it.
DESCRIPTORS: Final = 24
#: New files, and bytes in each.
FILES: Final = 4
BYTES: Final = 16_384

#: Of a small file system this part is enough to keep free.
_PART: Final = 20
#: Fewer free inodes than this are a shortage.
_INODES: Final = 1_000


class Shortage(NamedTuple):
    """The file system on which too little is left. ``what``: "space", in bytes, or "inodes"."""

    where: str
    what: str
    free: int
    least: int


def words_of_shortage(found: Shortage) -> str:
    if found.what == "inodes":
        return f"only {found.free} inodes free on {found.where}, less than {found.least}"
    return f"only {found.free / 1e6:.1f} MB free on {found.where}, less than {found.least / 1e6:.1f} MB (min_free_mb)"


def shortage(directories: Iterable[Path], min_free_bytes: float, *, margin: float = 1.0) -> Shortage | None:
    """Return the worst shortage among the file systems of the directories; None if there is enough on each.

    ``margin``: so many times as much must be free, for an end of a shortage that is not followed by the next one. One
    that cannot be looked at is passed over, as one of unknown size is.
    """
    found: list[Shortage] = []
    for directory in directories if min_free_bytes else ():
        with contextlib.suppress(OSError):
            room, where = os.statvfs(directory), str(directory)
            size_bytes = room.f_blocks * room.f_frsize
            least = int(margin * min(min_free_bytes, size_bytes / _PART))
            found.append(Shortage(where, "space", room.f_bavail * room.f_frsize, least))
            found.append(Shortage(where, "inodes", room.f_favail, int(margin * min(_INODES, room.f_files / _PART))))
    return min((one for one in found if one.free < one.least), key=lambda one: one.free / one.least, default=None)


def one_of_each_mount(directories: Iterable[Path]) -> list[Path]:
    """Return one directory of each file system that the directories lie on, for ``shortage``."""
    return [places[0] for places in _by_mount(directories)]


def has_room(directories: Iterable[Path], *, starting: bool = False) -> bool:
    """Say whether each file system that the directories lie on can be written, and descriptors can be had.

    ``starting``: also whether a process and a thread can be started. Not tried without need: that costs more than the
    rest.
    """
    try:
        _open_many()
        if starting:
            _start_one_of_each()
        for places in _by_mount(directories):
            _write_in_one(places)
    except OSError:
        return False
    return True


def _by_mount(directories: Iterable[Path]) -> list[list[Path]]:
    """Group the directories by mount. A read-only mount may show the same device as the writable one beside it. A
    directory that cannot be looked at for reasons of its own is passed over: otherwise no fault would ever count as
    over, and the next full disk would not be reported."""
    found: dict[tuple[int, int], list[Path]] = {}
    for directory in directories:
        with _machines_only():
            mount = (directory.stat().st_dev, os.statvfs(directory).f_flag & os.ST_RDONLY)
            found.setdefault(mount, []).append(directory)
    return list(found.values())


def _write_in_one(places: Iterable[Path]) -> None:
    """Write in the first directory that lets us: the others lie on the same mount."""
    for directory in places:
        with _machines_only():
            _write_some(directory)
            return


@contextlib.contextmanager
def _machines_only() -> Iterator[None]:
    """Let only faults of the machine out of the block; any other refusal is passed over."""
    try:
        yield
    except OSError as error:
        if is_nobodys(error):
            raise


def _open_many() -> None:
    with contextlib.ExitStack() as fds:
        for _ in range(DESCRIPTORS):
            fds.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def _start_one_of_each() -> None:
    """Start a new thread, since an idle one proves nothing, and a process beside it: a command needs both at once."""
    refused: list[OSError] = []
    thread = threading.Thread(target=_start_process, args=(refused,), name="room probe", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise refused_thread(error) from error
    thread.join()
    if refused:
        raise refused[0]


def _start_process(refused: list[OSError]) -> None:
    """Start a process. A missing program does not matter: the process that looks for it has been started by then."""
    try:
        with _machines_only():
            os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)
    except OSError as error:
        refused.append(error)


def _write_some(directory: Path) -> None:
    """Write files under names that a sweep removes, should we die here, and remove them."""
    made: list[str] = []
    try:
        for _ in range(FILES):
            path = f"{directory}/{atomic_file.own_temporary_name()}"
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            made.append(path)
            try:
                atomic_file.write_all(fd, bytes(BYTES))
            finally:
                os.close(fd)
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)
