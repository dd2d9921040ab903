"""Write a file so that nobody ever sees half of it, and read a path that may hold anything.

Every file of ours that is replaced as a whole is written here: new content under a temporary name in the same
directory, flushed if it must survive a power cut, renamed into place, and then the directory flushed. The functions
differ in what may be there already:

``write``               whatever is there is replaced; one writer at a time
``overwrite``           as ``write``, by any number of writers; the old file lends its mode and owner
``replace``             the file must be there, and be the same one until the end
``write_if_unchanged``  the file must still be the one that the caller has read, or still be missing
``write_new``           nothing may be there
``assembling``          whatever is there is replaced, durably, by what is written bit by bit; one writer at a time
``claim``               moves a file, and replaces nothing

The contents of files are the caller's business. Messages are written by ``maildrop`` and ``spool``, which give them
their names, and work in an open directory or share their flushes. Synchronous; quick to import, because `ackd lease`
and `ackd bus` pay for every module (so paths are text here, and ``pathlib`` is not imported). Writing fails with
OSError and then leaves no temporary file; reading fails with OSError, or with ``BadMessage`` (``not_regular``,
``too_large``) for a path that holds something else than a file of a sensible size.
"""

# ruff: noqa: PTH105, PTH108, PTH118, PTH119, PTH120
from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from ackd.system.syscalls import changed, identity_in, identity_of, put_in_place_of, rename_noreplace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.core.errors import BadMessage
    from ackd.system.syscalls import Identity

    AnyPath = str | os.PathLike[str]

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_CREATE_OR_EMPTY: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST_OF_ONE_NAME: Final = 1_000


def make_private(directory: Path) -> None:
    """Make the directory, if there is none, and those above it: 0700. (``maildrop`` makes some that survive a power
    cut.)"""
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


# --- reading ----------------------------------------------------------------------------------------------------------
def read_regular(path: AnyPath, max_bytes: int) -> bytes:
    """Read a regular file of at most ``max_bytes``. A link, FIFO, device or directory is not even opened."""
    _refuse_irregular(path, os.lstat(path))
    with _opened(path) as fd:
        info = os.fstat(fd)  # checked again after opening: another file may have got the name meanwhile
        _refuse_irregular(path, info)
        if info.st_size > max_bytes:
            raise _too_large(path, info.st_size, max_bytes)
        with os.fdopen(os.dup(fd), "rb") as file:
            data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise _too_large(path, len(data), max_bytes)
    return data


@contextlib.contextmanager
def _opened(path: AnyPath) -> Iterator[int]:
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # the file became a link or a socket after we looked
            raise _not_regular(f"{os.fspath(path)} is not a regular file") from None
        raise
    try:
        yield fd
    finally:
        os.close(fd)


def _refuse_irregular(path: AnyPath, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "not a file")
        raise _not_regular(f"{os.fspath(path)} is {kind}, not a regular file")


_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _not_regular(detail: str) -> BadMessage:
    from ackd.core.errors import BadMessage  # noqa: PLC0415 - only for an error
    from ackd.core.message import Rejection  # noqa: PLC0415

    return BadMessage(Rejection.NOT_REGULAR.value, detail)


def _too_large(path: AnyPath, size: int, limit: int) -> BadMessage:
    from ackd.core.errors import BadMessage  # noqa: PLC0415 - only for an error
    from ackd.core.message import Rejection  # noqa: PLC0415

    return BadMessage(Rejection.TOO_LARGE.value, f"{os.fspath(path)} has {size} bytes, more than {limit}")


# --- writing ----------------------------------------------------------------------------------------------------------
def write(path: AnyPath, data: bytes, *, durable: bool) -> None:
    """Make ``data`` the whole content of the file, 0600, whether or not there was one.

    For files that one process writes at a time: all writers use the same temporary name, so that a crash leaves at most
    one temporary file, which the next writer takes over. Without ``durable`` nothing is flushed: for content that may
    be lost in a power cut, but must never be read half written.
    """
    target = os.fspath(path)
    with _shared_temporary(temporary_of(target), data, flush=durable) as temporary:
        os.replace(temporary, target)
    if durable:
        flush_directory(os.path.dirname(target))


@contextlib.contextmanager
def assembling(path: AnyPath, *, like_mtime_ns: int | None = None) -> Iterator[int]:
    """Make a file, 0600, of what is written to this descriptor, for content that is too large to be held in memory.

    It is in place, durably, when the block is left; if the block raises, nothing has happened.
    """
    target = os.fspath(path)
    hidden = temporary_of(target)
    fd = os.open(hidden, _CREATE_OR_EMPTY, 0o600)
    try:
        try:
            yield fd
            if like_mtime_ns is not None:
                os.utime(fd, ns=(like_mtime_ns, like_mtime_ns))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(hidden, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
    flush_directory(os.path.dirname(target))


def write_if_unchanged(path: str, data: bytes, seen: Identity | None, *, mode: int = 0o600) -> None:
    """Make ``data`` the whole content of the file, if that is still the one that was ``seen`` (None: there was none).

    Raises OSError (ESTALE) and does nothing if somebody else has written, made or removed it meanwhile. Not flushed.
    One of our own writers at a time, as for ``write``; "somebody else" are people, and programs that take no lock.
    """
    with _shared_temporary(temporary_of(path), data, flush=False, mode=mode) as hidden:
        try:
            if seen is None:
                rename_noreplace(hidden, path)
            else:
                put_in_place_of(hidden, path, seen)
        except (FileExistsError, FileNotFoundError):
            raise changed(path) from None
        except OSError:
            if seen is None or not _bears(hidden, seen):
                raise
            # The new file is in place, and only the old one could not be removed: the next writer takes its name over.


def write_new(path: AnyPath, data: bytes, *, durable: bool = True) -> None:
    """Make a new file, 0600. FileExistsError if the name is taken, by whatever."""
    target = os.fspath(path)
    with _own_temporary(target, data, None, flush=durable) as hidden:
        rename_noreplace(hidden, target)
    if durable:
        flush_directory(os.path.dirname(target))


def replace(path: AnyPath, data: bytes, *, keep_mtime: bool = True) -> None:
    """Give an existing regular file new content, durably; its mode and owner stay, and by default its mtime.

    A file that was deleted meanwhile stays deleted (FileNotFoundError): deleting is how an agent says "done".
    """
    target = os.fspath(path)
    old = os.lstat(target)
    _refuse_irregular(target, old)
    with _own_temporary(target, data, old, keep_mtime=keep_mtime) as hidden:
        put_in_place_of(hidden, target, identity_in(old))
    flush_directory(os.path.dirname(target))


def overwrite(path: AnyPath, data: bytes, *, durable: bool) -> None:
    """Make ``data`` the whole content of the file, whether or not there was one, beside any number of other writers.

    The mode and owner of an existing file are kept. A path that is not a regular file is not replaced: OSError.
    """
    target = os.fspath(path)
    try:
        old = os.lstat(target)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", target)
    with _own_temporary(target, data, old, flush=durable) as hidden:
        os.replace(hidden, target)
    if durable:
        flush_directory(os.path.dirname(target))


def claim(source: str, directory: str) -> str | None:
    """Move a file into a directory and return its new path; None if there is nothing to move any more.

    Nothing is overwritten: if its name is taken there, the file gets a number behind it.
    """
    name = os.path.basename(source)
    for number in range(_MOST_OF_ONE_NAME):
        target = os.path.join(directory, f"{name}.{number}" if number else name)
        try:
            rename_noreplace(source, target)
        except FileExistsError:
            continue
        except FileNotFoundError:
            return None
        return target
    raise FileExistsError(errno.EEXIST, f"{_MOST_OF_ONE_NAME} files have its name there", source)


# --- the steps --------------------------------------------------------------------------------------------------------
def temporary_of(path: str) -> str:
    """Return the temporary name that the writers of this file share, one at a time."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name}.tmp"


def own_temporary_name() -> str:
    """Return a dot-name that nobody else uses; its pid tells a sweep whether its writer lives.

    The name is not made from the file's own, which may already be 255 bytes long.
    """
    return f".ackd-{os.getpid()}-{os.urandom(8).hex()}.tmp"


def remove_temporaries(directory: AnyPath) -> None:
    """Remove files that killed writers left under a shared temporary name. The caller must keep other writers out."""
    try:
        names = os.listdir(directory)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name.startswith(".") and name.endswith(".tmp"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``. A disk that is nearly full may take only a part, which only the returned count shows."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def flush_directory(directory: AnyPath) -> None:
    """Make the names in a directory durable. ``""`` is the current one."""
    flush(directory or ".")


def flush(path: AnyPath) -> None:
    """Make the content of a file durable, or the names in a directory."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _shared_temporary(hidden: str, data: bytes, *, flush: bool, mode: int = 0o600) -> Iterator[str]:
    """Write the bytes under a name that is used again and again. On an error nothing is left under it."""
    try:
        fd = os.open(hidden, _CREATE_OR_EMPTY, 0o600)
        try:
            write_all(fd, data)
            if mode != 0o600:
                os.fchmod(fd, mode)
            if flush:
                os.fsync(fd)
        finally:
            os.close(fd)
        yield hidden
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise


@contextlib.contextmanager
def _own_temporary(
    target: str, data: bytes, like: os.stat_result | None, *, keep_mtime: bool = False, flush: bool = True
) -> Iterator[str]:
    """Write the bytes under a name of their own; whatever bears that name in the end is removed."""
    hidden = os.path.join(os.path.dirname(target), own_temporary_name())
    fd = os.open(hidden, _CREATE, 0o600)
    try:
        try:
            write_all(fd, data)
            if like is not None:
                _make_alike(fd, like)
            if like is not None and keep_mtime:
                os.utime(fd, ns=(like.st_atime_ns, like.st_mtime_ns))  # messages are delivered in order of age
            if flush:
                os.fsync(fd)
        finally:
            os.close(fd)
        yield hidden
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden)


def _bears(path: str, identity: Identity) -> bool:
    try:
        return identity_of(path) == identity
    except OSError:
        return False


def _make_alike(fd: int, like: os.stat_result) -> None:
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        # When root rewrites an agent's file, the file must stay the agent's. Only root may change owners; a file that
        # anybody else rewrites belongs to its writer.
        with contextlib.suppress(PermissionError):
            os.fchown(fd, like.st_uid, like.st_gid)
    os.fchmod(fd, stat.S_IMODE(like.st_mode))
