"""The config in force, for parts that live as long as the daemon.

A part keeps the ``LiveConfig`` and reads ``config.now`` whenever it needs a value, so that a reload has one thing to
do: ``swap``. A part that copies a value at its construction goes on with the old one. That is right only for what
cannot change while the daemon runs (the root, ``delivery.durability``, ``watch.mode``), and for the table that an
endpoint or a gateway is made from: it changes by making another. The copies say so where they are made.

The engine knows no config. Its policies are values, derived in one place each: ``Config.engine_policy`` for the team,
``announcement`` for an agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.events import AgentJoined
from ackd.core.pools import POOL

if TYPE_CHECKING:
    from ackd.config.model import Config


class LiveConfig:
    """``now`` is a plain attribute: reading it must cost nothing on the way of a message."""

    __slots__ = ("now",)

    def __init__(self, config: Config) -> None:
        self.now = config

    def swap(self, config: Config) -> None:
        """Put another config in force. Whoever reads ``now`` from here on sees it."""
        self.now = config


def announcement(config: Config, agent: str, *, replaced: bool = False) -> AgentJoined:
    """The event by which the engine learns an agent's policy and the kind of its endpoint. ``replaced``: that it gets
    another one."""
    pool = config.pool_called(agent) if config.pools else None
    if pool is not None:
        members, timeout_s = config.pool_members(pool), config.pools[pool].pool_timeout_s
        policy = config.policy(agent)
        return AgentJoined(agent, policy, POOL, members=members, pool_timeout_s=timeout_s, replaced=replaced)
    table = config.agent(agent)
    return AgentJoined(agent, config.policy(agent), table.endpoint, frozenset(table.labels), replaced=replaced)
