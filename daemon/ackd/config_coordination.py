"""[ensemble], [bus] and [board]: what other protocols' files are taken in, and who hears of what.

Owns these tables' keys and what in them cannot be right. Refuses to look at the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, Strict

from ackd.config_values import Seconds, Table, Words
from ackd.core.names import USER, identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The seed's directors, and what each looks at.
DIRECTORS: Final = {
    "CA": "technical soundness",
    "CPO": "product value",
    "CSO": "security",
    "COO": "operations",
    "CXO": "user experience",
}


class Route(Table):
    """Reports whose file name matches ``match`` (as a shell would) go to the agent ``to``."""

    match: str
    to: str


class Ensemble(Table):
    """The Ensemble gateway. ``queue`` holds reports/, tasks/ and ack/; ``workers``: file name prefix in tasks/ → agent,
    for those whose files do not begin with the agent's own name; ``routes`` come before the seed's."""

    queue: str = "queue"
    dispatch: str = "dispatch"
    conductor: str = "conductor"
    workers: dict[str, str] = Field(default_factory=dict)
    routes: Annotated[tuple[Route, ...], Strict(strict=False)] = ()
    report_timeout_s: Seconds = 180
    report_poll_s: Seconds = 30
    summary_timeout_s: Seconds = 1800
    log_dir: str = ""


class Bus(Table):
    """The message bus gateway. ``tracks``: directories (globs) that hold a .message-bus/, or are one; ``workers``: a
    worker's id (a glob) → agent, for those whose id is not the agent's name. ``orchestrator`` hears of what ended,
    failed, is blocked or silent; empty: ``escalate_to``."""

    tracks: Words = ()
    orchestrator: str = ""
    workers: dict[str, str] = Field(default_factory=dict)
    heartbeat_timeout_s: Seconds = 600
    keep_events_s: Seconds = 86_400
    lease_s: Seconds = 1800


class Board(Table):
    """Meetings. ``directors``: name → what it looks at; ``agents``: director → agent, for those who are not called the
    same. Each phase ends by its time, with whoever has spoken."""

    directors: dict[str, str] = Field(default_factory=lambda: dict(DIRECTORS))
    agents: dict[str, str] = Field(default_factory=dict)
    rounds: Annotated[int, Field(ge=1, le=10)] = 3
    assess_timeout_s: Seconds = 1800
    discuss_timeout_s: Seconds = 900
    vote_timeout_s: Seconds = 900


#: A key of one of these tables, and what is wrong with it.
Complaint = tuple[tuple[str, ...], str]


def complaints(
    ensemble: Ensemble | None, bus: Bus | None, board: Board | None, agents: Iterable[str]
) -> Iterator[Complaint]:
    """Everyone whom these tables name must be an agent of the config."""
    known = {identity(name) for name in (*agents, USER)}
    for key, name in _named(ensemble, bus, board):
        if identity(name) not in known:
            yield key, f"{name!r} is not an agent: it needs a table [agents.{name}]"
    if board is not None:
        if not board.directors:
            yield ("board", "directors"), "a board needs a director"
        for director in board.agents.keys() - board.directors.keys():
            yield ("board", "agents", director), f"{director!r} is not one of the directors"


def _named(ensemble: Ensemble | None, bus: Bus | None, board: Board | None) -> Iterator[Complaint]:
    if ensemble is not None:
        yield ("ensemble", "dispatch"), ensemble.dispatch
        yield ("ensemble", "conductor"), ensemble.conductor
        yield from ((("ensemble", "workers", prefix), agent) for prefix, agent in ensemble.workers.items())
        yield from ((("ensemble", "routes"), route.to) for route in ensemble.routes)
    if bus is not None:
        if bus.orchestrator:
            yield ("bus", "orchestrator"), bus.orchestrator
        yield from ((("bus", "workers", worker), agent) for worker, agent in bus.workers.items())
    if board is not None:
        yield from ((("board", "directors"), board.agents.get(name, name)) for name in board.directors)
