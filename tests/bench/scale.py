"""How much of everything a run does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    repetitions: int = 5
    messages: int = 5_000
    senders: int = 16
    #: Per repetition, at 50 a second.
    latency_messages: int = 300
    #: Somebody else's queues, which are no limits: fewer repetitions, and shorter ones.
    peer_repetitions: int = 3
    peer_latency_messages: int = 150
    backlog: int = 100_000
    short_backlog: int = 10_000
    backlog_agents: int = 100
    backlog_repetitions: int = 3
    idle_agents: int = 1_000
    idle_s: float = 60.0
    #: Start-ups of each command, in turns.
    starts: int = 25


FULL = Scale()
QUICK = Scale(
    repetitions=3,
    messages=1_000,
    latency_messages=100,
    peer_repetitions=1,
    peer_latency_messages=50,
    backlog=10_000,
    short_backlog=1_000,
    backlog_repetitions=1,
    idle_s=10.0,
    starts=9,
)
