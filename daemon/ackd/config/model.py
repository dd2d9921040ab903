"""ackd.toml, whole: every key, its default, its range, and what is wrong with it in words.

The engine's policies follow from this model. Nothing that the config names is touched: whether a program or a directory
exists is `ackd check`'s question. Fails with ``BadConfig``, which lists every problem at once, each with its key, its
line, and for an unknown key the nearest known one. Only the daemon and `ackd check` pay for this module; the quick
commands read site.py.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializeAsAny,
    ValidationError,
    create_model,
    model_validator,
)

from ackd.config.agents import (
    TEAM_ONLY,
    AgentSettings,
    DeliverySettings,
    LivenessSettings,
    ReadingAgent,
    agent_keys,
    agent_of,
    read_agent,
)
from ackd.config.file_mark import mark_of
from ackd.config.groups import (
    MOST_MEMBERS,
    MadeAgent,
    PoolTable,
    Tables,
    complaints,
    filled,
    made_agents,
    members_by_group,
    members_by_pool,
)
from ackd.config.problems import ConfigSource, in_words
from ackd.config.site import ALWAYS, DEFAULT_MAX_MESSAGE_BYTES, Site, read_toml
from ackd.config.values import Seconds, SecondsOrZero, Table, Words
from ackd.coordination.registry import CAPABILITIES, load_beside
from ackd.coordination.registry import load as load_attribute
from ackd.core import redaction
from ackd.core.errors import BadConfig, BadName, Problem
from ackd.core.message import KNOWN_TYPES, MONITOR, USER, agent_name, identity
from ackd.core.names import RESERVED_NAMES, called
from ackd.core.policy import AgentPolicy, CompletesOn, EnginePolicy
from ackd.core.words import accepted_types, is_type_name
from ackd.endpoints import registry

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from typing import Self

    from ackd.config.file_mark import FileMark

_AgentTable = Annotated[SerializeAsAny[AgentSettings], BeforeValidator(read_agent)]

#: Tables in which a key that stands in the wrong place is looked for.
_HOMES: Final = ("delivery", "watch", "liveness", "daemon")


class WatchSettings(Table):
    mode: Literal["auto", "inotify", "polling"] = "auto"
    poll_interval_s: Annotated[float, Field(ge=0.05, le=3600, allow_inf_nan=False)] = 2
    reconcile_interval_s: Annotated[float, Field(ge=0.05, le=86_400, allow_inf_nan=False)] = 30
    settle_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 1


class TmuxServerSettings(Table):
    """``socket``: the server's name (``tmux -L``), or with a slash in it its path (``-S``); empty: tmux's own."""

    socket: str = ""


class DaemonSettings(Table):
    drain_timeout_s: SecondsOrZero = 20
    stop_timeout_s: SecondsOrZero = 10
    watch_config: bool = False


def _checked_pattern(pattern: str) -> str:
    if (why := redaction.problem(pattern)) is not None:
        raise ValueError(why)
    return pattern


class RedactSettings(Table):
    """Secrets that are taken out of what people are shown (``cli``). The daemon does not use it, and checks it."""

    patterns: list[Annotated[str, AfterValidator(_checked_pattern)]] = Field(default_factory=list)
    defaults: bool = True


class PoolSettings(Table):
    """A queue that several agents serve. It has either ``members``, or as many as ``size`` agents made of a template,
    which are called NAME-1, NAME-2 and so on. ``pool_timeout_s``: a message that waits for so long in a pool none of
    whose members can take it is told of."""

    members: Words | None = None
    template: str | None = None
    size: Annotated[int, Field(ge=0, le=MOST_MEMBERS)] | None = None
    pool_timeout_s: Seconds = 900


class OwnAgents(Protocol):
    """Agents that a capability brings to every team that has its table, beside those of the config."""

    def table(self, name: str) -> AgentSettings | None:
        """The agent's table, under any spelling; None: not one of these."""

    def policy(self, name: str) -> AgentPolicy | None:
        """The policy by which the engine treats the agent, if the capability sets it; None: it follows from the
        table."""

    def templates(self) -> Mapping[str, AgentSettings]:
        """The tables by which agents will be made, for `ackd check`, by what it calls them."""


#: The tables of ackd.toml that belong to a capability, by name, and the class of each.
_CAPABILITY_TABLES: Final[Mapping[str, type[Table]]] = {
    one.name: load_attribute(one.settings) for one in CAPABILITIES if one.settings
}

if TYPE_CHECKING:

    class _CapabilityTables(Table): ...

else:
    # A key for each of these tables. Code gets at them with ``Config.settings``, which has a type.
    _CapabilityTables = create_model(
        "_CapabilityTables",
        __base__=Table,
        **{name: (kind | None, None) for name, kind in _CAPABILITY_TABLES.items()},
    )

_Settings = TypeVar("_Settings", bound=Table)


class Config(_CapabilityTables):
    root: str = ".ackd"
    escalate_to: str = USER
    on_escalation: Words = ()
    archive_days: Annotated[int, Field(ge=0, le=36_500)] = 30
    log_rotate_mb: Annotated[float, Field(ge=0, le=4096, allow_inf_nan=False)] = 64
    log_rotate_hours: Annotated[float, Field(ge=0, le=87_600, allow_inf_nan=False)] = 168
    log_compress_hours: Annotated[float, Field(ge=0, le=876_000, allow_inf_nan=False)] = 24
    log_keep_days: Annotated[int, Field(ge=0, le=36_500)] = 90
    min_free_mb: Annotated[float, Field(ge=0, le=1_048_576, allow_inf_nan=False)] = 64
    max_message_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = DEFAULT_MAX_MESSAGE_BYTES
    extra_types: Words = ()
    unknown_types: Literal["quarantine", "deliver"] = "quarantine"
    # The defaults are right: made without validation, they need no validators of their own, which take time to build.
    delivery: DeliverySettings = DeliverySettings.model_construct()
    watch: WatchSettings = WatchSettings.model_construct()
    liveness: LivenessSettings = LivenessSettings.model_construct()
    daemon: DaemonSettings = DaemonSettings.model_construct()
    redact: RedactSettings = RedactSettings.model_construct()
    tmux: TmuxServerSettings = TmuxServerSettings.model_construct()
    #: Profiles of terminal programs, by name. Their keys are checked by endpoints/tmux/screen/profile.py.
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    groups: dict[str, Words] = Field(default_factory=dict)
    pools: dict[str, PoolSettings] = Field(default_factory=dict)
    templates: dict[str, _AgentTable] = Field(default_factory=dict)
    #: Those with a table of their own, then those that pools make of a template.
    agents: dict[str, _AgentTable] = Field(default_factory=dict)

    _source: ConfigSource | None = PrivateAttr(default=None)
    _made: dict[str, MadeAgent] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _with_made_agents(self) -> Self:
        """Make the agents of pools that have a template. Each gets a table as if it stood in the file."""
        for one in made_agents(self._pool_tables, self.agents):
            if (template := self.templates.get(one.template)) is not None:
                self.agents[one.name] = type(template).model_validate(
                    filled(template.model_dump(exclude_unset=True), one)
                )
                self._made[one.name] = one
        return self

    @property
    def path(self) -> Path | None:
        """The file it was read from; None for a root without a config."""
        return self._source.path if self._source is not None else None

    @property
    def file_mark(self) -> FileMark | None:
        """The mark of the file as it was read; None for a root without a config."""
        return self._source.mark if self._source is not None else None

    @property
    def base_dir(self) -> Path:
        """The directory that relative paths in the config are relative to."""
        return self._source.path.parent if self._source is not None else Path(self.root).parent

    @property
    def root_dir(self) -> Path:
        return self.base_dir / self.root

    @property
    def tmux_socket(self) -> str:
        """The socket as in ``TmuxServerSettings.socket``; a path is relative to the config, as all paths in it are."""
        socket = self.tmux.socket
        return str(self.base_dir / socket) if "/" in socket else socket

    def with_tables(self, tables: Mapping[str, Any]) -> Config:
        """This config with other tables in place of its own. They are not checked again."""
        other = self.model_copy(update=dict(tables))
        for name in ("own_agents", "accepted_types"):  # computed from the tables, and copied with them
            vars(other).pop(name, None)
        return other

    def settings(self, kind: type[_Settings]) -> _Settings | None:
        """The table of a capability, by its class; None: the file has none."""
        tables = (getattr(self, name) for name, known in _CAPABILITY_TABLES.items() if known is kind)
        table: _Settings | None = next(tables)  # a class that the registry does not name is a bug
        return table

    @cached_property
    def accepted_types(self) -> Container[str]:
        """The types of messages that are delivered besides those that ackd knows."""
        return accepted_types(self.extra_types, self.unknown_types)

    @property
    def agents_brought(self) -> tuple[str, ...]:
        """The agents that exist because a capability has its table here."""
        here = (one for one in CAPABILITIES if one.always_there and getattr(self, one.name) is not None)
        return tuple(name for one in here for name in one.always_there)

    @cached_property
    def own_agents(self) -> tuple[OwnAgents, ...]:
        """The agents of each capability that brings some and has its table here."""
        return tuple(
            load_attribute(one.own_agents)(table)
            for one in CAPABILITIES
            if one.own_agents and (table := getattr(self, one.name)) is not None
        )

    def agent(self, name: str) -> AgentSettings:
        """The agent's table, under any spelling of its name. An agent without one is an inbox, or one of those inside
        the daemon."""
        if name in self.agents:  # mostly the case
            return self.agents[name]
        if (table := self._by_identity.get(identity(name))) is not None:
            return table
        for own in self.own_agents:
            if (brought := own.table(name)) is not None:
                return brought
        inside = (name in ALWAYS and name != USER) or self.group_called(name) is not None
        return agent_of(registry.INSIDE if inside else registry.DEFAULT)

    def has_table(self, name: str) -> bool:
        """Say whether the agent has a table in the file, or is made of a template."""
        return name in self.agents or identity(name) in self._by_identity

    @cached_property
    def _by_identity(self) -> dict[str, AgentSettings]:
        return {identity(name): table for name, table in self.agents.items()}

    @property
    def made_agents(self) -> Mapping[str, MadeAgent]:
        """The agents without a table of their own: those that pools are made of, by name."""
        return self._made

    def group_called(self, name: str) -> str | None:
        """The group of that name, in any spelling, as the config spells it; None if there is none."""
        return called(name, self.groups)

    def pool_called(self, name: str) -> str | None:
        """The pool of that name, in any spelling, as the config spells it; None if there is none."""
        return called(name, self.pools)

    def group_members(self, name: str) -> tuple[str, ...]:
        """The agents of a group, under any spelling of its name. Raises KeyError if there is no such group."""
        return self._members_by_group[self.group_called(name) or name]

    def members_of(self, name: str) -> tuple[str, ...]:
        """The agents of the group of that name; none if there is no such group."""
        group = self.group_called(name) if self.groups else None
        return self._members_by_group[group] if group is not None else ()

    def pool_members(self, name: str) -> tuple[str, ...]:
        """The agents that serve a pool, under any spelling of its name. Raises KeyError if there is no such pool."""
        return self._members_by_pool[self.pool_called(name) or name]

    @cached_property
    def _members_by_group(self) -> dict[str, tuple[str, ...]]:
        return members_by_group(self.groups, self.agents)

    @cached_property
    def _members_by_pool(self) -> dict[str, tuple[str, ...]]:
        return members_by_pool(self._pool_tables, self.agents)

    @property
    def _pool_tables(self) -> dict[str, PoolTable]:
        return {name: PoolTable(one.members, one.template, one.size) for name, one in self.pools.items()}

    def group_complaints(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Complaints about groups, pools, and the names in them."""
        own = [name for name in self.agents if name not in self._made]
        here = [name for name in _CAPABILITY_TABLES if getattr(self, name) is not None]
        tables = Tables(own, self.groups, self._pool_tables, self.templates, here)
        return complaints(tables, RESERVED_NAMES)

    @property
    def unused_templates(self) -> list[str]:
        """The templates that no pool is made of."""
        used = {one.template for one in self.pools.values()}
        return [name for name in self.templates if name not in used]

    def policy(self, agent: str) -> AgentPolicy:
        """The policy by which the engine treats this agent: its own numbers, else the team's, else its endpoint's."""
        for own in self.own_agents:
            if (policy := own.policy(agent)) is not None:
                return policy
        if self.pools and self.pool_called(agent) is not None:
            return replace(AgentSettings().policy(self.delivery, self.liveness), notify_when_done=True)
        if self.group_called(agent) is not None:
            # To have handed a message on is not to have dealt with it: an escalation stays open.
            policy, seen = self.agent(agent).policy(self.delivery, self.liveness), CompletesOn.SEEN
            to_people = any(self.policy(member).reminds for member in self.group_members(agent))
            return replace(
                policy, completes_on=seen, notices_complete_on=seen, notify_when_done=False, reminds=to_people
            )
        return self.agent(agent).policy(self.delivery, self.liveness)

    def engine_policy(self) -> EnginePolicy:
        addresses = (*self.agents, *self.groups, *self.pools)
        same = (name for name in addresses if identity(name) == identity(self.escalate_to))
        return EnginePolicy(
            escalate_to=next(same, self.escalate_to),
            dedup_window_s=self.delivery.dedup_window_s,
            loop_limit=self.delivery.loop_limit,
            groups=self._members_by_group,
        )

    def fingerprint(self) -> str:
        """A hash that tells two configs apart in the log; equal for equal meaning, however the file is written."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def problem(self, key: tuple[str, ...], what: str) -> Problem:
        line = self._source.line_of(key) if self._source is not None else None
        return Problem(".".join(key), what, line)


def load(path: Path | str, *, root: Path | None = None) -> Config:
    """The config in a file, checked as a whole. ``root`` replaces the file's own (``--root``)."""
    path = Path(path).absolute()
    mark = mark_of(path)  # first: of a file that is changed while it is read, it is known that it differs
    data = read_toml(path)
    source = ConfigSource.of(path, mark)
    if root is not None:
        data = {**data, "root": str(root.absolute())}
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems = in_words(error, source, _known_keys, (*_HOMES, *_CAPABILITY_TABLES), TEAM_ONLY)
        raise BadConfig(str(path), problems) from None
    config._source = source  # noqa: SLF001 - where it came from is no part of what it says
    if problems := tuple(_meaningless(config)):
        raise BadConfig(str(path), problems)
    return config


def load_again(site: Site, old: Config) -> tuple[Config, tuple[str, ...]]:
    """The config of a site whose daemon runs with ``old``: what can be put in force, and the keys whose new values
    cannot. Raises BadConfig, also where the rest of the file goes with these new values only."""
    from ackd.config.comparing import in_force  # noqa: PLC0415 - it is built on this module

    config, not_live = in_force(old, load_site(site))
    if not_live and (problems := tuple(_meaningless(config))):
        what = f"the rest of the file needs the new {', '.join(not_live)}: start the daemon again"
        raise BadConfig(str(config.path), (*problems, Problem("", what)))
    return config, not_live


def capability_tables() -> tuple[str, ...]:
    """The names of the tables that belong to capabilities."""
    return tuple(_CAPABILITY_TABLES)


def load_site(site: Site) -> Config:
    """The config of a site. A bare root has the defaults, and escalates to its leader, if there is one."""
    if site.config_path is not None:
        return load(site.config_path, root=site.root)
    leader = "leader" if "leader" in site.known_agents() else USER
    return Config(root=str(site.root), escalate_to=leader)


# --- what types and ranges cannot say ---------------------------------------------------------------------------------
def _meaningless(config: Config) -> Iterator[Problem]:
    problem = config.problem
    spellings: dict[str, str] = {}
    for name, table in config.agents.items():
        if name in config.made_agents:
            continue  # its template is looked at
        try:
            agent_name(name)
        except BadName as error:
            yield problem(("agents", name), str(error))
        twin = spellings.setdefault(identity(name), name)
        if twin != name:
            yield problem(("agents", name), f"is the same agent as `{twin}`: `-` and `_` are one")
        yield from _agent_problems(config, name, table)
    for name, table in config.templates.items():
        for key, what in (*table.misplaced(), *table.complaints(), *table.alike()):
            yield problem(("templates", name, *key), what)
    for key, what in config.group_complaints():
        yield problem(key, what)
    yield from _escalation_problems(config)
    yield from _completion_problems(config)
    shared = (*config.groups, *config.pools)
    for one in CAPABILITIES:
        if (settings := getattr(config, one.name, None)) is not None:
            for key, what in load_beside(one.settings, "complaints")(settings, config.agents, shared):
                yield problem(key, what)
    for kind in config.extra_types:
        if not is_type_name(kind):
            yield problem(("extra_types",), f"{kind!r} is no type: small letters, digits and `_` only")
    if config.on_escalation and not config.on_escalation[0]:
        yield problem(("on_escalation",), "the program's name is empty")
    if config.delivery.backoff_cap_s < config.delivery.backoff_base_s:
        yield problem(("delivery", "backoff_cap_s"), "must not be less than backoff_base_s")


def _agent_problems(config: Config, name: str, table: AgentSettings) -> Iterator[Problem]:
    for key, what in (*table.misplaced(), *table.complaints()):
        yield config.problem(("agents", name, *key), what)
    if identity(name) == identity(MONITOR) and table.endpoint != registry.INSIDE:
        yield config.problem(("agents", name, "endpoint"), f"{MONITOR} lives inside the daemon")


def _completion_problems(config: Config) -> Iterator[Problem]:
    known = sorted(KNOWN_TYPES | set(config.extra_types))
    tables: list[tuple[tuple[str, ...], DeliverySettings | ReadingAgent]] = [(("delivery",), config.delivery)]
    own = {name: one for name, one in config.agents.items() if name not in config.made_agents}
    for key_of, ones in (("agents", own), ("templates", config.templates)):
        tables += [((key_of, name), one) for name, one in ones.items() if isinstance(one, ReadingAgent)]
    for where, table in tables:
        for type_ in table.completes_on_type:
            key = (*where, "completes_on_type", type_)
            if type_ not in known and config.unknown_types != "deliver":
                near = difflib.get_close_matches(type_, known, n=1)
                hint = f": did you mean `{near[0]}`?" if near else ""
                yield config.problem(key, f"{type_!r} is not a message type{hint}")


def _escalation_problems(config: Config) -> Iterator[Problem]:
    name = config.escalate_to
    names = {identity(agent): agent for agent in (*config.agents, *config.groups, *config.pools, USER)}
    if identity(name) in names:
        return
    if name in ALWAYS:
        yield config.problem(("escalate_to",), f"{name} lives inside the daemon: name someone who reads")
    elif not _has_box(config, name):
        near = difflib.get_close_matches(name, names.values(), n=1)
        hint = f": did you mean `{near[0]}`?" if near else ""
        yield config.problem(("escalate_to",), f"{name!r} is not an agent{hint}")


def _has_box(config: Config, name: str) -> bool:
    return any(identity(box) == identity(name) for box in Site(config.path, config.root_dir).boxes())


def _known_keys(table: tuple[str, ...]) -> list[str]:
    models: dict[str, type[BaseModel]] = {
        "delivery": DeliverySettings,
        "watch": WatchSettings,
        "liveness": LivenessSettings,
        "daemon": DaemonSettings,
        "tmux": TmuxServerSettings,
        **_CAPABILITY_TABLES,
    }
    match table:
        case ():
            own = [key for key in Config.model_fields if key not in _CAPABILITY_TABLES]
            before = own.index("profiles")
            return [*own[:before], *_CAPABILITY_TABLES, *own[before:]]
        case ("agents" | "templates", _):
            return list(agent_keys())
        case ("pools", _):
            return list(PoolSettings.model_fields)
        case (name,) if name in models:
            return list(models[name].model_fields)
        case (name, inner) if name in _CAPABILITY_TABLES and inner in models[name].model_fields:
            kind = models[name].model_fields[inner].annotation
            return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, Table) else []
        case _:
            return []
