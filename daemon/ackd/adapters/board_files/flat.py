"""The seed's flat files, which others edit by hand: read as they are, replaced only if nobody wrote meanwhile.

Owns that nothing of theirs is lost: a file is exchanged for a new one only while it is the one that was read, lines are
appended, and what has to make room for a new meeting is moved, not removed. Refuses to know what is in them.
Synchronous. Fails with OSError; ESTALE: somebody wrote meanwhile, look again.
"""

# ruff: noqa: PTH108
from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final, NamedTuple

from ackd.syscalls import Identity, changed, put_in_place_of, rename_noreplace

MAX_FLAT_BYTES: Final = 8 * 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Flat(NamedTuple):
    """``data`` is None for a file that is missing; ``identity`` tells it from its successors."""

    data: bytes | None
    identity: Identity | None


def read_flat(path: str) -> Flat:
    """A link, a FIFO or what is too large is an OSError: nothing that a director would have left there."""
    try:
        fd = os.open(path, _READ)
    except FileNotFoundError:
        return Flat(None, None)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FLAT_BYTES:
            raise OSError(errno.EINVAL, "not a regular file of a sensible size", path)
        with os.fdopen(os.dup(fd), "rb") as file:
            data = file.read(MAX_FLAT_BYTES)
        return Flat(data, (found.st_ino, found.st_mtime_ns, found.st_size))
    finally:
        os.close(fd)


def put_flat(path: str, data: bytes, instead_of: Flat) -> None:
    """New content; ESTALE, and nothing done, if it is not what was read any more."""
    temp = f"{os.path.dirname(path)}/.{os.path.basename(path)}.tmp"  # noqa: PTH119, PTH120
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)
        _show(temp, path, instead_of)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise


def _show(temp: str, path: str, instead_of: Flat) -> None:
    try:
        if instead_of.identity is None:
            rename_noreplace(temp, path)
        else:
            put_in_place_of(temp, path, instead_of.identity)
    except (FileExistsError, FileNotFoundError):
        raise changed(path) from None


def append_lines(path: str, lines: bytes) -> None:
    """Whole lines, and not glued to the half line of somebody who died."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(fd, rest) :]
    finally:
        os.close(fd)


def set_aside(path: str, directory: str) -> None:
    """Into another directory, under its name or the next free one: whoever has it open writes on into it."""
    name = os.path.basename(path)  # noqa: PTH119
    for number in range(1, 1000):
        target = f"{directory}/{name}" if number == 1 else f"{directory}/{name}.{number}"
        try:
            rename_noreplace(path, target)
        except FileExistsError:
            continue
        except FileNotFoundError:
            return
        return
