"""The vocabulary of a message bus: the seed's ten types, four of its orchestrators', and one line as it was read.

The format on disk is in coordination/bus/wire. A payload is hostile text until somebody has parsed it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - dataclasses read their annotations

from ackd.coordination.bus.rules.events import NOBODY
from ackd.coordination.bus.rules.layout import SAID_BY_ACKD
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
    # Said by the leader, about the bus or about others: logged, without further effect.
    BUS_INIT = "BUS_INIT"
    WORKER_DISPATCHED = "WORKER_DISPATCHED"
    TASK_BLOCKED = "TASK_BLOCKED"
    DEADLOCK_RESOLVED = "DEADLOCK_RESOLVED"


NOTICES = frozenset({BusType.BUS_INIT, BusType.WORKER_DISPATCHED, BusType.TASK_BLOCKED, BusType.DEADLOCK_RESOLVED})


@value
class BusLine:
    """A message. ``offset`` is where its line begins in the file, ``end`` where the next one does; ``at``: wall time,
    when it was said by its own account, else when it was read. ``again``: a daemon that crashed may have acted on it.
    ``event``: there is no line, only this event file (``source``: the task's holder, else nobody)."""

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
        """True if ``source`` itself speaks. Lines about a lease are also written about dead workers, and a file that
        ends a task without a holder is no worker."""
        if self.event and self.source == NOBODY:
            return False
        is_about_a_lease = self.type in (BusType.FILE_LOCK, BusType.FILE_UNLOCK)
        return not (is_about_a_lease and self.payload.get("said_by") == SAID_BY_ACKD)


class WorkerDoing(enum.Enum):
    """The state of a worker, by its own words on the bus or in worker-status.json."""

    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"


#: The spellings that workers use.
SPELLINGS = {**WorkerDoing.__members__, "COMPLETED": WorkerDoing.COMPLETE}


@value
class WorkerStatus:
    """An entry of worker-status.json. ``heartbeat``: wall seconds, None if it has none that can be read."""

    worker: str
    doing: WorkerDoing
    task: str | None = None
    heartbeat: float | None = None
    progress: float | None = None
    waiting_for: tuple[str, ...] = ()


@value
class WorkerWait:
    """``waiter`` cannot go on before ``holder`` acts. ``what``: its reason, in words; ``since``: wall seconds."""

    waiter: str
    holder: str
    what: str
    since: float


@value
class FileWait:
    """``waiter`` says that it waits for ``name``, which is no task and no worker. It may be a file, and then whoever
    has the lease on the file is waited for."""

    waiter: str
    name: str
    since: float
