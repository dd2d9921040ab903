"""The two ways in which another capability takes part in a message bus, beside the bus gateway itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.coordination.bus.rules.layout import Track
    from ackd.coordination.bus.rules.track import TrackView
    from ackd.coordination.bus.rules.words import BusLine


class Subscriber(Protocol):
    name: str

    async def line(self, track: Track, line: BusLine) -> None:
        """Act on one line. Called for each, in order, before the offset behind it is kept: after a crash a line may
        come again, and must then change nothing. OSError: the line will come again, unless a file of the subscriber's
        is broken."""


class TrackObserver(Protocol):
    #: The word for the observer's work, in the log line about a disk that refused it.
    what: str

    async def looked(self, track: Track, view: TrackView, agent_of: Callable[[str], str | None]) -> None:
        """Act on a track as it stands after a look. ``agent_of``: whose mail a worker reads; None: nobody's."""
