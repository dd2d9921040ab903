"""Read files that strangers put into a directory, without being hurt by them.

Only regular files are opened, never through a symlink, never blocking, never more than the limit; and a file that is
still being written is told from one that is whole. A file that cannot be a message is ``BadMessage`` with
``not_regular`` or ``too_large``; every OSError, FileNotFoundError first, passes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core.errors import BadMessage
from ackd.core.message import Rejection
from ackd.core.values import value
from ackd.system.syscalls import identity_in, mount_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.system.syscalls import Identity

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PEEK_BYTES: Final = 4096
_PIECE_BYTES: Final = 65_536
#: The coarsest time of the file systems that a copy may have got its time from: FAT counts in steps of two seconds.
_COARSEST_TIME_S: Final = 2
_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


#: Name, beginning, mtime. The beginning is None if the file is not regular, is gone, or may not be read; reading it
#: whole then gives the reason.
Peeked: TypeAlias = tuple[str, bytes | None, float]


@value
class FileBytes:
    """The content of a file. ``mtime``: wall-clock seconds. ``size``: that of the whole file; ``data`` may be only its
    beginning."""

    data: bytes
    mtime: float
    size: int
    inode: int

    @property
    def stamp(self) -> int:
        """A number that stays the same as long as this is the same file, and nobody has written to it."""
        return hash((self.inode, self.mtime, self.size))


def read_regular(path: str, limit: int, reserve: int = 0) -> FileBytes:
    """Read the whole file, if it is a regular one of at most ``limit`` bytes; ``reserve``: that many more are let
    pass."""
    fd, status = open_regular(path)
    most = limit + reserve
    try:
        if status.st_size > most:  # a sparse file of 2 GB is refused here, before a byte is read
            raise too_large(status.st_size, limit)
        data = os.read(fd, status.st_size + 1)
        if len(data) > status.st_size:  # the file has grown meanwhile
            while len(data) <= most and (more := os.read(fd, most + 1 - len(data))):
                data += more
            if len(data) > most:
                raise too_large(len(data), limit)
            status = os.fstat(fd)
    finally:
        os.close(fd)
    return FileBytes(data, status.st_mtime, status.st_size, status.st_ino)


def stamp_of(path: str) -> int:
    """Return the stamp of a file as ``FileBytes`` has it, without reading the file."""
    return stamp_in(os.lstat(path))


def stamp_in(status: os.stat_result) -> int:
    return hash((status.st_ino, status.st_mtime, status.st_size))


def has_bytes(path: str, size_bytes: int, hashed: int) -> bool:
    """Say whether a regular file of that size and content lies there. ``hashed`` was made by this process: hashes
    differ between processes."""
    try:
        return hash(read_regular(path, size_bytes).data) == hashed
    except BadMessage:
        return False


def is_copy(there: str, here: str) -> Identity | None:
    """Recognise a move to another mount that was not finished: two regular files on two mounts, the same to the byte
    and of the same time. Return which file it left ``here``, or None. A message that was sent once more has another
    time; one file that is reached by two paths is no copy of itself."""
    if mount_of(there) == mount_of(here):
        return None
    try:
        with open(open_regular(there)[0], "rb") as copy, open(open_regular(here)[0], "rb") as old:  # noqa: PTH123
            its, ours = os.fstat(copy.fileno()), os.fstat(old.fileno())
            same = (its.st_dev, its.st_ino) == (ours.st_dev, ours.st_ino)
            if same or its.st_size != ours.st_size or abs(its.st_mtime - ours.st_mtime) > _COARSEST_TIME_S:
                return None
            while piece := old.read(_PIECE_BYTES):
                if piece != copy.read(_PIECE_BYTES):
                    return None
            return None if copy.read(1) else identity_in(ours)
    except (FileNotFoundError, BadMessage):
        return None


def is_link(there: str, here: str) -> Identity | None:
    """Recognise a move that was not finished where a rename is a link and an unlink: one file with two names on one
    mount. Return which file it left ``here``, or None. One name that is reached by two paths is no second name."""
    try:
        its, ours = os.lstat(there), os.lstat(here)
        if ours.st_nlink < 2 or not os.path.samestat(its, ours) or mount_of(there) != mount_of(here):
            return None
        (its_directory, its_name), (directory, name) = os.path.split(there), os.path.split(here)
        same = its_name == name and os.path.samefile(its_directory, directory)  # noqa: PTH121 - as its neighbours
    except FileNotFoundError:
        return None
    return None if same else identity_in(ours)


def read_header_block(path: str, limit: int) -> FileBytes:
    """Read the file's beginning, up to and with its first blank line, or ``limit`` bytes if there is none."""
    fd, status = open_regular(path)
    try:
        data = os.read(fd, min(limit, 4096))
        while (end := _end_of_headers(data)) is None and len(data) < limit:
            more = os.read(fd, limit - len(data))
            if not more:
                break
            data += more
    finally:
        os.close(fd)
    return FileBytes(data[:end], status.st_mtime, status.st_size, status.st_ino)


def peek_all(directory: str, wanted: Callable[[str], bool]) -> Iterator[Peeked]:
    """Yield the files of a directory under names that are wanted, each with its first few kilobytes: a first look at
    many.

    A hundred thousand wait at some starts. So names are relative to the directory's descriptor, because the kernel
    finds them sooner; there is no lstat, because the listing says what each is; and each is a tuple.
    """
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                if wanted(name):
                    yield _peek(name, here) if entry.is_file(follow_symlinks=False) else (name, None, 0.0)
    finally:
        os.close(here)


def _peek(name: str, here: int) -> Peeked:
    try:
        fd = os.open(name, _FLAGS, dir_fd=here)
    except OSError:
        return name, None, 0.0
    try:
        status = os.fstat(fd)
        return name, os.read(fd, _PEEK_BYTES) if stat.S_ISREG(status.st_mode) else None, status.st_mtime
    except OSError:
        return name, None, 0.0
    finally:
        os.close(fd)


def has_settled(path: str, now_wall: float, settle_s: float) -> bool:
    """Say whether nobody has written to the file for ``settle_s``, and nobody has it open for writing, as far as can be
    known.

    A file that is not regular has settled: it will never become one. An mtime in the future says nothing.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        return True
    if 0 <= now_wall - status.st_mtime < settle_s:
        return False
    try:
        fd, _ = open_regular(path)
    except (BadMessage, PermissionError):
        return True
    try:
        return not _open_for_writing(fd)
    finally:
        os.close(fd)


def is_closed(path: str) -> bool | None:
    """Say whether nobody has the file open for writing; None where that cannot be known. FileNotFoundError,
    BadMessage."""
    fd, _ = open_regular(path)
    try:
        written = _open_for_writing(fd)
    finally:
        os.close(fd)
    return None if written is None else not written


def open_regular(path: str) -> tuple[int, os.stat_result]:
    # lstat, then open, then fstat. Opening a device may already do something (rewind a tape, hang up a line), so the
    # look comes first. Somebody who swaps the file in between can offer a symlink (NOFOLLOW) or a FIFO (NONBLOCK), but
    # a device only as root. O_PATH and a second open through /proc would close that gap too, but need /proc and cost
    # twice as much.
    _must_be_regular(os.lstat(path).st_mode)
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # replaced by a symlink or a socket after the look
            raise BadMessage(Rejection.NOT_REGULAR, "it is not a regular file") from None
        raise
    try:
        status = os.fstat(fd)
        _must_be_regular(status.st_mode)
    except BaseException:
        os.close(fd)
        raise
    return fd, status


def _must_be_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise BadMessage(Rejection.NOT_REGULAR, f"it is {kind}, not a regular file")


def too_large(size: int, limit: int) -> BadMessage:
    return BadMessage(Rejection.TOO_LARGE, f"it has {size} bytes, and {limit} are allowed")


def not_allowed(path: str) -> BadMessage:
    """Return the refusal of a file that we may not read, with what helps. PermissionError where its directory is closed
    to us: that says nothing about the file."""
    found = os.lstat(path)
    whose = f"it is user {found.st_uid}'s, mode {stat.S_IMODE(found.st_mode):04o}"
    mend = "Give it to ackd's user (chown), then `ackd dead requeue` it"
    return BadMessage(Rejection.NOT_ALLOWED, f"ackd (user {os.geteuid()}) may not read it: {whose}. {mend}")


def _open_for_writing(fd: int) -> bool | None:
    """Say whether somebody has the file open for writing; None if that cannot be known. A read lease is granted only on
    a file that nobody has open for writing; it is taken and given back at once.

    A writer who opens the file in that moment breaks the lease, and the kernel tells us by a signal: SIGIO unless set,
    which would end the daemon. SIGURG is ignored by default.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        # Other errors mean that no lease can be had: another user's file (EACCES), or a file system without leases
        # (EINVAL). Then only the mtime can tell.
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _end_of_headers(data: bytes) -> int | None:
    ends = [at + len(blank) for blank in (b"\n\n", b"\r\n\r\n") if (at := data.find(blank)) >= 0]
    return min(ends, default=None)
