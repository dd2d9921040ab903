"""How an agent stands, by the last word of the session log.

Refuses to go back further than the newest session: what an older one said is no longer true. Fails with OSError where
the logs cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.adapters import session_log
from ackd.core.message import identity

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.adapters.session_log import Line


def last_agent_state(logs_dir: Path, agent: str) -> Line | None:
    newest = session_log.session_files(logs_dir)[-1:]
    ends = {path: session_log.end_of_lines(path) for path in newest}
    lines = session_log.iter_logs(logs_dir, newest_first=True, ends=ends, containing=b'"agent_state"')
    return next((line for line in lines if is_state_of(line, agent)), None)


def is_state_of(line: Line, agent: str) -> bool:
    named = line.data.get("agent")
    return line.type == "agent_state" and isinstance(named, str) and identity(named) == identity(agent)
