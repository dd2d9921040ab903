"""The facts about exec agents, beside those about their children (core.agent_facts)."""

from __future__ import annotations

from ackd.core.fact import YELLOW, fact


@fact(
    "child",
    "!",
    YELLOW,
    lambda of: f"it prints more than {of['limit_bytes']} bytes: only the end is kept, and it goes on",
)
def output_cut(*, agent: str, message_id: str, limit_bytes: int) -> None:
    """A command prints more than is kept of its output."""
