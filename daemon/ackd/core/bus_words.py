"""What is said on a message bus: the seed's ten types, four of its orchestrators', and one line as it was read.

Refuses to know how a line looks on disk (dialects/bus). A payload is hostile text until somebody has parsed it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - dataclasses read their annotations

from ackd.core.bus_events import NOBODY
from ackd.core.bus_layout import SAID_BY_ACKD
from ackd.core.values import value


class BusType(enum.Enum):
    PROGRESS = "PROGRESS"
    TASK_COMPLETE = "TASK_COMPLETE"
    TASK_FAILED = "TASK_FAILED"
    FILE_LOCK = "FILE_LOCK"
    FILE_UNLOCK = "FILE_UNLOCK"
    BLOCKED = "BLOCKED"
    BOARD_ASSESS = "BOARD_ASSESS"
    BOARD_DISCUSS = "BOARD_DISCUSS"
    BOARD_VOTE = "BOARD_VOTE"
    BOARD_RESOLVE = "BOARD_RESOLVE"
    # Said by who leads, about the bus or about others: written down, and nothing follows from them.
    BUS_INIT = "BUS_INIT"
    WORKER_DISPATCHED = "WORKER_DISPATCHED"
    TASK_BLOCKED = "TASK_BLOCKED"
    DEADLOCK_RESOLVED = "DEADLOCK_RESOLVED"


NOTICES = frozenset({BusType.BUS_INIT, BusType.WORKER_DISPATCHED, BusType.TASK_BLOCKED, BusType.DEADLOCK_RESOLVED})


@value
class BusLine:
    """One message. ``offset`` is where its line begins in the file, ``end`` where the next one does; ``at``: wall time,
    when it was said by its own account, else when it was read. ``again``: a crash may have had it acted on before.
    ``event``: it is no line at all, only this event file (``source``: who holds the task, else nobody)."""

    offset: int
    end: int
    message_id: str
    type: BusType
    source: str
    at: float
    payload: Mapping[str, object]
    again: bool = False
    event: str = ""

    @property
    def is_its_own(self) -> bool:
        """Whether ``source`` speaks. What became of a lease is also said of who is dead; a file that ends a task of
        nobody's is no worker."""
        if self.event and self.source == NOBODY:
            return False
        is_about_a_lease = self.type in (BusType.FILE_LOCK, BusType.FILE_UNLOCK)
        return not (is_about_a_lease and self.payload.get("said_by") == SAID_BY_ACKD)


class Doing(enum.Enum):
    """What a worker does, by its own words on the bus or in worker-status.json."""

    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"


#: As workers spell it.
SPELLINGS = {**Doing.__members__, "COMPLETED": Doing.COMPLETE}


@value
class WorkerStatus:
    """One entry of worker-status.json. ``heartbeat``: wall seconds, None if it says none that can be read."""

    worker: str
    doing: Doing
    task: str | None = None
    heartbeat: float | None = None
    progress: float | None = None
    waiting_for: tuple[str, ...] = ()
