"""ackd.toml, whole: every key, its default, its range, and what is wrong with it in words.

Owns the model of the config and the engine's policies that follow from it. Refuses to touch anything that the config
names: whether a program or a directory exists is `ackd check`'s question. Fails with ``BadConfig``, which lists every
problem at once, each with its key, its line, and for an unknown key the nearest known one. Only the daemon and
`ackd check` pay for this module; the quick commands read site.py.
"""

from __future__ import annotations

import difflib
import enum
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, PrivateAttr, Strict, ValidationError

from ackd import config_pipeline
from ackd.config_coordination import Board, Bus, Ensemble, complaints
from ackd.config_pipeline import Pipeline, StageWorker
from ackd.config_problems import Source, in_words
from ackd.config_values import MONTH_S, Seconds, SecondsOrZero, Table, Words
from ackd.core.errors import BadConfig, BadName, Problem
from ackd.core.message import KNOWN_TYPES, MONITOR, USER, agent_name, identity
from ackd.core.policy import UNLIMITED, AgentPolicy, CompletesOn, EnginePolicy
from ackd.core.stage_words import is_lead, whose_worker
from ackd.core.words import is_type_name
from ackd.site import ALWAYS, DEFAULT_MAX_MESSAGE_BYTES, Site, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Rung = Literal["nudge", "interrupt", "reset"]
Completion = Literal["done", "seen"]

#: What a ladder's rungs may be, and the number by which the endpoints know each.
RUNGS: Final[Mapping[Rung, int]] = {"nudge": 1, "interrupt": 2, "reset": 3}


class EndpointKind(enum.Enum):
    TMUX = "tmux"
    PROCESS = "process"
    EXEC = "exec"
    INBOX = "inbox"
    HANDLER = "handler"


_ONE_AT_A_TIME: Final = frozenset({EndpointKind.TMUX, EndpointKind.PROCESS, EndpointKind.EXEC})
#: Something lives behind these: it is watched, woken by a ladder, and may be started by ackd.
INHABITED: Final = frozenset({EndpointKind.TMUX, EndpointKind.PROCESS})
_LIFE_KEYS: Final = ("ladder", "heartbeat_timeout_s", "probe_timeout_s", "context_threshold")
#: Not for commands, children and handlers: the end of a run is the end of its message.
_COMPLETION_KEYS: Final = ("completes_on", "completes_on_type")
#: Which of an agent's own keys mean something to which endpoint.
_KEYS_OF: Final[Mapping[EndpointKind, frozenset[str]]] = {
    EndpointKind.EXEC: frozenset({"command", "cwd", "env", "timeout_s"}),
    EndpointKind.PROCESS: frozenset({"command", "cwd", "env", "timeout_s", "restart", *_LIFE_KEYS}),
    EndpointKind.TMUX: frozenset(
        {"start", "cwd", "env", "pane", "title", "profile", "line", "restart", *_LIFE_KEYS, *_COMPLETION_KEYS}
    ),
    EndpointKind.INBOX: frozenset(_COMPLETION_KEYS),
    EndpointKind.HANDLER: frozenset({"handler"}),
}
_ENDPOINT_KEYS: Final = frozenset().union(*_KEYS_OF.values())
#: Keys of [delivery] that hold for the team as a whole and cannot differ by agent.
TEAM_ONLY: Final = frozenset({"dedup_window_s", "loop_limit", "durability"})


#: The pipeline's workers: the engine hands over what the lead says and has no patience, ladder or retry of its own for
#: them. Their ladder is the lead's, status check and respawn, and their one Execute is never said twice.
STAGE_WORKER: Final = AgentPolicy(
    ack_timeout_s=MONTH_S,
    processing_timeout_s=MONTH_S,
    task_timeout_s=MONTH_S,
    busy_timeout_s=MONTH_S,
    remind_after_s=MONTH_S,
    retry_limit=1000,
    backoff_base_s=1,
    backoff_cap_s=5,
    crash_limit=1000,
    max_in_flight=UNLIMITED,
)


class Delivery(Table):
    ack_timeout_s: Seconds = 60
    processing_timeout_s: Seconds = 300
    task_timeout_s: Seconds = 1800
    busy_timeout_s: Seconds = 900
    hung_after_s: SecondsOrZero = 1800
    remind_after_s: Seconds = 900
    retry_limit: Annotated[int, Field(ge=0, le=100)] = 3
    backoff_base_s: SecondsOrZero = 5
    backoff_cap_s: SecondsOrZero = 300
    crash_limit: Annotated[int, Field(ge=1, le=1000)] = 10
    max_in_flight: Annotated[int, Field(ge=1, le=UNLIMITED)] = 1
    aging_s: Seconds = 300
    dedup_window_s: SecondsOrZero = 86_400
    loop_limit: Annotated[int, Field(ge=1, le=10_000)] = 5
    durability: Literal["power", "process"] = "power"
    completes_on: Completion = "done"
    completes_on_type: dict[str, Completion] = Field(default_factory=dict)


class Watch(Table):
    mode: Literal["auto", "inotify", "polling"] = "auto"
    poll_interval_s: Annotated[float, Field(ge=0.05, le=3600, allow_inf_nan=False)] = 2
    reconcile_interval_s: Annotated[float, Field(ge=0.05, le=86_400, allow_inf_nan=False)] = 30
    settle_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 1


class Liveness(Table):
    heartbeat_timeout_s: Seconds = 120
    probe_timeout_s: Seconds = 60
    context_threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.70


class Tmux(Table):
    """``socket``: the server's name (``tmux -L``), or with a slash in it its path (``-S``); empty: tmux's own."""

    socket: str = ""


class Daemon(Table):
    drain_timeout_s: SecondsOrZero = 20
    stop_timeout_s: SecondsOrZero = 10


class Agent(Table):
    """One agent's table. What is None here is taken from [delivery], or from the kind of endpoint."""

    endpoint: Annotated[EndpointKind, Strict(strict=False)] = EndpointKind.INBOX
    command: Words = ()
    cwd: str = "."
    env: dict[str, str] = Field(default_factory=dict)
    timeout_s: Seconds = 600
    handler: str | None = None
    pane: str | None = None
    title: str | None = None
    profile: str = "claude"
    line: Literal["read", "path"] | None = None
    start: str | None = None
    restart: Literal["on-failure", "always", "never"] = "on-failure"
    ladder: Annotated[tuple[Rung, ...], Strict(strict=False)] = ("nudge", "interrupt", "reset")
    heartbeat_timeout_s: Seconds | None = None
    probe_timeout_s: Seconds | None = None
    context_threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None

    ack_timeout_s: Seconds | None = None
    processing_timeout_s: Seconds | None = None
    task_timeout_s: Seconds | None = None
    busy_timeout_s: Seconds | None = None
    hung_after_s: SecondsOrZero | None = None
    remind_after_s: Seconds | None = None
    retry_limit: Annotated[int, Field(ge=0, le=100)] | None = None
    backoff_base_s: SecondsOrZero | None = None
    backoff_cap_s: SecondsOrZero | None = None
    crash_limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=UNLIMITED)] | None = None
    aging_s: Seconds | None = None
    completes_on: Completion | None = None
    completes_on_type: dict[str, Completion] = Field(default_factory=dict)


class Config(Table):
    root: str = ".ackd"
    escalate_to: str = USER
    on_escalation: Words = ()
    archive_days: Annotated[int, Field(ge=0, le=36_500)] = 30
    max_message_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = DEFAULT_MAX_MESSAGE_BYTES
    extra_types: Words = ()
    unknown_types: Literal["quarantine", "deliver"] = "quarantine"
    delivery: Delivery = Delivery()
    watch: Watch = Watch()
    liveness: Liveness = Liveness()
    daemon: Daemon = Daemon()
    tmux: Tmux = Tmux()
    ensemble: Ensemble | None = None
    bus: Bus | None = None
    board: Board | None = None
    pipeline: Pipeline | None = None
    #: How terminals of one kind look and are used; what may stand in one is the screen dialect's to say.
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    agents: dict[str, Agent] = Field(default_factory=dict)

    _source: Source | None = PrivateAttr(default=None)

    @property
    def path(self) -> Path | None:
        """The file it was read from; None for a root without a config."""
        return self._source.path if self._source is not None else None

    @property
    def base_dir(self) -> Path:
        """What relative paths in the config are relative to."""
        return self._source.path.parent if self._source is not None else Path(self.root).parent

    @property
    def root_dir(self) -> Path:
        return self.base_dir / self.root

    @property
    def tmux_socket(self) -> str:
        """As ``Tmux.socket``; a path is relative to the config, as all paths in it are."""
        socket = self.tmux.socket
        return str(self.base_dir / socket) if "/" in socket else socket

    def agent(self, name: str) -> Agent:
        """The agent's table under any spelling; whoever has none is an inbox, or one of those inside the daemon."""
        if name in self.agents:  # mostly, and the search would take the square of their number
            return self.agents[name]
        for spelling, table in self.agents.items():
            if identity(spelling) == identity(name):
                return table
        if self.is_stage_worker(name) and (worker := self.stage_worker()) is not None:
            return worker
        inside = (name in ALWAYS and name != USER) or (self.pipeline is not None and is_lead(name))
        return Agent(endpoint=EndpointKind.HANDLER if inside else EndpointKind.INBOX)

    def is_stage_worker(self, name: str) -> bool:
        """A worker of the pipeline, which comes into being with a story's stage."""
        return self.pipeline is not None and whose_worker(name, self.pipeline.id_pattern) is not None

    def stage_worker(self) -> Agent | None:
        """What every worker of the pipeline is made by."""
        if self.pipeline is None:
            return None
        worker = self.pipeline.worker
        return Agent(
            endpoint=EndpointKind(worker.endpoint),
            command=worker.command,
            start=worker.start,
            profile=worker.profile,
            cwd=worker.cwd,
            env=worker.env,
            timeout_s=worker.timeout_s,
            restart="never",
        )

    def policy(self, agent: str) -> AgentPolicy:
        """How the engine is to treat this agent: its own numbers, else the team's, else its endpoint's."""
        if self.pipeline is not None and self.is_stage_worker(agent):
            # A pane has what was typed into it, whatever becomes of us. Mail of others is told again: their endpoint
            # completes it in the same breath, and if we died in between nobody else would. (An Execute has a flag.)
            return replace(STAGE_WORKER, volatile=self.pipeline.worker.endpoint != "tmux")
        table = self.agent(agent)

        def number(key: str) -> Any:
            own = getattr(table, key)
            return own if own is not None else getattr(self.delivery, key)

        window = number("max_in_flight") if table.endpoint in _ONE_AT_A_TIME else table.max_in_flight or UNLIMITED
        shared = sorted(Delivery.model_fields.keys() - TEAM_ONLY - {"max_in_flight", *_COMPLETION_KEYS})
        return AgentPolicy(
            **{key: number(key) for key in shared},
            max_in_flight=window,
            volatile=table.endpoint in (EndpointKind.EXEC, EndpointKind.HANDLER, EndpointKind.PROCESS),
            unwatched=table.endpoint is EndpointKind.HANDLER,
            reminds=table.endpoint is EndpointKind.INBOX,
            **(self._life(table) if table.endpoint in INHABITED else {}),
            **self._completion(table),
        )

    def _completion(self, table: Agent) -> dict[str, Any]:
        """What completes its mail: a command's or child's by its end; a pane's notices when they were seen; what lies
        in an inbox when its reader says so, for reading does not finish."""
        if "completes_on" not in _KEYS_OF[table.endpoint]:
            return {}
        all_mail = CompletesOn(table.completes_on or self.delivery.completes_on)
        by_type = {**self.delivery.completes_on_type, **table.completes_on_type}
        return {
            "completes_on": all_mail,
            "notices_complete_on": CompletesOn.SEEN if table.endpoint is EndpointKind.TMUX else all_mail,
            "completes_on_type": tuple((type_, CompletesOn(word)) for type_, word in sorted(by_type.items())),
        }

    def _life(self, table: Agent) -> dict[str, Any]:
        """What only agents behind whose endpoint something lives have."""

        def number(key: str) -> Any:
            own = getattr(table, key)
            return own if own is not None else getattr(self.liveness, key)

        ladder = tuple(RUNGS[name] for name in table.ladder)
        numbers = {key: number(key) for key in Liveness.model_fields}
        return {
            **numbers,
            "rungs": len(ladder),
            "ladder": ladder,
            "restarts": table.endpoint is EndpointKind.PROCESS,
            "shows": table.endpoint is EndpointKind.TMUX,
        }

    def engine_policy(self) -> EnginePolicy:
        same = (name for name in self.agents if identity(name) == identity(self.escalate_to))
        return EnginePolicy(
            escalate_to=next(same, self.escalate_to),
            dedup_window_s=self.delivery.dedup_window_s,
            loop_limit=self.delivery.loop_limit,
        )

    def fingerprint(self) -> str:
        """Tells two configs apart in the log; the same for the same meaning, however the file is written."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def problem(self, key: tuple[str, ...], what: str) -> Problem:
        line = self._source.line_of(key) if self._source is not None else None
        return Problem(".".join(key), what, line)


def load(path: Path | str, *, root: Path | None = None) -> Config:
    """The config in a file, checked as a whole. ``root`` replaces the file's own (``--root``)."""
    path = Path(path).absolute()
    data = read_toml(path)
    source = Source.of(path)
    if root is not None:
        data = {**data, "root": str(root.absolute())}
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems = in_words(error, source, _known_keys, TEAM_ONLY)
        raise BadConfig(str(path), problems) from None
    config._source = source  # noqa: SLF001 - where it came from is no part of what it says
    if problems := tuple(_meaningless(config)):
        raise BadConfig(str(path), problems)
    return config


def load_site(site: Site) -> Config:
    """The config of a site; a bare root has the defaults, and tells its leader, if there is one."""
    if site.config_path is not None:
        return load(site.config_path, root=site.root)
    leader = "leader" if "leader" in site.known_agents() else USER
    return Config(root=str(site.root), escalate_to=leader)


# --- what types and ranges cannot say ---------------------------------------------------------------------------------
def _meaningless(config: Config) -> Iterator[Problem]:
    problem = config.problem
    spellings: dict[str, str] = {}
    for name, table in config.agents.items():
        try:
            agent_name(name)
        except BadName as error:
            yield problem(("agents", name), str(error))
        twin = spellings.setdefault(identity(name), name)
        if twin != name:
            yield problem(("agents", name), f"is the same agent as `{twin}`: `-` and `_` are one")
        yield from _agent_problems(config, name, table)
    yield from _escalation_problems(config)
    yield from _completion_problems(config)
    for key, what in complaints(config.ensemble, config.bus, config.board, config.agents):
        yield problem(key, what)
    for key, what in config_pipeline.complaints(config.pipeline, config.agents):
        yield problem(key, what)
    for kind in config.extra_types:
        if not is_type_name(kind):
            yield problem(("extra_types",), f"{kind!r} is no type: small letters, digits and `_` only")
    if config.on_escalation and not config.on_escalation[0]:
        yield problem(("on_escalation",), "the program's name is empty")
    if config.delivery.backoff_cap_s < config.delivery.backoff_base_s:
        yield problem(("delivery", "backoff_cap_s"), "must not be less than backoff_base_s")


def _agent_problems(config: Config, name: str, table: Agent) -> Iterator[Problem]:
    kind = table.endpoint
    for key in sorted(table.model_fields_set & (_ENDPOINT_KEYS - _KEYS_OF[kind])):
        hint = ' (endpoint = "exec"?)' if key == "command" else ""
        what = f"has no meaning for endpoint {kind.value}{hint}"
        yield config.problem(("agents", name, key), what)
    if kind in {EndpointKind.EXEC, EndpointKind.PROCESS} and (not table.command or not table.command[0]):
        what = f"endpoint {kind.value} needs a command: a list, the program first"
        yield config.problem(("agents", name, "command"), what)
    if sorted(set(table.ladder), key=RUNGS.__getitem__) != list(table.ladder):
        yield config.problem(("agents", name, "ladder"), "each rung once, in the order " + ", ".join(RUNGS))
    if kind is EndpointKind.TMUX and not (table.pane or table.title or table.start):
        what = "endpoint tmux needs a pane, a title to find it by, or a command to start one with"
        yield config.problem(("agents", name, "pane"), what)
    texts = (*table.command, *table.env, *table.env.values(), table.cwd, table.pane, table.title, table.start)
    if any("\0" in text for text in texts if text is not None):
        yield config.problem(("agents", name), "holds a NUL character")
    if any("=" in key or not key for key in table.env):
        yield config.problem(("agents", name, "env"), "a variable's name must not be empty or hold `=`")
    if identity(name) == identity(MONITOR) and kind is not EndpointKind.HANDLER:
        yield config.problem(("agents", name, "endpoint"), f"{MONITOR} lives inside the daemon")


def _completion_problems(config: Config) -> Iterator[Problem]:
    known = sorted(KNOWN_TYPES | set(config.extra_types))
    tables: list[tuple[tuple[str, ...], Delivery | Agent]] = [(("delivery",), config.delivery)]
    tables += [(("agents", name), table) for name, table in config.agents.items()]
    for where, table in tables:
        for type_ in table.completes_on_type:
            key = (*where, "completes_on_type", type_)
            if type_ not in known and config.unknown_types != "deliver":
                near = difflib.get_close_matches(type_, known, n=1)
                hint = f": did you mean `{near[0]}`?" if near else ""
                yield config.problem(key, f"{type_!r} is not a message type{hint}")


def _escalation_problems(config: Config) -> Iterator[Problem]:
    name = config.escalate_to
    names = {identity(agent): agent for agent in (*config.agents, USER)}
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
        "delivery": Delivery,
        "watch": Watch,
        "liveness": Liveness,
        "daemon": Daemon,
        "tmux": Tmux,
        "ensemble": Ensemble,
        "bus": Bus,
        "board": Board,
        "pipeline": Pipeline,
    }
    match table:
        case ():
            return list(Config.model_fields)
        case ("agents", _):
            return list(Agent.model_fields)
        case ("pipeline", "worker"):
            return list(StageWorker.model_fields)
        case (name,) if name in models:
            return list(models[name].model_fields)
        case _:
            return []
