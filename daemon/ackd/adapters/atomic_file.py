"""One file at a time: read only what is a regular file, write so that nobody ever sees half of it.

Owns reading a hostile path without blocking or following it, and replacing a file's content whole. Refuses to know what
is in a file and how a spool names them (maildrop, spool). Synchronous, cheap to import. Fails with ``BadMessage``
(``not_regular``, ``too_large``) for what lies there, with OSError for what the system says; nothing is left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadMessage
from ackd.core.message import Rejection
from ackd.syscalls import put_in_place_of, rename_noreplace

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MOST_OF_ONE_NAME: Final = 1_000


def read_regular(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """The whole content of a regular file up to ``max_bytes``. A link, FIFO, device or directory is not even opened."""
    _refuse_irregular(path, os.lstat(path))
    with _opened(path) as fd:
        info = os.fstat(fd)  # again, of what was opened: the name may have changed hands since
        _refuse_irregular(path, info)
        if info.st_size > max_bytes:
            raise _too_large(path, info.st_size, max_bytes)
        with os.fdopen(os.dup(fd), "rb") as file:
            data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise _too_large(path, len(data), max_bytes)
    return data


def write_new(path: str | os.PathLike[str], data: bytes) -> None:
    """A new file, 0600, durable when this returns. FileExistsError if the name is taken, by whatever."""
    target = Path(path)
    with _staged(target, data, None) as hidden:
        rename_noreplace(str(hidden), str(target))
    _flush_directory(target.parent)


def replace(path: str | os.PathLike[str], data: bytes, *, keep_mtime: bool = True) -> None:
    """New content for an existing regular file; mode and owner stay, and so does its mtime unless told otherwise.

    A file that was deleted meanwhile stays deleted (FileNotFoundError): deleting is how an agent says "done".
    """
    target = Path(path)
    old = target.lstat()
    _refuse_irregular(target, old)
    with _staged(target, data, old, keep_mtime=keep_mtime) as hidden:
        put_in_place_of(str(hidden), str(target), (old.st_ino, old.st_mtime_ns, old.st_size))
    _flush_directory(target.parent)


def overwrite(path: Path, data: bytes, *, durable: bool) -> None:
    """New content for this name, whether a file is there or not; one that is there lends its mode and owner.

    What is no regular file is not replaced: OSError.
    """
    try:
        old = path.lstat()
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    with _staged(path, data, old, flush=durable) as hidden:
        hidden.replace(path)
    if durable:
        _flush_directory(path.parent)


def put_durably(path: Path, temp: Path, data: bytes) -> None:
    """The file's whole content, by way of ``temp``, which one writer at a time may use; durable when this returns."""
    put(path, temp, data, flush=True)
    _flush_directory(path.parent)


def put(path: Path, temp: Path, data: bytes, *, flush: bool = False) -> None:
    """The file's whole content, by way of ``temp``, not flushed: for what may be lost, but never be seen by halves."""
    try:
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _write_all(fd, data)
            if flush:
                os.fsync(fd)
        finally:
            os.close(fd)
        temp.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temp.unlink(missing_ok=True)
        raise


def claim(source: str, directory: str) -> str | None:
    """Move a file into a directory: where it is now, or None if there is nothing to move. Nothing is overwritten: what
    bears its name there already makes it get a number behind its own."""
    name = os.path.basename(source)  # noqa: PTH119
    for number in range(_MOST_OF_ONE_NAME):
        target = os.path.join(directory, f"{name}.{number}" if number else name)  # noqa: PTH118
        try:
            rename_noreplace(source, target)
        except FileExistsError:
            continue
        except FileNotFoundError:
            return None
        return target
    raise FileExistsError(errno.EEXIST, f"{_MOST_OF_ONE_NAME} files have its name there", source)


def _write_all(fd: int, data: bytes) -> None:
    """A disk that is nearly full takes a part, and says so by its number only."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _refuse_irregular(path: str | os.PathLike[str], info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "not a file")
        raise BadMessage(Rejection.NOT_REGULAR.value, f"{os.fspath(path)} is {kind}, not a regular file")


_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _too_large(path: str | os.PathLike[str], size: int, limit: int) -> BadMessage:
    return BadMessage(Rejection.TOO_LARGE.value, f"{os.fspath(path)} has {size} bytes, more than {limit}")


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[int]:
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # became a link or a socket after we looked
            raise BadMessage(Rejection.NOT_REGULAR.value, f"{os.fspath(path)} is not a regular file") from None
        raise
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _staged(
    target: Path, data: bytes, like: os.stat_result | None, *, keep_mtime: bool = False, flush: bool = True
) -> Iterator[Path]:
    """The bytes, flushed, under a name nobody looks at; whatever bears that name in the end is removed."""
    hidden = target.parent / f".ackd-{os.getpid()}-{os.urandom(8).hex()}.tmp"
    fd = os.open(hidden, _CREATE, 0o600)
    try:
        try:
            _write_all(fd, data)
            if like is not None:
                _make_alike(fd, like)
            if like is not None and keep_mtime:
                os.utime(fd, ns=(like.st_atime_ns, like.st_mtime_ns))  # a message's age is its place in the line
            if flush:
                os.fsync(fd)
        finally:
            os.close(fd)
        yield hidden
    finally:
        with contextlib.suppress(FileNotFoundError):
            hidden.unlink()


def _make_alike(fd: int, like: os.stat_result) -> None:
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        # An operator's rewrite must not take a file from its agent; where we may not give it away, it never was ours.
        with contextlib.suppress(PermissionError):
            os.fchown(fd, like.st_uid, like.st_gid)
    os.fchmod(fd, stat.S_IMODE(like.st_mode))


def _flush_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
