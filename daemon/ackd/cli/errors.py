"""From named conditions to one line on stderr and an exit code.

The table of exit codes stands here, and the rule that no traceback reaches a user: an error that nobody named is
reported as our bug, in one line, exit 70; ACKD_DEBUG=1 shows the traceback. A command ends with ``Failure``,
``WrongUsage`` or ``Ended``, or with a named error of the client; main.py acts on that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Final

from ackd.client import errors as client_errors
from ackd.client.writing import creating, path_text
from ackd.core import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "EXIT_CODES",
    "USAGE_ERRORS",
    "Ended",
    "Failure",
    "Misused",
    "WrongUsage",
    "accepted",
    "creating",
    "failure_of",
    "give_up_stdout",
]

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

#: The exit codes as `ackd --help` lists them.
EXIT_CODES: Final = (
    (0, "done"),
    (NO, "the answer is no"),
    (USAGE, "wrong usage"),
    (BAD_DATA, "bad data"),
    (NOT_FOUND, "no such file, directory or message, or it cannot be read"),
    (NO_AGENT, "no such agent"),
    (NO_DAEMON, "no daemon is running, or no systemd for a service"),
    (BUG, "a bug in ackd"),
    (CANNOT_CREATE, "cannot create or write"),
    (TRY_AGAIN, "try again later, or already running"),
    (BAD_CONFIG, "bad or no configuration, or a state of a newer ackd"),
    (INTERRUPTED, "ended by Ctrl-C"),
)

_CODES: Final[tuple[tuple[type[errors.AckdError], int], ...]] = (
    (errors.BadName, NO_AGENT),
    (errors.UnknownAgent, NO_AGENT),
    (errors.BadLabels, USAGE),
    (errors.UnknownMessage, NOT_FOUND),
    (errors.UnknownStory, NOT_FOUND),
    (errors.AmbiguousMessage, USAGE),
    (errors.NotOnBoard, NO_AGENT),
    (errors.NoMeeting, NOT_FOUND),
    (errors.NoTrack, NOT_FOUND),
    (errors.NotNow, NO),
    (errors.BadConfig, BAD_CONFIG),
    (errors.NewerState, BAD_CONFIG),
    (errors.NoRoot, NOT_FOUND),
    (errors.Busy, TRY_AGAIN),
    (client_errors.NotHolder, NO),
    (client_errors.NotSender, NO),
    (client_errors.BadTime, USAGE),
    (client_errors.NotHeld, NO),
    (client_errors.NoSessionLog, NOT_FOUND),
    (client_errors.NoDaemon, NO_DAEMON),
    (client_errors.NoServiceManager, NO_DAEMON),
    (client_errors.NotInstalled, NOT_FOUND),
    (client_errors.NotStopped, NO),
    (client_errors.ManagerRefused, NO),
    (client_errors.EditedFile, NO),
    (client_errors.MessageOver, NO),
    (client_errors.MessageGone, NOT_FOUND),
    (client_errors.CannotRead, NOT_FOUND),
    (client_errors.CannotWrite, CANNOT_CREATE),
    (errors.TheirFault, BAD_DATA),
)


#: The advice that a program gets where the message itself has none. What was not found may be anything: see ``_hint``.
_HINTS: Final = {
    NO_AGENT: "`ackd status` lists the agents",
    NO_DAEMON: "`ackd run` starts the daemon",
    BUG: "ACKD_DEBUG=1 shows where",
    CANNOT_CREATE: "`ackd check` looks at the disk and the rights",
    TRY_AGAIN: "try again later",
    BAD_CONFIG: "`ackd check` looks the config over",
}


class Failure(Exception):  # noqa: N818 - an end of a command, not an error of ours
    """A command's own refusal: the line to print and the exit code. ``hint``: the part of the line that advises."""

    def __init__(self, exit_code: int, message: str, hint: str = "") -> None:
        super().__init__(exit_code, message)
        self.exit_code = exit_code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message

    def as_data(self) -> dict[str, object]:
        """The failure for programs, as every command prints it with --json, below the key ``error``."""
        return {
            "code": self.exit_code,
            "message": self.message,
            "hint": self.hint or _HINTS.get(self.exit_code),
        }

    def with_results(self, **results: object) -> Ended:
        """Print as JSON what was done before a command failed, and why it failed, in one object."""
        from ackd.cli.output import print_json

        print_json({**results, "error": self.as_data()})
        return Ended(self.exit_code)

    def show(self) -> None:
        """Print it. Lines after the first are indented, so that a name with a line end in it cannot forge a message."""
        from ackd.cli.output import echo, printable

        first, *more = map(printable, self.message.split("\n"))
        rest = (line if line.startswith("  ") or not line else f"  {line}" for line in more)
        echo("\n".join([f"ackd: {first}", *rest]), err=True)


class WrongUsage(Exception):  # noqa: N818
    """The command line makes no sense; printed with the usage of the command, exit 2."""


#: Conditions that are said with the usage of the command.
USAGE_ERRORS: Final = (WrongUsage, client_errors.NoSpeaker, errors.WhichTrack)


class Misused(Exception):  # noqa: N818
    """Wrong usage, with the page that says how the command is used."""

    def __init__(self, usage: str, program: str, why: str) -> None:
        super().__init__(usage, program, why)
        from ackd.cli.output import printable

        self.words = f"{usage}Try '{program} --help' for help.\n\nError: {printable(why)}"
        self.failure = Failure(USAGE, why, f"`{program} --help` says how it is used")


class Ended(Exception):  # noqa: N818
    """Everything has been printed; only the exit code is left."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def failure_of(error: Exception) -> Failure:
    """The refusal that an exception amounts to. An exception that nobody named is our bug."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, OSError):
        return _os_failure(error)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Failure(code, _words(error), _hint(error))
    return _bug(error)


def _hint(error: Exception) -> str:
    """The advice in the error's own words, or where to look for what was not found; empty if there is none."""
    match error:
        case errors.NotOneAgent(members=members):
            return f"name one of {', '.join(members)}" if members else ""
        case errors.UnknownAgent(name=name, known=known):
            return _nearest(name, known).lstrip(":; ")
        case errors.NoRoot(path=path):
            return f"`ackd init --root {path}` makes a team"
        case errors.NoTeam():
            return "`ackd init` makes a team"
        case errors.UnknownMessage() | client_errors.MessageGone():
            return "`ackd status` shows the team, `ackd inbox AGENT --all` the messages of an agent"
        case client_errors.NoSessionLog():
            return "start the daemon with `ackd run`"
        case client_errors.CannotRead():
            return "`ackd check` looks at the disk and the rights"
        case errors.NoMeeting():
            return "`ackd board list` lists the meetings"
        case errors.NoTrack(wanted=None):
            return "`ackd bus init` makes one"
        case errors.UnknownStory():
            return "`ackd story list` lists the stories"
        case _:
            return ""


def _words(error: Exception) -> str:
    match error:
        case errors.NotOneAgent():
            return str(error)
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


#: Errors about a path that was to be read. Every write is inside ``creating``, which names its own.
_UNREADABLE: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO}
)


def _os_failure(error: OSError) -> Failure:
    if error.errno in _UNREADABLE and error.filename is not None:
        return Failure(NOT_FOUND, f"cannot read {path_text(error.filename)}: {error.strerror}")
    return Failure(CANNOT_CREATE, _os_words(error))


def _os_words(error: OSError) -> str:
    where = f"{path_text(error.filename)}: " if error.filename is not None else ""
    return f"{where}{error.strerror or error}"


@contextlib.contextmanager
def accepted(what: str) -> Iterator[None]:
    """Surround the printing after something was accepted: a reader who left, or a full disk behind stdout, must not
    look like a refusal, or a script would send it again."""
    try:
        yield
    except OSError as error:
        give_up_stdout()
        if not isinstance(error, BrokenPipeError):
            from ackd.cli.output import echo

            with contextlib.suppress(OSError):
                echo(f"ackd: {what}; saying so failed: {_os_words(error)}", err=True)


def give_up_stdout() -> None:
    """Point stdout at /dev/null: Python would try again to write when it ends, and change the exit code."""
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
