"""[ensemble] of ackd.toml: where Ensemble's files lie, who is who in it, and how long a report may take.

Has the keys of the table, and the checks that need no disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, Strict

from ackd.config.values import Seconds, Table, not_agents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackd.config.values import Complaint


class Route(Table):
    """Reports whose file name matches ``match`` (as a shell would) go to the agent ``to``."""

    match: str
    to: str


class EnsembleSettings(Table):
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


def complaints(settings: EnsembleSettings, agents: Iterable[str], shared: Iterable[str]) -> Iterator[Complaint]:
    """Everyone whom the table names must be an agent of the config; who only gets mail may be a group or a pool."""
    workers = ((("ensemble", "workers", prefix), agent) for prefix, agent in settings.workers.items())
    yield from not_agents(workers, agents)
    yield from not_agents(_told(settings), agents, shared)


def _told(settings: EnsembleSettings) -> Iterator[Complaint]:
    yield ("ensemble", "dispatch"), settings.dispatch
    yield ("ensemble", "conductor"), settings.conductor
    yield from ((("ensemble", "routes"), route.to) for route in settings.routes)
