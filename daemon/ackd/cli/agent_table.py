"""The table of agents, for `ackd status` and `ackd agent list`.

A value that is missing is a dash, and a column of dashes only is left out: a team of commands and inboxes has no
liveness to show. On a terminal that is too narrow, the process or pane behind an agent, and the reason of its state,
are printed in lines below its own. No value, however odd, makes it fail.
"""

from __future__ import annotations

import shutil
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ackd.cli.table import print_table
from ackd.facts.harmless import duration, local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Below this the columns of a life would leave the reason no room.
NARROW_COLUMNS: Final = 150
STYLES: Final = {
    "available": "green",
    "busy": "cyan",
    "parked": "yellow",
    "paused": "yellow",
    "down": "bold red",
    "alive": "green",
    "suspect": "yellow",
    "unresponsive": "bold red",
}
_NOTHING: Final = "-"
_COUNTS: Final = {"QUEUED": "queued", "IN FLIGHT": "in_flight", "RETRYING": "retrying", "UNREAD": "unread"}
#: The other counts have a column only if there is anything to count.
_ALWAYS: Final = ("QUEUED", "IN FLIGHT")


def print_agents(agents: Mapping[str, Mapping[str, Any]], now: float) -> None:
    """Print the table. ``now`` is in wall-clock seconds, for ages."""
    lives = {name: _life(said, now) for name, said in agents.items()}
    shown = [title for title in _LIFE if any(life[title] != _NOTHING for life in lives.values())]
    narrow = sys.stdout.isatty() and shutil.get_terminal_size().columns < NARROW_COLUMNS
    columns = [] if narrow else shown
    counts = {name: _counts(said) for name, said in agents.items()}
    mail = [title for title in _COUNTS if title in _ALWAYS or any(each[title] for each in counts.values())]
    rows = [
        [
            name,
            str(said.get("endpoint", _NOTHING)),
            str(said.get("state", "unknown")),
            *(lives[name][title] for title in columns),
            *(str(counts[name][title]) for title in mail),
            note(said, now),
        ]
        for name, said in agents.items()
    ]
    titles = ["AGENT", "ENDPOINT", "STATE", *columns, *mail, "NOTE"]
    below = [life_words(said, now) for said in agents.values()] if narrow else ()
    print_table(titles, rows, STYLES, below, whole=True)


def _counts(said: Mapping[str, Any]) -> dict[str, object]:
    """The agent's mail, each message in one column: what is retried or unread is not in flight."""
    found = {title: said.get(key, 0) for title, key in _COUNTS.items()}
    whole = [number for number in found.values() if isinstance(number, int) and not isinstance(number, bool)]
    if len(whole) == len(found):
        found["IN FLIGHT"] = max(0, found["IN FLIGHT"] - found["RETRYING"] - found["UNREAD"])
    return found


def note(said: Mapping[str, Any], now: float) -> str:
    """The reason of an agent's state and how long it lasts; what the agent waits for, or has not finished."""
    parts = [str(said["reason"])] if said.get("reason") else []
    if until := said.get("until"):
        seconds = _seconds_since(until, now)
        left = f" (in {duration(round(-seconds))})" if seconds is not None and seconds < 0 else ""
        parts.append(f"until {local_time(until)}{left}")
    return ", ".join([*parts, *_screen(said, now)])


def _screen(said: Mapping[str, Any], now: float) -> list[str]:
    """Words about an agent in a pane that has messages in hand."""
    parts = ["hung: it is being woken"] if said.get("hung") else []
    waits = said.get("waits_for")
    if isinstance(waits, list) and waits:
        parts.append(f"waits for {', '.join(map(str, waits))}")
    elif (seconds := _seconds_since(said.get("idle_since"), now)) is not None:
        given = said.get("reminders")
        reminded = {1: ", reminded once", 2: ", reminded twice"}.get(given, "") if isinstance(given, int) else ""
        parts.append(f"idle for {duration(max(0, round(seconds)))} with work in hand{reminded}")
    return parts


# --- what lives behind its endpoint -----------------------------------------------------------------------------------
def life_words(said: Mapping[str, Any], now: float) -> str:
    """In one line; empty if nothing does."""
    known = {title: value for title, value in _life(said, now).items() if value != _NOTHING}
    if known.get("DEATHS") == "0":
        del known["DEATHS"]
    return ", ".join(_IN_WORDS[title].format(known[title]) for title in _IN_WORDS if title in known)


def _life(said: Mapping[str, Any], now: float) -> dict[str, str]:
    return {title: value(said, now) for title, value in _LIFE.items()}


def ago(since: object, now: float) -> str:
    seconds = _seconds_since(since, now)
    return _NOTHING if seconds is None else f"{duration(max(0, round(seconds)))} ago"


def _seconds_since(when: object, now: float) -> float | None:
    if not isinstance(when, str):
        return None
    try:
        return now - datetime.fromisoformat(when).timestamp()
    except (ValueError, OverflowError):
        return None


def _text(key: str) -> Callable[[Mapping[str, Any], float], str]:
    def value(said: Mapping[str, Any], _: float) -> str:
        found = said.get(key)
        return found if isinstance(found, str) and found else _NOTHING

    return value


def _count(key: str) -> Callable[[Mapping[str, Any], float], str]:
    def value(said: Mapping[str, Any], _: float) -> str:
        found = said.get(key)
        return str(found) if isinstance(found, int) and not isinstance(found, bool) else _NOTHING

    return value


def _share(said: Mapping[str, Any], _: float) -> str:
    found = said.get("context_usage")
    return f"{found:.0%}" if isinstance(found, int | float) and not isinstance(found, bool) else _NOTHING


_LIFE: Final[Mapping[str, Callable[[Mapping[str, Any], float], str]]] = {
    "LIVENESS": _text("liveness"),
    "LAST SIGN": lambda said, now: ago(said.get("last_life"), now),
    "WORKER": _text("worker_state"),
    "LIVES AS": _text("detail"),
    "GEN": _count("generation"),
    "DEATHS": _count("deaths"),
    "CONTEXT": _share,
}
#: From the most telling on: it is the end of a line that is cut.
_IN_WORDS: Final = {
    "LIVENESS": "{}",
    "LAST SIGN": "sign {}",
    "WORKER": "{}",
    "LIVES AS": "{}",
    "CONTEXT": "context {}",
    "DEATHS": "deaths {}",
    "GEN": "generation {}",
}
