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
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.core import faults

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


#: Held at once: a tree of thousands must not take every descriptor that we have.
AT_A_TIME: Final = 128


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
        return mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        if faults.is_nobodys(error):
            raise
        return False  # gone, or another user's


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
