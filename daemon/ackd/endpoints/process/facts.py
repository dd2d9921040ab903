"""The facts about what workers say on their pipes, beside those about their lives (core.agent_facts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.fact import DIM, YELLOW, fact

if TYPE_CHECKING:
    from ackd.core.fact import Shown


def _held_back(of: Shown) -> str:
    return of("held_back", ", and {} like it since the last")


@fact(
    "late",
    "·",
    DIM,
    lambda of: f"came too late, that is settled or another's by now: {of['text']}{_held_back(of)}",
    of_agent=True,
)
def late_word(*, agent: str, text: str, held_back: int | None = None) -> None:
    """A worker spoke of work that is settled, or in other hands by now."""


@fact(
    "bad line",
    "!",
    YELLOW,
    lambda of: f"said what is no message ({of['error']}): {of['text']}{_held_back(of)}",
    of_agent=True,
)
def bad_line(*, agent: str, text: str, error: str, held_back: int | None = None) -> None:
    """A worker wrote a line that is no message. ``held_back``: how many more since the last such line of the log."""


@fact("warning", "!", YELLOW, lambda of: f"writes times without a zone, read as local: {of['text']}")
def naive_time(*, agent: str, text: str) -> None:
    """A worker writes times without a zone; said once for each agent."""
