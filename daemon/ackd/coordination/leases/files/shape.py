"""The format of leases in locks.json, and of waiters in leases.json.

locks.json is the seed's: ``{path: {worker_id, acquired_at, expires_at}}``, and beside these ``lock_type``, ``token``,
``ttl_s`` (for how long it is renewed), ``ticket`` (a process that it ends with), ``by`` (how it came, if not by asking)
and ``clock`` (the frame that its times are in: they are read in today's). If several holders share a path, the one
with the longest lease stands there, so that the seed's own reader sees it locked for as long as anybody holds it, and
``holders`` has all. Entries that others wrote stay as they are until they change: other keys, other spellings of a
path, entries that name no holder. Pure. ``NotLeases`` for a file of another shape.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ackd.coordination.leases.rules.words import BY_HAND, DEFAULT_TTL_S, Lease, Waiter
from ackd.core import clock_frames
from ackd.core.clock_frames import Frame
from ackd.formats import utc_times

#: The highest token that is believed. None so high will ever be given: somebody who wrote it made it up.
MOST_TOKENS: Final = 10**15


class NotLeases(Exception):  # noqa: N818
    """The file is no table of leases; the words say why."""


class Entry(NamedTuple):
    """An entry of the file about a path: its spelling, its text as written, and the leases in it. ``outdated``: the
    clock was set since, or it is of another boot: its times are to be written anew."""

    spelling: str
    raw: object
    leases: tuple[Lease, ...]
    outdated: bool = False


class Page(NamedTuple):
    """``foreign``: entries that hold nothing, or that are a second spelling of a path that another entry is about."""

    entries: dict[str, Entry]
    foreign: dict[str, object]

    @property
    def held(self) -> dict[str, tuple[Lease, ...]]:
        return {path: entry.leases for path, entry in self.entries.items()}

    @property
    def is_outdated(self) -> bool:
        return any(entry.outdated for entry in self.entries.values())


EMPTY_PAGE = Page({}, {})


# --- reading ----------------------------------------------------------------------------------------------------------
def read_locks(data: bytes, key_of: Callable[[str], str], now: float, frame: Frame | None = None) -> Page:
    """Read locks.json. ``key_of`` returns the key of a path in a spelling that is not ours; a path that it refuses is
    its own key. ``frame``: the clock frame in which the leases' times are read; without one they are believed as they
    are, up to each lease's own length."""
    entries: dict[str, Entry] = {}
    foreign: dict[str, object] = {}
    for spelling, raw in _object(data).items():
        leases = _leases(raw, now, frame)
        is_ours = any(lease.token and lease.by != BY_HAND for lease in leases)
        key = spelling if is_ours else key_of(spelling)
        if not leases or key in entries:
            foreign[spelling] = raw
        else:
            entries[key] = Entry(spelling, raw, leases, _is_outdated(raw, leases, frame))
    return Page(entries, foreign)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotLeases(f"not JSON: {error}" if data.strip() else "empty") from None
    if not isinstance(found, dict):
        raise NotLeases("not a JSON object")
    return found


def _is_outdated(raw: object, leases: tuple[Lease, ...], frame: Frame | None) -> bool:
    """True for an entry of ackd's own with outdated times. An entry made by hand is written anew when it gets its
    token."""
    written = clock_frames.read(raw.get("clock")) if isinstance(raw, dict) else None
    return frame is not None and all(one.token for one in leases) and clock_frames.moved_s(written, frame) != 0.0


def _leases(raw: object, now: float, frame: Frame | None) -> tuple[Lease, ...]:
    if not isinstance(raw, dict):
        return ()
    shared = str(raw.get("lock_type", "")).lower() in ("shared", "read")
    holders = raw.get("holders")
    if shared and isinstance(holders, dict) and holders:
        each = [
            _lease(str(agent), of, now, frame, shared=True) for agent, of in holders.items() if isinstance(of, dict)
        ]
        return tuple(lease for lease in each if lease is not None)
    one = _lease(raw.get("worker_id"), raw, now, frame, shared=shared)
    return () if one is None else (one,)


def _lease(agent: object, of: Mapping[str, object], now: float, frame: Frame | None, *, shared: bool) -> Lease | None:
    """The lease in an entry. Missing times: it began now, and lasts as long as the seed's do. Times of another boot are
    wall time only, which may have been set back: no lease lasts longer from now on than it was asked for."""
    if not isinstance(agent, str) or not agent:
        return None
    acquired_at = utc_times.read(of.get("acquired_at"))
    begun = now if acquired_at is None else acquired_at
    expires_at = utc_times.read(of.get("expires_at"))
    until = begun + DEFAULT_TTL_S if expires_at is None else expires_at
    token, said_s, ticket, by = (of.get(key) for key in ("token", "ttl_s", "ticket", "by"))
    ttl_s = float(said_s) if isinstance(said_s, int | float) else max(0.0, until - begun)
    moved_s = clock_frames.moved_s(clock_frames.read(of.get("clock")), frame)
    return Lease(
        agent,
        shared,
        token if type(token) is int and 0 < token <= MOST_TOKENS else 0,
        begun + (moved_s or 0.0),
        min(until, now + ttl_s) if moved_s is None else until + moved_s,
        ttl_s,
        ticket if isinstance(ticket, str) else "",
        by if isinstance(by, str) else "",
    )


def read_waiting(data: bytes, frame: Frame | None = None) -> dict[str, tuple[Waiter, ...]]:
    waiting: dict[str, tuple[Waiter, ...]] = {}
    for path, line in _object(data).items():
        waiters = tuple(_waiter(one, frame) for one in line if isinstance(one, dict)) if isinstance(line, list) else ()
        if known := tuple(one for one in waiters if one is not None):
            waiting[path] = known
    return waiting


def _waiter(of: Mapping[str, object], frame: Frame | None) -> Waiter | None:
    agent, ticket, ttl_s = of.get("worker_id"), of.get("ticket", ""), of.get("ttl_s", DEFAULT_TTL_S)
    since, until = utc_times.read(of.get("since")), utc_times.read(of.get("until"))
    if not (isinstance(agent, str) and agent and isinstance(ticket, str) and isinstance(ttl_s, int | float)):
        return None
    if since is None or until is None:
        return None
    moved_s = clock_frames.moved_s(clock_frames.read(of.get("clock")), frame) or 0.0
    return Waiter(agent, of.get("lock_type") == "shared", since + moved_s, until + moved_s, float(ttl_s), ticket)


# --- writing ----------------------------------------------------------------------------------------------------------
def next_page(page: Page, held: Mapping[str, tuple[Lease, ...]], frame: Frame | None = None) -> Page:
    """Return the page for this table. Entries that did not change are the same objects as before."""
    entries: dict[str, Entry] = {}
    for path, leases in held.items():
        known = page.entries.get(path)
        if known is not None and known.leases == leases and not known.outdated:
            entries[path] = known
        else:
            entries[path] = Entry(path if known is None else known.spelling, _entry(leases, frame), leases)
    spelled = {entry.spelling for entry in entries.values()}
    return Page(entries, {key: raw for key, raw in page.foreign.items() if key not in spelled})


def write_locks(page: Page) -> bytes:
    """Write a line for each path, which is quick, and easy to find for a person."""
    each = {entry.spelling: entry.raw for entry in page.entries.values()} | page.foreign
    return _lines(each)


def _entry(leases: tuple[Lease, ...], frame: Frame | None) -> dict[str, object]:
    longest = max(leases, key=lambda lease: lease.expires_at)
    entry = {"worker_id": longest.agent, **_times(longest), "lock_type": "shared" if longest.shared else "exclusive"}
    entry |= _marks(longest) | _clock(frame)
    if len(leases) > 1:
        entry["holders"] = {lease.agent: {**_times(lease), **_marks(lease), **_clock(frame)} for lease in leases}
    return entry


def _times(lease: Lease) -> dict[str, object]:
    return {"acquired_at": utc_times.write(lease.acquired_at), "expires_at": utc_times.write(lease.expires_at)}


def _marks(lease: Lease) -> dict[str, object]:
    marks: dict[str, object] = {"token": lease.token, "ttl_s": lease.ttl_s}
    if lease.ticket:
        marks["ticket"] = lease.ticket
    if lease.by:
        marks["by"] = lease.by
    return marks


def _clock(frame: Frame | None) -> dict[str, object]:
    return {} if frame is None else {"clock": clock_frames.write(frame)}


def write_waiting(waiting: Mapping[str, tuple[Waiter, ...]], frame: Frame | None = None) -> bytes:
    return _lines({path: [_stands(waiter) | _clock(frame) for waiter in line] for path, line in waiting.items()})


def _stands(waiter: Waiter) -> dict[str, object]:
    return {
        "worker_id": waiter.agent,
        "lock_type": "shared" if waiter.shared else "exclusive",
        "since": utc_times.write(waiter.since),
        "until": utc_times.write(waiter.until),
        "ttl_s": waiter.ttl_s,
        "ticket": waiter.ticket,
    }


def _lines(each: Mapping[str, object]) -> bytes:
    if not each:
        return b"{}\n"
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in each.items())
    return f"{{\n{lines}\n}}\n".encode()
