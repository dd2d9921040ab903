"""What is written from now on, to whichever session's file.

Owns how far each file has been read. Refuses to know who follows, and why. A file that is gone, replaced or truncated
is no error: following goes on with what is there.
"""

from __future__ import annotations

import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.adapters.session_log.files import session_files
from ackd.adapters.session_log.reading import LineReader, end_of_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ackd.adapters.session_log.lines import Line


@dataclass(slots=True)
class _Position:
    inode: int
    reader: LineReader


class Follower:
    """Remembers how far every log has been read; ``poll`` gives what came since, the next sessions' files included."""

    #: Only these newest files can still grow: one daemon writes one file at a time.
    LIVE_FILES: Final = 4

    def __init__(self, logs_dir: Path) -> None:
        self.logs_dir = logs_dir
        #: Where each file ended when following began.
        self.ends: dict[Path, int] = {path: end_of_lines(path) for path in session_files(logs_dir)}
        self._positions = {path: _Position(_inode(path), LineReader(path, end)) for path, end in self.ends.items()}

    @property
    def found_any(self) -> bool:
        return bool(self._positions)

    def poll(self) -> Iterator[Line]:
        files = session_files(self.logs_dir)
        for path in files:
            if path not in self._positions:
                self._positions[path] = _Position(_inode(path), LineReader(path))
            elif path not in files[-self.LIVE_FILES :]:
                continue
            yield from self._news(self._positions[path])

    def _news(self, position: _Position) -> Iterator[Line]:
        try:
            now = position.reader.path.stat()
        except FileNotFoundError:
            return
        if now.st_ino != position.inode or now.st_size < position.reader.offset:  # replaced, or truncated
            position.inode, position.reader.offset = now.st_ino, 0
        if now.st_size > position.reader.offset and stat.S_ISREG(now.st_mode):
            yield from position.reader


def follow(
    follower: Follower, *, poll_s: float = 0.2, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Line | None]:
    """New lines for ever, across restarts of the daemon; None whenever there was nothing, before waiting again."""
    while True:
        news = False
        for line in follower.poll():
            news = True
            yield line
        if not news:
            yield None
            sleep(poll_s)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
