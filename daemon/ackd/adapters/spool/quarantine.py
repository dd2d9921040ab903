"""corrupt/: what could not be read, byte for byte, each beside the reason why.

Owns the pairs of file and ``<name>.reason``. Refuses to open what it keeps: it is moved by rename, be it a symlink, a
FIFO or a directory. A file that is gone is FileNotFoundError; a reason that cannot be read is no reason (None).
"""

# ruff: noqa: PTH105, PTH108
from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from ackd.adapters.spool.names import numbered, plain
from ackd.adapters.spool.reading import is_copy, read_regular
from ackd.core.errors import BadMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.adapters.spool.disk import Disk

_TAIL: Final = ".reason"
_MAX_REASON_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a file was put away, and where it came from. ``queue`` is empty for what was no message at all."""

    queue: str
    folder: str
    name: str
    code: str
    detail: str
    at: str


class Quarantine:
    __slots__ = ("_directory", "_disk")

    def __init__(self, directory: str, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk

    def keep(self, source: str, reason: Reason, *, across: bool = False) -> str:
        """Returns the name it is kept under. ``across``: also from another file system, which may take long.

        The reason comes first: a crash in between leaves a reason without its file, which the next try replaces. It is
        not flushed: it only explains, and ten thousand bad files at once must not stop the event loop for ten seconds.
        """
        os.lstat(source)
        wanted = f"{reason.name}.file" if reason.name.endswith(_TAIL) else reason.name
        for kept in numbered(wanted, room_bytes=len(_TAIL)):
            path = f"{self._directory}/{kept}"
            if not os.path.lexists(path):
                self._write_reason(kept, reason)
                self._take(source, kept, across=across)
                return kept
            if across and is_copy(path, source) is not None:  # the disk has kept both
                self._write_reason(kept, reason)
                self._disk.finish(source, path)
                return kept
        raise AssertionError("numbered() raises when it runs out")

    def finish(self, kept: str, source: str) -> None:
        """A move from another mount: the copy was the commit."""
        self._disk.finish(source, f"{self._directory}/{plain(kept)}")

    def __iter__(self) -> Iterator[tuple[str, Reason | None]]:
        with os.scandir(self._directory) as entries:
            names = [entry.name for entry in entries if entry.name[0] != "." and not entry.name.endswith(_TAIL)]
        for name in names:
            yield name, self.reason(name)

    def reason(self, kept: str) -> Reason | None:
        try:
            found = json.loads(read_regular(f"{self._directory}/{plain(kept)}{_TAIL}", _MAX_REASON_BYTES).data)
            return Reason(**{field: str(found[field]) for field in Reason.__slots__})
        except (OSError, BadMessage, ValueError, KeyError, TypeError, RecursionError):
            return None

    def release(self, kept: str, directory: str, name: str) -> str:
        """Back into a queue, as it is; returns the name it got there."""
        moved = self._disk.move(f"{self._directory}/{plain(kept)}", directory, name, across=True)
        self._remove_reason(kept)
        return moved

    def purge(self, kept: str) -> None:
        path = f"{self._directory}/{plain(kept)}"
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)  # follows no links
        else:
            os.unlink(path)
        self._remove_reason(kept)

    def _take(self, source: str, kept: str, *, across: bool) -> None:
        try:
            self._disk.rename(source, f"{self._directory}/{kept}", across=across)
        except OSError:
            self._remove_reason(kept)
            raise

    def _write_reason(self, kept: str, reason: Reason) -> None:
        self._disk.make_directory(self._directory)
        temp = self._disk.write_temporary(self._directory, json.dumps(asdict(reason)).encode() + b"\n")
        try:
            os.replace(temp, f"{self._directory}/{kept}{_TAIL}")
        except OSError:
            self._disk.discard(temp)
            raise

    def _remove_reason(self, kept: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._directory}/{kept}{_TAIL}")
