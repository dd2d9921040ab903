"""`ackd agent attach` for process agents: follows the agent's stderr, and the lines of the session log about it.

Exits 69 without a daemon, because then there is no process.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from ackd.cli.errors import NO_DAEMON, Failure
from ackd.cli.output import echo, print_json, printable
from ackd.cli.tail import Printer
from ackd.client.tail import LogFilter, LogTail
from ackd.core.message import USER
from ackd.facts import DIM, paint
from ackd.storage import root_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.config.site import Site

_LAST_LINES: Final = 10
_POLL_S: Final = 0.2
_CHUNK_BYTES: Final = 65_536


def attach(site: Site, agent: str, *, as_json: bool) -> None:
    errors = site.logs / f"{agent}.stderr.log"
    if root_lock.holder(site.run) is None:
        where = f"; what it printed last is in {errors}" if errors.exists() else ""
        raise Failure(NO_DAEMON, f"no daemon is running, and so no process of {agent}'s{where}")
    printer = Printer.for_stdout((*site.agents, USER), as_json=as_json)
    log, printed = LogTail(site.logs, LogFilter(agent=agent)), StderrFollower(errors)
    printer.all(log.last(_LAST_LINES))
    for text in printed.last(_LAST_LINES):
        _show(text, printer)
    while True:
        news = list(log.new())
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
    echo(f"{prefix}  {printable(text)}", colour=printer.colour)


class StderrFollower:
    """Reads the lines that a process printed, and those that it prints from now on. The file may be absent yet, be
    rotated or begun anew: then reading goes on with the file of that name."""

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
