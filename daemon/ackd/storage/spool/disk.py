"""The few steps that every change in the spool is made of, and the names that files get there.

These are making directories, writing temporary files, and moving under a free name. Nothing here waits for the disk,
except for a move across mounts (``across``), which is for threads: without it that is EXDEV. Fails with OSError, and
then leaves nothing behind; a temporary file that the disk would not even remove is remembered, and removed when the
disk takes changes again (``clear_left``). A name that no file in our directories can have, such as ``../x``, raises
FileNotFoundError, as if the file were missing.
"""

# ruff: noqa: PTH101, PTH102, PTH108, PTH120, PTH123
from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING, Final

from ackd.storage import atomic_file
from ackd.storage.spool.reading import is_copy, is_link, open_regular
from ackd.system.syscalls import changed, identity_in, identity_of, rename_noreplace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.system.syscalls import Identity

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Disk:
    """Makes changes. ``durable``: whether anything is to be flushed at all."""

    __slots__ = ("_copied", "_durable", "_left", "unflushed")

    def __init__(self, *, durable: bool) -> None:
        self._durable = durable
        #: Directories in which directories were made. A caller that may wait flushes them, and removes them from here.
        self.unflushed: set[str] = set()
        #: Copies on another mount whose source is still there: source → the copy's path and identity.
        self._copied: dict[str, tuple[str, Identity]] = {}
        #: Temporary files that could not be removed.
        self._left: set[str] = set()

    def make_directory(self, directory: str) -> None:
        """Make a directory with its missing parents, 0700. Something else under that name, even a link, is
        NotADirectoryError."""
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
        """Take a directory's permissions from others if it is ours: foreign writers leave their directories and files
        readable, and behind a private directory nobody reads them. A directory that belongs to someone else is theirs
        to close."""
        if not stat.S_ISDIR(there.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
        if there.st_mode & 0o077 and there.st_uid == os.geteuid():
            os.chmod(directory, 0o700)

    def write_temporary(self, directory: str, data: bytes, like: os.stat_result | None = None) -> str:
        """Write a temporary file, not flushed, with mode, owner and times as in ``like``; return its path."""
        with self._temporary(directory, like) as (path, fd):
            atomic_file.write_all(fd, data)
        return path

    def discard(self, path: str) -> None:
        """Remove a temporary file; if that fails, remember it. Raises nothing: the caller already raises an error."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError:
            self._left.add(path)

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; of a link, the link."""
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)  # follows no links
        else:
            os.unlink(path)

    def clear_left(self) -> None:
        for path in tuple(self._left):  # a copy: a thread may add to it
            self._left.discard(path)
            self.discard(path)

    def move(self, source: str, directory: str, name: str, *, across: bool = False) -> str:
        """Move into a directory under the name or the first free numbered one; return which. Nothing is replaced."""
        for candidate in numbered(name):
            try:
                self.rename(source, f"{directory}/{candidate}", across=across)
            except FileExistsError:
                continue
            return candidate
        raise AssertionError("numbered() raises when it runs out")

    def rename(self, source: str, target: str, *, across: bool = False) -> None:
        """Rename to exactly this name, or FileExistsError. FileNotFoundError means the source: a missing directory is
        made."""
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
        """Move to another mount: a durable copy first. A crash in between leaves both, which a start recognises. If the
        disk took the copy and will not remove the source, the copy is taken back before the file is moved again.
        ESTALE, and nothing done, if the source has changed by then: a file that someone put there meanwhile is in no
        copy."""
        if os.path.lexists(target):  # checked before a long copy
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
        with contextlib.suppress(FileNotFoundError):  # somebody has found the copy and taken it
            if identity_of(target) == identity:
                os.unlink(target)
        del self._copied[source]

    def finish(self, source: str, target: str) -> bool:
        """Finish a move that left a copy, or a second name, and say whether there was one. The target is durable before
        the source goes."""
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
        """Copy a file and return the identity of the one that was copied."""
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
        """Flush the file's directory, and those that were just made to hold it, so that it is found after a power
        cut."""
        self._flush(os.path.dirname(target))
        for directory in tuple(self.unflushed):  # a copy, because this is a thread and the loop may add to it
            if target.startswith(f"{directory}/"):
                self._flush(directory)

    def _flush(self, path: str) -> None:
        if self._durable:
            atomic_file.flush(path)

    @contextlib.contextmanager
    def _temporary(self, directory: str, like: os.stat_result | None) -> Iterator[tuple[str, int]]:
        path = f"{directory}/{atomic_file.own_temporary_name()}"
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


# --- names ------------------------------------------------------------------------------------------------------------
_MAX_NAME_BYTES: Final = 255
_MAX_EXTENSION: Final = 32  # a longer one is not taken for an extension
_IN_A_ROW: Final = 16
_CHANCE_BYTES: Final = 8
_MAX_CLASHES: Final = 1_000
#: ``atomic_file.own_temporary_name``, and the names of those who drop messages and receipts (maildrop): a name, its
#: writer's pid, eight hex digits.
_TEMPORARY: Final = re.compile(r"\.ackd-(\d{1,10})-[0-9a-f]{16}\.tmp|\..*\.(\d{1,10})\.[0-9a-f]{8}", re.DOTALL)


@functools.lru_cache(maxsize=4096)  # a name is asked about a dozen times while its message is in hand
def plain(name: str) -> str:
    """The name itself, if it is one: no path, no dot-name, nothing that no file system can hold."""
    if not name or name[0] == "." or "/" in name or "\0" in name or not _can_be_held(name):
        raise FileNotFoundError(errno.ENOENT, "not a plain file name", name)
    return name


def is_plain(name: str) -> bool:
    """Tell what ``plain`` would refuse, for callers that have another name to use instead."""
    try:
        plain(name)
    except FileNotFoundError:
        return False
    return True


def _can_be_held(name: str) -> bool:
    try:
        return len(name if name.isascii() else os.fsencode(name)) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:  # half of a surrogate pair, which only JSON can express
        return False


def writer_of(name: str) -> int | None:
    """The process that made a temporary file; None if the name is none of a temporary file."""
    found = _TEMPORARY.fullmatch(name)
    return int(found[1] or found[2]) if found else None


def numbered(name: str, room_bytes: int = 0) -> Iterator[str]:
    """Yield the names in a row, then ``stem-<chance>.ext``, each short enough to leave ``room_bytes`` for a tail.

    Random names, because a sender that always uses the same name may send thousands of files a day, and trying each
    number would take longer and longer.
    """
    yield from in_a_row(name, room_bytes)
    for _ in range(_MAX_CLASHES - _IN_A_ROW - 1):
        yield "-".join(_around(name, os.urandom(_CHANCE_BYTES).hex(), room_bytes))
    raise FileExistsError(errno.EEXIST, f"{_MAX_CLASHES} files of that name", name)


def in_a_row(name: str, room_bytes: int = 0) -> Iterator[str]:
    """Yield the name, then a few numbered ones (``stem-1.ext``, ``stem-2.ext`` …), which come before random ones."""
    fits = name.isascii() and len(name) <= _MAX_NAME_BYTES - room_bytes
    if fits:  # nearly always the case, and the name is nearly always free
        yield name
    else:
        yield "".join(_around(name, "", room_bytes))
    for number in range(1, _IN_A_ROW + 1):
        yield "-".join(_around(name, str(number), room_bytes))


def by_chance(name: str) -> re.Pattern[str]:
    """Return the pattern of the names that ``numbered`` gives after those in a row: only a listing finds them again."""
    digits = 2 * _CHANCE_BYTES
    stem, tail = _around(name, "0" * digits)
    return re.compile(f"{re.escape(stem)}-[0-9a-f]{{{digits}}}{re.escape(tail[digits:])}")


def _around(name: str, which: str, room_bytes: int = 0) -> tuple[str, str]:
    """Return the parts before and after the dash. A stem that is too long is cut."""
    stem, dot, extension = name.rpartition(".")
    stem, extension = (stem, dot + extension) if stem and len(extension) <= _MAX_EXTENSION else (name, "")
    tail = which + extension
    dash = 1 if which else 0
    return _cut(stem, _MAX_NAME_BYTES - room_bytes - dash - len(os.fsencode(tail))), tail


def _cut(stem: str, limit_bytes: int) -> str:
    raw = os.fsencode(stem)
    return stem if len(raw) <= limit_bytes else os.fsdecode(raw[:limit_bytes])
