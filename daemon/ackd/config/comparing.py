"""The difference between two configs: who came, who went, what is another, and when each difference takes effect.

``in_force`` puts back what cannot change while a daemon runs, and names it. ``compare`` says of every agent, group and
pool whether it is to be treated differently, and from when:

| ``When``         | what differs                                                             | from                   |
|------------------|--------------------------------------------------------------------------|------------------------|
| ``NOW``          | numbers, labels, members: of the table, [delivery], [liveness], the pool | the next decision      |
| ``NEXT_MESSAGE`` | what a command or a handler is started with                              | the next message       |
| ``WHEN_FREE``    | another kind; what a process or a pane was made from; gone from the file | nothing is in its hand |

Nothing is read from disk and nothing is decided about messages: the daemon does that with the result.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ackd.config.model import Config, capability_tables
from ackd.config.site import ALWAYS
from ackd.core.names import identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ackd.core.policy import AgentPolicy

#: Keys that keep their value until the daemon is started again, beside the tables of capabilities: files that exist
#: were written by it, watchers run by it, or every pane was found by it.
_NOT_LIVE: Final = (("delivery", "durability"), ("watch", "mode"), ("tmux", "socket"))
#: Keys of the config that are about single agents, groups or pools.
_OF_AGENTS: Final = frozenset({"agents", "groups", "pools", "templates", "profiles"})
_GROUP, _POOL = "group", "pool"


class When(enum.Enum):
    """The moment from which a difference holds."""

    NOW = "now"
    NEXT_MESSAGE = "next message"
    WHEN_FREE = "when free"


@dataclass(frozen=True, slots=True)
class Changes:
    """The result of a comparison. ``added``, ``changed`` and ``removed`` are the agents, groups and pools whose own
    lines in the file differ; ``settings`` the keys of the team that do.

    ``agents``: everybody who is to be treated differently, by name. ``waiting``: those of them whose new endpoint waits
    until the old one has finished.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    settings: tuple[str, ...]
    agents: Mapping[str, When]

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(name for name, when in self.agents.items() if when is When.WHEN_FREE)


@dataclass(frozen=True, slots=True)
class _Standing:
    """An agent, group or pool as a config has it: everything that the daemon's treatment of it follows from."""

    kind: str
    policy: AgentPolicy
    labels: frozenset[str]
    members: tuple[str, ...]
    timeout_s: float
    made_of: tuple[object, ...]
    adapts: bool


def in_force(old: Config, new: Config) -> tuple[Config, tuple[str, ...]]:
    """Return the new config with the old value of every key that cannot change while a daemon runs, and those keys."""
    kept: dict[str, Any] = {}
    named: list[str] = []
    for table, key in _NOT_LIVE:
        before, after = getattr(old, table), kept.get(table, getattr(new, table))
        if getattr(before, key) != getattr(after, key):
            kept[table] = after.model_copy(update={key: getattr(before, key)})
            named.append(f"{table}.{key}")
    for name in capability_tables():
        if getattr(old, name) != getattr(new, name):
            kept[name] = getattr(old, name)
            named.append(name)
    return (new.with_tables(kept) if kept else new), tuple(named)


def compare(old: Config, new: Config, known: Iterable[str] = ()) -> Changes:
    """Compare two configs that may follow each other (``in_force``). ``known``: agents that are served though they have
    no table, because of their queue directories."""
    before, after = _named(old), _named(new)
    names = {**before, **after}
    for name in known:
        names.setdefault(identity(name), name)
    agents = {
        name: when for name in names.values() if (when := _when(_standing(old, name), _standing(new, name))) is not None
    }
    return Changes(
        added=tuple(name for who, name in after.items() if who not in before),
        changed=tuple(
            name for who, name in after.items() if who in before and _own(old, before[who]) != _own(new, name)
        ),
        removed=tuple(name for who, name in before.items() if who not in after),
        settings=tuple(_settings(old, new)),
        agents=agents,
    )


def _named(config: Config) -> dict[str, str]:
    """Everybody who has lines of their own in the file, by identity."""
    return {identity(name): name for name in (*config.agents, *config.groups, *config.pools)}


def _when(before: _Standing, after: _Standing) -> When | None:
    if before.kind != after.kind:
        return When.WHEN_FREE
    if before.made_of != after.made_of:
        return When.NEXT_MESSAGE if after.adapts else When.WHEN_FREE
    return When.NOW if before != after else None


def _standing(config: Config, name: str) -> _Standing:
    policy = config.policy(name)
    if (pool := config.pool_called(name) if config.pools else None) is not None:
        members, timeout_s = config.pool_members(pool), config.pools[pool].pool_timeout_s
        return _Standing(_POOL, policy, frozenset(), members, timeout_s, (), adapts=True)
    if config.groups and config.group_called(name) is not None:  # members are looked up for every message
        return _Standing(_GROUP, policy, frozenset(), (), 0, (), adapts=True)
    table = config.agent(name)
    own = config.has_table(name) or name in ALWAYS
    made_of = table.made_of(policy, config.profiles) if own else ()
    return _Standing(table.endpoint, policy, frozenset(table.labels), (), 0, made_of, adapts=table.adapts)


def _own(config: Config, name: str) -> object:
    """The lines of an agent, group or pool in the file, as a value."""
    if name in config.agents:
        table = config.agents[name]
        profile = getattr(table, "profile", None)
        return table.endpoint, table, config.profiles.get(profile) if isinstance(profile, str) else None
    if name in config.groups:
        return _GROUP, config.groups[name]
    return _POOL, config.pools[name]


def _settings(old: Config, new: Config) -> Iterator[str]:
    capabilities = capability_tables()
    for key in Config.model_fields:
        before, after = getattr(old, key), getattr(new, key)
        if before == after or key in _OF_AGENTS or key in capabilities:
            continue
        if hasattr(after, "__pydantic_fields__"):
            yield from (
                f"{key}.{one}" for one in type(after).model_fields if getattr(before, one) != getattr(after, one)
            )
        else:
            yield key
