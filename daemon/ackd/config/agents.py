"""[agents.NAME], [delivery] and [liveness]: how one agent is reached, and how the engine is to treat it.

``AgentSettings`` has the keys that every kind of endpoint understands. Each kind adds its own in a subclass
(``SETTINGS`` of ``endpoints/<kind>/settings.py``), mostly by combining several of the classes below, and reports there
what cannot be right in a table. ``read_agent`` finds the subclass by the table's ``endpoint``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, PrivateAttr, Strict, field_validator
from pydantic_core import PydanticCustomError

from ackd.config.values import Seconds, SecondsOrZero, Table, Words
from ackd.core.labels import LABEL_FORM, is_label
from ackd.core.policy import UNLIMITED, AgentPolicy, CompletesOn, EnginePolicy, OnDeadline
from ackd.endpoints import registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Rung = Literal["nudge", "interrupt", "reset"]
Completion = Literal["done", "seen"]
#: A key inside an agent's table (empty: the table itself), and what is wrong with it.
AgentComplaint: TypeAlias = tuple[tuple[str, ...], str]

#: The rungs that a ladder may have, and the number by which the endpoints know each.
RUNGS: Final[Mapping[Rung, int]] = {"nudge": 1, "interrupt": 2, "reset": 3}
#: The engine's own numbers: the defaults of the config are theirs.
_AGENT: Final = AgentPolicy()
_TEAM: Final = EnginePolicy()
#: Keys of [delivery] that hold for the team as a whole and cannot differ by agent.
TEAM_ONLY: Final = frozenset({"dedup_window_s", "loop_limit", "durability"})


class DeliverySettings(Table):
    ack_timeout_s: Seconds = _AGENT.ack_timeout_s
    processing_timeout_s: Seconds = _AGENT.processing_timeout_s
    task_timeout_s: Seconds = _AGENT.task_timeout_s
    busy_timeout_s: Seconds = _AGENT.busy_timeout_s
    hung_after_s: SecondsOrZero = _AGENT.hung_after_s
    remind_after_s: Seconds = _AGENT.remind_after_s
    cancel_timeout_s: Seconds = _AGENT.cancel_timeout_s
    on_deadline: Literal["tell", "cancel"] = "tell"
    retry_limit: Annotated[int, Field(ge=0, le=100)] = _AGENT.retry_limit
    backoff_base_s: SecondsOrZero = _AGENT.backoff_base_s
    backoff_cap_s: SecondsOrZero = _AGENT.backoff_cap_s
    crash_limit: Annotated[int, Field(ge=1, le=1000)] = _AGENT.crash_limit
    max_in_flight: Annotated[int, Field(ge=1, le=UNLIMITED)] = _AGENT.max_in_flight
    aging_s: Seconds = _AGENT.aging_s
    notify_when_done: bool = _AGENT.notify_when_done
    dedup_window_s: SecondsOrZero = _TEAM.dedup_window_s
    loop_limit: Annotated[int, Field(ge=1, le=10_000)] = _TEAM.loop_limit
    durability: Literal["power", "process"] = "power"
    completes_on: Completion = "done"
    completes_on_type: dict[str, Completion] = Field(default_factory=dict)


class LivenessSettings(Table):
    heartbeat_timeout_s: Seconds = 120
    probe_timeout_s: Seconds = _AGENT.probe_timeout_s
    context_threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = _AGENT.context_threshold


class AgentSettings(Table):
    """The keys that every agent's table may have. A number that is None here is taken from [delivery].

    The class variables are what a kind of endpoint fixes; see ``core.policy.AgentPolicy`` for their meaning.
    """

    #: True: the agent is told one message at a time, unless [delivery] or its table allow more. False: there is no
    #: limit, unless its table sets one.
    one_at_a_time: ClassVar[bool] = False
    volatile: ClassVar[bool] = False
    unwatched: ClassVar[bool] = False
    reminds: ClassVar[bool] = False
    #: True: another table of this kind can take effect with the next message. False: the endpoint is made anew, when
    #: nothing is in hand.
    adapts: ClassVar[bool] = True
    #: Keys that hint at this kind when they stand in the table of another.
    suggested_by: ClassVar[frozenset[str]] = frozenset()

    endpoint: str = registry.DEFAULT
    ack_timeout_s: Seconds | None = None
    processing_timeout_s: Seconds | None = None
    task_timeout_s: Seconds | None = None
    busy_timeout_s: Seconds | None = None
    hung_after_s: SecondsOrZero | None = None
    remind_after_s: Seconds | None = None
    cancel_timeout_s: Seconds | None = None
    on_deadline: Literal["tell", "cancel"] | None = None
    retry_limit: Annotated[int, Field(ge=0, le=100)] | None = None
    backoff_base_s: SecondsOrZero | None = None
    backoff_cap_s: SecondsOrZero | None = None
    crash_limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=UNLIMITED)] | None = None
    aging_s: Seconds | None = None
    notify_when_done: bool | None = None
    labels: Words = ()

    #: Keys of other kinds that stand in the table.
    _misplaced: tuple[str, ...] = PrivateAttr(default=())

    @field_validator("endpoint", mode="before")
    @classmethod
    def _is_known(cls, kind: object) -> object:
        if not isinstance(kind, str) or kind not in registry.KINDS:
            *names, last = map(repr, registry.KINDS)
            expected = f"{', '.join(names)} or {last}"
            raise PydanticCustomError("enum", "Input should be {expected}", {"expected": expected})
        return kind

    def misplaced(self) -> Iterator[AgentComplaint]:
        """Complaints about keys of other kinds that stand in this table."""
        for key in self._misplaced:
            kinds = [kind for kind in registry.KINDS if key in settings_of(kind).suggested_by]
            hint = f' (endpoint = "{kinds[0]}"?)' if kinds else ""
            yield (key,), f"has no meaning for endpoint {self.endpoint}{hint}"

    def complaints(self) -> Iterator[AgentComplaint]:
        """Complaints about what types and ranges cannot say: for the kinds to extend."""
        for label in self.labels:
            if not is_label(label):
                yield ("labels",), f"{label!r} is no label: {LABEL_FORM}"

    def made_of(self, policy: AgentPolicy, profiles: Mapping[str, Any]) -> tuple[object, ...]:  # noqa: ARG002 - for subclasses
        """Return the values that the agent's endpoint is made from, of this table and of the rest of the config: of two
        configs in which they are equal, the endpoint is the same. All other keys go into the policy."""
        return tuple(getattr(self, key) for key in type(self).model_fields if key not in _POLICY_KEYS)

    def alike(self) -> Iterator[AgentComplaint]:
        """Complaints about a template: keys by which all agents that are made of it would be one. For the kinds to
        extend."""
        yield from ()

    def policy(self, delivery: DeliverySettings, liveness: LivenessSettings) -> AgentPolicy:
        """The policy by which the engine treats this agent: from its own numbers, else the team's, else its
        endpoint's."""

        def number(key: str) -> Any:
            own = getattr(self, key)
            return own if own is not None else getattr(delivery, key)

        shared = AgentSettings.model_fields.keys() - {"endpoint", "max_in_flight", "on_deadline", "labels"}
        return AgentPolicy(
            **{key: number(key) for key in sorted(shared)},
            on_deadline=OnDeadline(number("on_deadline")),
            max_in_flight=number("max_in_flight") if self.one_at_a_time else self.max_in_flight or UNLIMITED,
            volatile=self.volatile,
            unwatched=self.unwatched,
            reminds=self.reminds,
            **self._more_policy(delivery, liveness),
        )

    def _more_policy(self, delivery: DeliverySettings, liveness: LivenessSettings) -> dict[str, Any]:  # noqa: ARG002 - for subclasses
        """The part of the policy that only some kinds have."""
        return {}


class ReadingAgent(AgentSettings):
    """Keys of agents whose mail is not completed by the end of a run: these keys say by what it is."""

    completes_on: Completion | None = None
    completes_on_type: dict[str, Completion] = Field(default_factory=dict)

    #: The way in which notices are completed, whatever ``completes_on`` says.
    notices_complete_on: ClassVar[CompletesOn | None] = None

    def _more_policy(self, delivery: DeliverySettings, liveness: LivenessSettings) -> dict[str, Any]:
        all_mail = CompletesOn(self.completes_on or delivery.completes_on)
        by_type = {**delivery.completes_on_type, **self.completes_on_type}
        return {
            **super()._more_policy(delivery, liveness),
            "completes_on": all_mail,
            "notices_complete_on": self.notices_complete_on or all_mail,
            "completes_on_type": tuple((type_, CompletesOn(word)) for type_, word in sorted(by_type.items())),
        }


class StartedAgent(AgentSettings):
    """Keys of agents for whom ackd starts a program."""

    cwd: str = "."
    env: dict[str, str] = Field(default_factory=dict)

    def complaints(self) -> Iterator[AgentComplaint]:
        yield from super().complaints()
        if any("\0" in text for text in self._texts() if text is not None):
            yield (), "holds a NUL character"
        if any("=" in key or not key for key in self.env):
            yield ("env",), "a variable's name must not be empty or hold `=`"

    def _texts(self) -> Iterable[str | None]:
        """All text that is handed to the kernel."""
        return (*self.env, *self.env.values(), self.cwd)


class CommandAgent(StartedAgent):
    """Keys of agents whose program is a list of words: no shell reads it."""

    command: Words = ()
    timeout_s: Seconds = 600

    def complaints(self) -> Iterator[AgentComplaint]:
        if not self.command or not self.command[0]:
            yield ("command",), f"endpoint {self.endpoint} needs a command: a list, the program first"
        yield from super().complaints()

    def _texts(self) -> Iterable[str | None]:
        return (*self.command, *super()._texts())


class LongLivedAgent(AgentSettings):
    """Keys of agents behind whose endpoint something lives: it is watched, woken by a ladder, and ackd may start it."""

    restart: Literal["on-failure", "always", "never"] = "on-failure"
    ladder: Annotated[tuple[Rung, ...], Strict(strict=False)] = ("nudge", "interrupt", "reset")
    heartbeat_timeout_s: Seconds | None = None
    probe_timeout_s: Seconds | None = None
    context_threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None

    adapts: ClassVar[bool] = False
    restarts: ClassVar[bool] = False
    shows: ClassVar[bool] = False

    def complaints(self) -> Iterator[AgentComplaint]:
        if sorted(set(self.ladder), key=RUNGS.__getitem__) != list(self.ladder):
            yield ("ladder",), "each rung once, in the order " + ", ".join(RUNGS)
        yield from super().complaints()

    def _more_policy(self, delivery: DeliverySettings, liveness: LivenessSettings) -> dict[str, Any]:
        def number(key: str) -> Any:
            own = getattr(self, key)
            return own if own is not None else getattr(liveness, key)

        return {
            **super()._more_policy(delivery, liveness),
            **{key: number(key) for key in LivenessSettings.model_fields},
            "rungs": len(self.ladder),
            "ladder": tuple(RUNGS[name] for name in self.ladder),
            "restarts": self.restarts,
            "shows": self.shows,
        }


#: Keys that an endpoint does not know: the engine goes by them.
_POLICY_KEYS: Final = frozenset(
    {*AgentSettings.model_fields, *ReadingAgent.model_fields, *LongLivedAgent.model_fields} - {"restart"}
)


# --- by kind ----------------------------------------------------------------------------------------------------------
@cache
def settings_of(kind: str) -> type[AgentSettings]:
    """The model of a kind's tables. Raises KeyError for a kind that does not exist."""
    found: type[AgentSettings] = registry.part(kind, "settings").SETTINGS
    return found


def agent_of(kind: str, **keys: Any) -> AgentSettings:
    """The table of an agent that stands in no file; keys that its kind does not have are left out."""
    model = settings_of(kind)
    return model(endpoint=kind, **{key: value for key, value in keys.items() if key in model.model_fields})


@cache
def agent_keys() -> tuple[str, ...]:
    """Every key that some kind of agent understands."""
    own = (key for kind in registry.KINDS for key in settings_of(kind).model_fields)
    return tuple(dict.fromkeys(("endpoint", *own)))


def read_agent(table: object) -> object:
    """Read an agent's table by its kind; keys of other kinds are kept apart, to be reported as misplaced.

    A table whose kind cannot be told is read for the keys that all have, so that its other mistakes are found too.
    Raises pydantic's ``ValidationError``.
    """
    if not isinstance(table, dict):
        return table
    kind = table.get("endpoint", registry.DEFAULT)
    model = settings_of(kind) if isinstance(kind, str) and kind in registry.KINDS else AgentSettings
    misplaced = table.keys() & (set(agent_keys()) - model.model_fields.keys())
    agent = model.model_validate({key: value for key, value in table.items() if key not in misplaced})
    agent._misplaced = tuple(sorted(misplaced))  # noqa: SLF001 - no part of what the table says
    return agent
