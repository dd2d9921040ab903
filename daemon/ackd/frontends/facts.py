"""One line of the session log as a person reads it: time, kind, message, agent, words.

Owns the English and the colours of facts; `ackd run`, `tail` and `explain` share them. Refuses to know where lines come
from or go to. Whatever a line holds was written by someone: every value is made visible, so that no control character
reaches the terminal. Never fails: a type it has no words for is shown key by key, and a missing key as ``?``.
"""

from __future__ import annotations

import io
import os
import time
import unicodedata
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackd.adapters.session_log import Line

GREEN: Final = "32"
YELLOW: Final = "33"
RED: Final = "1;31"
BLUE: Final = "34"
CYAN: Final = "36"
DIM: Final = "2"
DIM_CYAN: Final = "2;36"
PLAIN: Final = ""

_KIND_WIDTH: Final = 10
_AGENT_WIDTH: Final = 10
_SHORT_ID_CHARS: Final = 40


def colour_wanted(stream: IO[Any]) -> bool:
    """A terminal that shows colours, and nobody who asked for none (NO_COLOR, TERM=dumb)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def never_choke(stream: IO[str]) -> None:
    """A terminal whose encoding lacks a character shows a question mark for it instead of ending the command."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


def render(line: Line, *, colour: bool, width: int = 0) -> str:
    """The fact on one line, cut to ``width`` cells (0: not at all).

    Without colour, progress is the common format and nothing else (ignite-mime, "Display degradation rules").
    """
    if line.type == "progress" and not colour:
        return cut(words(line), width)
    look = look_of(line.type)
    kind = f"{visible(look.kind):{_KIND_WIDTH}}"
    message_id, agent = line.data.get("message_id"), agent_of(line)
    parts = [
        (clock_time(line.at), DIM),
        (f"{look.symbol} {kind}" if colour else kind, look.style),
        (short_id(str(message_id)) if message_id else "", DIM),
        (f"{visible(agent):{_AGENT_WIDTH}}" if agent else "", PLAIN),
        (words(line), look.style if look.style in (RED, YELLOW, DIM_CYAN) else PLAIN),
    ]
    return joined([part for part in parts if part[0]], colour=colour, width=width)


def joined(parts: list[tuple[str, str]], *, colour: bool, width: int = 0) -> str:
    """Texts and their styles, two spaces apart, cut to ``width`` cells without ever cutting a colour."""
    left, shown = width or 1_000_000, []
    for text, style in parts:
        shown.append(paint(cut(text, left), style) if colour else cut(text, left))
        left -= cells(text) + 2
        if left <= 0:
            break
    return "  ".join(shown).rstrip()


def paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


# --- values made harmless and short -----------------------------------------------------------------------------------
def visible(value: object) -> str:
    """The value as text in which every character that a terminal would act on is spelled out."""
    text = _plain(value)
    return text if text.isprintable() else "".join(c if _harmless(c) else _spelled(c) for c in text)


def _plain(value: object) -> str:
    match value:
        case str():
            return value
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return ", ".join(map(_plain, value))
        case dict():
            return " ".join(f"{key}={_plain(item)}" for key, item in value.items())
        case _:
            return str(value)


def _harmless(char: str) -> bool:
    # Spaces of all widths are no danger, and Japanese text is full of them; bidi marks and the rest of Cf are.
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def _cells_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """At most ``width`` cells, the last of them an ellipsis when something is missing; 0 means no limit."""
    if not width or cells(text) <= width:
        return text
    left = width - 1
    for index, char in enumerate(text):
        left -= _cells_of(char)
        if left < 0:
            return text[:index] + "…"
    return text


def short_id(message_id: str) -> str:
    """The id up to its ``@``, which every command takes for the whole."""
    return visible(message_id.partition("@")[0][:_SHORT_ID_CHARS])


def clock_time(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def duration(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "?"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


# --- who and what -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Look:
    kind: str
    symbol: str
    style: str


_LOOKS: Final[Mapping[str, Look]] = {
    "session_start": Look("daemon", "■", BLUE),
    "session_end": Look("daemon", "■", BLUE),
    "config_reloaded": Look("daemon", "■", BLUE),
    "message_queued": Look("queued", "+", CYAN),
    "message_claimed": Look("claimed", "·", DIM),
    "message_told": Look("told", "→", CYAN),
    "message_seen": Look("seen", "→", CYAN),
    "message_acked": Look("acked", "✓", GREEN),
    "message_completed": Look("completed", "✓", GREEN),
    "message_retry": Look("retry", "↻", YELLOW),
    "message_dead": Look("dead", "✗", RED),
    "message_withdrawn": Look("withdrawn", "-", YELLOW),
    "message_rejected": Look("rejected", "✗", RED),
    "message_duplicate": Look("duplicate", "=", YELLOW),
    "message_requeued": Look("requeued", "+", CYAN),
    "message_warning": Look("warning", "!", YELLOW),
    "message_overdue": Look("overdue", "!", YELLOW),
    "worker_assign": Look("assign", "·", BLUE),
    "worker_release": Look("release", "·", BLUE),
    "task_start": Look("task", "·", CYAN),
    "task_complete": Look("task", "✓", GREEN),
    "task_failed": Look("task", "✗", RED),
    "review_start": Look("review", "·", CYAN),
    "review_result": Look("review", "✓", GREEN),
    "escalation": Look("escalation", "▲", RED),
    "escalation_closed": Look("escalation", "✓", GREEN),
    "loop_detected": Look("loop", "▲", RED),
    "nudge": Look("nudge", "!", YELLOW),
    "agent_state": Look("agent", "■", BLUE),
    "progress": Look("progress", "▸", DIM_CYAN),
    "child_started": Look("child", "·", DIM),
    "child_ended": Look("child", "·", DIM),
    "watch_overflow": Look("watch", "!", YELLOW),
    "watch_degraded": Look("watch", "!", YELLOW),
    "spool_lost": Look("lost", "▲", RED),
    "io_error": Look("disk", "▲", RED),
    "reminder": Look("reminder", "!", YELLOW),
    "log_gap": Look("log", "▲", RED),
}


def look_of(type_: str) -> Look:
    return _LOOKS.get(type_) or Look(type_, "·", PLAIN)


def agent_of(line: Line) -> str:
    """Whom the line is about: the recipient, or who reports progress."""
    agent = line.data.get("from" if line.type == "progress" else "agent")
    return agent if isinstance(agent, str) else ""


class _Values:
    """A line's data, each value visible; ``of[key]`` is never missing, ``of(key, shape)`` is nothing if the key is."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def __getitem__(self, key: str) -> str:
        return visible(self.data[key]) if key in self.data else "?"

    def __call__(self, key: str, shape: str = "{}") -> str:
        value = self.data.get(key)
        return shape.format(visible(value)) if value not in (None, "", False) else ""

    def mark(self, key: str, words: str) -> str:
        return words if self.data.get(key) else ""

    def time(self, key: str, shape: str) -> str:
        value = self.data.get(key)
        return shape.format(duration(value)) if isinstance(value, int | float) else ""

    def id(self, key: str, shape: str) -> str:
        value = self.data.get(key)
        return shape.format(short_id(value)) if isinstance(value, str) else ""


def words(line: Line) -> str:
    """What happened, in plain English, without time, kind, id and agent."""
    wording = _WORDS.get(line.type)
    return wording(_Values(line.data)) if wording else _generic(line.data)


def _generic(data: Mapping[str, Any]) -> str:
    return " ".join(f"{visible(k)}={visible(v)}" for k, v in data.items() if k not in ("message_id", "agent"))


def _counts(of: _Values, key: str) -> str:
    counts = of.data.get(key)
    if not isinstance(counts, dict):
        return ""
    return ", ".join(f"{visible(count)} {visible(name)}" for name, count in counts.items() if count)


def _session_start(of: _Values) -> str:
    recovered = _counts(of, "recovered")
    return f"ackd {of['version']} started, pid {of['pid']}, on {of['root']}" + (
        f"; found again: {recovered}" if recovered else ""
    )


def _session_end(of: _Values) -> str:
    totals = _counts(of, "totals")
    return f"ended: {of['reason']}" + (f"; {totals}" if totals else "")


def _queued(of: _Values) -> str:
    more = (
        of("task_id", ", task {}") + of.id("in_reply_to", ", in reply to {}") + of.mark("recovered", ", found at start")
    )
    return f"from {of['from']}: {of['message_type']}, {of['priority']}{more}"


def _completed(of: _Values) -> str:
    late = of.mark("late", ", late") + of.mark("recovered", ", while the daemon was away")
    return f"by {of['by']}{of.time('seconds', ', after {}')}{late}"


def _retry(of: _Values) -> str:
    tries = f"{of['retry_count']} of {of['retry_limit']}"
    count = f"({tries})" if of.data.get("counted", True) else "(not counted)"
    return f"{of['reason']} {count}{of.time('delay_s', ', again in {}')}"


def _dead(of: _Values) -> str:
    retries = of.data.get("retry_count")
    tried = (
        f", after {retries} {'retry' if retries == 1 else 'retries'}" if isinstance(retries, int) and retries else ""
    )
    return f"{of['reason']}{tried}{of.mark('recovered', ', found at start')}"


def _task(done: str) -> Callable[[_Values], str]:
    return lambda of: f"{done}{of('task_id', ' {}')}{of('reason', ': {}')}"


def _escalation(of: _Values) -> str:
    counted = of.data.get("counted")
    times = f", {counted} cases by now" if isinstance(counted, int) and counted > 1 else ""
    return f"{of['cause']}: told {of['to']}{times}"


def _child_ended(of: _Values) -> str:
    return (
        f"pid {of['pid']} ended" + (f", exit {of['exit']}" if "exit" in of.data else "") + of("signal", ", signal {}")
    )


def _spool_lost(of: _Values) -> str:
    files = of.data.get("files")
    number = len(files) if isinstance(files, list) else "?"
    return f"its queue directory was removed, and {number} files with it{of('files', ': {}')}"


def progress_words(data: Mapping[str, Any]) -> str:
    """The seed's one-line format; what was not said is a dash."""
    return " ".join(f"{key}={visible(data.get(key))}" for key in ("stage", "percent", "message"))


_WORDS: Final[Mapping[str, Callable[[_Values], str]]] = {
    "session_start": _session_start,
    "session_end": _session_end,
    "message_queued": _queued,
    "message_claimed": lambda of: f"taken up{of('file', ': {}')}",
    "message_told": lambda of: f"attempt {of['attempt']}, proof: {of['proof']}",
    "message_seen": lambda of: of["evidence"],
    "message_acked": lambda of: f"by {of['by']}",
    "message_completed": _completed,
    "message_retry": _retry,
    "message_dead": _dead,
    "message_withdrawn": lambda of: of["reason"],
    "message_rejected": lambda of: f"{of['file']}: {of['reason']} [{of['code']}], kept as {of['kept_as']}",
    "message_duplicate": lambda of: f"came again while {of['of_state']}: not processed twice",
    "message_requeued": lambda of: f"back in the queue{of('file', ': {}')}",
    "message_warning": lambda of: of["warning"],
    "message_overdue": lambda of: f"acked, and no result{of.time('seconds', ' after {}')}",
    "worker_assign": lambda of: f"works on {of['message_type']}{of('task_id', ' {}')}",
    "worker_release": lambda of: f"free again{of('task_id', ' of {}')}{of('reason', ': {}')}",
    "task_start": _task("started"),
    "task_complete": _task("complete"),
    "task_failed": _task("failed"),
    "review_start": _task("review asked for"),
    "review_result": lambda of: f"review{of('from', ' from {}')}{of('task_id', ' of {}')}{of('result', ': {}')}",
    "escalation": _escalation,
    "escalation_closed": lambda of: f"closed{of('cause', ': {}')}{of('by', ', by {}')}{of('reason', ', {}')}",
    "loop_detected": lambda of: f"{of['a']} and {of['b']} passed {of['about']} back and forth {of['count']} times",
    "nudge": lambda of: f"silent: rung {of['rung']} of its ladder",
    "agent_state": lambda of: f"{of['state']}{of('reason', ': {}')}{of('until', ', until {}')}",
    "progress": lambda of: progress_words(of.data),
    "child_started": lambda of: f"pid {of['pid']} started",
    "child_ended": _child_ended,
    "watch_overflow": lambda _: "the kernel dropped notifications: everything is scanned again",
    "watch_degraded": lambda of: f"polling from now on: {of['reason']}",
    "spool_lost": _spool_lost,
    "io_error": lambda of: f"{of['what']}: {of['error']}",
    "reminder": lambda _: "waits unread: reminded",
    "log_gap": lambda of: f"{of['lost']} lines could not be written to this log and are lost",
}
