"""[board] of ackd.toml: who sits on the board, how many rounds are discussed, and how long each phase lasts.

Has the keys of the table, and the checks that need no disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from ackd.config.values import Seconds, Table, not_agents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackd.config.values import Complaint

#: The seed's directors, and what each looks at.
DIRECTORS: Final = {
    "CA": "technical soundness",
    "CPO": "product value",
    "CSO": "security",
    "COO": "operations",
    "CXO": "user experience",
}


class BoardSettings(Table):
    """Meetings. ``directors``: name → what it looks at; ``agents``: director → agent, for those who are not called the
    same. Each phase ends by its time, with whoever has spoken."""

    directors: dict[str, str] = Field(default_factory=lambda: dict(DIRECTORS))
    agents: dict[str, str] = Field(default_factory=dict)
    rounds: Annotated[int, Field(ge=1, le=10)] = 3
    assess_timeout_s: Seconds = 1800
    discuss_timeout_s: Seconds = 900
    vote_timeout_s: Seconds = 900


def complaints(settings: BoardSettings, agents: Iterable[str], shared: Iterable[str]) -> Iterator[Complaint]:
    """Every director must be an agent of the config (or a group or pool, which then speaks with one voice), and nobody
    else may have a seat."""
    named = ((("board", "directors"), settings.agents.get(name, name)) for name in settings.directors)
    yield from not_agents(named, agents, shared)
    if not settings.directors:
        yield ("board", "directors"), "a board needs a director"
    for director in settings.agents.keys() - settings.directors.keys():
        yield ("board", "agents", director), f"{director!r} is not one of the directors"
