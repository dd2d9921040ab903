"""Single processes: their identity, the program to run, the descriptors not to be inherited, and the exit in words.

A pid alone may belong to another process by now, so a process is identified by its pid and start time, within one boot.
Reading an identity fails with OSError, ValueError or IndexError: the process is gone, or the text is not a stat line.
``find_program`` fails with ``NoProgramError``, whose text says what is missing: it is called before each start, since a
program may be reinstalled at any time, and after a run whose shell could not run it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A variable in the environment of a child that we keep alive, and of all that it starts. Its value says which child,
#: and which start of it, that is.
CHILD_MARK: Final = "ACKD_CHILD"


@dataclass(frozen=True, slots=True)
class Identity:
    """A process. ``start_ticks`` count from the boot: they mean something in that boot only."""

    pid: int
    start_ticks: int


def identity_of(pid: int) -> Identity:
    return parse_stat(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))


def parse_stat(line: str) -> Identity:
    """Parse a /proc/PID/stat line. The name in brackets may hold anything, so fields are counted from its end."""
    return Identity(int(line.split(" ", 1)[0]), int(line.rpartition(")")[2].split()[19]))


@cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


# --- the program to run -----------------------------------------------------------------------------------------------
class NoProgramError(Exception):
    """There is nothing to run; the text says what is missing."""


def find_program(name: str, cwd: Path, env: Mapping[str, str]) -> str:
    """Return the program's absolute path, as a child of ours would find it. Raises NoProgramError."""
    if not cwd.is_dir():
        raise NoProgramError(f"no working directory {cwd}")
    search = env.get("PATH", os.environ.get("PATH", os.defpath))
    named = shutil.which(cwd.absolute() / name) if "/" in name else shutil.which(name, path=search)
    if named is None:
        raise NoProgramError(f"no program {name}" + ("" if "/" in name else " in PATH"))
    interpreter = _interpreter(named)
    if interpreter and not os.access(cwd / interpreter, os.X_OK):
        raise NoProgramError(f"no interpreter {interpreter} for {name}")
    return os.path.abspath(named)  # noqa: PTH100 - resolve() would follow links, and some programs live by their name


def _interpreter(program: str) -> str | None:
    """Return the interpreter that a script's first line names. A shell calls the script itself "not found" when only
    that is missing."""
    try:
        with Path(program).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return None  # a file that may be run, but not read
    words = line[2:].split()
    return os.fsdecode(words[0]) if line.startswith(b"#!") and words else None


# --- descriptors ------------------------------------------------------------------------------------------------------
def keep_to_ourselves() -> None:
    """Mark all descriptors but the first three close-on-exec: those three are given to each child on purpose.

    Whoever started us may have left descriptors open (``flock FILE ackd run``), and what we start may outlive us. They
    are not closed by the child: a list of numbers to close is refused as a whole (EBADF) if one of them is beyond the
    limit of open files, which may have been lowered after it was opened.
    """
    with os.scandir("/proc/self/fd") as entries:
        numbers = [int(entry.name) for entry in entries]
    for fd in numbers:
        if fd > 2 and _is_inheritable(fd):
            os.set_inheritable(fd, False)


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:  # the directory we have just read
        return False


# --- the end, in words ------------------------------------------------------------------------------------------------
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")


def exit_words(code: int) -> str:
    """Return the exit in words. ``code`` is as the shell counts: 128 + signal."""
    name = signal_name(code - 128)
    return f"exit {code} ({name})" if name else f"exit {code}"


def signal_name(number: int) -> str | None:
    """Return the signal's name; None for a real-time signal, or an exit code that only looks like one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def last_lines(output: bytes, max_chars: int, lines: int = 3) -> str:
    """Return the end of what a program printed, on one line, without what a terminal would act on."""
    text = _ESCAPES.sub("", output.decode("utf-8", "replace"))
    cleaned = [" ".join(printable(line).split()) for line in text.splitlines()]
    return " | ".join([line for line in cleaned if line][-lines:])[-max_chars:]


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
