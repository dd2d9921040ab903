"""Lines of the session log about the agents of a message: how each stands, and what was done while it had the message.

An agent's deaths, prompts and restarts name no message. Those between the first telling and the end of a message belong
to its history all the same, and are found here. Counts cover only what the lines say; odd lines count for nothing.
Fails with OSError where the logs cannot be read.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ackd.core.message import identity
from ackd.storage import session_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ackd.client.message_history import MessageHistory
    from ackd.storage.session_log import Line

#: Line types about an agent and the process or pane behind its endpoint.
_ABOUT_AGENTS: Final = frozenset(
    "agent_state agent_request child_started child_ended child_restart keys_sent pane_found pane_gone pane_stuck "
    "late_word bad_line".split()
)
_BEGINS: Final = frozenset({"message_claimed", "message_told"})
_ENDS: Final = frozenset({"message_completed", "message_dead", "message_withdrawn"})
#: Line type → the name of its count, and the words for one and for several.
_COUNTED: Final[Mapping[str, tuple[str, str, str]]] = {
    "nudge": ("nudges", "woken once", "woken {} times"),
    "probe": ("status_checks", "checked on once", "checked on {} times"),
    "idle_reminder": ("reminders", "reminded once", "reminded {} times"),
    "child_restart": ("restarts", "restarted once", "restarted {} times"),
    "pane_stuck": ("prompts", "waited for a person once", "waited for a person {} times"),
    "checkpoint": ("checkpoints", "1 checkpoint", "{} checkpoints"),
    "context_threshold": ("full_contexts", "1 full context", "{} full contexts"),
}


def last_agent_state(logs_dir: Path, agent: str) -> Line | None:
    """Return the agent's last ``agent_state`` line of the newest session. An older session's is no longer true."""
    newest = session_log.session_files(logs_dir)[-1:]
    ends = {path: session_log.end_of_lines(path) for path in newest}
    lines = session_log.iter_logs(logs_dir, newest_first=True, ends=ends, containing=b'"agent_state"')
    return next((line for line in lines if line.type == "agent_state" and _is_about(line, agent)), None)


# --- while an agent had a message -------------------------------------------------------------------------------------
def lines_around(logs_dir: Path, history: MessageHistory) -> tuple[Line, ...]:
    """Return the lines about the message's agents while they had it, oldest first. None names a message."""
    found = [line for one in history.recipients for line in _around_one(logs_dir, history.events, one.agent)]
    return tuple(sorted(found, key=lambda line: line.at))


def _around_one(logs_dir: Path, events: Iterable[Line], agent: str) -> list[Line]:
    own = [line for line in events if _is_about(line, agent) and line.type in _BEGINS | _ENDS]
    begun = next((line.at for line in own if line.type in _BEGINS), None)
    if begun is None:
        return []
    ended = own[-1].at if own[-1].type in _ENDS else float("inf")
    newest_first = session_log.iter_logs(logs_dir, newest_first=True, containing=f'"{agent}"'.encode())
    since = takewhile(lambda line: line.at >= begun, newest_first)
    return [line for line in since if line.at <= ended and _is_about(line, agent) and _names_no_message(line)][::-1]


def _is_about(line: Line, agent: str) -> bool:
    named = line.data.get("agent")
    return isinstance(named, str) and identity(named) == identity(agent)


def _names_no_message(line: Line) -> bool:
    return line.type in _ABOUT_AGENTS and "message_id" not in line.data


def attempt_counts(lines: Iterable[Line], agent: str) -> dict[str, int]:
    """Count what was done for the agent, by the names that programs get. What never happened is absent."""
    found: dict[str, int] = {}
    for line in lines:
        if line.type in _COUNTED and _is_about(line, agent):
            name = _COUNTED[line.type][0]
            found[name] = found.get(name, 0) + 1
            rung = line.data.get("rung")
            if line.type == "nudge" and isinstance(rung, int):
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
