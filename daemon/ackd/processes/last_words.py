"""How a process ended and what it printed last, as one harmless line for people.

Owns the names of exits and signals, and the cleaning of text that a program wrote for a terminal. Never fails.
"""

from __future__ import annotations

import re
import signal
from typing import Final

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")


def exit_words(code: int) -> str:
    """``code`` as the shell counts: 128 + signal."""
    name = signal_name(code - 128)
    return f"exit {code} ({name})" if name else f"exit {code}"


def signal_name(number: int) -> str | None:
    """None for a real-time signal, or an exit code that only looks like one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def last_lines(output: bytes, max_chars: int, lines: int = 3) -> str:
    """The end of what a program printed, on one line, without what a terminal would act on."""
    text = _ESCAPES.sub("", output.decode("utf-8", "replace"))
    cleaned = [" ".join(printable(line).split()) for line in text.splitlines()]
    return " | ".join([line for line in cleaned if line][-lines:])[-max_chars:]


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
