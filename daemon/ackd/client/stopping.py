"""Stop the daemon of a team, however it was started, and wait for its end.

The daemon is the holder of the root's lock. A pid alone may belong to another process by now: so the process is held by
a pidfd first, and asked then whether it has the lock open. It is sent SIGTERM, lets running deliveries finish, and ends
by itself; ``at_once`` sends the second signal, which ends it now, and what still runs is taken up by the next start.

Fails with ``NoDaemon``, ``NotStopped`` (another user's, or in a container) and ``StillStopping``.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client.errors import NoDaemon, NotStopped, StillStopping
from ackd.client.tail import LogFilter, LogTail
from ackd.core.daemon_facts import session_stopping
from ackd.storage import root_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.config.site import Site

#: Longer than drain_timeout_s and stop_timeout_s, as they are by default.
TIMEOUT_S: Final = 120.0
_LOOK_EVERY_S: Final = 0.1
_UNIT: Final = re.compile(r"[^/\n]+\.service")


class Draining(NamedTuple):
    """The end of a daemon: ``agents`` may finish what they have in hand, for ``seconds`` at most."""

    agents: tuple[str, ...]
    seconds: float


class Stopped(NamedTuple):
    """``unit``: the unit of systemd that the daemon ran in; None if it was no service. ``is_users``: that of a user."""

    pid: int
    seconds: float
    agents: tuple[str, ...]
    unit: str | None
    is_users: bool


def stop(
    site: Site, *, timeout_s: float = TIMEOUT_S, at_once: bool = False, heard: Callable[[Draining], None] | None = None
) -> Stopped:
    """Stop the daemon. ``heard`` is called with what it waits for, as soon as it says so."""
    pid, pidfd = _daemon(site)
    try:
        unit, is_users = _unit_of(pid)
        log = LogTail(site.logs, LogFilter(types=(session_stopping.type,)))
        began = time.monotonic()
        _signal(pid, pidfd, at_once=at_once)
        agents = _wait(pid, pidfd, log, timeout_s, heard)
    finally:
        os.close(pidfd)
    return Stopped(pid, time.monotonic() - began, agents, unit, is_users)


def _daemon(site: Site) -> tuple[int, int]:
    """The daemon's pid and a pidfd of it, which means this process and no other."""
    pid = root_lock.holder(site.run)
    if pid is None:
        raise NoDaemon(f"no daemon runs on {site.root}")
    try:
        pidfd = os.pidfd_open(pid) if pid else None
    except ProcessLookupError:
        pidfd = None
    if pidfd is None:
        raise NotStopped(pid, f"the daemon of {site.root} is no process of this machine's: stop it where it runs")
    try:
        if not root_lock.is_held_by(site.run, pid):
            words = f"the daemon of {site.root} says it is pid {pid}, which is another process here"
            raise NotStopped(pid, f"{words}: stop it where it runs (in a container, on another machine)")
    except PermissionError:
        os.close(pidfd)
        raise NotStopped(pid, _another_users(site, pid)) from None
    except FileNotFoundError:
        os.close(pidfd)
        raise NoDaemon(f"the daemon of {site.root} has just ended") from None
    except BaseException:
        os.close(pidfd)
        raise
    return pid, pidfd


def _another_users(site: Site, pid: int) -> str:
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return f"the daemon of {site.root} (pid {pid}) is not yours to stop"
    return f"the daemon of {site.root} (pid {pid}) is not yours to stop: sudo -u '#{owner}' ackd stop"


def _unit_of(pid: int) -> tuple[str | None, bool]:
    """The unit that the process belongs to, and whether it is a user's."""
    try:
        said = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, False
    units = [_UNIT.findall(line) for line in said.splitlines() if line.startswith("0:") or ":name=systemd:" in line]
    found = max(units, key=len, default=[])
    own = [unit for unit in found if not unit.startswith("user@")]
    # A shell in a terminal runs below the terminal's unit: only a unit that is named after ackd is its own.
    unit = own[-1] if own and own[-1].startswith("ackd") else None
    return unit, len(own) < len(found)


def _signal(pid: int, pidfd: int, *, at_once: bool) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        if at_once:
            signal.pidfd_send_signal(pidfd, signal.SIGINT)  # another one: two of a kind that wait count as one
    except ProcessLookupError:
        pass  # it has just ended by itself
    except PermissionError:
        raise NotStopped(pid, f"pid {pid} is not yours to stop") from None


def _wait(
    pid: int, pidfd: int, log: LogTail, timeout_s: float, heard: Callable[[Draining], None] | None
) -> tuple[str, ...]:
    """Wait for the end, and return which agents were let finish."""
    deadline, agents = time.monotonic() + timeout_s, tuple[str, ...]()
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    while True:
        left_s = max(0.0, deadline - time.monotonic())
        ended = bool(poll.poll(min(_LOOK_EVERY_S, left_s) * 1000))
        for line in log.new():
            agents = tuple(map(str, line.data.get("agents") or ()))
            if heard is not None and not ended:
                heard(Draining(agents, float(line.data.get("seconds") or 0)))
        if ended:
            return agents
        if not left_s:
            raise StillStopping(pid, agents, timeout_s)
