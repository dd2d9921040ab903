"""Tickets: a process that waits for a lease, or holds one for as long as it lives, shows that it is there.

A ticket is a FIFO that its process keeps open for reading, and nobody else does. So a process that opens it for writing
knows at once whether the first one lives (ENXIO: it does not, however it ended), and wakes it with one byte. A crash
leaves a name behind, which whoever finds it dead removes.
"""

import contextlib
import errno
import os
import re
import select
from typing import Final

_NAME: Final = re.compile(r"[0-9]{1,10}-[0-9a-f]{16}", re.ASCII)


class Ticket:
    """A ticket of this process; it ends with ``close``, or with the process."""

    def __init__(self, directory: str) -> None:
        self.name = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._path = f"{directory}/{self.name}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)  # noqa: PTH102
        os.mkfifo(self._path, 0o600)
        try:
            # Opened for writing, too: once the last writer of a FIFO has gone, poll() always returns at once.
            self._fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            _unlink(self._path)
            raise

    def wait(self, timeout_s: float) -> bool:
        """Wait to be woken; True if that happened in time."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        if not any(mask & select.POLLIN for _, mask in poller.poll(max(0.0, timeout_s) * 1000)):
            return False
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 4096)
        return True

    def close(self) -> None:
        if self._fd >= 0:
            _unlink(self._path)
            os.close(self._fd)
            self._fd = -1


def is_dead(directory: str, name: str) -> bool:
    fd = _writer(directory, name)
    if fd is not None:
        os.close(fd)
    return fd is None


def ring(directory: str, name: str) -> None:
    fd = _writer(directory, name)
    if fd is not None:
        with contextlib.suppress(OSError):  # full: it was woken often enough; broken: it has just ended
            os.write(fd, b"\n")
        os.close(fd)


def remove(directory: str, name: str) -> None:
    """Remove the ticket of a dead process."""
    if _NAME.fullmatch(name):
        _unlink(f"{directory}/{name}")


def sweep(directory: str, oldest: float) -> None:
    """Remove the tickets of processes that died before anybody could know of them; none younger than ``oldest``."""
    try:
        with os.scandir(directory) as entries:
            old = [entry.name for entry in entries if entry.stat(follow_symlinks=False).st_mtime < oldest]
    except FileNotFoundError:
        return
    for name in old:
        if is_dead(directory, name):
            remove(directory, name)


def _writer(directory: str, name: str) -> int | None:
    """Open the ticket for writing. A hostile name belongs to nobody. If descriptors or rights are missing, the process
    may well live: OSError."""
    if not _NAME.fullmatch(name):
        return None
    try:
        fd = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ELOOP):
            return None
        raise
    return fd


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
