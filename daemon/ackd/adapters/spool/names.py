"""Names in the spool: which are ours, which are harmless, which is free.

Owns the spelling of temporary and of numbered names, for whoever gives one and for whoever looks for what got one.
Pure. A name that cannot be a file's in one of our directories is FileNotFoundError: whoever asks for ``../x`` asks for
what is not there.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_NAME_BYTES: Final = 255
_MAX_EXTENSION: Final = 32  # what is longer is no extension
_IN_A_ROW: Final = 16
_CHANCE_BYTES: Final = 8
_MAX_CLASHES: Final = 1_000
#: Ours, and those of who drops messages and receipts: a name, its writer's pid, eight hex digits.
_TEMPORARY: Final = re.compile(r"\.ackd-(\d{1,10})-[0-9a-f]{16}\.tmp|\..*\.(\d{1,10})\.[0-9a-f]{8}", re.DOTALL)


@functools.lru_cache(maxsize=4096)  # a name is asked about a dozen times while its message is in hand
def plain(name: str) -> str:
    """The name itself, if it is one: no path, no dot-name, nothing that no file system can hold."""
    if not name or name[0] == "." or "/" in name or "\0" in name or not _can_be_held(name):
        raise FileNotFoundError(errno.ENOENT, "not a plain file name", name)
    return name


def _can_be_held(name: str) -> bool:
    try:
        return len(name if name.isascii() else os.fsencode(name)) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:  # half a character, as only JSON can write it
        return False


def temporary() -> str:
    """A dot-name nobody else uses. Not made from the file's own, which may already be 255 bytes long."""
    return f".ackd-{os.getpid()}-{os.urandom(8).hex()}.tmp"


def writer_of(name: str) -> int | None:
    """The process that made a temporary file; None if the name is none of a temporary file."""
    found = _TEMPORARY.fullmatch(name)
    return int(found[1] or found[2]) if found else None


def numbered(name: str, room_bytes: int = 0) -> Iterator[str]:
    """The names in a row, then ``stem-<chance>.ext``, each short enough to leave ``room_bytes`` for a tail.

    By chance, since a sender that always writes to the same name has thousands a day, and to ask for each number would
    take ever longer.
    """
    yield from in_a_row(name, room_bytes)
    for _ in range(_MAX_CLASHES - _IN_A_ROW - 1):
        yield "-".join(_around(name, os.urandom(_CHANCE_BYTES).hex(), room_bytes))
    raise FileExistsError(errno.EEXIST, f"{_MAX_CLASHES} files of that name", name)


def in_a_row(name: str, room_bytes: int = 0) -> Iterator[str]:
    """The name, then ``stem-1.ext``, ``stem-2.ext`` …, a few: they are given before any by chance."""
    fits = name.isascii() and len(name) <= _MAX_NAME_BYTES - room_bytes
    if fits:  # nearly always, and it is nearly always free
        yield name
    else:
        yield "".join(_around(name, "", room_bytes))
    for number in range(1, _IN_A_ROW + 1):
        yield "-".join(_around(name, str(number), room_bytes))


def by_chance(name: str) -> re.Pattern[str]:
    """What ``numbered`` gives after those in a row: only a listing finds them again."""
    digits = 2 * _CHANCE_BYTES
    stem, tail = _around(name, "0" * digits)
    return re.compile(f"{re.escape(stem)}-[0-9a-f]{{{digits}}}{re.escape(tail[digits:])}")


def _around(name: str, which: str, room_bytes: int = 0) -> tuple[str, str]:
    """What stands before and after the dash. Of a stem that is too long, as much as there is room for."""
    stem, dot, extension = name.rpartition(".")
    stem, extension = (stem, dot + extension) if stem and len(extension) <= _MAX_EXTENSION else (name, "")
    tail = which + extension
    dash = 1 if which else 0
    return _cut(stem, _MAX_NAME_BYTES - room_bytes - dash - len(os.fsencode(tail))), tail


def _cut(stem: str, limit_bytes: int) -> str:
    raw = os.fsencode(stem)
    return stem if len(raw) <= limit_bytes else os.fsdecode(raw[:limit_bytes])
