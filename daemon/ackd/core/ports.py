"""The ports of the daemon: everything that it needs of the world, as Protocols and base classes.

Each port has one or more implementations (storage, system, endpoints) and, where it has several, one conformance suite
that all of them pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVarTuple

from ackd.core.effects import AskCheckpoint, CallOff, NudgeAgent, ProbeAgent, RemindAgent, RenewAgent, TellAgent
from ackd.core.events import EndpointAway, Event, Hindered, LetGo, NotTold, Now, Told
from ackd.core.fact import Fact
from ackd.core.message import Place
from ackd.core.signals import Emit, unheard
from ackd.core.values import value

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.restarts import RestartPolicy


class Clock(Protocol):
    def now(self) -> Now: ...


class View(Protocol):
    """A display of facts as they are recorded. It never raises and never waits; ``flush`` comes at the end of every
    turn."""

    def show(self, type_: str, data: dict[str, object], at: float) -> None: ...

    def flush(self) -> None: ...


# --- watching: a notification is a hint, a scan is the truth ----------------------------------------------------------
@value
class FileReady:
    """A file is in queue/<box>/ or queue/<box>/processed/. ``closed``: its writer has closed it or renamed it in.
    Otherwise a scan met it, and whoever reads it must first make sure that it has settled."""

    place: Place
    closed: bool


@value
class FileGone:
    place: Place


@value
class ReceiptReady:
    name: str


@value
class BoxAppeared:
    """A directory queue/<box>/ is new. Files that were in it first are reported by FileReady too."""

    box: str


@value
class BoxGone:
    """queue/<box>/ (or its processed/) was removed, moved away or replaced."""

    box: str


@value
class HintsLost:
    """The kernel's queue overflowed: everything must be scanned."""


@value
class WatchFailed:
    """A watcher cannot go on (watch limit, no inotify); ``reason`` is for people."""

    reason: str


Hint: TypeAlias = FileReady | FileGone | ReceiptReady | BoxAppeared | BoxGone | HintsLost | WatchFailed


class Watcher(Protocol):
    """A watcher of queue/ (boxes that come and go), of every queue/<box>/ and its processed/, and of receipts/.

    It reports changes after ``run`` called ``ready``; a scan must find what was there before. Dot-names and ackd's own
    directories (dead_letter, corrupt) are never reported. Runs until cancelled.
    """

    beats: int  # grows while it lives: the watchdog looks at it

    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None: ...

    def own_move(self, source: Place, target: Place) -> None:
        """Note that ackd has just renamed this itself, so that it need not be reported. Whatever else happens under
        these names must be, and to report our own move after all does no harm."""


# --- endpoints --------------------------------------------------------------------------------------------------------
TellAnswer: TypeAlias = Told | NotTold | EndpointAway | Hindered


class LeftRun(Protocol):
    """A run of a command that a daemon before this one left behind, alive or over."""

    @property
    def message_id(self) -> str: ...

    @property
    def digest(self) -> str: ...

    @property
    def path(self) -> Path: ...

    @property
    def alive(self) -> bool: ...

    @property
    def started_at(self) -> float: ...

    @property
    def timeout_s(self) -> float: ...

    def discard(self) -> None:
        """Remove what is left of a run that is over and whose message is nobody's any more."""


class Endpoint(ABC):
    """The way in which one agent is told. Later news (Seen, RunEnded) comes through the ``post`` it was made with.

    Kinds of endpoints inherit from this class: the methods that have a body here concern only some of them.
    """

    @abstractmethod
    def tell(self, order: TellAgent) -> TellAnswer | Awaitable[TellAnswer] | None:
        """Tell the agent of a message. An endpoint that need not wait answers at once; an awaitable holds up its
        agent's lane, and no other. None: the answer comes through ``post`` in a moment, by itself or with the end of
        the run that began (``RunEnded.told``)."""

    @abstractmethod
    async def nudge(self, order: NudgeAgent) -> Told | NotTold: ...

    @abstractmethod
    async def stop(self, drain_s: float) -> None:
        """Let what runs finish for ``drain_s``, end the rest, post RunEnded(STOPPED) for it."""

    def has_work(self) -> bool:
        """Tell whether something runs that ``stop`` would let finish."""
        return False

    def call_off(self, order: CallOff) -> LetGo | None:
        """Tell the agent that its message is cancelled. None: the answer comes through ``post``, as ``LetGo`` or with
        the end of its run; the engine waits for it for ``cancel_timeout_s``. This does not wait."""
        return LetGo(order.key, "it reads its mail by itself", order.attempt)

    @property
    def inhabited(self) -> Inhabited | None:
        """Return this endpoint, if something lives behind it that outlasts a message; else None."""
        return None

    def adopt(self, key: int | None, run: LeftRun, *, speaks_for: int | None) -> None:  # noqa: ARG002 - for some kinds
        """Take over a run that a daemon before this one left behind. An endpoint that has no runs (the agent was of
        another kind then) discards one that is over, and leaves one that is alive alone."""
        if not run.alive:
            run.discard()

    def forget(self, key: int) -> None:  # noqa: B027 - most kinds keep nothing
        """Remove what the last run of the message left behind: its outcome is on disk, and it may be told again."""

    def let_go(self, key: int) -> None:  # noqa: B027 - most kinds keep nothing
        """Drop everything about a message that has ended, which is on disk."""

    async def drain(self, drain_s: float) -> None:  # noqa: B027 - most kinds come to an end by themselves
        """Called when the agent is no longer in the config: have it finish or hand over within ``drain_s`` what could
        go on without an end. What comes to an end by itself is left alone."""

    def leave(self) -> None:  # noqa: B027 - most kinds keep nothing up
        """Called when another endpoint takes its place. Nothing that it was told is in its agent's hands; a command
        that is still at its end goes on to it."""

    def abandon(self) -> None:  # noqa: B027 - most kinds have nothing that outlives the daemon
        """Stop watching at once, and leave what outlives this daemon to the next one."""


class Inhabited(Endpoint):
    """An endpoint behind which something lives that outlasts a message: a child, a pane."""

    @property
    def inhabited(self) -> Inhabited | None:
        return self

    @abstractmethod
    async def probe(self, order: ProbeAgent) -> Told | NotTold:
        """Ask whether it still works. This costs a busy agent nothing: one that shows signs of life is never asked."""

    @abstractmethod
    async def remind(self, order: RemindAgent) -> Told | NotTold:
        """Say what the agent has not finished, and how that is ended; only to one that is seen to be idle."""

    @abstractmethod
    async def ask_checkpoint(self, order: AskCheckpoint) -> Told | NotTold: ...

    @abstractmethod
    def renew(self, order: RenewAgent) -> Coroutine[None, None, None]:
        """Begin a fresh generation; it can be told when this returns, or tell() says why not."""

    @abstractmethod
    def restart(self, why: str) -> Coroutine[None, None, None]:
        """End and start it again, through the supervisor where it has one."""

    @abstractmethod
    def pulse(self) -> str | None:
        """Name a sign of life since this was asked last, read from outside; None: there was none. Quick, never
        raises."""


@value
class Exit:
    """The end of a process or pane. ``code``: as the shell counts, 128 + signal; None where there is none (a pane).

    ``at``: when, on the loop's clock, if that is known; its leftovers may have been cleared away since.
    """

    why: str
    code: int | None = None
    at: float | None = field(default=None, compare=False)


class Living(Protocol):
    """Something that a supervisor keeps alive: a child, or a pane that ackd started. It has one life at a time.

    ``outlives_us``: it goes on when the daemon ends, and the next daemon takes it up (a pane); else it ends with the
    daemon.
    """

    @property
    def outlives_us(self) -> bool: ...

    async def start(self) -> str:
        """Return when it can be told, with a name for people ("pid 4242"). Raises ``CannotStart``; then nothing of it
        is left."""

    async def exited(self) -> Exit:
        """Wait for the end of the life that ``start`` began."""

    async def stop(self, timeout_s: float) -> None:
        """Send TERM, and KILL after ``timeout_s``, to all that belongs to it. Nothing of it is left when this
        returns."""


class Keeper(Protocol):
    """The supervisor, as endpoints see it: it keeps alive what agents live in, and starts it again."""

    def keep(self, agent: str, living: Living, policy: RestartPolicy, *, start: bool = True) -> None:
        """Keep this alive from now on. ``start`` False: it was stopped by hand, and waits for ``start``."""

    async def ready(self, agent: str) -> None:
        """Return when it can be told; one at rest or given up is tried again for that. Raises CannotStart."""

    async def start(self, agent: str) -> str:
        """Return when it can be told, with what to call it; earlier deaths are forgotten. Raises CannotStart."""

    async def restart(self, agent: str, why: str, *, quiet: bool = False) -> str:
        """End it, if it lives, and start it again. Raises CannotStart."""

    async def replace(self, agent: str, why: str, *, quiet: bool = False) -> None:
        """Restart it, for callers that need not hear that it cannot be started."""

    async def stop(self, agent: str, why: str = ...) -> None:
        """End it; it stays down until ``start`` or ``restart``."""

    def keeps(self, agent: str) -> bool:
        """Say whether this is kept alive here."""

    async def forget(self, agent: str, *, end: bool) -> None:
        """Keep it alive no longer, and know nothing of it any more. ``end``: also end what would outlive us."""

    def retire(self, agent: str) -> None:
        """Let it finish what it does, and start it no more."""

    async def shutdown(self) -> None:
        """End everything that does not outlive the daemon."""


Post: TypeAlias = Callable[[Event], None]
#: Writes one fact to the session log.
Record: TypeAlias = Callable[[Fact], None]
Arguments = TypeVarTuple("Arguments")


class Tasks(Protocol):
    """The daemon's task group, as far as its parts need it: they start tasks and never end the group."""

    def start_soon(
        self, func: Callable[[*Arguments], Coroutine[Any, Any, object]], *args: *Arguments, name: object = None
    ) -> object: ...


@value
class Services:
    """Things that nearly every part of the daemon needs: the clock, the way to the engine, the log, the task group, and
    the way to tell other parts of news (``emit``)."""

    clock: Clock
    post: Post
    record: Record
    tasks: Tasks
    emit: Emit = unheard


class Flusher(Protocol):
    """A service that makes files durable, many at a time. It raises the OSError of the first that could not be, and
    never retries."""

    def flush(self, paths: list[str]) -> Awaitable[None]: ...

    def flush_later(self, path: str, failed: Callable[[OSError], None]) -> None:
        """Flush the file and its directory in the background. The file is meant, not its name: it may move
        meanwhile."""
