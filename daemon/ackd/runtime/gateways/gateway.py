"""What a gateway is, and what it may do.

A gateway takes in what other programs leave in their own files: it looks, turns what is new into native mail whose id
derives from where it was found, and only then notes how far it has come. So a crash in between makes the same mail
again, which is recognised. It never renames what is not ours, and adopts what others edit by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from ackd.core.message import Draft
    from ackd.ports import Clock, Post


@dataclass(frozen=True)
class Around:
    """What a gateway has of the daemon.

    ``mail`` returns when the message is durable in its recipient's queue (OSError: the disk refused; UnknownAgent).
    ``record`` is a line of the session log; ``post`` an event for the engine; ``called`` an agent's own spelling, None
    for a name that nobody has. ``base`` is what the config's paths are relative to; ``state`` is the gateways' own
    directory below the root, made already; ``durable`` says whether flushes are wanted. ``written`` hands the lines so
    far to the kernel, for who notes that they were said; False: the disk refuses.
    """

    clock: Clock
    record: Callable[[str, dict[str, object]], None]
    mail: Callable[[Draft], Awaitable[None]]
    post: Post
    called: Callable[[str], str | None]
    base: Path
    root: Path
    state: Path
    settle_s: float
    durable: bool
    written: Callable[[], bool] = lambda: True


class LookRefused(OSError):  # noqa: N818 - the condition
    """Some of what a gateway looks at could not be looked at, or acted on: by what it is called, why. The rest was, and
    ``wish_s`` is what the gateway would have returned."""

    def __init__(self, refused: Mapping[str, OSError], wish_s: float | None) -> None:
        super().__init__("; ".join(f"{what}: {error}" for what, error in refused.items()))
        self.errno = next(iter(refused.values())).errno
        self.wish_s = wish_s


class Gateway(Protocol):
    """One foreign protocol. Nothing is remembered of a hint but where to look: the files are the truth."""

    name: str
    #: Lines of the session log that ``heard`` is called with, in the turn that records them: quick, no I/O.
    listens: frozenset[str]

    def heard(self, type_: str, data: dict[str, object]) -> None: ...

    def places(self) -> frozenset[str]:
        """The directories to be watched, as things are; asked after every look. Those that do not exist count not."""

    async def look(self, where: frozenset[str] | None) -> float | None:
        """Take in what is new: in these directories, or (None) everywhere. One look at a time.

        Returns in how many seconds it wants to look again without being asked (a clock of its own that runs), None for
        no wish; everything is looked at every ``reconcile_interval_s`` anyway, or ``poll_interval_s`` without inotify.
        OSError: told of, and looked at again. A gateway that looks at several things raises ``LookRefused``, when it
        has looked at all of them: what is broken in one delays no other.
        """

    def page(self) -> dict[str, object]:
        """For ``run/status.json``, under the gateway's name; empty: nothing to say."""
