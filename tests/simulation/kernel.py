"""The system calls that ackd makes, answered by the memory disk.

Owns descriptors, locks and leases, and asks ``fate`` before each call of the daemon's that changes something: it may
let it fail, or end the daemon before or after it. Whoever acts for the world (senders, agents, people) is left in
peace. Only what ackd uses is here; anything else fails loudly as a missing attribute or an OSError of its own.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from typing import Any, Final, Protocol

from tests.simulation.file_views import Entry, Listing, RawFile, Status
from tests.simulation.memory_disk import MemoryDisk, Node, error

#: Above any descriptor that this process itself may have.
FIRST_FD: Final = 1_000_000
_WRITING: Final = os.O_WRONLY | os.O_RDWR


class Fate(Protocol):
    def before(self, call: str, path: str) -> None:
        """OSError: the call fails and changes nothing."""

    def after(self, call: str, path: str) -> None: ...

    def part_of(self, size: int) -> int:
        """How many of so many bytes a write takes."""


class _Open:
    __slots__ = ("at", "by_daemon", "flags", "node", "path", "refs")

    def __init__(self, node: Node, path: str, flags: int, *, by_daemon: bool) -> None:
        self.node, self.path, self.flags, self.by_daemon = node, path, flags, by_daemon
        self.at, self.refs = 0, 1


class Kernel:
    def __init__(self, disk: MemoryDisk, fate: Fate) -> None:
        self.disk = disk
        self.fate = fate
        self.daemon_acts = False
        self._fds: dict[int, _Open] = {}
        self._next_fd = FIRST_FD

    def end_process(self) -> None:
        """The daemon's: its descriptors and locks go with it."""
        for fd, one in list(self._fds.items()):
            if one.by_daemon:
                self._let_go(fd, one)

    @property
    def open_fds(self) -> list[str]:
        return [one.path for one in self._fds.values() if one.by_daemon]

    def is_open(self, fd: int) -> bool:
        return fd in self._fds

    # --- descriptors ------------------------------------------------------------------------------------------------
    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path = self._full(path, dir_fd)
        node = self._open_or_create(path, flags, mode) if flags & os.O_CREAT else self.disk.look(path)
        if flags & os.O_DIRECTORY and not node.is_dir:
            raise error(errno.ENOTDIR, path)
        if flags & _WRITING:
            if node.is_dir:
                raise error(errno.EISDIR, path)
            node.writers += 1
            if flags & os.O_TRUNC and node.data:
                self._mutating("truncate", path)
                self.disk.truncate(node, 0)
        self._next_fd += 1
        self._fds[self._next_fd] = _Open(node, path, flags, by_daemon=self.daemon_acts)
        return self._next_fd

    def _open_or_create(self, path: str, flags: int, mode: int) -> Node:
        try:
            node = self.disk.look(path)
        except FileNotFoundError:
            self._mutating("create", path)
            node = self.disk.create(path, stat.S_IFREG | (mode & 0o7777))
            self._done("create", path)
            return node
        if flags & os.O_EXCL:
            raise error(errno.EEXIST, path)
        return node

    def close(self, fd: int) -> None:
        one = self._fd(fd)
        self._let_go(fd, one)
        if one.refs == 0 and one.flags & _WRITING and one.node.links:
            self.disk.closed(one.path)

    def _let_go(self, fd: int, one: _Open) -> None:
        del self._fds[fd]
        one.refs -= 1
        if one.refs == 0:
            one.node.writers -= bool(one.flags & _WRITING)
            if one.node.locked_by is one:
                one.node.locked_by = None

    def dup(self, fd: int) -> int:
        one = self._fd(fd)
        one.refs += 1
        self._next_fd += 1
        self._fds[self._next_fd] = one
        return self._next_fd

    def read(self, fd: int, size: int) -> bytes:
        one = self._fd(fd)
        if one.node.is_dir:
            raise error(errno.EISDIR, one.path)
        found = bytes(one.node.data[one.at : one.at + size])
        one.at += len(found)
        return found

    def pread(self, fd: int, size: int, at: int) -> bytes:
        return bytes(self._fd(fd).node.data[at : at + size])

    def write(self, fd: int, data: Any) -> int:
        one, content = self._fd(fd), bytes(data)
        self._mutating("write", one.path)
        if self.daemon_acts:
            content = content[: self.fate.part_of(len(content))]
        at = len(one.node.data) if one.flags & os.O_APPEND else one.at
        self.disk.write(one.node, at, content)
        one.at = at + len(content)
        self._done("write", one.path)
        return len(content)

    def pwrite(self, fd: int, data: bytes, at: int) -> int:
        one = self._fd(fd)
        self._mutating("write", one.path)
        self.disk.write(one.node, at, data)
        return len(data)

    def lseek(self, fd: int, at: int, whence: int) -> int:
        one = self._fd(fd)
        one.at = at + {os.SEEK_SET: 0, os.SEEK_CUR: one.at, os.SEEK_END: len(one.node.data)}[whence]
        return one.at

    def ftruncate(self, fd: int, size: int) -> None:
        self.disk.truncate(self._fd(fd).node, size)

    def fsync(self, fd: int) -> None:
        one = self._fd(fd)
        self._mutating("fsync", one.path)
        self.disk.flush(one.node)
        self._done("fsync", one.path)

    fdatasync = fsync

    def fchmod(self, fd: int, mode: int) -> None:
        node = self._fd(fd).node
        node.mode = stat.S_IFMT(node.mode) | mode

    def flock(self, fd: int, how: int) -> None:
        one = self._fd(fd)
        if one.node.locked_by not in (None, one):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if how & fcntl.LOCK_EX:
            one.node.locked_by = one

    def fcntl(self, fd: int, command: int, argument: int = 0) -> int:
        """A lease on a file that someone writes is refused; nothing else is asked for."""
        if command == fcntl.F_SETLEASE and argument == fcntl.F_RDLCK and self._fd(fd).node.writers:
            raise error(errno.EAGAIN, self._fd(fd).path)
        return 0

    def open_file(self, file: Any, mode: str = "r", *_: Any, **how: Any) -> Any:
        """``io.open``."""
        if isinstance(file, int):
            fd = file if how.get("closefd", True) else self.dup(file)
        else:
            flags = os.O_RDONLY if "r" in mode else os.O_WRONLY | os.O_CREAT
            flags |= {"w": os.O_TRUNC, "a": os.O_APPEND, "x": os.O_EXCL}.get(mode[0], 0)
            fd = self.open(os.fspath(file), flags, 0o600)
        raw = RawFile(self, fd, writing="r" not in mode)
        buffered = io.BufferedReader(raw) if "r" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")

    # --- names ------------------------------------------------------------------------------------------------------
    def stat(self, path: str | int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> Status:
        return Status(self._fd(path).node if isinstance(path, int) else self.disk.look(self._full(path, dir_fd)))

    lstat = stat

    def fstat(self, fd: int) -> Status:
        return Status(self._fd(fd).node)

    def scandir(self, path: str) -> Listing:
        node = self.disk.look(path)
        if not node.is_dir:
            raise error(errno.ENOTDIR, path)
        return Listing([Entry(name, f"{path.rstrip('/')}/{name}", node.entries[name]) for name in node.entries])

    def listdir(self, path: str) -> list[str]:
        with self.scandir(path) as entries:
            return [entry.name for entry in entries]

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        if path.rstrip("/").rpartition("/")[2] in self.disk.parent(path)[0].entries:
            raise error(errno.EEXIST, path)
        self._mutating("mkdir", path)
        self.disk.create(path.rstrip("/"), stat.S_IFDIR | mode)
        self._done("mkdir", path)

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        self._mutating("rmdir", path)
        self.disk.rmdir(self._full(path, dir_fd))

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        path = self._full(path, dir_fd)
        self.disk.look(path)
        self._mutating("unlink", path)
        self.disk.unlink(path)
        self._done("unlink", path)

    def rename(self, source: str, target: str, *, replace: bool = True) -> None:
        self.disk.look(source)
        self._mutating("rename", f"{source} {target}")
        self.disk.rename(source, target, replace=replace)
        self._done("rename", f"{source} {target}")

    replace = rename

    def renameat2(self, source: str, target: str, flags: int, source_dir: int, target_dir: int) -> bool:
        """``ackd.system.syscalls._renameat2``: 1 replaces nothing, 2 exchanges."""
        source, target = self._full(source, source_dir), self._full(target, target_dir)
        if flags == 1:
            self.rename(source, target, replace=False)
        else:
            self.disk.look(source), self.disk.look(target)
            self._mutating("exchange", f"{source} {target}")
            self.disk.exchange(source, target)
            self._done("exchange", f"{source} {target}")
        return True

    def chmod(self, path: str, mode: int) -> None:
        node = self.disk.look(path)
        node.mode = stat.S_IFMT(node.mode) | mode

    def utime(self, path: str | int, times: None = None, *, ns: tuple[int, int] | None = None, **_: object) -> None:
        node = self._fd(path).node if isinstance(path, int) else self.disk.look(path)
        self.disk.touch(node)
        if ns is not None:
            node.mtime_ns = ns[1]

    def rmtree(self, path: str, ignore_errors: bool = False) -> None:
        try:
            self._remove(path)
        except OSError:
            if not ignore_errors:
                raise

    def _remove(self, path: str) -> None:
        with self.scandir(path) as entries:
            for entry in list(entries):
                if entry.is_dir():
                    self._remove(entry.path)
                else:
                    self.unlink(entry.path)
        self.rmdir(path)

    def born_at_ns(self, path: str) -> int:
        return self.disk.look(path).born_ns

    # --- the steps --------------------------------------------------------------------------------------------------
    def _mutating(self, call: str, path: str) -> None:
        if self.daemon_acts:
            self.fate.before(call, path)

    def _done(self, call: str, path: str) -> None:
        if self.daemon_acts:
            self.fate.after(call, path)

    def _full(self, path: str, dir_fd: int | None) -> str:
        if path.startswith("/") or dir_fd is None or dir_fd < 0:
            return path
        return f"{self._fd(dir_fd).path}/{path}"

    def _fd(self, fd: int) -> _Open:
        try:
            return self._fds[fd]
        except KeyError:
            raise error(errno.EBADF, str(fd)) from None
