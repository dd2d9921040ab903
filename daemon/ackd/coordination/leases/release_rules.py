"""Decides when an agent has finished with what it leased, and when a worker has shown a sign of life.

An agent has finished when its task is completed or failed, or when it is dead or given up; an agent that is one command
for each message also when the last command that runs has ended. Signals say so, the logs of earlier sessions, and
worker-status.json of a bus, which also has heartbeats. Anybody writes worker-status.json, in place: what cannot be read
at the moment says nothing, and is read again at the next change. Nothing here knows leases, and nothing fails.
"""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from ackd.coordination.bus.rules.words import SPELLINGS, WorkerDoing
from ackd.core.agent_facts import agent_state, liveness
from ackd.core.message import identity
from ackd.core.message_facts import task_complete, task_failed
from ackd.core.signals import AgentChanged, RunFinished, RunStarted, Signal, TaskEnded
from ackd.formats import utc_times
from ackd.storage import session_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


SIGNALS: Final[frozenset[type[Signal]]] = frozenset({AgentChanged, TaskEnded, RunStarted, RunFinished})


class ReleaseRules:
    """Judges each signal, and counts the commands that run for each agent."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    def heard(self, signal: Signal) -> str | None:
        """The agent that has finished by this signal; None: nobody has."""
        match signal:
            case RunStarted(agent):
                self._running[agent] += 1
            case RunFinished(agent):
                self._running[agent] -= 1
                return agent if self._running[agent] <= 0 else None
            case TaskEnded(agent):
                return agent
            case AgentChanged(agent, down=True):
                return agent
        return None


def is_end(type_: str, data: Mapping[str, object]) -> bool:
    """True if a line of an earlier log says that its agent has finished. Runs of commands are not counted there."""
    match type_:
        case task_complete.type | task_failed.type:
            return True
        case agent_state.type:
            return data.get("state") == "down"
        case liveness.type:
            return data.get("liveness") == "down"
        case _:
            return False


def last_end(logs_dir: Path, agent: str, since: float) -> float | None:
    """Return when the agent finished last after ``since``, by the logs: a killed daemon may not have acted on it."""
    newest_first = session_log.iter_logs(logs_dir, newest_first=True, containing=b'"agent"')
    recent = takewhile(lambda line: line.at >= since, newest_first)
    ends = (line.at for line in recent if _names(line.data.get("agent"), agent) and is_end(line.type, line.data))
    return next(ends, None)


def _names(named: object, agent: str) -> bool:
    return isinstance(named, str) and identity(named) == identity(agent)


# --- worker-status.json -----------------------------------------------------------------------------------------------
_MOST_BYTES: Final = 16 * 1024 * 1024
_THROUGH: Final = frozenset({WorkerDoing.COMPLETE, WorkerDoing.FAILED})


class Beat(NamedTuple):
    """A worker's last heartbeat, as wall time; ``through``: it says that it has completed or failed."""

    worker: str
    at: float
    through: bool


def read_beats(path: str) -> list[Beat]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of the bus, as text
            found = orjson.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return []
    return list(_beats(found)) if isinstance(found, dict) else []


def _beats(found: dict[str, object]) -> Iterator[Beat]:
    for worker, said in found.items():
        at = utc_times.read(said.get("last_heartbeat")) if isinstance(said, dict) else None
        if at is not None and isinstance(said, dict):
            yield Beat(worker, at, SPELLINGS.get(str(said.get("status", "")).strip().upper()) in _THROUGH)
