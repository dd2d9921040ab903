"""One line for a session log that any number of processes append to.

Owns that a line is whole: one O_APPEND write, in a turn that is a flock on the log itself, behind whatever is left of
a writer that died within its line. Nothing is kept open between two lines: a log that was removed begins anew, and a
process that forks shares nothing. Refuses to know what a fact means. Fails with OSError: the line is then not there, or
its beginning is, which readers pass over and the next writer closes off.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import time
from typing import TYPE_CHECKING, Final

from ackd.adapters.session_log.files import make_private
from ackd.adapters.session_log.lines import encode_line

if TYPE_CHECKING:
    from pathlib import Path

_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

#: How far each writer of this process has counted, whoever of its loggers speaks for it.
_counts: Final[dict[tuple[str, str], itertools.count[int]]] = {}


def append(path: Path, session_id: str, writer: str, type_: str, data: dict[str, object]) -> None:
    """Numbers of lines are the writer's own: its name must be that of one process."""
    fd = _open(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        seq = next(_counts.setdefault((str(path), writer), itertools.count(1)))
        line = encode_line(_stamp(time.time_ns()), session_id, seq, writer, type_, data)
        rest = memoryview((b"\n" if _is_torn(fd) else b"") + line)
        while rest:
            rest = rest[os.write(fd, rest) :]
    finally:
        os.close(fd)  # and with it the turn: nobody else has this descriptor


def _open(path: Path) -> int:
    try:
        return os.open(path, _APPEND, 0o600)
    except FileNotFoundError:
        make_private(path.parent)
        return os.open(path, _APPEND, 0o600)


def _is_torn(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def _stamp(at_ns: int) -> str:
    second, nanos = divmod(at_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{nanos // 1000:06d}Z"
