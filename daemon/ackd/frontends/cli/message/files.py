"""Message files, read, written and changed whole.

Owns what may be written over, and that every rewrite is whole or not at all: what would leave a file worse than it was
is refused, and the file untouched. Refuses to know queues, but for never writing over mail in one. Fails with
``Failure``, which carries the exit code and names the file; ``read`` also with BadMessage, for what is no regular file
or too large.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from ackd.adapters import atomic_file
from ackd.core.errors import BadMessage
from ackd.dialects import ignite
from ackd.frontends.cli.errors import BAD_DATA, CANNOT_CREATE, NOT_FOUND, Failure
from ackd.frontends.cli.message.judging import refuse_new_faults
from ackd.frontends.cli.output import echo, printable, read_stdin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAX_BYTES: Final = 1_048_576


def read(file: str) -> bytes:
    try:
        return atomic_file.read_regular(file, MAX_BYTES)
    except FileNotFoundError:
        raise Failure(NOT_FOUND, f"{printable(file)}: no such file") from None
    except OSError as error:
        raise Failure(NOT_FOUND, f"{printable(file)}: cannot be read: {error.strerror}") from None


@contextlib.contextmanager
def named(what: str) -> Iterator[None]:
    """A message's fault, with the file it is in."""
    try:
        yield
    except BadMessage as error:
        text = str(error)
        raise Failure(BAD_DATA, printable(text if text.startswith(what) else f"{what}: {text}")) from None


def read_body(body_file: str) -> str:
    # A pipe is welcome here (process substitution), unlike where a message file is read.
    if body_file == "-":
        return _text(body_file, read_stdin(MAX_BYTES + 1))
    try:
        with open(body_file, "rb") as file:  # noqa: PTH123
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Failure(NOT_FOUND, f"cannot read the body: {printable(body_file)}: {error.strerror}") from None
    return _text(body_file, data)


def _text(body_file: str, data: bytes) -> str:
    if len(data) > MAX_BYTES:  # cut within a character, and too large anyway
        return data.decode(errors="replace")
    return utf8(data, body_file)


def utf8(data: bytes, whose: str = "") -> str:
    """As the seed's tool has it: what is no UTF-8 is replaced, so that the message is readable; and that is said."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        text = data.decode(errors="replace")
        places = text.count("\ufffd") - data.count("\ufffd".encode())
        where = f" of {printable(whose)}" if whose else ""
        say_aside(f"the body{where} is not UTF-8 from byte {error.start} on: U+FFFD stands in {places} places instead")
        return text


def say_aside(words: str) -> None:
    echo(f"ackd: {words}", err=True)


def write_output(path: Path, data: bytes) -> None:
    """As the seed's tool, over whatever file is there (scripts use mktemp), but never over mail in a queue."""
    try:
        info = path.lstat() if os.path.lexists(path) else None
        if info is None:
            atomic_file.write_new(path, data)
        elif info.st_size and stat.S_ISREG(info.st_mode) and _in_a_queue(path):
            raise Failure(CANNOT_CREATE, f"{printable(str(path))}: a message is there already; choose another name")
        else:
            atomic_file.replace(path, data, keep_mtime=False)
    except BadMessage as error:
        raise Failure(CANNOT_CREATE, f"cannot write: {error}") from None
    except OSError as error:
        hint = "; make the directory first" if isinstance(error, FileNotFoundError) else ""
        raise Failure(CANNOT_CREATE, f"cannot write {printable(str(path))}: {error.strerror}{hint}") from None


def _in_a_queue(path: Path) -> bool:
    return "queue" in path.absolute().parts[-4:-1]


def rewrite(file: str, changes: Sequence[tuple[str, str | None]], root: str | None, config: str | None) -> bool:
    """Set or remove headers. Whether that changed anything."""
    with named(file):
        old = read(file)
        new = ignite.rewrite(old, changes)
        refuse_new_faults(old, new, root, config)
    if new == old:
        return False
    try:
        atomic_file.replace(file, new)
    except FileNotFoundError:
        raise Failure(NOT_FOUND, f"{printable(file)}: was deleted meanwhile, and stays so") from None
    except OSError as error:
        raise Failure(CANNOT_CREATE, f"cannot write {printable(file)}: {error.strerror}") from None
    return True
