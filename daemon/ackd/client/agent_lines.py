"""Lines of the session log about the agents of a message: how each stands, and what was done while it had the message.

An agent's deaths, prompts and restarts name no message. Those between the first telling and the end of a message belong
to its history all the same, and are found here. Counts cover only what the lines say; odd lines count for nothing.
Fails with OSError where the logs cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.agent_facts import agent_state, nudge
from ackd.core.message import identity
from ackd.core.message_facts import (
    message_claimed,
    message_completed,
    message_dead,
    message_told,
    message_withdrawn,
)
from ackd.facts.table import FACTS
from ackd.storage import session_log
from ackd.storage.log_index import LineQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ackd.client.message_history import MessageHistory
    from ackd.core.fact import Tally
    from ackd.storage.log_index import LogSearch
    from ackd.storage.session_log import Line

_BEGINS: Final = frozenset({message_claimed.type, message_told.type})
_ENDS: Final = frozenset({message_completed.type, message_dead.type, message_withdrawn.type})
#: Line type → how it is counted.
_COUNTED: Final[Mapping[str, Tally]] = {row.type: row.tally for row in FACTS.values() if row.tally is not None}


def last_agent_state(logs: LogSearch, agent: str) -> Line | None:
    """Return the agent's last ``agent_state`` line of the newest session. An older session's is no longer true."""
    ends = {path: session_log.end_of_lines(path) for path in session_log.newest_session(logs.logs_dir)}
    wanted = LineQuery(alone=agent, types=(agent_state.type,))
    return next(iter(logs.find(wanted, newest_first=True, limit=1, ends=ends)), None)


# --- while an agent had a message -------------------------------------------------------------------------------------
def lines_around(logs: LogSearch, history: MessageHistory) -> tuple[Line, ...]:
    """Return the lines about the message's agents while they had it, oldest first. None names a message."""
    found = [line for one in history.recipients for line in _around_one(logs, history.events, one.whose)]
    return tuple(sorted(found, key=lambda line: line.at))


def _around_one(logs: LogSearch, events: Iterable[Line], agent: str) -> list[Line]:
    own = [line for line in events if _is_about(line, agent) and line.type in _BEGINS | _ENDS]
    begun = next((line.at for line in own if line.type in _BEGINS), None)
    if begun is None:
        return []
    ended = own[-1].at if own[-1].type in _ENDS else None
    return [line for line in logs.find(LineQuery(alone=agent, since=begun, until=ended)) if _is_about_agents(line)]


def _is_about(line: Line, agent: str) -> bool:
    named = line.data.get("agent")
    return isinstance(named, str) and identity(named) == identity(agent)


def _is_about_agents(line: Line) -> bool:
    row = FACTS.get(line.type)
    return row is not None and row.of_agent


def attempt_counts(lines: Iterable[Line], agent: str) -> dict[str, int]:
    """Count what was done for the agent, by the names that programs get. What never happened is absent."""
    found: dict[str, int] = {}
    for line in lines:
        if line.type in _COUNTED and _is_about(line, agent):
            name = _COUNTED[line.type].name
            found[name] = found.get(name, 0) + 1
            rung = line.data.get("rung")
            if line.type == nudge.type and isinstance(rung, int):
                found["highest_rung"] = max(found.get("highest_rung", 0), rung)
    return found


def attempt_words(counted: Mapping[str, int]) -> str:
    """Word the counts: ``woken 2 times (up to rung 2), checked on once, restarted once``; empty if there are none."""
    said = []
    for name, once, often in _COUNTED.values():
        times = counted.get(name, 0)
        if times:
            said.append(once if times == 1 else often.format(times))
        if times and name == "nudges" and counted.get("highest_rung"):
            said[-1] += f" (up to rung {counted['highest_rung']})"
    return ", ".join(said)
