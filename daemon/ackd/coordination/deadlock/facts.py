"""The facts about deadlocks."""

from __future__ import annotations

from ackd.core.fact import GREEN, RED, fact


@fact(
    "deadlock",
    "▲",
    RED,
    lambda of: f"{of['members']} wait in a circle on {of['track']}: {of['youngest']} is to yield",
    loud=True,
)
def deadlock_detected(
    *,
    deadlock_id: str,
    track: str,
    members: list[str],
    since: str,
    waits: list[dict[str, object]],
    youngest: str,
    told: list[str] | None = None,
    recovered: bool | None = None,
) -> None:
    """Workers of a bus wait for each other in a circle; the youngest is asked to yield."""


@fact(
    "deadlock",
    "✓",
    GREEN,
    lambda of: f"{of['members']} wait no more on {of['track']}{of.time('seconds', ', after {}')}",
)
def deadlock_broken(*, deadlock_id: str, track: str, members: list[str], since: str, seconds: float) -> None:
    """A circle of waits is over."""
