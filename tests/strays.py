"""Processes that a test started and lost: found by a path in their environment that is the test's own, ended by pidfd.

A run of an exec agent is known by ``ACKD_BODY``, which lies in its run directory; what an acceptance test starts, by
``TEAM_PLACE``, which everything below the daemon inherits. What cleaned its environment is known by its session, if the
session's leader is known. Nothing else is ever touched.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

from tests import warm

MARK = "TEAM_PLACE"
#: For a script that waits for the test's sign; not for ever, should the test be killed before it can give it.
UNTIL_GO = "for _ in $(seq 6000); do [ -e go ] && break; sleep 0.01; done"
_MARKS = (f"{MARK}=".encode(), b"ACKD_BODY=")
_PATIENCE_S = 30.0


def end_strays(place: Path) -> list[int]:
    """KILL what was started below ``place``, and wait for its death. Looks again, for what is forked meanwhile."""
    ended: list[int] = []
    give_up_at = time.monotonic() + _PATIENCE_S
    while (left := strays(place)) and time.monotonic() < give_up_at:
        for pid in left:
            _end(pid, place)
        ended += left - set(ended)
    return ended


def strays(place: Path) -> set[int]:
    pids = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()} - {os.getpid()}
    marked = {pid for pid in pids if is_marked(pid, place)}
    return marked | {pid for pid in pids if _session(pid) in marked}


def children() -> set[int]:
    """Of this process, zombies too."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = stat.read_text(errors="replace").partition(" ")
            if int(rest.rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(pid))
    return found


def is_marked(pid: int, place: Path) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return False
    if (known := warm.living(MARK).get(pid)) is not None:
        environment.append(f"{MARK}={known}".encode())
    paths = (entry.partition(b"=")[2] + b"/" for entry in environment if entry.startswith(_MARKS))
    return any(path.startswith(os.fsencode(place) + b"/") for path in paths)


def _session(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[3]) if fields[0] != "Z" else None


def _end(pid: int, place: Path) -> None:
    """Held by its pidfd, then looked at once more: the number may be someone else's by now."""
    with contextlib.suppress(OSError):
        fd = os.pidfd_open(pid)
        try:
            if pid in strays(place):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                select.select([fd], [], [], _PATIENCE_S)
        finally:
            os.close(fd)
    with contextlib.suppress(ChildProcessError):  # reaped by its own parent
        os.waitpid(pid, os.WNOHANG)
