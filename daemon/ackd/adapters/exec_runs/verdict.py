"""What a run that is over came to, and why, in one harmless line.

Owns the meaning of exit codes, of the note that we ended it (``cause``), and the reason cut from the end of its output.
Refuses to know processes and messages. ``verdict`` never fails: what cannot be read is left out of the reason, and a
run that ended without a word has no outcome.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from typing import TYPE_CHECKING, Final

from ackd.core.events import Outcome

if TYPE_CHECKING:
    from pathlib import Path

#: What a shell answers for a program that cannot be run; a command's own word too, so the program is looked for.
NOT_RUN: Final = frozenset({126, 127})

_CODES: Final = {0: Outcome.DONE, 75: Outcome.DEFERRED, 65: Outcome.REFUSED}
_DETAIL_CHARS: Final = 500
_TAIL_BYTES: Final = 4096
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")


def verdict(path: Path, code: int | None) -> tuple[Outcome | None, str]:
    """What a run that is over came to. Ended by us counts before its exit code, which is then only TERM's echo."""
    with contextlib.suppress(OSError, ValueError):
        word, _, why = (path / "cause").read_text().rstrip("\n").partition(" ")
        return Outcome(word), why
    if code is None:
        return None, "killed"
    return _CODES.get(code, Outcome.FAILED), _exit_detail(path, code)


def _exit_detail(path: Path, code: int) -> str:
    name = _signal_name(code - 128)
    by_signal = f" ({name})" if name else ""
    tail = _output_tail(path)
    return f"exit {code}{by_signal}: {tail}"[:_DETAIL_CHARS] if code and tail else f"exit {code}{by_signal}"


def killed_detail(exited: int | None) -> str:
    if exited is None or exited >= 0:
        return "killed"
    return f"killed by {_signal_name(-exited) or f'signal {-exited}'}"


def _signal_name(number: int) -> str | None:
    """None for a real-time signal, or an exit code that only looks like one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def _output_tail(path: Path) -> str:
    """The last lines a run printed, as one harmless line."""
    try:
        with (path / "output").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [" ".join(_printable(line).split()) for line in _ESCAPES.sub("", text).splitlines()]
    return " | ".join([line for line in lines if line][-3:])[-_DETAIL_CHARS + 20 :]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
