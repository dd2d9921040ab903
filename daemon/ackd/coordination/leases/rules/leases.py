"""The rules of leases: who may write which file, and who waits. Values in, values out.

Each path has one writer or several readers, for a time; a holder may ask again; tokens only grow; waiters are served in
order. ``now`` is given, and so are the tickets of processes that have died (``dead``). Never fails: a lease that cannot
be had is ``Denied``.

| who asks | nobody holds or waits whom it would hinder | else |
|---|---|---|
| anyone | ``Granted``, with the next token | ``Queued`` if it waits, ``Denied`` if not |
| the holder | ``Granted`` again: the same token, a later end | |
| one who reads, to write | ``Granted``, with the next token | as anyone, but only holders are waited for |

A waiter with a ticket is a process that waits: it is ``LeaseWoken`` when it may have the lease, and takes it by asking
again; until then nobody else gets it. One without is somebody who said so on a bus: ``Granted`` in its absence.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from ackd.coordination.leases.rules.words import (
    BY_HAND,
    BY_LINE,
    EMPTY,
    EVER,
    Ask,
    Broken,
    Change,
    Denied,
    Earlier,
    Granted,
    Happening,
    Lease,
    LeaseTable,
    LeaseWoken,
    LeftLine,
    Queued,
    Released,
    Waiter,
    Why,
)

__all__ = [
    "EMPTY",
    "Ask",
    "Broken",
    "Change",
    "Denied",
    "Granted",
    "Happening",
    "Lease",
    "LeaseTable",
    "LeaseWoken",
    "LeftLine",
    "Queued",
    "Released",
    "Waiter",
    "Why",
    "acquire",
    "adopt",
    "differences",
    "expire",
    "hindering_holders",
    "hindering_waiters",
    "is_expired",
    "leave",
    "next_end",
    "release",
    "renew",
]


# --- the questions ----------------------------------------------------------------------------------------------------
def is_expired(lease: Lease, now: float) -> bool:
    return lease.expires_at <= now


def hinders(one: bool, other: bool) -> bool:
    """True if two leases on one path exclude each other."""
    return not (one and other)


def hindering_holders(table: LeaseTable, path: str, agent: str, *, shared: bool) -> tuple[Lease, ...]:
    held = table.held.get(path, ())
    return tuple(lease for lease in held if lease.agent != agent and hinders(shared, lease.shared))


def hindering_waiters(table: LeaseTable, path: str, waiter: Waiter) -> tuple[Waiter, ...]:
    """The waiters before it in line. A holder that waits for more hinders, and is hindered by, holders only."""
    if _lease_of(table, path, waiter.agent) is not None:
        return ()
    line = table.waiting.get(path, ())
    before = line[: line.index(waiter)] if waiter in line else line
    return tuple(one for one in before if one.agent != waiter.agent and hinders(waiter.shared, one.shared))


def _lease_of(table: LeaseTable, path: str, agent: str) -> Lease | None:
    return next((lease for lease in table.held.get(path, ()) if lease.agent == agent), None)


def _suffices(lease: Lease | None, *, shared: bool) -> bool:
    return lease is not None and (shared or not lease.shared)


# --- asking -----------------------------------------------------------------------------------------------------------
def acquire(table: LeaseTable, path: str, ask: Ask, now: float, dead: frozenset[str] = frozenset()) -> Change:
    """Ask for a lease. A waiter with a ticket also takes the lease that it was woken for by asking again."""
    edit = _TableEdit(table, now, dead)
    edit.drop_expired_and_dead(path)
    mine = _lease_of(edit.table, path, ask.agent)
    if mine is not None and _suffices(mine, shared=ask.shared):
        # The agent has now asked for the lease itself, so it must outlive the process that it was bound to.
        edit.grant_again(path, mine if ask.bound else mine._replace(ticket=""), ask)
        return edit.change()
    waiter = edit.in_line(path, ask) or Waiter(
        ask.agent, ask.shared, now, ask.until if ask.until is not None else now, ask.ttl_s, ask.ticket
    )
    holders = hindering_holders(edit.table, path, ask.agent, shared=ask.shared)
    ahead = hindering_waiters(edit.table, path, waiter)
    if not holders and not ahead:
        edit.grant(path, waiter, bound=ask.bound)
    elif ask.until is None:
        edit.say(Denied(path, holders, ahead))
    else:
        edit.stand(path, waiter)
        edit.say(Queued(path, waiter, (*(one.agent for one in holders), *(one.agent for one in ahead))))
    edit.advance(path)
    return edit.change()


def renew(
    table: LeaseTable,
    agent: str,
    now: float,
    path: str | None = None,
    *,
    ttl_s: float | None = None,
    since: float | None = None,
    dead: frozenset[str] = frozenset(),
) -> Change:
    """Renew the agent's lease on ``path``, or all of its leases, and its places in line without a process.

    A lease then lasts for ``ttl_s``, else for as long as it was asked for, from ``since`` (now) on, and never for a
    shorter time than before."""
    edit = _TableEdit(table, now, dead)
    begin = now if since is None else min(since, now)
    for one in _paths(table) if path is None else (path,):
        edit.drop_expired_and_dead(one)
        mine = _lease_of(edit.table, one, agent)
        if mine is not None:
            edit.prolong(one, mine, begin + (mine.ttl_s if ttl_s is None else ttl_s))
        line = edit.table.waiting.get(one, ())
        edit.set_line(one, tuple(_kept_on(waiter, agent, begin) for waiter in line))
        edit.advance(one)
    return edit.change()


def _kept_on(waiter: Waiter, agent: str, begin: float) -> Waiter:
    if waiter.agent != agent or waiter.ticket:
        return waiter
    return waiter._replace(until=max(waiter.until, begin + waiter.ttl_s))


def release(
    table: LeaseTable,
    agent: str,
    now: float,
    path: str | None = None,
    token: int | None = None,
    dead: frozenset[str] = frozenset(),
    *,
    had: Earlier = EVER,
    why: Why = Why.RELEASED,
) -> Change:
    """Release the agent's leases on ``path``, or all, and its places in line, except where one of its processes waits.

    ``token``: only that lease, and no later one. ``had``: only leases and places that the agent had by then."""
    edit = _TableEdit(table, now, dead)
    for one in _paths(table) if path is None else (path,):
        edit.drop_expired_and_dead(one)
        for lease in edit.table.held.get(one, ()):
            meant = lease.acquired_at <= had.at or lease.token in had.tokens
            if lease.agent == agent and token in (None, lease.token) and meant:
                edit.drop(one, lease, why)
        if token is None:
            until = float("inf") if (one, agent) in had.places else had.at
            edit.leave(one, functools.partial(_stood, agent, until))
        edit.advance(one)
    return edit.change()


def _stood(agent: str, until: float, waiter: Waiter) -> bool:
    """True for a place that the agent had by then, without a process: a process leaves the line by itself."""
    return waiter.agent == agent and not waiter.ticket and waiter.since <= until


def leave(table: LeaseTable, path: str, ticket: str, now: float, dead: frozenset[str] = frozenset()) -> Change:
    """Take a process, which does not wait any longer, out of the line."""
    edit = _TableEdit(table, now, dead)
    edit.drop_expired_and_dead(path)
    edit.leave(path, lambda waiter: waiter.ticket == ticket)
    edit.advance(path)
    return edit.change()


def expire(table: LeaseTable, now: float, dead: frozenset[str] = frozenset()) -> Change:
    """End all leases that have expired, and wake the next in line or give them their lease."""
    edit = _TableEdit(table, now, dead)
    for path in _paths(table):
        edit.drop_expired_and_dead(path)
        edit.advance(path)
    return edit.change()


def adopt(table: LeaseTable, now: float) -> Change:
    """Give leases that were made by hand their tokens. Each is reported as ``Granted``."""
    edit = _TableEdit(table, now, frozenset())
    for path, leases in table.held.items():
        if any(lease.token == 0 for lease in leases):
            edit.adopt(path, leases)
    return edit.change()


def next_end(table: LeaseTable) -> float | None:
    """The wall time at which the first lease or wait is over."""
    ends = [lease.expires_at for leases in table.held.values() for lease in leases]
    ends += [waiter.until for line in table.waiting.values() for waiter in line]
    return min(ends, default=None)


def _paths(table: LeaseTable) -> Iterable[str]:
    return list(dict.fromkeys((*table.held, *table.waiting)))


class _TableEdit:
    """A table while it is being changed, and everything that has happened to it so far."""

    def __init__(self, table: LeaseTable, now: float, dead: frozenset[str]) -> None:
        self._before = table
        self._held, self._waiting, self._token = table.held, table.waiting, table.token
        self._now = now
        self._dead = dead
        self._happened: list[Happening] = []

    @property
    def table(self) -> LeaseTable:
        return LeaseTable(self._held, self._waiting, self._token)

    def change(self) -> Change:
        same = self._held == self._before.held and self._waiting == self._before.waiting
        same = same and self._token == self._before.token
        return Change(self._before if same else self.table, tuple(self._happened))

    def say(self, happening: Happening) -> None:
        self._happened.append(happening)

    # --- holders
    def grant(self, path: str, waiter: Waiter, *, bound: bool = False, by: str = "") -> None:
        self._token += 1
        lease = Lease(
            agent=waiter.agent,
            shared=waiter.shared,
            token=self._token,
            acquired_at=self._now,
            expires_at=self._now + waiter.ttl_s,
            ttl_s=waiter.ttl_s,
            ticket=waiter.ticket if bound else "",
            by=by,
        )
        stood = waiter in self._waiting.get(path, ())
        self._hold(path, (*(one for one in self._held.get(path, ()) if one.agent != waiter.agent), lease))
        self.set_line(path, tuple(one for one in self._waiting.get(path, ()) if one != waiter))
        self.say(Granted(path, lease, waited=waiter if stood else None))

    def grant_again(self, path: str, mine: Lease, ask: Ask) -> None:
        longer = mine._replace(expires_at=max(mine.expires_at, self._now + ask.ttl_s), ttl_s=ask.ttl_s)
        self._hold(path, tuple(longer if one.agent == mine.agent else one for one in self._held[path]))
        stood = self.in_line(path, ask) if _suffices(mine, shared=ask.shared) else None
        self.set_line(path, tuple(one for one in self._waiting.get(path, ()) if one is not stood))
        self.say(Granted(path, longer, again=True, waited=stood))

    def prolong(self, path: str, mine: Lease, until: float) -> None:
        longer = mine._replace(expires_at=max(mine.expires_at, until))
        if longer != mine:
            self._hold(path, tuple(longer if one is mine else one for one in self._held[path]))
            self.say(Granted(path, longer, again=True))

    def drop(self, path: str, lease: Lease, why: Why) -> None:
        self._hold(path, tuple(one for one in self._held[path] if one is not lease))
        self.say(Released(path, lease, why))

    def adopt(self, path: str, leases: tuple[Lease, ...]) -> None:
        known: list[Lease] = []
        for lease in leases:
            if lease.token == 0:
                self._token += 1
                lease = lease._replace(token=self._token, by=BY_HAND)  # noqa: PLW2901
                self.say(Granted(path, lease))
            known.append(lease)
        self._hold(path, tuple(known))

    def _hold(self, path: str, leases: tuple[Lease, ...]) -> None:
        self._held = _with(self._held, path, leases)

    # --- the line
    def in_line(self, path: str, ask: Ask) -> Waiter | None:
        """The place of an agent in line: by its ticket, or, without one, as a waiter for the same."""
        line = self._waiting.get(path, ())
        mine = (ask.agent, ask.shared, ask.ticket)
        return next((one for one in line if (one.agent, one.shared, one.ticket) == mine), None)

    def stand(self, path: str, waiter: Waiter) -> None:
        line = self._waiting.get(path, ())
        if waiter not in line:
            self.set_line(path, (*line, waiter))

    def leave(self, path: str, is_meant: Callable[[Waiter], bool]) -> None:
        for waiter in self._waiting.get(path, ()):
            if is_meant(waiter):
                self._drop_waiter(path, waiter, Why.WITHDREW)

    def set_line(self, path: str, line: tuple[Waiter, ...]) -> None:
        if line != self._waiting.get(path, ()):
            self._waiting = _with(self._waiting, path, line)

    def _drop_waiter(self, path: str, waiter: Waiter, why: Why) -> None:
        self.set_line(path, tuple(one for one in self._waiting[path] if one is not waiter))
        self.say(LeftLine(path, waiter, why))

    # --- time that is over, processes that are gone
    def drop_expired_and_dead(self, path: str) -> None:
        for lease in self._held.get(path, ()):
            if lease.ticket and lease.ticket in self._dead:
                self.drop(path, lease, Why.DIED)
            elif is_expired(lease, self._now):
                self.drop(path, lease, Why.EXPIRED)
        for waiter in self._waiting.get(path, ()):
            if waiter.ticket and waiter.ticket in self._dead:
                self._drop_waiter(path, waiter, Why.DIED)
            elif waiter.until <= self._now:
                self._drop_waiter(path, waiter, Why.EXPIRED)

    def advance(self, path: str) -> None:
        """Wake each waiter that may have the lease now, or give it the lease if it has no process to wake."""
        for waiter in self._waiting.get(path, ()):
            mine = _lease_of(self.table, path, waiter.agent)
            suffices = _suffices(mine, shared=waiter.shared)
            if not suffices and self._is_hindered(path, waiter):
                continue
            if waiter.ticket:
                self.say(LeaseWoken(path, waiter))
            elif mine is not None and suffices:  # the agent got the lease in another way while it waited
                self.grant_again(path, mine, Ask(waiter.agent, waiter.shared, waiter.ttl_s))
            else:
                self.grant(path, waiter, by=BY_LINE)

    def _is_hindered(self, path: str, waiter: Waiter) -> bool:
        holders = hindering_holders(self.table, path, waiter.agent, shared=waiter.shared)
        return bool(holders or hindering_waiters(self.table, path, waiter))


_One = TypeVar("_One", Lease, Waiter)


def _with(table: Mapping[str, tuple[_One, ...]], path: str, value: tuple[_One, ...]) -> dict[str, tuple[_One, ...]]:
    changed = dict(table)
    if value:
        changed[path] = value
    else:
        changed.pop(path, None)
    return changed


# --- from outside -----------------------------------------------------------------------------------------------------
def differences(
    before: Mapping[str, tuple[Lease, ...]], after: Mapping[str, tuple[Lease, ...]], now: float
) -> Iterator[Granted | Released | Broken]:
    """The changes of leases between two looks at the same files."""
    for path in dict.fromkeys((*before, *after)):
        old = {lease.token: lease for lease in before.get(path, ())}
        new = {lease.token: lease for lease in after.get(path, ())}
        for token, lease in old.items():
            if token not in new:
                yield _end_of(path, lease, [one for one in new.values() if one.token > token], now)
        for token, lease in new.items():
            if token not in old:
                yield Granted(path, lease)


def _end_of(path: str, lease: Lease, came: list[Lease], now: float) -> Released | Broken:
    by = next(
        (one for one in came if one.by == BY_HAND and one.agent != lease.agent and hinders(one.shared, lease.shared)),
        None,
    )
    if by is not None and not is_expired(lease, min(now, by.acquired_at)):
        return Broken(path, lease, by)
    return Released(path, lease, Why.EXPIRED if is_expired(lease, now) else Why.RELEASED)
