"""The two pipes to ackd, kept for its language alone.

Owns file descriptors 0 and 1 of the process: the pipes move aside, print() and what children write go to stderr, which
ackd logs, and nobody can take a line from stdin. A line is written whole, by one thread at a time. Refuses to know what
a line says. When ackd has gone, reading ends and writing does nothing, but says so once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK: Final = 65_536
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EBADF})


class Pipes:
    def __init__(self, worker_id: str, read_fd: int, write_fd: int) -> None:
        self.worker_id = worker_id
        self.when_gone: Callable[[], None] = _nobody_minds
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._writing = threading.Lock()
        self._gone = False

    @property
    def at_a_terminal(self) -> bool:
        return os.isatty(self._read_fd)

    def lines(self) -> Iterator[bytes]:
        """Until ackd has gone. By ``os.read``: a buffered file that a thread waits in cannot be closed at exit."""
        buffered = b""
        while chunk := self._read():
            *whole, buffered = (buffered + chunk).split(b"\n")
            yield from whole

    def _read(self) -> bytes:
        try:
            return os.read(self._read_fd, _CHUNK)
        except OSError:
            return b""

    def say(self, kind: str, payload: dict[str, object], **fields: object) -> None:
        line = {"type": kind, "worker_id": self.worker_id, "timestamp": _now(), **fields, "payload": payload}
        # Whatever the work put into it, this becomes a line: a last word that cannot be said would be none.
        self._write(json.dumps(line, ensure_ascii=False, default=str).encode(errors="replace") + b"\n")

    def _write(self, line: bytes) -> None:
        with self._writing:
            if self._gone:
                return
            try:
                while line:
                    line = line[os.write(self._write_fd, line) :]
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                self._gone = True
        if self._gone:
            self.when_gone()


def take_over(worker_id: str) -> Pipes:
    """Stdin and stdout become the pipes to ackd. What was printed before and is still buffered goes to stderr, too."""
    read_fd, write_fd = os.dup(0), os.dup(1)
    os.set_blocking(read_fd, True)
    os.set_blocking(write_fd, True)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nowhere, 1)
    os.close(nowhere)
    with contextlib.suppress(AttributeError, ValueError, OSError):  # whoever runs us may have put something else there
        sys.stdout.flush()
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return Pipes(worker_id, read_fd, write_fd)


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z"


def _nobody_minds() -> None: ...
