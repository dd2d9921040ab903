"""All the processes that belong to something we started: find them, end them, and count the CPU time they have used.

A program that we start carries a mark in its environment, and so does all that it starts: a process is found whichever
group or session it fled to. It is held by a pidfd from the moment it is found, so that no signal ever goes to a number
that may be someone else's by now. The caller of ``find_processes`` closes the pidfds. A process that is gone, or
another user's, does not belong. If the machine does not let us look (no descriptors) that is OSError: a process that
was not seen must not pass for gone.

Ending sends TERM to each once, then KILL, and looks again and again for what is forked meanwhile, until nothing is
left. Processes that no KILL ends (a dead network mount) are given up on, and named in the result.

CPU time is a sign of life that costs the child nothing. One look at /proc serves every child, or pane, that is asked
about shortly after. What belongs to one is its session, whatever carries its mark, and what these have started. A
process that is gone, or cannot be read, has used nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core import faults
from ackd.system.processes import CHILD_MARK
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

#: How many processes are held at once: a tree of thousands must not take every descriptor that we have.
AT_A_TIME: Final = 128
#: How often, and how long, a process in the middle of execve is looked at; on a busy machine execve takes a while.
_EXEC_LOOK_S: Final = 0.001
_EXEC_PATIENCE_S: Final = 1.0
#: Positions of fields in /proc/PID/stat, counted after the program's name.
_FLAGS: Final = 6
_ENV_START: Final = 47
_ENV_END: Final = 48
#: PF_EXITING and PF_KTHREAD.
_KERNELS_OR_ENDING: Final = 0x4 | 0x200000


def find_processes(
    mark: str, session: int | None = None, others: Callable[[], Collection[int]] = tuple
) -> dict[int, int]:
    """Return the pid and a pidfd of each living process with ``mark`` ("NAME=value") in its environment, or in
    ``session``.

    ``others``: pids that belong as well. All are looked at again once the pidfd holds them: a pid that was recycled in
    between fails the second look. At most ``AT_A_TIME`` are returned: whoever ends them looks until there is none.
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
    """Read a process's environment. In the midst of execve a process has none for a moment, and the next one may have
    the mark, so it is waited for: a process that is missed here would never be looked at again."""
    path, give_up_at = Path(f"/proc/{pid}/environ"), time.monotonic() + _EXEC_PATIENCE_S
    before: tuple[int, int] | None = None
    while not (found := path.read_bytes()) and time.monotonic() < give_up_at:
        span = _environment_span(pid)
        if span is None or (span == before and span[0] == span[1] != 0):  # execve would have moved the span
            break
        before = span
        time.sleep(_EXEC_LOOK_S)
    return found


def _environment_span(pid: int) -> tuple[int, int] | None:
    """Return where the environment begins and ends in the process's memory; zeros, or an empty span, in the midst of
    execve. None for the kernel's own threads and for processes that are ending: these have none."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    if fields[0] in {b"Z", b"X"} or int(fields[_FLAGS]) & _KERNELS_OR_ENDING:
        return None
    return int(fields[_ENV_START]), int(fields[_ENV_END])


def term(left: dict[int, int], termed: set[int]) -> None:
    """Send TERM to each process once: a second TERM means "at once" to many. CONT lets a stopped process meet its
    TERM."""
    for pid in left.keys() - termed:
        send(left[pid], signal.SIGTERM)
        send(left[pid], signal.SIGCONT)
    termed |= left.keys()


def send(pidfd: int, which: signal.Signals) -> None:
    with contextlib.suppress(OSError):  # the process is gone, or has become another user's
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


# --- ending -----------------------------------------------------------------------------------------------------------
#: How long to wait, after the KILL of processes that ignored TERM, before they are given up.
KILLED_WAIT_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """The processes that are to be ended. ``session`` and ``group`` return None when that number may be someone else's
    by now; while its leader lives, or is our own zombie, it is not. ``others``: pids that belong to the tree by other
    signs; ``kill``: kills all of these at once. ``hindered``: called with the reason when processes cannot be looked
    at."""

    mark: str
    session: Callable[[], int | None] = lambda: None
    group: Callable[[], int | None] = lambda: None
    others: Callable[[], Collection[int]] = tuple
    kill: Callable[[], None] | None = None
    hindered: Callable[[OSError], None] = lambda _error: None


@dataclass(frozen=True, slots=True)
class TreeEnded:
    """The pids of all processes that there were, and of those that are left in the end, or some of them: mostly
    none."""

    met: frozenset[int]
    left: frozenset[int] = frozenset()

    @property
    def gone(self) -> bool:
        return not self.left


async def end_tree(tree: ProcessTree, stop_timeout_s: float, walkers: anyio.CapacityLimiter | None = None) -> TreeEnded:
    """End a tree of processes. ``walkers``: how many may look through all processes at a time, where many are ended at
    once."""
    kill_at = anyio.current_time() + stop_timeout_s
    termed: set[int] = set()
    met: set[int] = set()
    while left := await _left(tree, kill_at, walkers):
        met |= left.keys()
        try:
            if anyio.current_time() >= kill_at:
                _kill(tree, left)
            else:
                term(left, termed)
            await _watch(left, kill_at)
        finally:
            close_all(left)
        if anyio.current_time() > kill_at + KILLED_WAIT_S:
            return TreeEnded(frozenset(met), frozenset(left))
    return TreeEnded(frozenset(met))


async def _watch(left: dict[int, int], kill_at: float) -> None:
    """Wait until all of these are dead, or it is time to look again; time to kill is time to look."""
    now = anyio.current_time()
    look_at = now + _LOOK_AGAIN_S
    with anyio.CancelScope(deadline=min(look_at, kill_at) if kill_at > now else look_at):
        for fd in left.values():
            await died(fd)


async def _left(tree: ProcessTree, kill_at: float, walkers: anyio.CapacityLimiter | None) -> dict[int, int]:
    """Return the processes that are left. Waits while the machine does not let us look: an unseen process is not gone.
    Those that can be killed unseen are killed, because they may be what exhausts the machine."""
    said = False
    while True:
        try:
            return await in_thread(find_processes, tree.mark, tree.session(), tree.others, limiter=walkers)
        except OSError as error:
            if not said:
                tree.hindered(error)
            said = True
            if anyio.current_time() >= kill_at:
                _kill(tree, {})
            await anyio.sleep(_LOOK_AGAIN_S)


def _kill(tree: ProcessTree, left: dict[int, int]) -> None:
    """Kill each process, and the group at once where its number is surely its own: a tree may fork faster than we
    walk."""
    if tree.kill is not None:
        tree.kill()
    group = tree.group()
    if group is not None:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    for fd in left.values():
        send(fd, signal.SIGKILL)


# --- CPU time ---------------------------------------------------------------------------------------------------------
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
#: Less CPU time than this is no sign of life: the kernel's clock ticks a hundred times a second, and a program that
#: hangs may have a timer.
SIGN_CPU_S: Final = 0.05
MAX_AGE_S: Final = 2.0
_MARK: Final = f"{CHILD_MARK}=".encode()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A process as it was last seen. ``ticks`` are its own and those of children that it has waited for: a total that
    does not fall when one ends."""

    parent: int
    session: int
    start_ticks: int
    ticks: int
    mark: str


@dataclass(eq=False)
class ProcessTable:
    max_age_s: float = MAX_AGE_S
    _seen: dict[int, _Seen] = field(default_factory=dict, init=False)
    #: The time of the look that answers are based on: it may be up to ``max_age_s`` ago.
    looked_at: float = field(default=float("-inf"), init=False)

    def cpu_s(self, session: int, mark: str = "") -> float:
        return sum(self._seen[pid].ticks for pid in self._members(session, mark)) / _TICKS_PER_S

    def started_since(self, session: int, boot_s: float) -> list[int]:
        """Return the pids of those started since then, in seconds since the machine's boot, the oldest first."""
        young = [pid for pid in self._members(session, "") if self._seen[pid].start_ticks >= boot_s * _TICKS_PER_S]
        return sorted(young, key=lambda pid: (self._seen[pid].start_ticks, pid))

    def _members(self, session: int, mark: str) -> set[int]:
        if time.monotonic() - self.looked_at >= self.max_age_s:
            self._look()
        members = {pid for pid, one in self._seen.items() if one.session == session or (mark and one.mark == mark)}
        grown = True
        while grown:
            more = {pid for pid, one in self._seen.items() if one.parent in members} - members
            members |= more
            grown = bool(more)
        return members

    def _look(self) -> None:
        """Read all processes. A mark is inherited and does not change: it is read once for each process."""
        found: dict[int, _Seen] = {}
        with os.scandir("/proc") as entries:
            pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
        for pid in pids:
            one = self._read(pid)
            if one is not None:
                found[pid] = one
        self._seen, self.looked_at = found, time.monotonic()

    def _read(self, pid: int) -> _Seen | None:
        stat = _content(f"/proc/{pid}/stat")
        try:
            fields = stat.rpartition(b")")[2].split()
            parent, session, start = int(fields[1]), int(fields[3]), int(fields[19])
            ticks = sum(int(ticks) for ticks in fields[11:15])
        except (ValueError, IndexError):
            return None  # gone
        before = self._seen.get(pid)
        known = before is not None and before.start_ticks == start
        return _Seen(parent, session, start, ticks, before.mark if known and before else _mark(pid))


def _mark(pid: int) -> str:
    entries = _content(f"/proc/{pid}/environ").split(b"\0")
    return next((entry[len(_MARK) :].decode("ascii", "replace") for entry in entries if entry.startswith(_MARK)), "")


def _content(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 256 * 1024)
    except OSError:
        return b""
    finally:
        os.close(fd)
