"""Which lines of the session log mean that an agent is through with what it leased.

A task that is completed or failed, a death, being given up; and for agents that are a command for each message, the end
of the last one that runs. Owns that judgement and the count of commands. Refuses to know leases. Never fails.
"""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ackd.adapters import session_log
from ackd.core.message import identity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TYPES: Final = frozenset({"agent_state", "liveness", "child_started", "child_ended", "task_complete", "task_failed"})


class Endings:
    """``heard`` says of each line whether its agent is through."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    def heard(self, type_: str, data: Mapping[str, object]) -> str | None:
        """The agent's name, if so."""
        agent = data.get("agent")
        if not isinstance(agent, str):
            return None
        if type_ == "child_started" and "message_id" in data:
            self._running[agent] += 1
        if type_ == "child_ended" and "message_id" in data:
            self._running[agent] -= 1
            return agent if self._running[agent] <= 0 else None
        return agent if is_end(type_, data) else None


def is_end(type_: str, data: Mapping[str, object]) -> bool:
    match type_:
        case "task_complete" | "task_failed":
            return True
        case "agent_state":
            return data.get("state") == "down"
        case "liveness":
            return data.get("liveness") == "down"
        case _:
            return False


def last_end(logs_dir: Path, agent: str, since: float) -> float | None:
    """When the logs say so last, of a time after ``since``: a daemon that was killed may not have acted on it."""
    newest_first = session_log.iter_logs(logs_dir, newest_first=True, containing=b'"agent"')
    recent = takewhile(lambda line: line.at >= since, newest_first)
    ends = (line.at for line in recent if _names(line.data.get("agent"), agent) and is_end(line.type, line.data))
    return next(ends, None)


def _names(named: object, agent: str) -> bool:
    return isinstance(named, str) and identity(named) == identity(agent)
