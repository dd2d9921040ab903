"""The few steps that every change on disk is made of.

Owns making directories, writing temporary files, and moving under a free name. Nothing here waits for the disk, but for
a move across mounts (``across``), which is for threads: without it that is EXDEV. Refuses to know the layout.
Fails with OSError, and then leaves nothing behind; a temporary file that the disk would not even give up is remembered,
and removed when somebody says that the disk takes changes again (``clear_left``).
"""

# ruff: noqa: PTH101, PTH102, PTH108, PTH120, PTH123
from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from typing import TYPE_CHECKING, Final

from ackd.adapters.spool.names import numbered, temporary
from ackd.adapters.spool.reading import is_copy, is_link, open_regular
from ackd.syscalls import changed, identity_in, identity_of, rename_noreplace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.syscalls import Identity

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Disk:
    """``durable``: whether anything is to be flushed at all."""

    __slots__ = ("_copied", "_durable", "_left", "unflushed")

    def __init__(self, *, durable: bool) -> None:
        self._durable = durable
        #: Directories in which others were made: for whoever may wait to flush, and take out of here.
        self.unflushed: set[str] = set()
        #: By the file that is still there: its copy on another mount, and which file that is.
        self._copied: dict[str, tuple[str, Identity]] = {}
        #: Temporary files that could not be removed.
        self._left: set[str] = set()

    def make_directory(self, directory: str) -> None:
        """With its missing parents, 0700. Something else under that name, a link too, is NotADirectoryError."""
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            self._close_to_others(directory, os.lstat(directory))
        except FileNotFoundError:
            self.make_directory(os.path.dirname(directory))
            self.make_directory(directory)
        else:
            if self._durable:
                self.unflushed.add(os.path.dirname(directory))

    def _close_to_others(self, directory: str, there: os.stat_result) -> None:
        """Foreign writers leave their directories and files readable; behind a directory that is ours alone they are
        not. One that belongs to someone else is theirs to close."""
        if not stat.S_ISDIR(there.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
        if there.st_mode & 0o077 and there.st_uid == os.geteuid():
            os.chmod(directory, 0o700)

    def write_temporary(self, directory: str, data: bytes, like: os.stat_result | None = None) -> str:
        """Not flushed. Mode, owner and times as in ``like``."""
        with self._temporary(directory, like) as (path, fd):
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        return path

    def discard(self, path: str) -> None:
        """Remove a temporary file, or remember that it is still to be removed. Whoever asks has something to raise."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError:
            self._left.add(path)

    def clear_left(self) -> None:
        for path in tuple(self._left):  # a copy: a thread may add to it
            self._left.discard(path)
            self.discard(path)

    def move(self, source: str, directory: str, name: str, *, across: bool = False) -> str:
        """Into a directory, under the name or the first free numbered one; returns which. Replaces nothing."""
        for candidate in numbered(name):
            try:
                self.rename(source, f"{directory}/{candidate}", across=across)
            except FileExistsError:
                continue
            return candidate
        raise AssertionError("numbered() raises when it runs out")

    def rename(self, source: str, target: str, *, across: bool = False) -> None:
        """To exactly this name, or FileExistsError. FileNotFoundError means the source: a missing directory is made."""
        self._take_back(source)
        try:
            rename_noreplace(source, target)
        except FileNotFoundError:
            if not os.path.lexists(source):
                raise
            self.make_directory(os.path.dirname(target))
            self.rename(source, target, across=across)
        except OSError as error:
            if error.errno != errno.EXDEV or not across or not stat.S_ISREG(os.lstat(source).st_mode):
                raise
            self._carry_over(source, target)

    def _carry_over(self, source: str, target: str) -> None:
        """To another mount: a durable copy first. A crash in between leaves both, which a start recognises. A disk that
        lets the one come and not the other go must give the copy back before the file is moved again. ESTALE, and
        nothing done, if the file is another by then: what someone put there meanwhile is in no copy."""
        if os.path.lexists(target):  # before a long copy
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        copied = self._copy(source, target)
        try:
            self._flush_way_to(target)
            if identity_of(source) != copied:
                raise changed(source)
            os.unlink(source)
        except OSError:
            with contextlib.suppress(OSError):
                self._take_back(source)
            raise
        del self._copied[source]

    def _take_back(self, source: str) -> None:
        if source not in self._copied:
            return
        target, identity = self._copied[source]
        with contextlib.suppress(FileNotFoundError):  # whoever found it has taken it
            if identity_of(target) == identity:
                os.unlink(target)
        del self._copied[source]

    def finish(self, source: str, target: str) -> bool:
        """Whether there was such a copy, or second name. It stays, durable before the old file goes."""
        copied = is_copy(target, source) or is_link(target, source)
        if copied is None:
            return False
        self._flush_way_to(target)
        if identity_of(source) != copied:
            raise changed(source)
        os.unlink(source)
        self._copied.pop(source, None)
        return True

    def _copy(self, source: str, target: str) -> Identity:
        """Returns which file it was."""
        with (
            open(open_regular(source)[0], "rb") as old,
            self._temporary(os.path.dirname(target), os.fstat(old.fileno())) as (temp, fd),
            open(fd, "wb", closefd=False) as new,
        ):
            copied = identity_in(os.fstat(old.fileno()))
            shutil.copyfileobj(old, new)
        try:
            self._flush(temp)
            copy = identity_of(temp)
            rename_noreplace(temp, target)
        except OSError:
            self.discard(temp)
            raise
        self._copied[source] = (target, copy)
        return copied

    def _flush_way_to(self, target: str) -> None:
        """So that the file is found after a power cut: its directory, and those that were just made to hold that."""
        self._flush(os.path.dirname(target))
        for directory in tuple(self.unflushed):  # a copy: the loop goes on, and this is a thread
            if target.startswith(f"{directory}/"):
                self._flush(directory)

    def _flush(self, path: str) -> None:
        if not self._durable:
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _temporary(self, directory: str, like: os.stat_result | None) -> Iterator[tuple[str, int]]:
        path = f"{directory}/{temporary()}"
        fd = os.open(path, _NEW_FILE, 0o600)
        try:
            yield path, fd
            if like is not None:
                _make_like(fd, like)
        except BaseException:
            self.discard(path)
            raise
        finally:
            os.close(fd)


def _make_like(fd: int, old: os.stat_result) -> None:
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):  # only root may give a file away
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, old.st_mode & 0o777)
    os.utime(fd, ns=(old.st_atime_ns, old.st_mtime_ns))
