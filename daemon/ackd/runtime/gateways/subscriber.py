"""Who wants to act on the lines of a message bus, beside the bus gateway itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ackd.core.bus_layout import Track
    from ackd.core.bus_words import BusLine


class Subscriber(Protocol):
    name: str

    async def line(self, track: Track, line: BusLine) -> None:
        """Called for each line, in order, before the offset behind it is kept: after a crash it may come again, and
        must then change nothing. OSError: the line will come again, unless a file of the subscriber's is broken."""
