"""From named conditions to one line on stderr and an exit code.

Owns the table of exit codes and the rule that no traceback reaches a user: what nobody named is reported as our bug,
in one line, exit 70; ACKD_DEBUG=1 shows the traceback. Knows nothing of what the commands do, nor of click: a command
ends with ``Failure``, ``WrongUsage`` or ``Ended``, and whoever started it (quick.py, options.py) acts on that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Final

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
    (BAD_CONFIG, "bad or no configuration, or a state of a newer ackd"),
    (INTERRUPTED, "ended by Ctrl-C"),
)

_CODES: Final[tuple[tuple[type[errors.AckdError], int], ...]] = (
    (errors.BadName, NO_AGENT),
    (errors.UnknownAgent, NO_AGENT),
    (errors.UnknownMessage, NOT_FOUND),
    (errors.UnknownStory, NOT_FOUND),
    (errors.AmbiguousMessage, USAGE),
    (errors.NotOnBoard, NO_AGENT),
    (errors.NoMeeting, NOT_FOUND),
    (errors.NotNow, NO),
    (errors.BadConfig, BAD_CONFIG),
    (errors.NewerState, BAD_CONFIG),
    (errors.Busy, TRY_AGAIN),
    (errors.TheirFault, BAD_DATA),
)


class Failure(Exception):  # noqa: N818 - an end of a command, not an error of ours
    """A command's own refusal: the line to print and the exit code."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(exit_code, message)
        self.exit_code = exit_code
        self.message = message

    def __str__(self) -> str:
        return self.message

    def show(self) -> None:
        """No line but the first begins at the margin: a name with a line end in it forges none."""
        from ackd.frontends.cli.output import echo, printable

        first, *more = map(printable, self.message.split("\n"))
        rest = (line if line.startswith("  ") or not line else f"  {line}" for line in more)
        echo("\n".join([f"ackd: {first}", *rest]), err=True)


class WrongUsage(Exception):  # noqa: N818
    """What was typed makes no sense; said with the usage of the command, exit 2."""


class Ended(Exception):  # noqa: N818
    """All is said, only the exit code is left."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def failure_of(error: Exception) -> Failure:
    """The refusal that an exception amounts to. What nobody named is our bug."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, OSError):
        return _os_failure(error)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Failure(code, _words(error))
    return _bug(error)


def _words(error: Exception) -> str:
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
def creating(*directories: str | Path) -> Iterator[None]:
    """Whatever the disk refuses inside this block is "cannot write", a missing directory too.

    ``directories``: where is written. Who writes below an open directory hears of the name only, not of its place.
    """
    try:
        yield
    except OSError as error:
        where, why = _written(error, directories), error.strerror or str(error)
        if _is_sandboxed(error, directories):
            raise Failure(CANNOT_CREATE, f"a sandbox keeps this command from writing {where}{why}{_OUT}") from None
        raise Failure(CANNOT_CREATE, f"cannot write {where}{why}{_advice(error)}") from None


#: What to do about a sandbox, in words that fit any of them.
_OUT: Final = (
    "\n  → let the sandbox write below the team's root (codex: `--add-dir ROOT`, or writable_roots in its config), "
    "or run this outside of it, then try again: nothing was accepted"
)


def _is_sandboxed(error: OSError, directories: tuple[str | Path, ...]) -> bool:
    """Whether not the disk refuses, but what this process was locked into: it can gain no rights any more, and all is
    read-only for it (bubblewrap), or it is refused what owner and mode allow (Landlock)."""
    if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM) or not _is_locked_in():
        return False
    return error.errno == errno.EROFS or all(map(_would_let_us_write, _places(error, directories)))


def _places(error: OSError, directories: tuple[str | Path, ...]) -> list[str]:
    """The directories that were written in, and the file if it is there already."""
    name = _path(error.filename) if error.filename is not None else ""
    if "/" not in name:
        return list(map(str, directories))
    return [os.path.dirname(name), *([name] if os.path.lexists(name) else [])]  # noqa: PTH120


def _would_let_us_write(place: str) -> bool:
    return os.access(place, os.W_OK, effective_ids=True) or not os.path.lexists(place)


def _is_locked_in() -> bool:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            said = dict(line.split(":", 1) for line in file if line.startswith(("NoNewPrivs:", "Seccomp:")))
    except OSError:
        return False
    return said.get("NoNewPrivs", "").strip() == "1" or said.get("Seccomp", "").strip() == "2"


def _advice(error: OSError) -> str:
    from ackd.core import faults

    advice = faults.ADVICE.get(error.errno) if error.errno is not None else None
    return f"\n  → {advice}, then try again: nothing was accepted" if advice else ""


def _written(error: OSError, directories: tuple[str | Path, ...]) -> str:
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
        give_up_stdout()
        if not isinstance(error, BrokenPipeError):
            from ackd.frontends.cli.output import echo

            with contextlib.suppress(OSError):
                echo(f"ackd: {what}; saying so failed: {_os_words(error)}", err=True)


def give_up_stdout() -> None:
    """What could not be written would be tried again when Python ends, and change the exit code."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _bug(error: Exception) -> Failure:
    if os.environ.get("ACKD_DEBUG"):
        import traceback

        traceback.print_exception(error)
    words = str(error).splitlines() or [""]
    return Failure(BUG, f"bug: {type(error).__name__}: {words[0]} (ACKD_DEBUG=1 shows where)")
