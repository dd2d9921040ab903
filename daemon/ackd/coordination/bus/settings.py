"""[bus] of ackd.toml: which message buses are followed, who their workers are, and how long leases last.

Has the keys of the table, and the checks that need no disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from ackd.config.values import Seconds, Table, Words, not_agents
from ackd.coordination.bus.rules.defaults import HEARTBEAT_TIMEOUT_S, LEASE_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackd.config.values import Complaint


class BusSettings(Table):
    """The message bus gateway. ``tracks``: directories (globs) that hold a .message-bus/, or are one; ``workers``: a
    worker's id (a glob) → agent, for those whose id is not the agent's name. ``orchestrator`` hears of what ended,
    failed, is blocked or silent; empty: ``escalate_to``."""

    tracks: Words = ()
    orchestrator: str = ""
    workers: dict[str, str] = Field(default_factory=dict)
    heartbeat_timeout_s: Seconds = HEARTBEAT_TIMEOUT_S
    keep_events_s: Seconds = 86_400
    lease_s: Seconds = LEASE_S


def complaints(settings: BusSettings, agents: Iterable[str], shared: Iterable[str]) -> Iterator[Complaint]:
    """Everyone whom the table names must be an agent of the config; the orchestrator may be a group or a pool."""
    if settings.orchestrator:
        yield from not_agents([(("bus", "orchestrator"), settings.orchestrator)], agents, shared)
    yield from not_agents(((("bus", "workers", worker), agent) for worker, agent in settings.workers.items()), agents)
