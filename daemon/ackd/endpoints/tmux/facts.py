"""The facts about panes and what is typed into them."""

from __future__ import annotations

from ackd.core.fact import DIM, YELLOW, Tally, fact


@fact("keys", "→", DIM, lambda of: f"{of('why', '{}: ')}pressed {of['keys']}{of('seen', '; seen: {}')}", of_agent=True)
def keys_sent(
    *, agent: str, keys: list[str], why: str | None = None, seen: str | None = None, message_id: str | None = None
) -> None:
    """Keys were pressed in an agent's pane; ``seen`` is what the pane showed."""


@fact("pane", "·", DIM, lambda of: f"pane {of['pane']}{of('target', ' ({})')} found{of('by', ' by {}')}", of_agent=True)
def pane_found(*, agent: str, pane: str, target: str | None = None, by: str | None = None) -> None:
    """An agent's pane was found."""


@fact("pane", "!", YELLOW, lambda of: f"its pane is gone: {of['why']}", of_agent=True)
def pane_gone(*, agent: str, why: str) -> None:
    """An agent's pane is gone."""


@fact(
    "pane",
    "!",
    YELLOW,
    lambda of: f"its pane waits: {of['why']}",
    of_agent=True,
    tally=Tally("prompts", "waited for a person once", "waited for a person {} times"),
)
def pane_stuck(*, agent: str, why: str) -> None:
    """An agent's pane shows something that only a person can answer."""
