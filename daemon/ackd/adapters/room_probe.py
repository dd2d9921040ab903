"""Is there room again? Tried by doing in small what the daemon does: opening, making files, writing, starting.

Owns how much of it counts as enough: a fault that ends only to come back with the next message has not ended. Refuses
to know what was refused to whom. Blocks as long as the disk does: to be called in a thread. Leaves nothing behind.
"""

# ruff: noqa: PTH108 - by descriptor and name, as the spool does it
from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Final

from ackd.core.faults import is_nobodys
from ackd.threads import refused_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: Descriptors that starting a command takes, and a few flushes beside it.
DESCRIPTORS: Final = 24
#: New files, and bytes in each.
FILES: Final = 4
BYTES: Final = 16_384


def has_room(directories: Iterable[Path], *, starting: bool = False) -> bool:
    """Whether each file system that the directories lie on can be written, and descriptors can be had.

    ``starting``: and a process and a thread. Not tried without need: it costs more than the rest.
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
    """A read-only mount may show the same device as the writable one beside it. What cannot be looked at for reasons of
    its own is passed over: it would keep every fault there for ever, and the next full disk untold."""
    found: dict[tuple[int, int], list[Path]] = {}
    for directory in directories:
        with _machines_only():
            mount = (directory.stat().st_dev, os.statvfs(directory).f_flag & os.ST_RDONLY)
            found.setdefault(mount, []).append(directory)
    return list(found.values())


def _write_in_one(places: Iterable[Path]) -> None:
    """The first that lets us: the others lie on the same mount."""
    for directory in places:
        with _machines_only():
            _write_some(directory)
            return


@contextlib.contextmanager
def _machines_only() -> Iterator[None]:
    """Of what is refused inside, only a fault of the machine goes on."""
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
    """A thread of its own, since an idle one proves nothing, and a process beside it: a command needs both at once."""
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
    """Where there is no such program, that is found out by a process which could be started."""
    try:
        with _machines_only():
            os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)
    except OSError as error:
        refused.append(error)


def _write_some(directory: Path) -> None:
    """Under names that a sweep removes, should we die here."""
    made: list[str] = []
    try:
        for _ in range(FILES):
            path = f"{directory}/.ackd-{os.getpid()}-{os.urandom(8).hex()}.tmp"
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            made.append(path)
            try:
                rest = memoryview(bytes(BYTES))
                while rest:
                    rest = rest[os.write(fd, rest) :]
            finally:
                os.close(fd)
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)
