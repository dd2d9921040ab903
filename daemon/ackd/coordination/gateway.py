"""The interface between the daemon and a capability's gateway.

A gateway takes in what other programs leave in their own files. It looks, turns what is new into native mail whose id
derives from where it was found, and only then notes how far it has come. So a crash in between makes the same mail
again, which is recognised. A gateway never renames what is not ours, and adopts what others edit by hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ackd.core.events import AgentWaits
from ackd.core.signals import unheard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from ackd.config.live import LiveConfig
    from ackd.config.model import Config
    from ackd.config.site import Site
    from ackd.core.message import Draft
    from ackd.core.ports import Clock, Endpoint, Keeper, Post, Record
    from ackd.core.signals import Emit, Signal
    from ackd.core.waits import Wait
    from ackd.storage.spool import Spool


@dataclass(frozen=True)
class GatewayServices:
    """The part of the daemon that a running gateway uses, for as long as it runs (``GatewayContext`` is for its maker).

    ``mail`` returns when the message is durable in its recipient's queue (OSError: the disk refused; UnknownAgent).
    ``record`` writes a line of the session log; ``post`` gives an event to the engine; ``called`` returns an agent's
    own spelling, None for a name that nobody has. Paths of the config are relative to ``base``; ``state`` is the
    gateways' own directory below the root, made already; ``live`` is the config in force;
    ``durable`` says whether flushes are wanted. ``written`` hands the lines so far to the kernel, for a gateway that
    notes that they were said; False: the disk refuses. ``emit`` tells other parts of the daemon, and other gateways, of
    a signal.
    """

    clock: Clock
    record: Record
    mail: Callable[[Draft], Awaitable[None]]
    post: Post
    called: Callable[[str], str | None]
    base: Path
    root: Path
    state: Path
    live: LiveConfig
    durable: bool
    written: Callable[[], bool] = lambda: True
    emit: Emit = unheard

    @property
    def settle_s(self) -> float:
        return self.live.now.watch.settle_s


class LookRefused(OSError):  # noqa: N818 - the condition
    """Raised by a look after which some directories or files are left over: each by name, with the error that it met.

    Everything else was looked at. ``next_look_s`` is the value that the look would have returned."""

    def __init__(self, refused: Mapping[str, OSError], next_look_s: float | None) -> None:
        super().__init__("; ".join(f"{what}: {error}" for what, error in refused.items()))
        self.errno = next(iter(refused.values())).errno
        self.next_look_s = next_look_s


class Gateway(ABC):
    """The gateway of a foreign protocol. A hint says only where to look: the files are the truth."""

    name: str
    #: The signals that ``heard`` is called with, in the turn that emits them. A look follows each.
    listens: frozenset[type[Signal]] = frozenset()

    def heard(self, signal: Signal) -> None:  # noqa: B027 - most listen to nothing
        """Take note of a signal: quick, no I/O."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to do
        """Clear up before the queues are watched, when no agent has joined yet. Never raises."""

    def log_directory(self) -> Path | None:
        """A directory outside the root in which the session log is shown too."""
        return None

    @abstractmethod
    def places(self) -> frozenset[str]:
        """The directories to be watched, as things are; asked after every look. One that does not exist is skipped."""

    @abstractmethod
    async def look(self, where: frozenset[str] | None) -> float | None:
        """Take in what is new: in these directories, or (None) everywhere. One look at a time.

        Returns in how many seconds the gateway must look again without a hint (a clock of its own runs), None if it
        need not; everything is looked at every ``reconcile_interval_s`` anyway, or ``poll_interval_s`` without inotify.
        An OSError is logged, and the look repeated. A gateway that looks at several things raises ``LookRefused`` after
        it has looked at all of them: what is broken in one delays no other.
        """

    def page(self) -> dict[str, object]:
        """The gateway's part of ``run/status.json``, under its name; empty: nothing to say."""
        return {}


@dataclass(frozen=True, kw_only=True)
class GatewayContext:
    """Everything that the maker of a gateway may take from the daemon.

    A maker (``gateway`` in the registry) is called with this and with the gateways of the capabilities above it in the
    table, by name. It returns its gateway, or None if this team has none, or if it only adds to another's.
    """

    live: LiveConfig
    site: Site
    services: GatewayServices
    # For a capability with agents of its own, which need an endpoint and a queue each:
    spool: Spool
    #: ackd.endpoints.making.Offered. A capability that requires an endpoint kind knows the type; this module does not.
    offered: Any
    #: Makes another supervisor, which posts to this instead of to the engine.
    new_supervisor: Callable[[Post], Keeper]
    #: Handlers that live inside the daemon (ackd.handlers.Handler), by the agent's identity. A maker adds its own.
    handlers: dict[str, Any]
    #: Functions that make an agent's endpoint; they come before the agent's table in ackd.toml. A maker adds its own,
    #: which returns None for an agent that is not the capability's.
    endpoint_makers: list[Callable[[str], Endpoint | None]]
    box: Callable[[str], str]
    admit: Callable[[str], bool]
    escalate: Callable[[Draft], Awaitable[None]]

    @property
    def config(self) -> Config:
        """The config as the gateways are made. A gateway keeps its own table of it for as long as it lives."""
        return self.live.now

    @property
    def escalate_to(self) -> str:
        return self.config.engine_policy().escalate_to


@dataclass(eq=False)
class WaitsSaid:
    """Tells the engine what agents wait for, as one gateway (``source``) knows it: all waits of an agent, whenever they
    change. An agent that waits for others is not idle (core/waits), and only gateways see leases, boards and stories.
    """

    source: str
    post: Post
    _said: dict[str, tuple[Wait, ...]] = field(default_factory=dict, init=False)

    def say(self, waits: Iterable[tuple[str | None, Wait]]) -> None:
        """Post the waits that changed. ``waits`` are all of them, each with its agent; one with None is passed over."""
        found: dict[str, tuple[Wait, ...]] = {}
        for agent, wait in waits:
            if agent is not None and wait not in found.get(agent, ()):
                found[agent] = (*found.get(agent, ()), wait)
        for agent in sorted(found.keys() | self._said.keys()):
            if found.get(agent, ()) != self._said.get(agent, ()):
                self.post(AgentWaits(agent, self.source, found.get(agent, ())))
        self._said = found
