"""One call of a program that is through in a moment: its exit status and what it wrote.

Its output goes to memory files, so that nobody need read along, and its end is a pidfd: asyncio's own way makes pipes,
transports and, before Python 3.12, a thread for each call, a fifth of the time that a call of tmux takes.

Fails with OSError when it cannot be started and with TimeoutError when it takes too long; cancelled or late, it is
killed and reaped first.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from typing import TYPE_CHECKING, NamedTuple

import anyio

from ackd import processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Result(NamedTuple):
    exit: int
    out: bytes
    err: bytes


async def call(command: Sequence[str], timeout_s: float) -> Result:
    with _memory("stdout") as out, _memory("stderr") as err:
        pid = _spawn(command, out, err)
        await _end_of(pid, timeout_s)
        return Result(_reap(pid), _content(out), _content(err))


def _spawn(command: Sequence[str], out: int, err: int) -> int:
    """Its signals as a shell would have them: Python ignores SIGPIPE, and a child inherits that. A server that this
    starts outlives us, and keeps what it inherits."""
    _keep_to_ourselves()
    outputs = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    signals = [signal.SIGPIPE, signal.SIGXFSZ]
    actions = [nothing, *outputs]
    return os.posix_spawnp(command[0], list(command), os.environ, file_actions=actions, setsigdef=signals)


@functools.cache
def _keep_to_ourselves() -> None:
    """Once: what we open ourselves is never inherited."""
    processes.keep_to_ourselves()


def _reap(pid: int) -> int:
    """Of one that is dead, or about to be."""
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


async def _end_of(pid: int, timeout_s: float) -> None:
    """Dead, and yet to be reaped; late or cancelled, nothing of it is left."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)  # ours, and not reaped: its number is nobody else's
        _reap(pid)
        raise
    try:
        with anyio.fail_after(timeout_s):
            await processes.died(pidfd)
    except BaseException:
        with anyio.CancelScope(shield=True):
            processes.send(pidfd, signal.SIGKILL)
            await processes.died(pidfd)
        _reap(pid)
        raise
    finally:
        os.close(pidfd)


@contextlib.contextmanager
def _memory(name: str) -> Iterator[int]:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)
