"""`ackd agent attach`: looking in on an agent, where there is something to look at.

Owns the two ways: a pane is opened by tmux, which takes our place; of a process, what it prints to stderr and its lines
of the session log are followed. Names no pane by itself: the daemon's status says which it is, else the config. Ends 1
for agents that have neither, with what to use instead; 66 for a pane that is not there; 69 for a process of no daemon.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ackd.adapters import session_log
from ackd.core.message import USER
from ackd.frontends.cli import status
from ackd.frontends.cli.errors import NO, NO_DAEMON, NOT_FOUND, Failure
from ackd.frontends.cli.output import print_json, printable
from ackd.frontends.cli.tail import Printer, Wanted, history
from ackd.frontends.facts import DIM, paint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.site import Site

_INSTEAD: Final = {
    "exec": "a command for every message has nothing to look in on: `ackd tail -f --agent {}` follows its runs",
    "handler": "it runs inside the daemon: `ackd tail -f --agent {}` follows what it does",
    "inbox": "whoever reads it looks by itself: `ackd inbox {}` shows what waits",
}
_WHERE: Final = "#{session_id}:#{window_index}.#{pane_index}"
_LAST_LINES: Final = 10
_POLL_S: Final = 0.2
_CHUNK_BYTES: Final = 65_536
_PATIENCE_S: Final = 10


def look_in(site: Site, agent: str, *, as_json: bool) -> None:
    match status.endpoint_of(site, agent):
        case "tmux":
            _open_pane(site, agent, as_json=as_json)
        case "process":
            _follow(site, agent, as_json=as_json)
        case endpoint:
            raise Failure(
                NO, f"{agent}: {_INSTEAD.get(endpoint, f'{endpoint} has nothing to look in on').format(agent)}"
            )


# --- a pane -----------------------------------------------------------------------------------------------------------
def _open_pane(site: Site, agent: str, *, as_json: bool) -> None:
    program = shutil.which("tmux")
    if program is None:
        raise Failure(NOT_FOUND, "there is no tmux on this machine (PATH)")
    tmux = [program, *_server(site)]
    said = status.take(site)["agents"].get(agent, {})
    place = _place(tmux, _targets(site, agent, said))
    if place is None:
        raise Failure(NOT_FOUND, f"{agent} has no pane now: `ackd agent list {agent}` says how it stands")
    inside = bool(os.environ.get("TMUX"))
    command = [*tmux, *(("switch-client",) if inside else ("attach-session",)), "-t", place]
    if as_json:
        print_json({"agent": agent, "endpoint": "tmux", "command": command})
        return
    sys.stdout.flush()
    os.execv(program, command)  # noqa: S606 - no shell; the words are ours and tmux's


def _server(site: Site) -> list[str]:
    from ackd.config import load_site

    socket = load_site(site).tmux_socket
    return [] if not socket else ["-S" if "/" in socket else "-L", socket]


class Target(NamedTuple):
    """Where a pane may be. ``kind``: its id, what tmux calls a target, or its title."""

    kind: str
    name: str


def _targets(site: Site, agent: str, said: dict[str, Any]) -> list[Target]:
    """As the daemon found it, else as the config names it."""
    found = re.search(r"%\d{1,9}\b", str(said.get("detail", "")))
    table = site.agents.get(agent, {})
    named = [Target(kind, str(table[kind])) for kind in ("pane", "title") if table.get(kind)]
    return [*([Target("id", found[0])] if found else []), *named]


def _place(tmux: list[str], targets: list[Target]) -> str | None:
    """Session, window and number of the first that is there: to the mere id of a pane one cannot attach."""
    shape = f"#{{pane_id}}\t{_WHERE}\t#{{pane_title}}"
    listed = [line.split("\t", 2) for line in _asked(tmux, "list-panes", "-a", "-F", shape)]
    panes = [Pane(*words) for words in listed if len(words) == 3]
    places = (place for target in targets for place in _found(tmux, panes, target))
    return next(places, None)


def _found(tmux: list[str], panes: list[Pane], target: Target) -> list[str]:
    match target.kind:
        case "id":
            return [pane.place for pane in panes if pane.pane_id == target.name]
        case "title":
            return [pane.place for pane in panes if pane.title == target.name]
        case _:
            answer = _asked(tmux, "display-message", "-p", "-t", target.name, _WHERE)
            return [pane.place for pane in panes if [pane.place] == answer]


class Pane(NamedTuple):
    pane_id: str
    place: str
    title: str


def _asked(tmux: list[str], *words: str) -> list[str]:
    try:
        done = subprocess.run(
            [*tmux, *words], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failure(NOT_FOUND, "tmux does not answer") from None
    return done.stdout.splitlines() if done.returncode == 0 else []


# --- a process --------------------------------------------------------------------------------------------------------
def _follow(site: Site, agent: str, *, as_json: bool) -> None:
    from ackd.adapters import root_lock

    errors = site.logs / f"{agent}.stderr.log"
    if root_lock.holder(site.run) is None:
        where = f"; what it printed last is in {errors}" if errors.exists() else ""
        raise Failure(NO_DAEMON, f"no daemon is running, and so no process of {agent}'s{where}")
    printer = Printer.for_stdout((*site.agents, USER), as_json=as_json)
    follower, wanted, printed = session_log.Follower(site.logs), Wanted(agent=agent), Printed(errors)
    printer.all(history(follower, wanted, _LAST_LINES))
    for text in printed.last(_LAST_LINES):
        _show(text, printer)
    while True:
        news = [line for line in follower.poll() if wanted.takes(line)]
        printer.all(news)
        texts = list(printed.more())
        for text in texts:
            _show(text, printer)
        if not news and not texts:
            time.sleep(_POLL_S)


def _show(text: str, printer: Printer) -> None:
    if printer.as_json:
        print_json({"stderr": text})
        return
    prefix = paint("stderr", DIM) if printer.colour else "stderr"
    click.echo(f"{prefix}  {printable(text)}", color=printer.colour)


class Printed:
    """What a process printed, line by line, and what it prints from now on. The file may be absent yet, be rotated or
    begun anew: then reading goes on with the one of that name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._offset = 0
        self._rest = b""

    def last(self, count: int) -> list[str]:
        """The last lines there are; ``more`` goes on behind them."""
        try:
            with self._path.open("rb") as file:
                info = os.fstat(file.fileno())
                file.seek(max(0, info.st_size - _CHUNK_BYTES))
                lines = file.read(_CHUNK_BYTES).split(b"\n")
                self._inode, self._offset = info.st_ino, file.tell()
        except FileNotFoundError:
            return []
        self._rest = lines.pop()
        return [_decoded(line) for line in lines[-count:]]

    def more(self) -> Iterator[str]:
        try:
            with self._path.open("rb") as file:
                info = os.fstat(file.fileno())
                if info.st_ino != self._inode or info.st_size < self._offset:
                    self._inode, self._offset, self._rest = info.st_ino, 0, b""
                file.seek(self._offset)
                data = file.read(_CHUNK_BYTES)
                self._offset = file.tell()
        except FileNotFoundError:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _CHUNK_BYTES:  # a line without end is shown in pieces
            lines, self._rest = [*lines, self._rest], b""
        yield from map(_decoded, lines)


def _decoded(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")
