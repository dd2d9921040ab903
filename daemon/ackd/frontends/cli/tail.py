"""`ackd tail`: the session log on a terminal, of live and finished sessions, and on into the next ones.

Owns the command: which lines are wanted, how many, and the following. How a line reads is facts.py's. With ``-f``
progress is shown at the pace of core/throttle.py; ``--json`` prints every line as it stands in the file. Without any
log it exits 66, with ``-f`` it waits for one. Ctrl-C ends it with 130 and without a word.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from ackd.adapters.session_log import Follower, follow, iter_logs
from ackd.core import message_ids
from ackd.core.message import USER, identity
from ackd.core.throttle import ProgressDisplay
from ackd.frontends import facts
from ackd.frontends.cli.errors import NOT_FOUND, Failure
from ackd.frontends.cli.options import site_options
from ackd.frontends.cli.output import escaped_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ackd.adapters.session_log import Line
    from ackd.frontends.cli.site import Site

DEFAULT_LINES: Final = 20
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines are asked for. What is empty or None asks for nothing in particular."""

    types: tuple[str, ...] = ()
    agent: str | None = None
    message: str | None = None
    since: float | None = None

    def __bool__(self) -> bool:
        return bool(self.types or self.agent or self.message or self.since is not None)

    def takes(self, line: Line) -> bool:
        return (
            (not self.types or any(is_of_type(line.type, wanted) for wanted in self.types))
            and (self.agent is None or concerns(line, self.agent))
            and (self.message is None or message_ids.fits(self.message, str(line.data.get("message_id", ""))))
            and (self.since is None or line.at >= self.since)
        )


def is_of_type(type_: str, wanted: str) -> bool:
    """``message_dead`` is taken by its name, by its family ``message`` and by its last word ``dead``."""
    return type_ == wanted or type_.startswith(f"{wanted}_") or type_ == f"message_{wanted}"


def concerns(line: Line, agent: str) -> bool:
    """The agent is the one it is about, the sender, who was told, or one of a loop's two."""
    named = (line.data.get(key) for key in ("agent", "from", "to", "a", "b"))
    return any(isinstance(name, str) and identity(name) == identity(agent) for name in named)


def parse_since(text: str, now: float) -> float:
    """``30s``, ``10m``, ``2h``, ``1d`` before now, or an ISO time (local unless it says otherwise)."""
    if match := re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd])", text.strip()):
        return now - float(match[1]) * _UNITS_S[match[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is neither like 10m, 2h, 1d nor an ISO time", param_hint="--since"
        ) from None


@click.command("tail")
@click.option("-f", "--follow", "following", is_flag=True, help="Go on with what comes, also after a restart.")
@click.option(
    "-n", "count", type=click.IntRange(min=0), help=f"The last N lines (default {DEFAULT_LINES}; all with --since)."
)
@click.option("--type", "types", multiple=True, metavar="T", help="message_dead, or dead, or a family: message, task.")
@click.option("--agent", metavar="A", help="Lines about this agent, or from it.")
@click.option("--message", metavar="ID", help="Lines of this message: its id, how that begins, or its hash.")
@click.option("--since", metavar="T", help="Lines since 30s, 10m, 2h or 1d ago, or since an ISO time.")
@site_options
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

    Exit codes: 0 shown, 2 wrong usage, 66 no session log yet, 130 ended by Ctrl-C.
    """
    bare = message.strip().removeprefix("<").removesuffix(">") if message else None
    wanted = Wanted(types, agent, bare, parse_since(since, time.time()) if since else None)
    follower = Follower(site.logs)
    if not follower.found_any:
        nothing = f"no session log in {site.logs} yet: start the daemon with `ackd run`"
        if not following:
            raise Failure(NOT_FOUND, nothing)
        click.echo(f"ackd: {nothing}; waiting for it", err=True)
    printer = Printer.for_stdout((*site.agents, USER), as_json=as_json)
    shown = printer.all(history(follower, wanted, count))
    if following:
        watch(follow(follower), wanted, printer, time.monotonic)
    elif not shown and wanted:
        click.echo("ackd: no line of the session log fits", err=True)


def history(follower: Follower, wanted: Wanted, count: int | None) -> list[Line]:
    """The newest lines that fit, oldest first, up to where the follower goes on."""
    if count is None:
        count = DEFAULT_LINES if wanted.since is None else sys.maxsize
    needle = (
        wanted.message.encode() if wanted.message and wanted.message.isascii() and '"' not in wanted.message else b""
    )
    lines = iter_logs(follower.logs_dir, newest_first=True, ends=follower.ends, containing=needle)
    if wanted.since is not None:
        since = wanted.since
        lines = itertools.takewhile(lambda line: line.at >= since, lines)
    newest = itertools.islice((line for line in lines if wanted.takes(line)), count)
    return list(newest)[::-1]


def watch(stream: Iterator[Line | None], wanted: Wanted, printer: Printer, clock: Callable[[], float]) -> None:
    """Print what comes, until someone ends it. None in the stream is a pause, in which held progress gets its turn."""
    display: ProgressDisplay[Line] = ProgressDisplay()
    for line in stream:
        if line is not None and wanted.takes(line):
            if printer.as_json or line.type != "progress":
                printer.one(line)
            else:
                final = line.data.get("final") is True
                printer.all(filter(None, [display.offer(facts.agent_of(line), line, clock(), final=final)]))
        printer.all(display.due(clock()))


@dataclass(frozen=True, slots=True)
class Printer:
    """Lines onto stdout, for people or for programs."""

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
        if self.as_json:
            click.echo(escaped_json(line.raw.decode(errors="replace")) if self.width else line.raw)
        else:
            text = facts.render(line, colour=self.colour, width=self.width, agents=self.agents)
            click.echo(text, color=self.colour)
