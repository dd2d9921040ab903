"""Groups and pools of ackd.toml, and the agents that are made of templates, as the raw tables have them.

A group is a name for several agents: each gets a copy. A pool is a queue that several agents serve: each message goes
to one of them. Agents, groups and pools are addresses of one kind, so they share one name space.

The fast reader (site.py) and the model (model.py) both ask here who is in what, and what is wrong, so that no command
and the daemon can differ about it. Nothing is read from disk.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ackd.coordination.registry import CAPABILITIES
from ackd.core.errors import BadName
from ackd.core.names import MONITOR, USER, agent_name, identity

#: More members than that are a slip of the pen.
MOST_MEMBERS: Final = 1000
#: Agents that live inside the daemon: they read nothing that a team sends around.
_INSIDE: Final = ("system", MONITOR)
#: The blanks that the texts of a template may have. `${agent}` is the shell's.
_BLANK: Final = re.compile(r"(?<!\$)\{(agent|pool|number)\}")

#: A key, and what is wrong with it.
_Complaint = tuple[tuple[str, ...], str]


class PoolTable(NamedTuple):
    """A [pools.NAME]: the members that it names, or the template that they are made of. None: it has no such key."""

    members: tuple[str, ...] | None = None
    template: str | None = None
    size: int | None = None


class MadeAgent(NamedTuple):
    """An agent that exists because a pool is made of a template."""

    name: str
    pool: str
    number: int
    template: str


class Tables(NamedTuple):
    """The tables that say who is there. ``agents``: those with a table of their own; ``templates``: the
    names of all; ``capabilities``: those whose table is there."""

    agents: Iterable[str]
    groups: Mapping[str, tuple[str, ...]]
    pools: Mapping[str, PoolTable]
    templates: Iterable[str]
    capabilities: Iterable[str] = ()


class Shared(NamedTuple):
    """A team with its groups and pools, read fast: the raw tables of all agents, and who is in what."""

    agents: Mapping[str, dict[str, object]]
    groups: Mapping[str, tuple[str, ...]]
    pools: Mapping[str, tuple[str, ...]]
    tables: Tables

    def complaints(self, reserved: frozenset[str]) -> Iterator[_Complaint]:
        return complaints(self.tables, reserved)


def read_shared(
    data: Mapping[str, object],
    agents: Mapping[str, dict[str, object]],
    capabilities: Iterable[str],
    take: Callable[[Mapping[str, Any], str, Any, Any], Any],
) -> Shared:
    """The groups, pools and templates of a config's raw tables. ``take`` returns a table's value of the right type, or
    the default, and notes the mistake."""
    groups, pools, templates = (take(data, name, dict, {}) for name in ("groups", "pools", "templates"))
    pool_tables = {name: _pool_table(take(pools, name, dict, {}), take) for name in pools}
    group_lists = {name: _texts(take(groups, name, list, [])) for name in groups}
    template_tables = {name: take(templates, name, dict, {}) for name in templates}
    made = made_agents(pool_tables, agents)
    everybody = {**agents, **{one.name: filled(template_tables.get(one.template, {}), one) for one in made}}
    return Shared(
        everybody,
        members_by_group(group_lists, everybody),
        members_by_pool(pool_tables, everybody),
        Tables(agents, group_lists, pool_tables, template_tables, capabilities),
    )


def _pool_table(table: Mapping[str, Any], take: Callable[[Mapping[str, Any], str, Any, Any], Any]) -> PoolTable:
    return PoolTable(
        _texts(take(table, "members", list, [])) if "members" in table else None,
        take(table, "template", str, "") if "template" in table else None,
        take(table, "size", int, 0) if "size" in table else None,
    )


def _texts(listed: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, listed))


def made_agents(pools: Mapping[str, PoolTable], agents: Iterable[str]) -> list[MadeAgent]:
    """The agents that pools are made of. One whose name an agent of the config has is left out (a complaint)."""
    taken = {identity(name) for name in agents}
    made: list[MadeAgent] = []
    for pool, table in pools.items():
        for number, name in enumerate(_of_template(pool, table), 1):
            if identity(name) not in taken:
                taken.add(identity(name))
                made.append(MadeAgent(name, pool, number, table.template or ""))
    return made


def _of_template(pool: str, table: PoolTable) -> tuple[str, ...]:
    """The names of the members of a pool that is made of a template; none for another."""
    if table.members is not None or table.template is None:
        return ()
    return tuple(f"{pool}-{number}" for number in range(1, min(table.size or 0, MOST_MEMBERS) + 1))


def filled(value: Any, agent: MadeAgent) -> Any:
    """A template's table, or a value in it, for one agent: ``{agent}``, ``{pool}`` and ``{number}`` in its texts stand
    for the agent's name, its pool and its number there."""
    if isinstance(value, str):
        words = {"agent": agent.name, "pool": agent.pool, "number": str(agent.number)}
        return _BLANK.sub(lambda blank: words[blank[1]], value)
    if isinstance(value, list | tuple):
        return type(value)(filled(one, agent) for one in value)
    if isinstance(value, dict):
        return {key: filled(one, agent) for key, one in value.items()}
    return value


def differs(text: str) -> bool:
    """Say whether a text of a template is another for each agent that is made of it."""
    return any(blank[1] != "pool" for blank in _BLANK.finditer(text))


def members_by_group(groups: Mapping[str, tuple[str, ...]], agents: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The members of each group, once each, as the config spells the agents."""
    spelled = _spellings(agents)
    return {name: _called(members, spelled) for name, members in groups.items()}


def members_by_pool(pools: Mapping[str, PoolTable], agents: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The members of each pool, once each, as the config spells the agents; those of a template in their order."""
    spelled = _spellings(agents)
    return {
        name: _called(table.members if table.members is not None else _of_template(name, table), spelled)
        for name, table in pools.items()
    }


def readers(members: tuple[str, ...], sender: str) -> tuple[str, ...]:
    """The members of a group who get a copy of what this sender writes to it: not the sender, unless nobody else is in
    it."""
    others = tuple(name for name in members if identity(name) != identity(sender))
    return others or members


def _called(names: Iterable[str], spelled: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(spelled.get(identity(name), name) for name in names))


def _spellings(agents: Iterable[str]) -> dict[str, str]:
    found = {USER: USER}
    found.update((identity(name), name) for name in agents)
    return found


# --- what is wrong ----------------------------------------------------------------------------------------------------
def complaints(tables: Tables, reserved: frozenset[str]) -> Iterator[_Complaint]:
    """Every mistake in groups and pools, each with the key that it stands at."""
    if not tables.groups and not tables.pools:
        return
    yield from _name_complaints(tables, reserved)
    made = made_agents(tables.pools, tables.agents)
    brought = [name for one in CAPABILITIES if one.name in set(tables.capabilities) for name in one.always_there]
    agents = {identity(name): name for name in (*tables.agents, *(one.name for one in made), *brought, USER)}
    for name, members in tables.groups.items():
        yield from ((("groups", name), what) for what in _member_complaints(members, tables, agents))
        if not members:
            yield ("groups", name), "has no members: mail to it would reach nobody"
    for name, table in tables.pools.items():
        yield from ((("pools", name, *key), what) for key, what in _pool_complaints(table, tables))
        if table.members is not None:
            found = _member_complaints(table.members, tables, agents)
            yield from ((("pools", name, "members"), what) for what in found)


def _name_complaints(tables: Tables, reserved: frozenset[str]) -> Iterator[_Complaint]:
    """Groups, pools and the agents that pools make, each of which must have a name of its own."""
    own = [one for one in CAPABILITIES if one.name in set(tables.capabilities)]
    taken = {identity(name): f"the agent `{name}`" for name in tables.agents}
    taken.update((identity(name), f"{name}, who is in every team") for name in (USER, *_INSIDE))
    taken.update((identity(name), f"{name}, which [{one.name}] brings") for one in own for name in one.always_there)
    for one in _new_names(tables):
        subject = f"its member {one.name!r}" if one.is_made else repr(one.name)
        try:
            agent_name(one.name, reserved)
        except BadName as error:
            yield one.key, f"{subject} cannot be the name of {one.what}: {error.why}"
            continue
        if (twin := taken.get(identity(one.name))) is not None:
            spelled = "" if one.name in twin else " (`-` and `_` are one)"
            yield one.key, f"{subject} is also {twin}{spelled}: agents, groups and pools share one name space"
        taken.setdefault(identity(one.name), f"{one.what} `{one.name}`")
        for capability in own:
            if capability.own_names and re.fullmatch(capability.own_names, one.name):
                yield one.key, f"{subject} is a name that [{capability.name}] gives its own agents"


class _NewName(NamedTuple):
    """A name that a group or a pool needs. ``key``: where it stands; ``is_made``: it is one of a template's."""

    key: tuple[str, ...]
    name: str
    what: str
    is_made: bool = False


def _new_names(tables: Tables) -> Iterator[_NewName]:
    yield from (_NewName(("groups", name), name, "a group") for name in tables.groups)
    yield from (_NewName(("pools", name), name, "a pool") for name in tables.pools)
    for name, table in tables.pools.items():
        yield from (_NewName(("pools", name), one, "an agent", is_made=True) for one in _of_template(name, table))


def _member_complaints(members: Iterable[str], tables: Tables, agents: Mapping[str, str]) -> Iterator[str]:
    groups, pools = ({identity(name) for name in names} for names in (tables.groups, tables.pools))
    seen: set[str] = set()
    for member in members:
        who = identity(member)
        if who in seen:
            yield f"`{member}` stands in it twice"
        elif who in agents:
            pass
        elif who in groups:
            yield f"`{member}` is a group: groups and pools have agents as members, and cannot be nested"
        elif who in pools:
            yield f"`{member}` is a pool: groups and pools have agents as members, and cannot be nested"
        elif who in map(identity, _INSIDE):
            yield f"`{member}` lives inside the daemon: name someone who reads"
        else:
            yield f"{member!r} is not an agent{_nearest(member, agents.values())}"
        seen.add(who)


def _pool_complaints(table: PoolTable, tables: Tables) -> Iterator[_Complaint]:
    if table.members is not None:
        for key in ("template", "size"):
            if getattr(table, key) is not None:
                yield (key,), "a pool has either members, or a template and a size"
    elif table.template is None and table.size is None:
        yield (), 'needs its members (members = ["a", "b"]), or a template and a size'
    elif table.template is None:
        yield ("size",), "says how many agents are made of a template: which? (template = …)"
    elif table.size is None:
        yield ("template",), "how many agents are made of it? (size = …)"
    if table.template is not None and table.template not in tables.templates:
        near = _nearest(table.template, tables.templates)
        yield ("template",), f"there is no [templates.{table.template}]{near}"


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - for a refusal only

    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean `{near[0]}`?" if near else ""
