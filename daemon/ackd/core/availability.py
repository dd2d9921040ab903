"""The table that says whether an agent may be given work.

BUSY is not a fault: the window is full. PARKED ends by itself (``until``), PAUSED by a person, DOWN by a sign of life
or a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.errors import ImpossibleEvent
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from ackd.core.events import Absence


class AgentState(Word):
    AVAILABLE = "available"
    BUSY = "busy"  # its window is full
    PARKED = "parked"  # nobody there to tell, or the disk refuses: tried again by itself
    PAUSED = "paused"  # by hand
    DOWN = "down"  # silent to the end of its ladder, or dead


class AgentHappening(Word):
    FILLED = "window full"
    DRAINED = "window has room"
    WENT_AWAY = "went away"
    PARK_ENDED = "park time over"
    FELL_SILENT = "ladder ended"
    LIVED = "sign of life"
    PAUSED = "paused by hand"
    RESUMED = "resumed by hand"


@value
class Parked:
    """A park that lasts. ``hindered``: it was made by a fault of the machine, not by an absence of the agent."""

    until: float  # wall
    hindered: bool = False


@value
class Occupied:
    """A reason not to tell an agent anything until its own word ends it: the agent is at work, or waits for a person or
    a limit. ``until`` (wall): the end of a limit; a person has no time."""

    why: Absence
    until: float | None = None


S, H = AgentState, AgentHappening

TABLE: Final[dict[AgentState, dict[AgentHappening, AgentState]]] = {
    S.AVAILABLE: {
        H.FILLED: S.BUSY,
        H.DRAINED: S.AVAILABLE,
        H.WENT_AWAY: S.PARKED,
        H.PARK_ENDED: S.AVAILABLE,
        H.FELL_SILENT: S.DOWN,
        H.LIVED: S.AVAILABLE,
        H.PAUSED: S.PAUSED,
        H.RESUMED: S.AVAILABLE,
    },
    S.BUSY: {
        H.FILLED: S.BUSY,
        H.DRAINED: S.AVAILABLE,
        H.WENT_AWAY: S.PARKED,
        H.PARK_ENDED: S.BUSY,
        H.FELL_SILENT: S.DOWN,
        H.LIVED: S.BUSY,
        H.PAUSED: S.PAUSED,
        H.RESUMED: S.BUSY,
    },
    S.PARKED: {
        H.FILLED: S.PARKED,
        H.DRAINED: S.PARKED,
        H.WENT_AWAY: S.PARKED,
        H.PARK_ENDED: S.AVAILABLE,
        H.FELL_SILENT: S.DOWN,
        H.LIVED: S.AVAILABLE,
        H.PAUSED: S.PAUSED,
        H.RESUMED: S.AVAILABLE,
    },
    S.PAUSED: {
        H.FILLED: S.PAUSED,
        H.DRAINED: S.PAUSED,
        H.WENT_AWAY: S.PAUSED,
        H.PARK_ENDED: S.PAUSED,
        H.FELL_SILENT: S.PAUSED,  # a person is looking after it
        H.LIVED: S.PAUSED,
        H.PAUSED: S.PAUSED,
        H.RESUMED: S.AVAILABLE,
    },
    S.DOWN: {
        H.FILLED: S.DOWN,
        H.DRAINED: S.DOWN,
        H.WENT_AWAY: S.DOWN,
        H.PARK_ENDED: S.DOWN,
        H.FELL_SILENT: S.DOWN,
        H.LIVED: S.AVAILABLE,
        H.PAUSED: S.PAUSED,
        H.RESUMED: S.AVAILABLE,
    },
}

#: Changes between these two are ordinary work and get no line in the log.
QUIET: Final = frozenset({S.AVAILABLE, S.BUSY})


def step(state: AgentState, happening: AgentHappening) -> AgentState:
    try:
        return TABLE[state][happening]
    except KeyError:
        raise ImpossibleEvent("availability", state.value, happening.value) from None
