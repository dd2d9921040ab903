"""System calls that Python has no binding for, with substitutes where the kernel or the file system has none either.

These are renameat2 (moving files so that nothing is ever overwritten or brought back) and statx's time of birth. This
is the lowest layer and uses the standard library only; ctypes is slow to import and is loaded by the first such call. A
symlink, a FIFO or a directory is moved like any other file, never opened. Fails with the OSError of the system call.
"""

# Paths are strings here: a Path object costs more than the system call it is for.
# ruff: noqa: PTH104, PTH108
from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import struct
import sys
from typing import Any, Final, TypeAlias

_AT_FDCWD: Final = -100
_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
#: Errors of a kernel, file system or C library that does not know the flag.
_UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})

#: Encodes like ``os.fsencode``, but without that function's type check at each call.
_NAMES: Final = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())

#: Prefix of the name that a file has for the moment in which it is not yet known whether it is the one that moved.
ASIDE: Final = ".ackd-aside-"

#: (inode, mtime, size): an inode alone may be one that was freed and given to the next file.
Identity: TypeAlias = tuple[int, int, int]


def identity_of(path: str) -> Identity:
    return identity_in(os.lstat(path))


def identity_in(status: os.stat_result) -> Identity:
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def rename_noreplace(source: str, target: str, source_dir: int = _AT_FDCWD, target_dir: int = _AT_FDCWD) -> None:
    """Rename, but raise FileExistsError if the target exists, whatever it is. The names may be relative to open
    directories."""
    if not _renameat2(source, target, _NOREPLACE, source_dir, target_dir):
        _link_then_unlink(source, target, source_dir, target_dir)


def put_in_place_of(new: str, target: str, identity: Identity) -> None:
    """Give ``new`` the name ``target`` and remove the old file; but only if ``target`` is still the file meant.

    FileNotFoundError if it was deleted meanwhile, ESTALE if it was changed or replaced. Then nothing has happened: a
    file that an agent has deleted is not brought back, and one that it has written there instead is not destroyed.
    """
    if not _renameat2(new, target, _EXCHANGE):
        _rename_over(new, target, identity)
        return
    if identity_of(new) != identity:
        _renameat2(new, target, _EXCHANGE)
        raise changed(target)
    os.unlink(new)


def changed(path: str) -> OSError:
    return OSError(errno.ESTALE, "changed by someone else meanwhile", path)


def _renameat2(source: str, target: str, flags: int, source_dir: int = _AT_FDCWD, target_dir: int = _AT_FDCWD) -> bool:
    """Call renameat2; False if this file system cannot do it."""
    function = _libc_renameat2()
    if function is None:
        return False
    if function(source_dir, source.encode(*_NAMES), target_dir, target.encode(*_NAMES), flags) == 0:
        return True
    import ctypes  # noqa: PLC0415

    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), source, None, target)


@functools.cache
def _libc_renameat2() -> Any:
    import ctypes  # noqa: PLC0415

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library without it
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def settle_aside(aside: str, name: str) -> None:
    """Settle a file that a crash left aside: if it has another name it has moved, else it gets ``name``.
    FileExistsError if that is taken, FileNotFoundError if the process that took it aside lives, and was quicker."""
    if os.lstat(aside).st_nlink == 1:
        os.link(aside, name, follow_symlinks=False)
    os.unlink(aside)


def _link_then_unlink(source: str, target: str, source_dir: int, target_dir: int) -> None:
    """Rename in two steps. A crash in between leaves the file under both names, which a start recognises, rather than a
    loss. If the old name cannot be removed, or somebody was quicker, the new one is given back: nothing has
    happened."""
    at = {"src_dir_fd": _fd(source_dir), "dst_dir_fd": _fd(target_dir)}
    meant = os.lstat(source, dir_fd=at["src_dir_fd"])
    try:
        os.link(source, target, follow_symlinks=False, **at)
    except PermissionError:  # directories have no links, nor has FAT: the check and the rename may race
        if _exists(target, target_dir):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target) from None
        os.rename(source, target, **at)
        return
    try:
        _unlink(source, meant, at["src_dir_fd"])
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(target, dir_fd=at["dst_dir_fd"])
        raise


def _unlink(path: str, meant: os.stat_result, directory: int | None) -> None:
    """Remove that file, and not the next one, which its sender may have put under the same name by now: the file of
    that name is taken aside, looked at where nobody else comes, and given back if it is another.

    It stays aside, for ``settle_aside``, if we die in that moment, or if a third file has got its name. One gap
    remains: on NFS, a cache may show us the old file although another machine has put a new one there.
    """
    parent, slash, name = path.rpartition("/")
    if name.startswith("."):  # a temporary file, which only its writer moves
        os.unlink(path, dir_fd=directory)
        return
    aside = f"{parent}{slash}{ASIDE}{os.urandom(8).hex()}"
    os.rename(path, aside, src_dir_fd=directory, dst_dir_fd=directory)
    with contextlib.suppress(OSError):
        if not os.path.samestat(os.lstat(aside, dir_fd=directory), meant):
            os.link(aside, path, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.unlink(aside, dir_fd=directory)


def _fd(directory: int) -> int | None:
    return None if directory == _AT_FDCWD else directory


def _exists(path: str, directory: int) -> bool:
    try:
        os.lstat(path, dir_fd=_fd(directory))
    except FileNotFoundError:
        return False
    return True


def _rename_over(new: str, target: str, identity: Identity) -> None:
    """Rename over the target. Without EXCHANGE, a deletion between the look and the rename is undone, and the message
    would be offered again.

    At-least-once delivery allows that. The other order, to unlink first, could lose the message.
    """
    if identity_of(target) != identity:
        raise changed(target)
    os.rename(new, target)


# --- telling a directory from its successor, and a mount from another -------------------------------------------------
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_STATX_BTIME: Final = 0x800
_STATX_BYTES: Final = 256
_BTIME_OFFSET: Final = 80
_STATX_MNT_ID: Final = 0x1000
_MNT_ID_OFFSET: Final = 144


#: device, inode, nanosecond of birth (0: not recorded)
Birth: TypeAlias = tuple[int, int, int]


def birth(path: str) -> Birth | None:
    """Return device, inode and time of birth; None if it is missing or no directory of its own (a symlink to one is
    not).

    The inode alone is not enough: ext4 gives a freed one to the next directory.
    """
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISDIR(found.st_mode):
        return None
    return found.st_dev, found.st_ino, born_at_ns(path)


@functools.cache
def _libc_statx() -> Any:
    import ctypes  # noqa: PLC0415

    return getattr(ctypes.CDLL(None), "statx", None)


def _statx(path: str, wanted: int) -> bytes | None:
    """Return statx's answer, or None if it has none."""
    function = _libc_statx()
    if function is None:
        return None
    import ctypes  # noqa: PLC0415

    answer = ctypes.create_string_buffer(_STATX_BYTES)
    failed = function(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, wanted, answer)
    return None if failed else answer.raw


def born_at_ns(path: str) -> int:
    """Return the time of birth, or 0. os.stat does not tell it on Linux; statx(2) does where the file system records
    it."""
    answer = _statx(path, _STATX_BTIME)
    if answer is None:
        return 0
    (known,) = struct.unpack_from("=I", answer, 0)
    seconds, nanoseconds = struct.unpack_from("=qI", answer, _BTIME_OFFSET)
    return seconds * 1_000_000_000 + nanoseconds if known & _STATX_BTIME else 0


def mount_of(path: str) -> int:
    """Return the number of the path's mount; 0 if nothing lies there. No rename leads from one mount to another.

    The device does not always tell two mounts apart, for one file system may be mounted twice: it stands for the number
    where that is not told (before Linux 5.8).
    """
    answer = _statx(path, _STATX_MNT_ID)
    if answer is not None:
        (known,) = struct.unpack_from("=I", answer, 0)
        (mount,) = struct.unpack_from("=Q", answer, _MNT_ID_OFFSET)
        if known & _STATX_MNT_ID:
            return int(mount)
    try:
        return os.lstat(path).st_dev
    except (FileNotFoundError, NotADirectoryError):
        return 0
