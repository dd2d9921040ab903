"""Message files, read, written and changed whole.

Every rewrite is whole or not at all. A change that would leave a file worse than it was is refused, and the file stays
as it is; mail in a queue is never written over. Fails with ``Failure``, which carries the exit code and names the file;
``read`` also with BadMessage, for a file that is not regular or is too large.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from ackd.cli.errors import BAD_DATA, CANNOT_CREATE, NOT_FOUND, Failure
from ackd.cli.message.judging import refuse_new_faults
from ackd.cli.output import echo, printable, read_stdin
from ackd.core.errors import BadMessage
from ackd.formats import ignite
from ackd.storage import atomic_file

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
    """Name the file in which a message is faulty, and end with exit 65."""
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
    """Replace bytes that are no UTF-8, with a warning, as the seed's tool does, so that the message is readable."""
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
    """Write over any file that is there, as the seed's tool does (scripts use mktemp), but not over mail in a queue."""
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
    """Set or remove headers, and tell whether that changed anything."""
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
