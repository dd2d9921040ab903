"""Moving files so that nothing is ever overwritten or brought back.

Owns renameat2, by ctypes because Python has no binding, and what is done where a file system does not know its flags.
Refuses to know what the files are: a symlink, a FIFO or a directory is moved like any other, and never opened. Fails
with the OSError of the system call.
"""

# Paths are strings in this package: a Path object costs more than the system call it is for.
# ruff: noqa: PTH104, PTH108
from __future__ import annotations

import ctypes
import errno
import functools
import os
from typing import Any, Final, TypeAlias

_AT_FDCWD: Final = -100
_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
#: What the kernel, the file system or the C library answers when it does not know the flag.
_UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})

#: (inode, mtime, size): an inode alone may be one that was freed and given to the next file.
Identity: TypeAlias = tuple[int, int, int]


def identity_of(path: str) -> Identity:
    status = os.lstat(path)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def rename_noreplace(source: str, target: str) -> None:
    """Raises FileExistsError if the target exists, whatever it is."""
    if not _renameat2(source, target, _NOREPLACE):
        _link_then_unlink(source, target)


def put_in_place_of(new: str, target: str, identity: Identity) -> None:
    """``new`` takes the name ``target`` and the old file is gone; but only if ``target`` is still the file meant.

    FileNotFoundError if it was deleted meanwhile, ESTALE if it was changed or replaced. Then nothing has happened: what
    an agent has deleted is not brought back, and what it has written there instead is not destroyed.
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


def _renameat2(source: str, target: str, flags: int) -> bool:
    """False if this file system cannot do it."""
    function = _libc_renameat2()
    if function is None:
        return False
    if function(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), source, None, target)


@functools.cache
def _libc_renameat2() -> Any:
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library without it
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def _link_then_unlink(source: str, target: str) -> None:
    """A crash in between leaves the file under both names: a duplicate, which is recognised, rather than a loss."""
    try:
        os.link(source, target, follow_symlinks=False)
    except PermissionError:  # directories have no links, nor has FAT: the check and the rename may race
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target) from None
        os.rename(source, target)
        return
    os.unlink(source)


def _rename_over(new: str, target: str, identity: Identity) -> None:
    """Without EXCHANGE a deletion between the look and the rename is undone: the message would be offered again.

    Offered twice is what at-least-once allows; the other order, unlink first, could lose it.
    """
    if identity_of(target) != identity:
        raise changed(target)
    os.rename(new, target)
