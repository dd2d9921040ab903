"""The journal's file, opened, and brought to its place again when it is lost.

Owns how what a lost file said gets to the path that the next daemon reads. Refuses to know lines, and when a file is
lost. Fails with OSError: then the path is as it was.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

_CHUNK_BYTES: Final = 1 << 20


def open_for_appending(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def temp_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")


def put_back(lost: int, path: Path) -> int:
    """Where nothing is now: a copy of the lost file, open for appending."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temp = temp_beside(path)
    fd = open_for_appending(temp)
    try:
        with _reading(lost) as old, open(fd, "wb", closefd=False) as new:
            shutil.copyfileobj(old, new)
        temp.rename(path)
    except OSError:
        os.close(fd)
        temp.unlink(missing_ok=True)
        raise
    return fd


def add_to(lost: int, path: Path) -> int:
    """Where another journal is now: that one, open for appending, with what the lost file said behind it. Lines are
    read in order, so nothing that either said is lost. A copy of ours gets what it lacks."""
    fd = open_for_appending(path)
    before = os.fstat(fd).st_size
    try:
        with _reading(lost) as old, _reading(fd) as other, open(fd, "wb", closefd=False) as new:
            if not _begins_with(old, other):
                old.seek(0)
                new.write(b"\n")
            shutil.copyfileobj(old, new)
    except OSError:
        with contextlib.suppress(OSError):  # half of it would be there once more after every attempt
            os.ftruncate(fd, before)
        os.close(fd)
        raise
    return fd


def _reading(fd: int) -> BinaryIO:
    return open(f"/proc/self/fd/{fd}", "rb")  # noqa: PTH123 - whatever its name is now, if it has one


def _begins_with(whole: BinaryIO, beginning: BinaryIO) -> bool:
    """If so, ``whole`` is read just behind it."""
    while chunk := beginning.read(_CHUNK_BYTES):
        if whole.read(len(chunk)) != chunk:
            return False
    return True
