"""The facts about leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.fact import CYAN, DIM, RED, YELLOW, fact

if TYPE_CHECKING:
    from ackd.core.fact import Shown


def _granted(of: Shown) -> str:
    how = {"hand": ", by an edit of locks.json", "line": ", after waiting"}.get(of("by"), "")
    return f"{of['path']} leased{of('lock_type', ', {}')}, token {of['token']}{how}"


@fact("lease", "+", CYAN, _granted, routine=True)
def lease_granted(
    *,
    track: str,
    path: str,
    agent: str,
    token: int | None = None,
    lock_type: str | None = None,
    until: str | None = None,
    by: str | None = None,
    recovered: bool | None = None,
) -> None:
    """An agent got a lease. ``by``: ``hand``, an edit of locks.json; ``line``, its turn in the line of who waits."""


@fact("lease", "·", DIM, lambda of: f"{of['path']} until {of['until']}", routine=True)
def lease_renewed(
    *, track: str, path: str, agent: str, until: str, token: int | None = None, lock_type: str | None = None
) -> None:
    """A lease lasts longer."""


def _released(of: Shown) -> str:
    why = "" if of("reason") == "released" else of("reason", ": {}")
    return f"{of['path']} released{of.mark('by', ', by an edit of locks.json')}{why}"


@fact("lease", "-", DIM, _released, routine=True)
def lease_released(
    *, track: str, path: str, agent: str, token: int | None = None, reason: str | None = None, by: str | None = None
) -> None:
    """A lease was given back, or taken back because its holder is gone or through (``reason``)."""


@fact("lease", "-", YELLOW, lambda of: f"its lease on {of['path']} has expired")
def lease_expired(*, track: str, path: str, agent: str, token: int | None = None) -> None:
    """A lease ended because its time was up."""


@fact("lease", "·", YELLOW, lambda of: f"waits for {of['path']}{of('behind', ', behind {}')}")
def lease_waiting(*, track: str, path: str, agent: str, behind: list[str] | None = None) -> None:
    """An agent waits for a lease, behind those named."""


@fact("lease", "▲", RED, lambda of: f"{of['path']} was taken from it by an edit of locks.json, for {of['taken_by']}")
def lease_broken(
    *,
    track: str,
    path: str,
    agent: str,
    taken_by: str,
    token: int | None = None,
    their_token: int | None = None,
) -> None:
    """Somebody edited locks.json and gave an agent's lease to another."""


@fact(
    "lease",
    "▲",
    RED,
    lambda of: f"{of['path']} is leased on several buses at once: {of['agents']} ({of['tracks']})",
)
def lease_conflict(*, path: str, tracks: list[str], agents: list[str]) -> None:
    """Two buses lease the same file to different agents."""


@fact("lease", "!", YELLOW, lambda of: f"no lease can be about {of['path']}: {of['reason']}")
def lease_refused(*, track: str, path: str, reason: str, agent: str | None = None) -> None:
    """A line of a bus asks for a lease that cannot be: a path outside of the workspace, for one."""


@fact("lease", "▲", RED, lambda of: f"a file of leases could not be read: kept as {of['kept_as']}, taken for empty")
def lease_unreadable(*, track: str, kept_as: str) -> None:
    """locks.json or leases.json is no such file: it was set aside."""
