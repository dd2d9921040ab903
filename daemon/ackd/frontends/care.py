"""What was done for a message while its agent had it: who was woken, checked on, restarted; what it said of its work.

Owns which lines of the log belong to that, though they name no message: an agent's deaths, prompts and restarts between
the first telling and the end. Pure but for reading the logs. What the lines do not say is not counted; lines that are
odd count for nothing.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ackd.adapters import session_log
from ackd.core.message import identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ackd.adapters.session_log import Line
    from ackd.frontends.story_of_message import Story

#: About an agent and what lives behind its endpoint.
_ABOUT_LIVES: Final = frozenset(
    "agent_state agent_request child_started child_ended child_restart keys_sent pane_found pane_gone pane_stuck "
    "late_word bad_line".split()
)
_BEGINS: Final = frozenset({"message_claimed", "message_told"})
_ENDS: Final = frozenset({"message_completed", "message_dead", "message_withdrawn"})
#: Line → what it counts as, and how that is said of one and of several.
_COUNTED: Final[Mapping[str, tuple[str, str, str]]] = {
    "nudge": ("nudges", "woken once", "woken {} times"),
    "probe": ("status_checks", "checked on once", "checked on {} times"),
    "idle_reminder": ("reminders", "reminded once", "reminded {} times"),
    "child_restart": ("restarts", "restarted once", "restarted {} times"),
    "pane_stuck": ("prompts", "waited for a person once", "waited for a person {} times"),
    "checkpoint": ("checkpoints", "1 checkpoint", "{} checkpoints"),
    "context_threshold": ("full_contexts", "1 full context", "{} full contexts"),
}


def lines_around(logs_dir: Path, known: Story) -> tuple[Line, ...]:
    """Lines about its agents while they had it, oldest first; without those that name a message."""
    found = [line for course in known.courses for line in _around_one(logs_dir, known.events, course.agent)]
    return tuple(sorted(found, key=lambda line: line.at))


def _around_one(logs_dir: Path, events: Iterable[Line], agent: str) -> list[Line]:
    own = [line for line in events if _is_about(line, agent) and line.type in _BEGINS | _ENDS]
    begun = next((line.at for line in own if line.type in _BEGINS), None)
    if begun is None:
        return []
    ended = own[-1].at if own[-1].type in _ENDS else float("inf")
    newest_first = session_log.iter_logs(logs_dir, newest_first=True, containing=f'"{agent}"'.encode())
    since = takewhile(lambda line: line.at >= begun, newest_first)
    return [line for line in since if line.at <= ended and _is_about(line, agent) and _is_of_a_life(line)][::-1]


def _is_about(line: Line, agent: str) -> bool:
    named = line.data.get("agent")
    return isinstance(named, str) and identity(named) == identity(agent)


def _is_of_a_life(line: Line) -> bool:
    return line.type in _ABOUT_LIVES and "message_id" not in line.data


def counts(lines: Iterable[Line], agent: str) -> dict[str, int]:
    """How often what was done, by its name for programs. What never was is absent."""
    found: dict[str, int] = {}
    for line in lines:
        if line.type in _COUNTED and _is_about(line, agent):
            name = _COUNTED[line.type][0]
            found[name] = found.get(name, 0) + 1
            rung = line.data.get("rung")
            if line.type == "nudge" and isinstance(rung, int):
                found["highest_rung"] = max(found.get("highest_rung", 0), rung)
    return found


def words(counted: Mapping[str, int]) -> str:
    """``woken 2 times (up to rung 2), checked on once, restarted once, 1 checkpoint``; empty if nothing was done."""
    said = []
    for name, once, often in _COUNTED.values():
        times = counted.get(name, 0)
        if times:
            said.append(once if times == 1 else often.format(times))
        if times and name == "nudges" and counted.get("highest_rung"):
            said[-1] += f" (up to rung {counted['highest_rung']})"
    return ", ".join(said)
