"""`ackd tail`: print the session log, of live and finished sessions, and follow it into the next ones.

client/tail.py finds the lines, facts.py words them. With ``-f`` progress is printed at the pace of core/throttle.py;
``--json`` prints every line as it stands in the file. Without any log the command exits 66; with ``-f`` it waits for
one. Ctrl-C ends it with 130 and prints nothing.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from ackd import facts
from ackd.cli.command_line import argument, at_least, command, for_team
from ackd.cli.errors import WrongUsage
from ackd.cli.index_notice import announce_building
from ackd.cli.output import as_it_is, echo, escaped_json, raise_if_the_reader_left
from ackd.client import log_history
from ackd.client.errors import NoSessionLog
from ackd.client.tail import DEFAULT_LINES, LogFilter, LogTail, known_agent
from ackd.core.message import USER
from ackd.core.message_facts import progress
from ackd.core.throttle import ProgressDisplay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ackd.config.site import Site
    from ackd.storage.session_log import Line

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_since(text: str, now: float) -> float:
    """Read ``30s``, ``10m``, ``2h``, ``1d`` before now, or an ISO time (local unless it says otherwise)."""
    if match := re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd])", text.strip()):
        return now - float(match[1]) * _UNITS_S[match[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise WrongUsage(f"--since: {text!r} is neither like 10m, 2h, 1d nor an ISO time") from None


@command
@argument(
    "-f", "--follow", dest="following", action="store_true", help="Print new lines as they come, also after a restart."
)
@argument(
    "-n", dest="count", type=at_least(0, int), help=f"The last N lines (default {DEFAULT_LINES}; all with --since)."
)
@argument(
    "--type",
    dest="types",
    action="append",
    metavar="T",
    complete="ackd.facts.table:FACTS",
    help="Lines of this type (message_dead, or dead) or family (message).",
)
@argument("--agent", metavar="A", help="Lines about this agent, or from it.")
@argument("--message", metavar="ID", help="Lines of this message: its id, how that begins, or its hash.")
@argument("--since", metavar="T", help="Lines since 30s, 10m, 2h or 1d ago, or since an ISO time.")
@for_team
def tail(
    following: bool,
    count: int | None,
    types: tuple[str, ...],
    agent: str | None,
    message: str | None,
    since: str | None,
    site: Site,
    as_json: bool,
) -> None:
    """Show the session log, and follow it.

    Several --type are alternatives; different options must all fit.

    Exit codes: 0 shown, 2 wrong usage, 66 no session log yet, 67 no such agent, 130 ended by Ctrl-C.
    """
    announce_building()
    whom = None if agent is None else known_agent(site, agent)
    bare = message.strip().removeprefix("<").removesuffix(">") if message else None
    wanted = LogFilter(types, whom, bare, parse_since(since, time.time()) if since else None)
    log = LogTail(site.logs, wanted, log_history.search(site))
    if not log.has_log:
        nothing = NoSessionLog(site.logs)
        if not following:
            raise nothing
        echo(f"ackd: {nothing}; waiting for it", err=True)
    printer = Printer.for_stdout((*site.agents, USER), as_json=as_json)
    shown = printer.all(log.last(count))
    if following:
        watch(log.follow(), printer, time.monotonic)
    elif not shown and wanted:
        echo("ackd: no line of the session log fits", err=True)


def watch(stream: Iterator[Line | None], printer: Printer, clock: Callable[[], float]) -> None:
    """Print lines as they come. None in the stream is a pause; progress that was held back is printed then.

    Raises BrokenPipeError in a pause if nobody reads stdout any more, as after `ackd tail -f | head -1`: the next line
    may be hours away.
    """
    display: ProgressDisplay[Line] = ProgressDisplay()
    for line in stream:
        if line is not None:
            if printer.as_json or line.type != progress.type:
                printer.one(line)
            else:
                final = line.data.get("final") is True
                printer.all(filter(None, [display.offer(facts.agent_of(line), line, clock(), final=final)]))
        printer.all(display.due(clock()))
        if line is None:
            raise_if_the_reader_left()


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints lines of the log onto stdout, for people or for programs."""

    as_json: bool
    colour: bool
    width: int
    agents: int = facts.AGENT_WIDTH

    @classmethod
    def for_stdout(cls, agents: Iterable[str] = (), *, as_json: bool) -> Printer:
        facts.never_choke(sys.stdout)
        wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        return cls(as_json, facts.colour_wanted(sys.stdout), wide, facts.agent_width(agents))

    def all(self, lines: Iterable[Line]) -> int:
        number = 0
        for number, line in enumerate(lines, 1):  # noqa: B007 - the last one is the answer
            self.one(line)
        return number

    def one(self, line: Line) -> None:
        if self.as_json and not self.width:
            as_it_is(line.raw + b"\n")
        elif self.as_json:
            echo(escaped_json(line.raw.decode(errors="replace")))
        else:
            text = facts.render(line, colour=self.colour, width=self.width, agents=self.agents)
            echo(text, colour=self.colour)
