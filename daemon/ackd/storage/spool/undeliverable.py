"""``corrupt/`` and ``dead_letter/``: files that could not be read, and messages that could not be delivered.

A quarantined file is kept byte for byte beside its ``<name>.reason``. It is moved by rename and never opened, be it a
symlink, a FIFO or a directory. A file that is gone is FileNotFoundError; a reason that cannot be read is None. Dead
letters are listed by name without reading them. If their directory is missing there are none: someone removed it, and
the next dead letter makes it again.
"""

# ruff: noqa: PTH105, PTH108
from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadMessage
from ackd.storage.spool.disk import numbered, plain
from ackd.storage.spool.reading import is_copy, read_header_block, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.storage.spool.disk import Disk

_TAIL: Final = ".reason"
_MAX_REASON_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a file was put away, and where it came from. ``queue`` is empty for a file that was no message at
    all."""

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
        """Put a file away; return the name it is kept under. ``across``: also from another file system, which may take
        long.

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
            if across and is_copy(path, source) is not None:  # copied, but the source could not be removed
                self._write_reason(kept, reason)
                self._disk.finish(source, path)
                return kept
        raise AssertionError("numbered() raises when it runs out")

    def finish(self, kept: str, source: str) -> None:
        """Finish a move from another mount: once the copy exists, only the source has to be removed."""
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
        """Move a file back into a queue, as it is; return the name it got there."""
        moved = self._disk.move(f"{self._directory}/{plain(kept)}", directory, name, across=True)
        self._remove_reason(kept)
        return moved

    def purge(self, kept: str) -> None:
        self._disk.remove(f"{self._directory}/{plain(kept)}")
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


# --- dead_letter/ -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DeadLetterFolder:
    """Reads dead_letter/. Files come there by ``Spool.move`` with ``Folder.DEAD``."""

    directory: str
    header_limit: int

    def files(self) -> dict[str, int]:
        """Return name and inode of each: another inode under a name is another file."""
        try:
            with os.scandir(self.directory) as entries:
                return {e.name: e.inode() for e in entries if e.name[0] != "." and e.is_file(follow_symlinks=False)}
        except FileNotFoundError:
            return {}

    def head(self, name: str) -> bytes | None:
        """Read the header block; None for a letter that is gone, or cannot be a message."""
        try:
            return read_header_block(f"{self.directory}/{plain(name)}", self.header_limit).data
        except (FileNotFoundError, BadMessage):
            return None

    def changed_at(self) -> int | None:
        """Return when a letter last came or went, in the file system's nanoseconds."""
        try:
            return os.stat(self.directory).st_mtime_ns  # noqa: PTH116 - as its neighbours
        except FileNotFoundError:
            return None
