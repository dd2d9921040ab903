"""One line of the session log as a person reads it: time, kind, message, agent, words.

Owns colours, symbols and columns. Refuses to know what a fact means (wording), and where lines come from or go to.
Never fails: a type without a look of its own is drawn plain.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from ackd.frontends.facts.harmless import TINY_ID_CHARS, cells, clock_time, cut, short_id, tiny_id, visible
from ackd.frontends.facts.wording import agent_of, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
_ID_WIDTH: Final = 29
#: Below this an id would leave the words no room: its hash stands for it.
NARROW_COLUMNS: Final = 110
#: Below this there is room for who and what only.
TINY_COLUMNS: Final = 60
AGENT_WIDTH: Final = 12
_WIDEST_AGENT: Final = 20
#: Styles in which the whole line is drawn, and not its kind alone.
_WHOLE_LINE: Final = frozenset({RED, YELLOW, DIM, DIM_CYAN})


def colour_wanted(stream: IO[Any]) -> bool:
    """A terminal that shows colours, and nobody who asked for none (NO_COLOR, TERM=dumb)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def never_choke(stream: IO[str]) -> None:
    """A terminal whose encoding lacks a character shows a question mark for it instead of ending the command."""
    if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
        reconfigure(errors="replace")


def agent_width(names: Iterable[str]) -> int:
    """How wide the column of agents is where these may appear in it."""
    return min(max((cells(visible(name)) for name in names), default=AGENT_WIDTH), _WIDEST_AGENT)


def render(line: Line, *, colour: bool, width: int = 0, agents: int = AGENT_WIDTH) -> str:
    """The fact on one line, cut to ``width`` cells (0: not at all); ``agents``: the width of the agents' column.

    Without colour, progress is the common format and nothing else (ignite-mime, "Display degradation rules").
    """
    if line.type == "progress" and not colour:
        return cut(words(line), width)
    if 0 < width < TINY_COLUMNS:
        return joined(_tiny(line), colour=colour, width=width, gap=1)
    narrow = 0 < width < NARROW_COLUMNS
    parts = _columns(line, colour=colour, narrow=narrow, agents=agents)
    if not width:  # no terminal, so nothing to line up with
        parts = [part for part in parts if part[0].strip()]
    return joined([part for part in parts if part[0]], colour=colour, width=width, gap=1 if narrow else 2)


def _columns(line: Line, *, colour: bool, narrow: bool, agents: int) -> list[tuple[str, str]]:
    """Time, kind, message, agent, words. A line about an agent leaves the message's column blank; one about neither
    has its words at once."""
    look = look_of(line.type)
    whole = look.style if look.style in _WHOLE_LINE else PLAIN
    kind = f"{visible(look.kind):{_KIND_WIDTH}}"
    message_id, agent = line.data.get("message_id"), visible(agent_of(line))
    short = (tiny_id if narrow else short_id)(str(message_id)) if message_id else ""
    if short or agent:
        short = f"{short:{TINY_ID_CHARS if narrow else _ID_WIDTH if not short else 0}}"
        agent = f"{cut(agent, agents) if narrow else agent:{agents}}"
    return [
        (clock_time(line.at), DIM),
        (f"{look.symbol} {kind}" if colour else kind, look.style),
        (short, DIM),
        (agent, DIM if whole == DIM else PLAIN),
        (words(line), whole),
    ]


def _tiny(line: Line) -> list[tuple[str, str]]:
    look = look_of(line.type)
    parts = [(look.symbol, look.style), (visible(look.kind), look.style), (visible(agent_of(line)), PLAIN)]
    return [part for part in [*parts, (words(line), look.style if look.style in _WHOLE_LINE else PLAIN)] if part[0]]


def joined(parts: list[tuple[str, str]], *, colour: bool, width: int = 0, gap: int = 2) -> str:
    """Texts and their styles, ``gap`` spaces apart, cut to ``width`` cells without ever cutting a colour."""
    left, shown = width or 1_000_000, []
    for text, style in parts:
        shown.append(paint(cut(text, left), style) if colour else cut(text, left))
        left -= cells(text) + gap
        if left <= 0:
            break
    return (" " * gap).join(shown).rstrip()


def paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


@dataclass(frozen=True, slots=True)
class Look:
    kind: str
    symbol: str
    style: str


LOOKS: Final[Mapping[str, Look]] = {
    "session_start": Look("daemon", "■", BLUE),
    "session_end": Look("daemon", "■", BLUE),
    "config_reloaded": Look("daemon", "■", BLUE),
    "overslept": Look("daemon", "!", YELLOW),
    "signal_ignored": Look("daemon", "!", YELLOW),
    "archive_swept": Look("archive", "-", DIM),
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
    "message_purged": Look("purged", "-", YELLOW),
    "message_warning": Look("warning", "!", YELLOW),
    "message_overdue": Look("overdue", "!", YELLOW),
    "worker_assign": Look("assign", "·", DIM),
    "worker_release": Look("release", "·", DIM),
    "task_start": Look("task", "·", CYAN),
    "task_complete": Look("task", "✓", GREEN),
    "task_failed": Look("task", "✗", RED),
    "review_start": Look("review", "·", CYAN),
    "review_result": Look("review", "✓", GREEN),
    "escalation": Look("escalation", "▲", RED),
    "escalation_closed": Look("escalation", "✓", GREEN),
    "deadlock_detected": Look("deadlock", "▲", RED),
    "deadlock_broken": Look("deadlock", "✓", GREEN),
    "loop_detected": Look("loop", "▲", RED),
    "message_copied": Look("copied", "+", CYAN),
    "message_held": Look("held", "▲", RED),
    "message_released": Look("released", "·", CYAN),
    "nudge": Look("nudge", "!", YELLOW),
    "nudged": Look("nudge", "!", YELLOW),
    "probe": Look("check", "?", YELLOW),
    "probed": Look("check", "?", YELLOW),
    "idle_reminder": Look("reminder", "?", YELLOW),
    "message_waits": Look("waits", "·", DIM),
    "agent_shows": Look("screen", "·", DIM),
    "liveness": Look("liveness", "·", DIM),
    "agent_state": Look("agent", "■", BLUE),
    "progress": Look("progress", "▸", DIM_CYAN),
    "child_started": Look("child", "·", DIM),
    "child_ended": Look("child", "·", DIM),
    "child_restart": Look("restart", "↻", YELLOW),
    "agent_request": Look("request", "■", BLUE),
    "worker_state": Look("worker", "·", DIM),
    "work_blocked": Look("blocked", "!", YELLOW),
    "context_threshold": Look("context", "!", YELLOW),
    "checkpoint": Look("checkpoint", "✓", GREEN),
    "late_word": Look("late", "·", DIM),
    "bad_line": Look("bad line", "!", YELLOW),
    "naive_time": Look("warning", "!", YELLOW),
    "keys_sent": Look("keys", "→", DIM),
    "pane_found": Look("pane", "·", DIM),
    "pane_gone": Look("pane", "!", YELLOW),
    "pane_stuck": Look("pane", "!", YELLOW),
    "output_cut": Look("child", "!", YELLOW),
    "watch_overflow": Look("watch", "!", YELLOW),
    "watch_degraded": Look("watch", "!", YELLOW),
    "watch_restored": Look("watch", "·", DIM),
    "spool_lost": Look("lost", "▲", RED),
    "io_error": Look("disk", "▲", RED),
    "io_recovered": Look("disk", "✓", GREEN),
    "lease_granted": Look("lease", "+", CYAN),
    "lease_renewed": Look("lease", "·", DIM),
    "lease_released": Look("lease", "-", DIM),
    "lease_expired": Look("lease", "-", YELLOW),
    "lease_waiting": Look("lease", "·", YELLOW),
    "lease_broken": Look("lease", "▲", RED),
    "lease_conflict": Look("lease", "▲", RED),
    "lease_refused": Look("lease", "!", YELLOW),
    "lease_unreadable": Look("lease", "▲", RED),
    "reminder": Look("reminder", "!", YELLOW),
    "notify_failed": Look("notify", "▲", RED),
    "notice": Look("notice", "!", YELLOW),
    "stray_file": Look("stray", "!", YELLOW),
    "board_opened": Look("board", "■", BLUE),
    "board_phase": Look("board", "·", CYAN),
    "board_answer": Look("board", "→", CYAN),
    "board_resolved": Look("board", "✓", GREEN),
    "file_taken_in": Look("file", "+", CYAN),
    "task_passed_over": Look("task", "-", YELLOW),
    "vague_report": Look("report", "~", YELLOW),
    "ack_stale": Look("stale ack", "!", YELLOW),
    "report_overdue": Look("overdue", "!", YELLOW),
    "bus_track": Look("bus", "·", DIM),
    "bus_message": Look("bus", "▸", DIM_CYAN),
    "bus_bad_line": Look("bad line", "!", YELLOW),
    "bus_bad_file": Look("bus", "!", YELLOW),
    "bus_restarted": Look("bus", "!", YELLOW),
    "bus_events_cleared": Look("bus", "·", DIM),
    "worker_stale": Look("silent", "▲", RED),
    "worker_back": Look("heard", "✓", GREEN),
    "story_state": Look("story", "■", BLUE),
    "story_done": Look("story", "✓", GREEN),
    "stage_execute": Look("stage", "→", CYAN),
    "stage_report": Look("stage", "·", CYAN),
    "stage_ended": Look("stage", "■", BLUE),
    "stage_ack": Look("stage", "✓", GREEN),
    "stage_check": Look("stage", "?", YELLOW),
    "stage_status": Look("stage", "·", DIM),
    "stage_unparsed": Look("stage", "!", YELLOW),
    "stage_said": Look("stage", "·", DIM),
    "stage_worker_ended": Look("stage", "·", DIM),
    "log_gap": Look("log", "▲", RED),
}


def look_of(type_: str) -> Look:
    return LOOKS.get(type_) or Look(type_, "·", PLAIN)
