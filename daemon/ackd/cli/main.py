"""`ackd`: find the command that was typed, run it, and end with its exit code.

Nothing but the command's own module is imported (cli/commands.py), because `ackd send` and agents' hooks run all the
time. However a command ends, one line on stderr and an exit code say so, and no traceback. With `--json` among the
words the line is one JSON object on stdout instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from typing import TYPE_CHECKING, Final

from ackd.cli import commands, errors
from ackd.cli.command_line import HELP_FLAGS, Command, Group, HelpWanted, Parser, perform
from ackd.cli.output import echo, filter_streams, print_json, printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ABOUT: Final = "Deliver files between agents, wait for the ACK, and never lose one."
EPILOG: Final = (
    "Every command takes --json, and every one that works on a team --root and --config. ACKD_ROOT, ACKD_CONFIG and "
    "ACKD_AGENT set defaults; ACKD_TRUST names files of other users that are trusted. With --json an error is one "
    'object, too: {"error": {"code", "message", "hint"}}, where the code is the exit code.'
)
USAGE: Final = "Usage: ackd [OPTIONS] COMMAND [ARGS]...\n"

VERSION_FLAGS: Final = ("-V", "--version")

#: Commands that go on for long: the interpreter is theirs as it is.
_LONG: Final = ("run", "demo")
#: Imports alone make Python look for garbage some forty times, which finds none and costs a quick command 2 ms.
_FEW_COLLECTIONS: Final = 50_000


def main() -> None:
    words = sys.argv[1:]
    is_long = words[:1] and words[0] in _LONG
    if not is_long:
        gc.set_threshold(_FEW_COLLECTIONS)
    _open_what_is_closed()
    filter_streams()
    exit_code = run(words)
    if words[:1] == ["run"]:
        _leave_threads_behind(exit_code)
    if not is_long:
        _leave_at_once(exit_code)
    sys.exit(exit_code)


def run(words: Sequence[str]) -> int:
    """The exit code of what these arguments of `ackd` mean."""
    if "_ACKD_COMPLETE" in os.environ:
        return _ended(lambda: _complete(words))
    return _ended(lambda: _run(words), as_json=_asks_for_json(words))


def _complete(words: Sequence[str]) -> None:
    from ackd.cli.completion import answer

    answer(words)


def _run(words: Sequence[str]) -> None:
    if not words:
        echo(_help_page(), err=True)
        raise errors.Ended(errors.USAGE)
    name = words[0]
    if name in HELP_FLAGS:
        echo(_help_page())
    elif name in VERSION_FLAGS:
        _run_named("version", words[1:])
    elif name.startswith("-"):
        raise errors.Misused(USAGE, "ackd", f"No such option {name!r}.")
    elif name not in commands.COMMANDS:
        raise errors.Misused(USAGE, "ackd", f"no command {name!r}{_nearest(name, commands.COMMANDS)}")
    else:
        _run_named(name, words[1:])


def _run_named(name: str, words: Sequence[str]) -> None:
    quick = f"{name} {words[0]}" if words else ""
    if quick in commands.QUICK:
        _run_command(commands.load(quick), quick, words[1:])
        return
    try:
        found = commands.load(name)
    except ModuleNotFoundError as error:
        if error.name != commands.COMMANDS[name][0].partition(":")[0]:
            raise
        raise errors.Failure(errors.USAGE, f"`{name}` is not in this version") from None
    if isinstance(found, Group):
        _run_in_group(found, name, words)
    else:
        _run_command(found, name, words)


def _run_in_group(group: Group, name: str, words: Sequence[str]) -> None:
    if words and words[0] in HELP_FLAGS:
        echo(_group_page(group, name))
    elif words and words[0] in group.commands:
        _run_command(group.commands[words[0]], f"{name} {words[0]}", words[1:])
    elif words:
        kind = "No such option" if words[0].startswith("-") else "no command"
        wrong = f"{kind} {words[0]!r}{_nearest(words[0], group.commands)}"
        raise errors.Misused(_group_usage(name), f"ackd {name}", wrong)
    else:
        echo(_group_page(group, name), err=True)
        raise errors.Ended(errors.USAGE)


def _run_command(command: Command, name: str, words: Sequence[str]) -> None:
    parser = Parser(command, name)
    try:
        values = parser.values(words)
        perform(command, values)
    except HelpWanted:
        echo(parser.format_help())
    except errors.USAGE_ERRORS as error:
        raise errors.Misused(parser.format_usage(), parser.prog, str(error)) from None


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    return f": did you mean `{near[0]}`?" if near else ""


# --- ends -------------------------------------------------------------------------------------------------------------
def _ended(act: Callable[[], None], *, as_json: bool = False) -> int:
    """The exit code that an action ends with."""
    try:
        return _exit_code(act, as_json=as_json)
    except BrokenPipeError:  # a reader who has seen enough, as in `ackd tail | head`
        errors.give_up_stdout()
        return 0


def _exit_code(act: Callable[[], None], *, as_json: bool) -> int:
    try:
        act()
    except errors.Misused as wrong:
        return _show(wrong.failure, as_json=as_json, words=wrong.words)
    except errors.Ended as end:
        return end.exit_code
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - failure_of names it, or calls it our bug
        return _show(errors.failure_of(error), as_json=as_json)
    return 0


def _show(failure: errors.Failure, *, as_json: bool, words: str = "") -> int:
    """Print why a command failed, once: as JSON on stdout, or in words on stderr. Return its exit code."""
    if as_json:
        print_json({"error": failure.as_data()})
    elif words:
        echo(printable_lines(words), err=True)
    else:
        failure.show()
    return failure.exit_code


def _asks_for_json(words: Sequence[str]) -> bool:
    """Tell whether `--json` was typed. The words are looked at, because they may not be a command line that can be
    parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _open_what_is_closed() -> None:
    """Open /dev/null for a closed stdin, stdout or stderr: the next file that is opened would get its number, and
    Python has no stream for it. Output then goes nowhere; stdin stays None: an empty body is not what was meant."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is fd
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _leave_at_once(exit_code: int) -> None:
    """End without taking the modules apart, which takes longer (4 ms) than most of what `ackd ack` does.

    Everything else that Python does at its end is done. Returns where Python has to do it itself: threads may have to
    be waited for, and it has its own words and exit code for output that cannot be written.
    """
    if "threading" in sys.modules:
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - the only way to run them before os._exit
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        errors.give_up_stdout()
    except (OSError, ValueError):
        return
    os._exit(exit_code)


def _leave_threads_behind(exit_code: int) -> None:
    """End at once if threads remain: a plain handler that never returns cannot be ended, and Python would wait for
    it."""
    import threading

    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    if any(not thread.daemon for thread in others):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # a reader that is gone
                stream.flush()
        os._exit(exit_code)


# --- pages ------------------------------------------------------------------------------------------------------------
def help_page(words: Sequence[str]) -> str:
    """The page about `ackd`, or about the command or group that the words name. Fails with ``Misused``."""
    if not words:
        return _help_page()
    name, *rest = words
    if name not in commands.COMMANDS:
        raise errors.Misused(USAGE, "ackd", f"no command {name!r}{_nearest(name, commands.COMMANDS)}")
    found = commands.load(name)
    if not isinstance(found, Group):
        return Parser(found, name).format_help()
    if not rest:
        return _group_page(found, name)
    if rest[0] not in found.commands:
        wrong = f"no command {rest[0]!r}{_nearest(rest[0], found.commands)}"
        raise errors.Misused(_group_usage(name), f"ackd {name}", wrong)
    return Parser(found.commands[rest[0]], f"{name} {rest[0]}").format_help()


def _help_page() -> str:
    from ackd.cli.command_line import page, rows

    sections = {
        "Options": rows({"-V, --version": "Print the version and exit.", "-h, --help": "Show this message and exit."}),
        "Commands": rows({name: words for name, (_, words) in commands.COMMANDS.items()}),
        "Exit codes": rows({str(code): words for code, words in errors.EXIT_CODES}),
    }
    return page(USAGE, ABOUT, sections, EPILOG)


def _group_usage(name: str) -> str:
    return f"Usage: ackd {name} [OPTIONS] COMMAND [ARGS]...\n"


def _group_page(group: Group, name: str) -> str:
    from ackd.cli.command_line import first_sentence, page, rows

    listed = {one: first_sentence(group.commands[one].help) for one in sorted(group.commands)}
    sections = {"Options": rows({"-h, --help": "Show this message and exit."}), "Commands": rows(listed)}
    return page(_group_usage(name), group.help, sections)
