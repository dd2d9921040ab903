"""From named conditions to one line on stderr and an exit code.

Owns the table of exit codes and the rule that no traceback reaches a user: what nobody named is reported as our bug,
in one line, exit 70; ACKD_DEBUG=1 shows the traceback. Knows nothing of what the commands do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import IO, TYPE_CHECKING, Any, Final

import click

from ackd.core import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO: Final = 1
USAGE: Final = 2
BAD_DATA: Final = 65
NOT_FOUND: Final = 66
NO_AGENT: Final = 67
NO_DAEMON: Final = 69
BUG: Final = 70
CANNOT_CREATE: Final = 73
TRY_AGAIN: Final = 75
BAD_CONFIG: Final = 78
INTERRUPTED: Final = 130

#: What `ackd --help` prints.
EXIT_CODES: Final = (
    (0, "done"),
    (NO, "the answer is no"),
    (USAGE, "wrong usage"),
    (BAD_DATA, "bad data"),
    (NOT_FOUND, "no such file or message, or it cannot be read"),
    (NO_AGENT, "no such agent"),
    (NO_DAEMON, "no daemon is running"),
    (BUG, "a bug in ackd"),
    (CANNOT_CREATE, "cannot create or write"),
    (TRY_AGAIN, "try again later, or already running"),
    (BAD_CONFIG, "bad or no configuration"),
    (INTERRUPTED, "ended by Ctrl-C"),
)

_CODES: Final[tuple[tuple[type[errors.AckdError], int], ...]] = (
    (errors.BadName, NO_AGENT),
    (errors.UnknownAgent, NO_AGENT),
    (errors.UnknownMessage, NOT_FOUND),
    (errors.AmbiguousMessage, USAGE),
    (errors.BadConfig, BAD_CONFIG),
    (errors.Busy, TRY_AGAIN),
    (errors.TheirFault, BAD_DATA),
)


class Failure(click.ClickException):
    """A command's own refusal: the line to print and the exit code."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"ackd: {self.message}", file=file, err=file is None)


def failure_of(error: errors.AckdError) -> Failure | None:
    """The refusal that a named condition amounts to; None for our own faults."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Failure(code, _words(error))
    return None


def _words(error: errors.AckdError) -> str:
    match error:
        case errors.UnknownAgent(name=name, known=known):
            return f"{error}{_nearest(name, known)}"
        case errors.BadConfig(path=path, problems=problems) if len(problems) > 1:
            return "\n".join([f"{path}: {len(problems)} problems", *(f"  {problem}" for problem in problems)])
        case errors.BadBody(problems=problems):
            return "\n".join(["the body is wrong:", *(f"  {problem}" for problem in problems)])
        case _:
            return str(error)


def _nearest(name: str, known: tuple[str, ...]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f": did you mean {' or '.join(near)}?"
    return f"; known: {', '.join(sorted(known))}" if known else ""


#: What the system says of a path that is to be read. Whatever is written is written inside ``creating``.
_UNREADABLE: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO}
)


def _os_failure(error: OSError) -> Failure:
    if error.errno in _UNREADABLE and error.filename is not None:
        return Failure(NOT_FOUND, f"cannot read {_path(error.filename)}: {error.strerror}")
    return Failure(CANNOT_CREATE, _os_words(error))


def _os_words(error: OSError) -> str:
    where = f"{_path(error.filename)}: " if error.filename is not None else ""
    return f"{where}{error.strerror or error}"


def _path(filename: str | bytes | int) -> str:
    return os.fsdecode(filename) if isinstance(filename, bytes) else str(filename)


@contextlib.contextmanager
def creating(*directories: Path) -> Iterator[None]:
    """Whatever the disk refuses inside this block is "cannot write", a missing directory too.

    ``directories``: where is written. Who writes below an open directory hears of the name only, not of its place.
    """
    try:
        yield
    except OSError as error:
        raise Failure(CANNOT_CREATE, f"cannot write {_written(error, directories)}{error.strerror or error}") from None


def _written(error: OSError, directories: tuple[Path, ...]) -> str:
    name = _path(error.filename) if error.filename is not None else ""
    if "/" in name or not directories:
        return f"{name}: " if name else ""
    refusing = [str(one) for one in directories if not os.access(one, os.W_OK | os.X_OK)]
    return f"in {' or '.join(refusing or map(str, directories))}: "


@contextlib.contextmanager
def accepted(what: str) -> Iterator[None]:
    """Around what is said after something was accepted: a reader who left, or a full disk behind stdout, must not look
    like a refusal, or a script would send it again."""
    try:
        yield
    except OSError as error:
        _give_up_stdout()
        if not isinstance(error, BrokenPipeError):
            with contextlib.suppress(OSError):
                click.echo(f"ackd: {what}; saying so failed: {_os_words(error)}", err=True)


def _give_up_stdout() -> None:
    """What could not be written would be tried again when Python ends, and change the exit code."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Whatever leaves this block is a click outcome: a Failure, an exit, or nothing."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # click ends quietly when the reader of a pipe has gone
        raise
    except Exception as error:
        failure = _outcome(error)
        if failure is None:
            raise _bug(error) from error
        raise failure from None


def _outcome(error: Exception) -> Failure | None:
    if isinstance(error, errors.AckdError):
        return failure_of(error)
    if isinstance(error, OSError):
        return _os_failure(error)
    return None


def _bug(error: Exception) -> Failure:
    if os.environ.get("ACKD_DEBUG"):
        import traceback

        traceback.print_exception(error)
    words = str(error).splitlines() or [""]
    return Failure(BUG, f"bug: {type(error).__name__}: {words[0]} (ACKD_DEBUG=1 shows where)")
