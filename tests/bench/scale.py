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
    #: Starts of a daemon until it is ready, in turns.
    readiness_starts: int = 15
    #: A team of agents that live: kept-alive children, and panes.
    team_workers: int = 50
    team_panes: int = 20
    #: Children that are killed, one after the other, each once: a second death would double its wait.
    crashes: int = 15
    #: Lines typed into a pane.
    lines: int = 30
    #: Under one supervisor, and how often each of them is started.
    children: int = 50
    children_repetitions: int = 3
    #: To pools of several sizes, and to agents with queues of their own.
    pool_messages: int = 10_000
    pool_repetitions: int = 3
    #: Taken and let go, one after the other.
    leases: int = 2_000
    #: Messages in the session logs, and how many of them lie in the archive.
    history: int = 200_000
    short_history: int = 2_000
    archived_part: float = 0.25
    #: Messages of years, in compressed logs; starts with them and with few, in turns.
    long_history: int = 1_000_000
    long_history_starts: int = 9
    #: Searches of each kind, in turns.
    searches: int = 9
    #: Agents of one team, of which one gets a message.
    crowd: int = 10_000
    small_crowd: int = 1_000
    crowd_repetitions: int = 3
    #: Reloads beside messages to an agent that is not concerned, and of a team with very many agents.
    reloads: int = 50
    reload_messages: int = 1_000
    reload_agents: int = 1_000
    reload_repetitions: int = 3


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
    readiness_starts=7,
    team_workers=10,
    team_panes=5,
    crashes=5,
    lines=8,
    children=20,
    children_repetitions=1,
    pool_messages=2_000,
    pool_repetitions=2,
    leases=300,
    history=20_000,
    long_history=100_000,
    long_history_starts=5,
    searches=5,
    crowd=2_000,
    small_crowd=200,
    crowd_repetitions=1,
    reloads=20,
    reload_messages=200,
    reload_agents=200,
    reload_repetitions=2,
)
