"""What a run that is over came to, and why, in one harmless line.

Owns the meaning of exit codes, of the note that we ended it (``cause``), and the reason cut from the end of its output.
Refuses to know processes and messages. ``verdict`` never fails: what cannot be read is left out of the reason, and a
run that ended without a word has no outcome.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from ackd.core.events import Outcome
from ackd.processes import exit_words, last_lines, signal_name

if TYPE_CHECKING:
    from pathlib import Path

#: What a shell answers for a program that cannot be run; a command's own word too, so the program is looked for.
NOT_RUN: Final = frozenset({126, 127})

_CODES: Final = {0: Outcome.DONE, 75: Outcome.DEFERRED, 65: Outcome.REFUSED}
_DETAIL_CHARS: Final = 500
_TAIL_BYTES: Final = 4096


def verdict(path: Path, code: int | None) -> tuple[Outcome | None, str]:
    """What a run that is over came to. Ended by us counts before its exit code, which is then only TERM's echo."""
    with contextlib.suppress(OSError, ValueError):
        word, _, why = (path / "cause").read_text().rstrip("\n").partition(" ")
        return Outcome(word), why
    if code is None:
        return None, "killed"
    return _CODES.get(code, Outcome.FAILED), _exit_detail(path, code)


def _exit_detail(path: Path, code: int) -> str:
    tail = last_lines(_output_end(path), _DETAIL_CHARS - 20)
    return f"{exit_words(code)}: {tail}"[:_DETAIL_CHARS] if code and tail else exit_words(code)


def killed_detail(exited: int | None) -> str:
    if exited is None or exited >= 0:
        return "killed"
    return f"killed by {signal_name(-exited) or f'signal {-exited}'}"


def _output_end(path: Path) -> bytes:
    try:
        with (path / "output").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read(_TAIL_BYTES)
    except OSError:
        return b""
