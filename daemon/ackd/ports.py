"""What the runtime needs of the world, as Protocols.

Each port has one or more adapters (adapters/) and, where it has several, one conformance suite that all of them pass.
Nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import field
from typing import Protocol, TypeAlias, runtime_checkable

from ackd.core.effects import AskCheckpoint, NudgeAgent, ProbeAgent, RemindAgent, RenewAgent, TellAgent
from ackd.core.events import EndpointAway, Event, Hindered, NotTold, Now, Told
from ackd.core.message import Place
from ackd.core.values import value


class Clock(Protocol):
    def now(self) -> Now: ...


class View(Protocol):
    """Who looks on. Never raises and never waits; ``flush`` comes at the end of every turn."""

    def show(self, type_: str, data: dict[str, object], at: float) -> None: ...

    def flush(self) -> None: ...


# --- watching: a notification is a hint, a scan is the truth ----------------------------------------------------------
@value
class FileReady:
    """A file is in queue/<box>/ or queue/<box>/processed/. ``closed``: its writer has closed it or renamed it in;
    otherwise a scan met it, and whoever reads it must first see that it has settled."""

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
    """A directory queue/<box>/ exists that did not. Files that were in it first are reported by FileReady too."""

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
    """This watcher cannot go on (watch limit, no inotify); ``reason`` is for people."""

    reason: str


Hint: TypeAlias = FileReady | FileGone | ReceiptReady | BoxAppeared | BoxGone | HintsLost | WatchFailed


class Watcher(Protocol):
    """Watches queue/ (boxes coming and going), every queue/<box>/ and its processed/, and receipts/.

    Reports what happens after ``run`` called ``ready``; what was there before is the scan's to find. Dot-names and
    ackd's own directories (dead_letter, corrupt) are never reported. Runs until cancelled.
    """

    beats: int  # grows while it lives: the watchdog looks at it

    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None: ...

    def own_move(self, source: Place, target: Place) -> None:
        """We have just renamed this ourselves: it need not be hinted at. Whatever else happens under these names must
        be, and to be told of our own move after all is no harm."""


# --- endpoints --------------------------------------------------------------------------------------------------------
TellAnswer: TypeAlias = Told | NotTold | EndpointAway | Hindered


class Endpoint(Protocol):
    """One agent's way of being told. Later news (Seen, RunEnded) comes through the ``post`` it was made with."""

    def tell(self, order: TellAgent) -> TellAnswer | Awaitable[TellAnswer] | None:
        """Who need not wait answers at once; an awaitable holds up its agent's lane, and no other. None: the answer
        comes through ``post`` in a moment, by itself or with the end of what it began (``RunEnded.told``)."""

    async def nudge(self, order: NudgeAgent) -> Told | NotTold: ...

    async def stop(self, drain_s: float) -> None:
        """Let what runs finish for ``drain_s``, end the rest, post RunEnded(STOPPED) for it."""


@runtime_checkable
class Inhabited(Endpoint, Protocol):
    """An endpoint behind which something lives that outlasts a message: a child, a pane."""

    async def probe(self, order: ProbeAgent) -> Told | NotTold:
        """Ask whether it still works. Costs a busy agent nothing: who shows signs of life is never asked."""

    async def remind(self, order: RemindAgent) -> Told | NotTold:
        """Say what it has not finished, and how that is ended; only to one that is seen to be idle."""

    async def ask_checkpoint(self, order: AskCheckpoint) -> Told | NotTold: ...

    def renew(self, order: RenewAgent) -> Coroutine[None, None, None]:
        """A fresh generation; it can be told when this returns, or tell() says why not."""

    def restart(self, why: str) -> Coroutine[None, None, None]:
        """Ended and started again, through the supervisor where it has one."""

    def forget(self, key: int) -> None:
        """The message has ended, and that is on disk."""

    def pulse(self) -> str | None:
        """A sign of life since this was asked last, read from outside: what it was; None: none. Quick, never raises."""


@value
class Exit:
    """How a life ended. ``code``: as the shell counts, 128 + signal; None where there is none (a pane).

    ``at``: when, on the loop's clock, if that is known; what it left behind may have been cleared away since.
    """

    why: str
    code: int | None = None
    at: float | None = field(default=None, compare=False)


class Living(Protocol):
    """What a supervisor keeps alive: one child, one pane that ackd started. One life at a time.

    ``outlives_us``: it goes on when the daemon ends, and the next one takes it up (a pane); else it ends with us.
    """

    @property
    def outlives_us(self) -> bool: ...

    async def start(self) -> str:
        """Returns when it can be told, with what to call it ("pid 4242"). ``CannotStart`` says why not; then nothing of
        it is left."""

    async def exited(self) -> Exit:
        """Waits for the end of the life that ``start`` began."""

    async def stop(self, timeout_s: float) -> None:
        """TERM, after ``timeout_s`` KILL, to all that belongs to it. Nothing of it is left when this returns."""


Post: TypeAlias = Callable[[Event], None]


class Flusher(Protocol):
    """Makes files durable, many at a time. Raises the OSError of the first that could not be; never retries."""

    def flush(self, paths: list[str]) -> Awaitable[None]: ...

    def flush_later(self, path: str, failed: Callable[[OSError], None]) -> None:
        """The file and its directory, in the background. The file is meant, not its name: it may move meanwhile."""
