"""dead_letter/ as a list: names without reading, one head at a time, and when it last changed.

Refuses to know what a header means. No directory, no letters: someone removed it, and the next death makes it again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ackd.adapters.spool.names import plain
from ackd.adapters.spool.reading import read_header_block
from ackd.core.errors import BadMessage


@dataclass(frozen=True, slots=True)
class Graves:
    directory: str
    header_limit: int

    def files(self) -> dict[str, int]:
        """Name and inode of each: another inode under a name is another file."""
        try:
            with os.scandir(self.directory) as entries:
                return {e.name: e.inode() for e in entries if e.name[0] != "." and e.is_file(follow_symlinks=False)}
        except FileNotFoundError:
            return {}

    def head(self, name: str) -> bytes | None:
        """The header block; None for one that is gone, or cannot be a message."""
        try:
            return read_header_block(f"{self.directory}/{plain(name)}", self.header_limit).data
        except (FileNotFoundError, BadMessage):
            return None

    def changed_at(self) -> int | None:
        """When one last came or went, in the file system's nanoseconds."""
        try:
            return os.stat(self.directory).st_mtime_ns  # noqa: PTH116 - as its neighbours
        except FileNotFoundError:
            return None
