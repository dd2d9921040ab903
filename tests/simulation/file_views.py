"""What the kernel in memory hands out: statuses, directory entries, and files as ``open`` returns them.

Owns their shapes, which are those of ``os`` and ``io`` as far as ackd looks at them.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.memory_disk import Node

_UID, _GID = os.geteuid(), os.getegid()


class Descriptors(Protocol):
    def read(self, fd: int, size: int) -> bytes: ...

    def write(self, fd: int, data: Any) -> int: ...

    def lseek(self, fd: int, at: int, whence: int) -> int: ...

    def close(self, fd: int) -> None: ...

    def is_open(self, fd: int) -> bool: ...


class Status:
    """What ackd reads of an ``os.stat_result``."""

    __slots__ = (
        "st_atime_ns", "st_ctime", "st_dev", "st_gid", "st_ino", "st_mode", "st_mtime", "st_mtime_ns", "st_nlink",
        "st_size", "st_uid",
    )  # fmt: skip

    def __init__(self, node: Node) -> None:
        self.st_ino, self.st_dev, self.st_mode, self.st_nlink = node.ino, 1, node.mode, node.links
        self.st_uid, self.st_gid = _UID, _GID
        self.st_size = len(node.data)
        self.st_mtime_ns = self.st_atime_ns = node.mtime_ns
        self.st_mtime, self.st_ctime = node.mtime_ns / 1e9, node.ctime_ns / 1e9


class Entry:
    """``os.DirEntry``."""

    __slots__ = ("_node", "name", "path")

    def __init__(self, name: str, path: str, node: Node) -> None:
        self.name, self.path, self._node = name, path, node

    def inode(self) -> int:
        return self._node.ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.is_dir

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return not self._node.is_dir

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> Status:
        return Status(self._node)


class Listing:
    """What ``os.scandir`` returns."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def __enter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def close(self) -> None: ...


class RawFile(io.RawIOBase):
    def __init__(self, kernel: Descriptors, fd: int, *, writing: bool) -> None:
        self._kernel, self._fd, self._writing = kernel, fd, writing

    def readable(self) -> bool:
        return not self._writing

    def writable(self) -> bool:
        return self._writing

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def readinto(self, buffer: Any) -> int:
        found = self._kernel.read(self._fd, len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def write(self, data: Any) -> int:
        return self._kernel.write(self._fd, data)

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        return self._kernel.lseek(self._fd, at, whence)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._kernel.is_open(self._fd):
                self._kernel.close(self._fd)
