"""What the runtime needs of the world, as Protocols.

Each port has one or more adapters (adapters/) and, where it has several, one conformance suite that all of them pass.
Nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ackd.core.effects import NudgeAgent, TellAgent
from ackd.core.events import EndpointAway, Event, Hindered, NotTold, Now, Told
from ackd.core.message import Place


class Clock(Protocol):
    def now(self) -> Now: ...


class View(Protocol):
    """Who looks on. Never raises and never waits; ``flush`` comes at the end of every turn."""

    def show(self, type_: str, data: dict[str, object], at: float) -> None: ...

    def flush(self) -> None: ...


# --- watching: a notification is a hint, a scan is the truth ----------------------------------------------------------
@dataclass(frozen=True, slots=True)
class FileReady:
    """A file is in queue/<box>/ or queue/<box>/processed/. ``closed``: its writer has closed it or renamed it in;
    otherwise a scan met it, and whoever reads it must first see that it has settled."""

    place: Place
    closed: bool


@dataclass(frozen=True, slots=True)
class FileGone:
    place: Place


@dataclass(frozen=True, slots=True)
class ReceiptReady:
    name: str


@dataclass(frozen=True, slots=True)
class BoxAppeared:
    """A directory queue/<box>/ exists that did not. Files that were in it first are reported by FileReady too."""

    box: str


@dataclass(frozen=True, slots=True)
class BoxGone:
    """queue/<box>/ (or its processed/) was removed, moved away or replaced."""

    box: str


@dataclass(frozen=True, slots=True)
class HintsLost:
    """The kernel's queue overflowed: everything must be scanned."""


@dataclass(frozen=True, slots=True)
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


# --- endpoints --------------------------------------------------------------------------------------------------------
TellAnswer: TypeAlias = Told | NotTold | EndpointAway | Hindered


class Endpoint(Protocol):
    """One agent's way of being told. Later news (Seen, RunEnded) comes through the ``post`` it was made with."""

    def tell(self, order: TellAgent) -> TellAnswer | Awaitable[TellAnswer]:
        """Who need not wait answers at once; an awaitable holds up its agent's lane, and no other."""

    async def nudge(self, order: NudgeAgent) -> Told | NotTold: ...

    async def stop(self, drain_s: float) -> None:
        """Let what runs finish for ``drain_s``, end the rest, post RunEnded(STOPPED) for it."""


Post: TypeAlias = Callable[[Event], None]


class Flusher(Protocol):
    """Makes files durable, many at a time. Raises the OSError of the first that could not be; never retries."""

    def flush(self, paths: list[str]) -> Awaitable[None]: ...

    def flush_later(self, path: str, failed: Callable[[OSError], None]) -> None:
        """The file and its directory, in the background. The file is meant, not its name: it may move meanwhile."""
