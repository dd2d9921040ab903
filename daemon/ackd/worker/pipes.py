"""The two pipes to ackd, reserved for its protocol.

File descriptors 0 and 1 are replaced: the pipes move to other descriptors, print() and the output of child processes go
to stderr, which ackd logs, and nothing else can take a line from stdin. A line is written whole, by one thread at a
time. The contents of lines are the business of ``life`` and ``task``. When ackd has gone, reading ends and writing does
nothing; ``when_gone`` is then called once.
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
        """Yield lines until ackd has gone. Uses ``os.read``, because Python cannot close a buffered file at exit while
        a thread waits in it."""
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
        # default=str and errors="replace": whatever the work put into it, the line is sent. A last line that failed
        # here would leave ackd without the result.
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
    """Turn stdin and stdout into the pipes to ackd. Text that was printed before and is still buffered goes to stderr,
    too."""
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
    with contextlib.suppress(AttributeError, ValueError, OSError):  # the program may have replaced sys.stdout
        sys.stdout.flush()
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return Pipes(worker_id, read_fd, write_fd)


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z"


def _nobody_minds() -> None: ...
