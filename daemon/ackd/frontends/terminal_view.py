"""The operator's view of ``ackd run``: facts as they happen, one line each, through structlog.

On a terminal they are rendered as ``ackd tail`` renders them, progress at the pace of core/throttle.py; elsewhere each
is a JSON object on a line of its own. Never fails: a closed pipe ends the view, not the daemon.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, Final, TextIO

import orjson
import structlog

from ackd.adapters.session_log import Line
from ackd.core.escalations import stamp
from ackd.core.throttle import ProgressDisplay
from ackd.frontends import facts

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    Show = Callable[[str, dict[str, object], float], None]

#: What an operator should look into.
LOUD: Final = frozenset(
    "message_dead message_rejected escalation loop_detected io_error spool_lost watch_degraded watch_overflow "
    "notify_failed task_failed".split()
)


class TerminalView:
    """For eyes. ``structlog`` carries each fact through one processor, which draws it."""

    def __init__(self, stream: TextIO) -> None:
        facts.never_choke(stream)
        self._colour = facts.colour_wanted(stream)
        self._held: ProgressDisplay[Line] = ProgressDisplay()
        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(stream), processors=[self._draw], wrapper_class=structlog.BoundLogger
        )

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        line = Line(stamp(at), "", 0, "daemon", type_, data, b"")
        if type_ == "progress":
            final = data.get("final") is True
            shown = self._held.offer(facts.agent_of(line), line, time.monotonic(), final=final)
            self._say(shown)
        else:
            self._say(line)
        for held in self._held.due(time.monotonic()):
            self._say(held)

    def _say(self, line: Line | None) -> None:
        if line is not None:
            try:
                self._logger.msg(line.type, line=line)
            except BrokenPipeError:
                sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123 - the reader left; the work goes on

    def _draw(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
        width = shutil.get_terminal_size().columns if self._colour else 0
        return facts.render(event["line"], colour=self._colour, width=width)


def structured(stream: TextIO) -> Show:
    """For programs: one JSON object per fact."""
    logger = structlog.wrap_logger(
        structlog.BytesLogger(stream.buffer),
        processors=[structlog.processors.add_log_level, _encode],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=True,
    )

    def show(type_: str, data: dict[str, object], at: float) -> None:
        say = logger.warning if type_ in LOUD else logger.info
        try:
            say(type_, timestamp=stamp(at), data=data)
        except BrokenPipeError:
            return

    return show


def _encode(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(event)
    except TypeError:  # a name that is not UTF-8
        return orjson.dumps({"event": str(event.get("event")), "data": repr(event.get("data"))})
