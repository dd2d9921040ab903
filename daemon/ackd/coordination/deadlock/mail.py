"""The mail about workers that wait for each other in a circle: to each of them, to the youngest, and to the leader.

The ids derive from the circle and the moment that closed it: mail that is sent again after a crash is the same, and
recognised. Names and reasons are hostile text: they are cut, made harmless, and never an instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.escalations import derived_id, stamp
from ackd.core.message import MONITOR, Draft, Priority

if TYPE_CHECKING:
    from ackd.coordination.bus.rules.words import WorkerWait
    from ackd.coordination.deadlock.rules import Cycle

_MOST_SHOWN: Final = 50
_LONGEST: Final = 200


def deadlock_id(bus: str, members: tuple[str, ...], closed_at: float) -> str:
    return derived_id("deadlock", bus, closed_at, *members)


def to_member(cycle: Cycle, ident: str, track: str, worker: str, agent: str) -> Draft:
    """Make the mail to a member of the circle. ``worker``: the agent's name on the bus."""
    youngest = cycle.youngest.waiter == worker
    return _draft(cycle, ident, track, agent, f"member {worker}", _advice(cycle, worker, youngest=youngest))


def to_leader(cycle: Cycle, ident: str, track: str, leader: str) -> Draft:
    asked = f"{plain(cycle.youngest.waiter)}, who began to wait last, is to yield. Nothing was taken from anyone."
    return _draft(cycle, ident, track, leader, "leader", asked)


def _draft(cycle: Cycle, ident: str, track: str, to: str, role: str, advice: str) -> Draft:
    count = len(cycle.waits)
    summary = f"deadlock on {plain(track)}: {count} members wait for each other"
    story = [f"Deadlock on bus {plain(track)} since {when(cycle.closed_at)}: {count} members wait:"]
    story += [f"- {_sentence(wait)}" for wait in cycle.waits[:_MOST_SHOWN]]
    body: dict[str, object] = {
        "summary": summary,
        "content": "\n".join([*story, advice]),
        "deadlock_id": ident,
        "youngest": plain(cycle.youngest.waiter),
        "waits": shown(cycle),
    }
    return Draft(derived_id("deadlock", ident, role), MONITOR, to, "message", Priority.HIGH, body, thread_id=ident)


def _advice(cycle: Cycle, worker: str, *, youngest: bool) -> str:
    if not youngest:
        return f"You are {plain(worker)}. {plain(cycle.youngest.waiter)}, who began to wait last, was asked to yield."
    (held,) = [wait for wait in cycle.waits if wait.holder == worker]
    return (
        f"You are {plain(worker)} and began to wait last: please yield. Release what {plain(held.waiter)} waits for "
        f"({plain(held.what)}), and ask for it again once you have what you wait for ({plain(cycle.youngest.what)})."
    )


def _sentence(wait: WorkerWait) -> str:
    return f"{plain(wait.waiter)} waits for {plain(wait.holder)} since {when(wait.since)}: {plain(wait.what)}"


def shown(cycle: Cycle) -> list[dict[str, object]]:
    """The waits, as values for a body and for the log."""
    return [
        {
            "waiter": plain(wait.waiter),
            "holder": plain(wait.holder),
            "what": plain(wait.what),
            "since": when(wait.since),
        }
        for wait in cycle.waits[:_MOST_SHOWN]
    ]


def plain(text: str) -> str:
    """The text as one line, of a sane length, that any encoding takes."""
    harmless = "".join(char if char.isprintable() else "?" for char in text[:_LONGEST])
    return harmless + ("…" if len(text) > _LONGEST else "")


def when(wall: float) -> str:
    try:
        return stamp(wall)
    except (ValueError, OverflowError, OSError):  # a time that no calendar has
        return "a time unknown"
