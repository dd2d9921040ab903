"""The team of a run: who is in it, and by which numbers, drawn from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulation import machine

if TYPE_CHECKING:
    import random

NAMES: Final = ("lead", "worker", "pair", "runner", "smith", "clerk")
#: A pane, a pane with room for two, a command and a handler that share a queue, in the runs that have a pool.
CREW: Final = ("worker", "pair", "runner", "smith")
POOL: Final = "crew"
#: What an agent whose table changes may become. An inbox is what it is without a table, too.
KINDS: Final[tuple[dict[str, Any], ...]] = (
    {"endpoint": "tmux"},
    {"endpoint": "exec", "command": ("work",), "timeout_s": 600.0},
    {"endpoint": "handler", "handler": "smith"},
    {"endpoint": "inbox"},
)


def config(rng: random.Random, *, pooled: bool = False) -> dict[str, Any]:
    agents: dict[str, dict[str, Any]] = {
        "lead": {"endpoint": "tmux"},
        "worker": {"endpoint": "tmux"},
        "pair": {"endpoint": "tmux", "max_in_flight": 2},
        "runner": {"endpoint": "exec", "command": ("work",), "timeout_s": 1200.0},
        "smith": {"endpoint": "handler", "handler": "smith", "max_in_flight": rng.choice((1, 3, 1000))},
        "clerk": {"endpoint": "inbox"},
    }
    return {
        "root": f"{machine.ROOT}/root",
        "escalate_to": rng.choice(("user", "lead", "clerk")),
        "archive_days": rng.choice((1, 30)),
        "watch": {
            "reconcile_interval_s": rng.choice((30.0, 120.0, 600.0)),
            "settle_s": rng.choice((0.0, 1.0, 3.0)),
            "poll_interval_s": 60.0,
        },
        "delivery": {
            "retry_limit": rng.choice((0, 1, 3)),
            "backoff_base_s": rng.choice((0.0, 5.0)),
            "ack_timeout_s": rng.choice((60.0, 300.0)),
            "max_in_flight": rng.choice((1, 2)),
            "durability": rng.choice(("power", "power", "process")),
            "dedup_window_s": 86_400.0 * 3,
        },
        "liveness": {"heartbeat_timeout_s": rng.choice((120.0, 1800.0)), "probe_timeout_s": 60.0},
        "agents": agents,
        "pools": {POOL: {"members": CREW, "pool_timeout_s": 3600.0}} if pooled else {},
    }


def changed(rng: random.Random, first: dict[str, Any]) -> dict[str, Any]:
    """Another config of the same team, as somebody might write it while the daemon runs: other numbers, another
    endpoint for one of the agents, none for another, another crew; or the first one again."""
    if rng.random() < 0.2:
        return first
    agents = {name: dict(table) for name, table in first["agents"].items()}
    agents[rng.choice(CREW)] = dict(rng.choice(KINDS))
    if rng.random() < 0.3:
        agents.pop(rng.choice(("lead", "clerk", "smith")), None)
    agents["pair"]["max_in_flight"] = rng.choice((1, 2, 3))
    members = tuple(name for name in CREW if name in agents and rng.random() < 0.6)
    delivery = {"retry_limit": rng.choice((0, 1, 3)), "ack_timeout_s": rng.choice((60.0, 300.0))}
    return {
        **first,
        "escalate_to": rng.choice(("user", *agents)),
        "delivery": {**first["delivery"], **delivery},
        "agents": agents,
        "pools": {POOL: {"members": members or ("worker",), "pool_timeout_s": 3600.0}} if rng.random() < 0.8 else {},
    }
