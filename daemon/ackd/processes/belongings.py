"""All the processes that belong to something we started: finding them, signalling them, waiting for their death.

What we start carries a mark in its environment, and so does all that it starts: it is found whichever group or session
it fled to. A process is held by a pidfd from the moment it is found: no signal ever goes to a number that may be
someone else's by now. Whoever asks for ``belongings`` closes them.

Refuses to know what they were started for. Fails quietly: what is gone, or another user's, does not belong. Only a
machine that does not let us look (no descriptors) is OSError: what was not seen must not pass for gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.core import faults

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


#: Held at once: a tree of thousands must not take every descriptor that we have.
AT_A_TIME: Final = 128
#: How often, and how long, one is looked at that is becoming another program; on a busy machine that takes a while.
_EXEC_LOOK_S: Final = 0.001
_EXEC_PATIENCE_S: Final = 1.0
#: Where they stand in /proc/PID/stat, counted behind the program's name.
_FLAGS: Final = 6
_ENV_START: Final = 47
_ENV_END: Final = 48
#: PF_EXITING and PF_KTHREAD.
_KERNELS_OR_ENDING: Final = 0x4 | 0x200000


def belongings(mark: str, session: int | None = None, others: Callable[[], Collection[int]] = tuple) -> dict[int, int]:
    """The pid and a pidfd of each living process with ``mark`` ("NAME=value") in its environment, or in ``session``.

    ``others``: pids that belong as well. All are looked at again once the pidfd holds them: a pid that was recycled in
    between fails the second look. At most ``AT_A_TIME``: whoever ends them looks until there is none.
    """
    fds: dict[int, int] = {}
    try:
        for pid in _members(mark, session, others, _all_pids()):
            if (fd := _held(pid)) is not None:
                fds[pid] = fd
            if len(fds) == AT_A_TIME:
                break
        confirmed = _members(mark, session, others, fds) if fds else set()
        for pid in [pid for pid, fd in fds.items() if pid not in confirmed or is_dead(fd)]:
            os.close(fds.pop(pid))
    except OSError:
        close_all(fds)
        raise
    return fds


def _all_pids() -> list[int]:
    with os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def _members(mark: str, session: int | None, others: Callable[[], Collection[int]], among: Collection[int]) -> set[int]:
    entry = f"\0{mark}\0".encode()
    also = set(others()).intersection(among)
    return also | {pid for pid in among if pid not in also and _belongs(pid, entry, session)}


def _held(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if faults.is_nobodys(error):
            raise
        return None


def _belongs(pid: int, mark: bytes, session: int | None) -> bool:
    try:
        if session is not None and os.getsid(pid) == session:
            return True
        return mark in b"\0" + _environment(pid)
    except OSError as error:
        if faults.is_nobodys(error):
            raise
        return False  # gone, or another user's


def _environment(pid: int) -> bytes:
    """In the midst of execve a process has none for a moment, and the one that it is given a moment later may have the
    mark. It is waited for: whoever runs that moment by is never looked at again."""
    path, give_up_at = Path(f"/proc/{pid}/environ"), time.monotonic() + _EXEC_PATIENCE_S
    before: tuple[int, int] | None = None
    while not (found := path.read_bytes()) and time.monotonic() < give_up_at:
        span = _environment_span(pid)
        if span is None or (span == before and span[0] == span[1] != 0):  # a program has it elsewhere each time
            break
        before = span
        time.sleep(_EXEC_LOOK_S)
    return found


def _environment_span(pid: int) -> tuple[int, int] | None:
    """From where to where it lies in the process's memory; zeros, or nothing between the two, in the midst of execve.
    None for the kernel's own and for what is ending: these have none."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    if fields[0] in {b"Z", b"X"} or int(fields[_FLAGS]) & _KERNELS_OR_ENDING:
        return None
    return int(fields[_ENV_START]), int(fields[_ENV_END])


def term(left: dict[int, int], termed: set[int]) -> None:
    """Once each: a second TERM means "at once" to many. CONT lets a stopped process meet its TERM."""
    for pid in left.keys() - termed:
        send(left[pid], signal.SIGTERM)
        send(left[pid], signal.SIGCONT)
    termed |= left.keys()


def send(pidfd: int, which: signal.Signals) -> None:
    with contextlib.suppress(OSError):  # it is gone, or has become another user
        signal.pidfd_send_signal(pidfd, which)


def close_all(left: dict[int, int]) -> None:
    for fd in left.values():
        os.close(fd)


def is_dead(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


async def died(pidfd: int) -> None:
    """Wait for a pidfd, which is readable from the moment its process is dead."""
    loop = asyncio.get_running_loop()
    dead = asyncio.Event()
    loop.add_reader(pidfd, dead.set)
    try:
        await dead.wait()
    finally:
        loop.remove_reader(pidfd)
