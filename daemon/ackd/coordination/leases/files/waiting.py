"""Waits for a lease, as a process: in line, asleep, and out of the line again however it ends.

The process sleeps until it is woken or until the lease in its way is over, and never longer than ``LOOK_EVERY_S``,
since somebody may free a path by hand, and a waiter may die right after it was woken.
"""

import contextlib
import time
from typing import Final

from ackd.coordination.leases.files.files import LeaseFiles
from ackd.coordination.leases.files.tickets import Ticket
from ackd.coordination.leases.rules import leases
from ackd.coordination.leases.rules.words import Ask, Change, Granted, LeaseTable

LOOK_EVERY_S: Final = 0.5


#: Other processes take us out of the line when our time is over by their clock; we leave so much earlier ourselves.
_SLACK_S: Final = 5.0


def acquire(files: LeaseFiles, path: str, ask: Ask, wait_s: float = 0.0) -> tuple[Change, Ticket | None]:
    """Ask for a lease and wait for it; the caller checks ``granted``. The ticket is returned, open, if the lease is
    bound to it: so it ends with this process."""
    ticket = Ticket(files.tickets) if ask.bound else None
    try:
        change = _ask(files, path, ask, ticket)
        if wait_s > 0 and granted(change, path, ask.agent) is None:
            ticket = ticket or Ticket(files.tickets)
            change = _wait(files, path, ask, ticket, wait_s)
    except BaseException:
        if ticket is not None:
            ticket.close()
        raise
    if ticket is not None and not (ask.bound and granted(change, path, ask.agent)):
        ticket.close()
        ticket = None
    return change, ticket


def granted(change: Change, path: str, agent: str) -> Granted | None:
    """The lease that was asked for, if it was given: the same change may have given others theirs."""
    given = (one for one in reversed(change.happened) if isinstance(one, Granted))
    return next((one for one in given if (one.path, one.lease.agent) == (path, agent)), None)


def _ask(files: LeaseFiles, path: str, ask: Ask, ticket: Ticket | None) -> Change:
    meant = ask if ticket is None else ask._replace(ticket=ticket.name)
    return files.change(lambda table, now, dead: leases.acquire(table, path, meant, now, dead))


def _wait(files: LeaseFiles, path: str, ask: Ask, ticket: Ticket, wait_s: float) -> Change:
    end = time.monotonic() + wait_s
    standing = ask._replace(until=files.wall() + wait_s + _SLACK_S)
    try:
        while (left_s := end - time.monotonic()) > 0:
            change = _ask(files, path, standing, ticket)
            if granted(change, path, ask.agent) is not None:
                return change
            ticket.wait(min(left_s, LOOK_EVERY_S, _first_end_s(files, change, path)))
        return _ask_last(files, path, ask, ticket)
    except BaseException:
        with contextlib.suppress(OSError):  # the closed ticket says the same to the next process that looks
            files.change(lambda table, now, dead: leases.leave(table, path, ticket.name, now, dead))
        raise


def _ask_last(files: LeaseFiles, path: str, ask: Ask, ticket: Ticket) -> Change:
    """Leave the line, unless the lease has become ours at this very moment."""

    def decide(table: LeaseTable, now: float, dead: frozenset[str]) -> Change:
        last = leases.acquire(table, path, ask._replace(ticket=ticket.name), now, dead)
        if granted(last, path, ask.agent) is not None:
            return last
        left = leases.leave(last.table, path, ticket.name, now, dead)
        return Change(left.table, (*last.happened, *left.happened))

    return files.change(decide)


def _first_end_s(files: LeaseFiles, change: Change, path: str) -> float:
    """Return in how many seconds the first of the present holders must let go."""
    ends = [lease.expires_at for lease in change.table.held.get(path, ())]
    return max(0.0, min(ends) - files.wall()) + 0.001 if ends else LOOK_EVERY_S
