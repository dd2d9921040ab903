"""Leases for programs: one writer at a time for a file, among everyone who asks through ackd.

    from ackd.leases import Leases

    leases = Leases(".ackd/bus", base=".")
    with leases.hold("src/app.py", agent="builder", wait_s=60) as lease:
        ...                               # ends with the block, or with this process, however it ends

    lease = leases.acquire("src/app.py", agent="builder")    # ends by release, or when its time is over
    leases.release("builder", "src/app.py")

Every change is announced on the bus, for agents that only read there: FILE_LOCK, FILE_UNLOCK and its event. The files
are the same that `ackd lock` and the daemon change; none of them needs a daemon. A lease's ``token`` only grows: a
program that passes it on can have late writers refused. Fails with ``LeaseHeld``, ``BadPath``, OSError.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from ackd.coordination.bus import files as bus_files
from ackd.coordination.bus import wire as bus
from ackd.coordination.bus.rules.layout import SAID_BY_ACKD, Track, event_name
from ackd.coordination.leases import files as lease_files
from ackd.coordination.leases.rules import leases
from ackd.coordination.leases.rules.words import (
    DEFAULT_TTL_S,
    Ask,
    Change,
    Denied,
    Granted,
    Happening,
    Lease,
    LeaseTable,
    Queued,
    Released,
    Why,
)
from ackd.core.errors import BadPath, LeaseHeld
from ackd.formats import utc_times

__all__ = ["BadPath", "Lease", "LeaseHeld", "Leases", "announce"]

UNLOCK: Final = "FILE_UNLOCK"
#: The seed's own event name: it takes a task's id, and an unlock has none.
UNLOCK_EVENT: Final = "FILE_UNLOCK_all.event"


class Leases:
    """``bus``: the bus's directory, which exists. ``base``: the project; paths are relative to it, or absolute.
    ``for_others``: the caller acts on leases of others, as the daemon does. ``clocks``: monotonic and wall, if not the
    machine's."""

    def __init__(
        self,
        bus: str | os.PathLike[str],
        base: str | os.PathLike[str],
        *,
        for_others: bool = False,
        clocks: Callable[[], tuple[float, float]] = lease_files.machine_clocks,
    ) -> None:
        self.track = Track(os.fspath(bus), "")
        self._writer = _BusWriter(self.track, for_others)
        self.files = lease_files.LeaseFiles(self.track.bus, os.fspath(base), self._writer.say, clocks=clocks)

    @property
    def unsaid(self) -> OSError | None:
        """The reason why a change could not be announced on the bus, although it was made."""
        return self._writer.unsaid

    def acquire(
        self,
        path: str,
        agent: str,
        *,
        shared: bool = False,
        ttl_s: float = DEFAULT_TTL_S,
        wait_s: float = 0.0,
    ) -> Lease:
        """Take the lease, or keep it if the agent has it. ``LeaseHeld`` if it is another's, after ``wait_s``."""
        key = self.files.key(path)
        change, _ = lease_files.acquire(self.files, key, Ask(agent, shared, ttl_s), wait_s)
        return _given(change, key, agent, wait_s)

    @contextlib.contextmanager
    def hold(
        self,
        path: str,
        agent: str,
        *,
        shared: bool = False,
        ttl_s: float = DEFAULT_TTL_S,
        wait_s: float = 0.0,
    ) -> Iterator[Lease]:
        """Hold the lease for the block. If this process dies in it, the lease is free at once; two threads of one agent
        share it."""
        key = self.files.key(path)
        change, ticket = lease_files.acquire(self.files, key, Ask(agent, shared, ttl_s, bound=True), wait_s)
        lease = _given(change, key, agent, wait_s)
        try:
            yield lease
        finally:
            self.release(agent, key, token=lease.token)
            if ticket is not None:
                ticket.close()

    def ask(self, path: str, ask: Ask, wait_s: float = 0.0) -> tuple[Change, lease_files.Ticket | None]:
        """Ask for the lease and announce the outcome, whatever it is."""
        return lease_files.acquire(self.files, self.files.key(path), ask, wait_s)

    def renew(self, agent: str, path: str | None = None, ttl_s: float | None = None) -> list[tuple[str, Lease]]:
        """Renew one lease of the agent, or all. Returns what it holds now."""
        key = None if path is None else self.files.key(path)
        change = self.files.change(
            lambda table, now, dead: leases.renew(table, agent, now, key, ttl_s=ttl_s, dead=dead)
        )
        paths = change.table.held if key is None else (key,)
        return [(one, lease) for one in paths for lease in change.table.held.get(one, ()) if lease.agent == agent]

    def release(self, agent: str, path: str | None = None, token: int | None = None) -> list[Released]:
        """Release one lease of the agent, or all, and its places in line. Returns the leases that were released."""
        key = None if path is None else self.files.key(path)
        change = self.files.change(lambda table, now, dead: leases.release(table, agent, now, key, token, dead))
        return [one for one in change.happened if isinstance(one, Released) and one.lease.agent == agent]

    def look(self) -> LeaseTable:
        """All holders and waiters."""
        return self.files.look()


class _BusWriter:
    """Announces changes on the bus. A class of its own: ``Leases`` would refer to itself through its callback, and keep
    its descriptor open until the garbage collector runs."""

    def __init__(self, track: Track, for_others: bool) -> None:
        self.unsaid: OSError | None = None
        self._track = track
        self._for_others = for_others

    def say(self, change: Change) -> None:
        try:
            announce(self._track, change.happened, for_others=self._for_others)
        except OSError as error:  # not announced, but the lease was taken or released all the same
            self.unsaid = error


def _given(change: Change, key: str, agent: str, wait_s: float) -> Lease:
    granted = lease_files.granted(change, key, agent)
    if granted is not None:
        return granted.lease
    denied = next(one for one in change.happened if isinstance(one, Denied | Queued))
    waited_s = wait_s if wait_s > 0 else None
    if isinstance(denied, Denied) and denied.holders:
        last = max(denied.holders, key=lambda lease: lease.expires_at)
        raise LeaseHeld(key, last.agent, last.acquired_at, last.expires_at, waited_s)
    assert isinstance(denied, Denied)
    first = denied.ahead[0]
    raise LeaseHeld(key, first.agent, first.since, first.until, waited_s)


# --- said on the bus --------------------------------------------------------------------------------------------------
def announce(
    track: Track, happened: Iterable[Happening], wall: float | None = None, *, for_others: bool = False
) -> None:
    """Write lines for agents that read the bus, and raise events for those that look for files. A lease that ended
    without its holder's doing is announced in ackd's own name, because the line is no sign that the holder lives."""
    at = time.time() if wall is None else wall
    lines, events = [], set()
    for one in happened:
        if isinstance(one, Granted) and not one.again:
            payload = lock_payload(one.path, one.lease)
            lines.append(_line("FILE_LOCK", one.lease.agent, payload | _by(for_others or one.lease.by), at))
        elif isinstance(one, Released):
            payload = {"filepath": one.path, "token": one.lease.token, "reason": one.why.value}
            absent = for_others or one.why is not Why.RELEASED
            lines.append(_line(UNLOCK, one.lease.agent, payload | _by(absent), at))
            events |= {event_name(UNLOCK, one.path), UNLOCK_EVENT}
    if lines:
        bus_files.append(track.queue, b"".join(lines))
    raise_events(track, events)


def lock_payload(path: str, lease: Lease) -> dict[str, object]:
    kind = "shared" if lease.shared else "exclusive"
    return {"filepath": path, "lock_type": kind, "expires_at": utc_times.write(lease.expires_at), "token": lease.token}


def _by(absent: object) -> dict[str, object]:
    return {"said_by": SAID_BY_ACKD} if absent else {}


def raise_events(track: Track, names: Iterable[str]) -> None:
    for name in sorted(names):
        try:
            bus_files.raise_event(track.events, name)
        except FileNotFoundError:
            os.mkdir(track.events, 0o700)  # noqa: PTH102 - pathlib is slow to import
            bus_files.raise_event(track.events, name)


def _line(type_: str, source: str, payload: Mapping[str, object], wall: float) -> bytes:
    return bus.encode(f"msg-{os.urandom(16).hex()}", type_, source, payload, wall)
